"""Exchange type topic (TP-1 to TP-3): a trie over words, walked once per routing key.

Patterns without a wildcard word lie in a `KeyIndex`: they match exactly the equal key. The others
lie in a trie whose edges are literal words, `*` and `#`; only a whole word is a wildcard.

`match` simulates all partial matches at once, word by word: `live` holds the trie nodes reached
by the words so far. A `#` node, once entered, stays live for the rest of the key (it takes any
number of words) and is entered once per key, so every node is live at most once per position and
the cost is bounded by words times nodes touched, however many `#` the patterns have. What ends in
a `#` matches at the moment it is entered: the `#` takes the rest of the key.

Invariants: every node but the root leads to a binding, so removal leaves nothing behind; a node
with one literal edge keeps it in `word` and `child`, and makes a dict for the second.
"""

from typing import Final, final

from mypy_extensions import i64

from warren.protocol.value import Table
from warren.routing.direct import KeyIndex
from warren.routing.matcher import Matcher
from warren.routing.node import Binding, Reach, with_peer, without_peer

_ONE_WORD: Final = b"*"
_ANY_WORDS: Final = b"#"
_DOT: Final = 46


def words_of(key: bytes) -> list[bytes]:
    """Split a routing key or a pattern at every dot; the empty one has no words (TP-1)."""
    return key.split(b".") if key else []


@final
class TopicNode:
    """A prefix of patterns; `chain` holds the bindings whose pattern ends here."""

    def __init__(self, is_any: bool) -> None:
        self.is_any: bool = is_any
        self.word: bytes | None = None
        self.child: TopicNode | None = None
        self.children: dict[bytes, TopicNode] | None = None
        self.one: TopicNode | None = None
        self.any: TopicNode | None = None
        self.chain: Binding | None = None
        # For a `#` node: the serial of the key it was last entered for.
        self.entered: i64 = 0

    def is_bare(self) -> bool:
        return self.chain is None and self.any is None and not self.takes_a_word()

    def takes_a_word(self) -> bool:
        """Tell whether one more word may lead somewhere, a `#` apart."""
        return self.child is not None or self.children is not None or self.one is not None

    def ends_in_any(self) -> bool:
        """Tell whether all that follows while words are left is one `#`, and nothing behind it."""
        follower = self.any
        return (
            follower is not None
            and not self.takes_a_word()
            and follower.any is None
            and not follower.takes_a_word()
        )

    def after(self, word: bytes) -> "TopicNode | None":
        """Return the node behind a word of a pattern."""
        if word == _ONE_WORD:
            return self.one
        if word == _ANY_WORDS:
            return self.any
        return self.literal(word)

    def literal(self, word: bytes) -> "TopicNode | None":
        children = self.children
        if children is not None:
            return children.get(word)
        if self.child is not None and self.word == word:
            return self.child
        return None

    def grow(self, word: bytes) -> "TopicNode":
        """Make the node behind a word of a pattern."""
        made = TopicNode(word == _ANY_WORDS)
        if word == _ONE_WORD:
            self.one = made
        elif word == _ANY_WORDS:
            self.any = made
        elif self.children is not None:
            self.children[word] = made
        elif self.child is None:
            self.word = word
            self.child = made
        else:
            only = self.word
            assert only is not None
            self.children = {only: self.child, word: made}
            self.word = None
            self.child = None
        return made

    def shed(self, word: bytes) -> None:
        """Cut off the node behind a word of a pattern."""
        if word == _ONE_WORD:
            self.one = None
        elif word == _ANY_WORDS:
            self.any = None
        elif self.children is None:
            self.word = None
            self.child = None
        else:
            del self.children[word]
            if not self.children:
                self.children = None


@final
class Topic(Matcher):
    """Some routing key matches the binding key as a pattern of words."""

    def __init__(self) -> None:
        super().__init__()
        self.exact: KeyIndex = KeyIndex()
        self.root: TopicNode = TopicNode(False)
        self.serial: i64 = 0

    def add(self, binding: Binding) -> None:
        words = words_of(binding.key)
        if _ONE_WORD not in words and _ANY_WORDS not in words:
            self.exact.add(binding)
            return
        node = self.root
        for word in words:
            following = node.after(word)
            node = node.grow(word) if following is None else following
        node.chain = with_peer(node.chain, binding)

    def remove(self, binding: Binding) -> None:
        words = words_of(binding.key)
        if _ONE_WORD not in words and _ANY_WORDS not in words:
            self.exact.remove(binding)
            return
        path = [self.root]
        node = self.root
        for word in words:
            following = node.after(word)
            assert following is not None
            node = following
            path.append(node)
        node.chain = without_peer(node.chain, binding)
        depth: i64 = len(words)
        while depth > 0 and path[depth].is_bare():
            depth -= 1
            path[depth].shed(words[depth])

    def match(
        self, key: bytes, extra_keys: list[bytes] | None, headers: Table | None, reach: Reach
    ) -> None:
        patterns = not self.root.is_bare()
        if self.exact.chains:
            reach.enter_chain(self.exact.chains.get(key))
        if patterns:
            self._match_patterns(key, reach)
        if extra_keys is not None:
            for extra in extra_keys:
                reach.enter_chain(self.exact.chains.get(extra))
                if patterns:
                    self._match_patterns(extra, reach)

    def _match_patterns(self, key: bytes, reach: Reach) -> None:
        """Walk down one node at a time, without a list, until a key leaves two ways open."""
        node = self.root
        size: i64 = len(key)
        # The empty key has no words (TP-1); behind the last word `pos` is beyond the key.
        pos: i64 = 0 if size > 0 else 1
        while pos <= size:
            if node.any is not None:
                if node.ends_in_any():
                    reach.enter_chain(node.any.chain)
                else:
                    self._match_many([node], key, pos, reach)
                return
            end = pos
            while end < size and key[end] != _DOT:
                end += 1
            literal = None
            if node.child is not None or node.children is not None:
                literal = node.literal(key[pos:end])
            one = node.one
            if one is None:
                if literal is None:
                    return
                node = literal
            elif literal is None:
                node = one
            else:
                self._match_many([literal, one], key, end + 1, reach)
                return
            pos = end + 1
        if node.any is not None:
            self._match_many([node], key, pos, reach)
        else:
            reach.enter_chain(node.chain)

    def _match_many(self, entered: list[TopicNode], key: bytes, pos: i64, reach: Reach) -> None:
        """Go on from several nodes at a time, or from one with a `#` behind it."""
        self.serial += 1
        live: list[TopicNode] = []
        for node in entered:
            self._enter(node, live, reach)
        if not live:
            return
        words = key[pos:].split(b".") if pos <= len(key) else []
        for word in words:
            following: list[TopicNode] = []
            for node in live:
                if node.is_any:
                    following.append(node)
                literal = node.literal(word)
                if literal is not None:
                    self._enter(literal, following, reach)
                one = node.one
                if one is not None:
                    self._enter(one, following, reach)
            if not following:
                return
            live = following
        for node in live:
            if not node.is_any:
                reach.enter_chain(node.chain)

    def _enter(self, entered: TopicNode, live: list[TopicNode], reach: Reach) -> None:
        """Add a node that has just been reached, and the `#` nodes that follow it for nothing.

        What cannot lead to a match any more is left out.
        """
        if entered.chain is not None or entered.takes_a_word():
            live.append(entered)
        node = entered.any
        while node is not None and node.entered != self.serial:
            node.entered = self.serial
            reach.enter_chain(node.chain)
            if node.takes_a_word():
                live.append(node)
            node = node.any
