"""Which of many destinations a number belongs to: rendezvous hashing by weight, in a tree.

Rendezvous hashing lets every destination draw a number for the message and takes the best draw:
shares are exact, and a destination that comes or goes moves its own share and nothing else. But
each draw has to be looked at. Here destinations lie in a tree, by the digits of the hash of their
names, 64 branches to a level: a message is drawn for once per level, among branches whose weight is
the sum of what is in them. Shares stay exact; a change moves about one share per level, so one
for up to a hundred destinations and three for a quarter of a million.

The tree follows from its content alone, whatever came and went before: after a restart, and on
every node, a key has the same destination.

Invariants: `weight` of a branch is the sum of its children's; a branch has at least one branch or
two leaves under it, so a leaf lies as high as it can; the identity with which a child draws is that
of its place, not of its content, so that a second destination under a place moves nothing else.
"""

from math import log
from typing import Final, final

from mypy_extensions import i64

from warren.routing.digest import HASH_BITS, HASH_RANGE, mix, name_hash
from warren.routing.node import Node

DIGIT_BITS: Final = 6
# Levels for which a name's hash has digits; what is equal that far lies side by side.
DEPTH_MAX: Final = 10
_DIGIT_MASK: Final[i64] = (1 << DIGIT_BITS) - 1
_WORD_MASK: Final[i64] = (1 << HASH_BITS) - 1
_RANGE: Final = float(HASH_RANGE)
_UNKNOWN: Final = 1.0


@final
class Place:
    """A leaf with its destination, or a branch with children."""

    def __init__(self, path: i64, weight: i64, destination: Node | None) -> None:
        # All digits of the name's hash; of a branch, those of one leaf in it.
        self.path: i64 = path
        self.weight: i64 = weight
        self.destination: Node | None = destination
        # What it draws with, given by `settle`.
        self.identity: i64 = 0
        self.digit: i64 = 0
        self.children: list[Place] = []

    def settle(self, depth: i64) -> None:
        """Take the place that the path has `depth` levels below the root."""
        shift = (DEPTH_MAX - depth) * DIGIT_BITS
        prefix = self.path >> shift
        self.digit = prefix & _DIGIT_MASK
        self.identity = mix(mix(prefix & _WORD_MASK) ^ (prefix >> HASH_BITS) ^ depth << 28)

    def child(self, digit: i64) -> "Place | None":
        for place in self.children:
            if place.digit == digit:
                return place
        return None

    def draw(self, number: i64) -> "Place":
        """Let each child draw for a message, and return the one with the best draw."""
        children = self.children
        best = children[0]
        if len(children) == 1:
            return best
        best_drawn: i64 = -1
        best_score = _UNKNOWN
        for place in children:
            drawn = mix(number ^ place.identity)
            if place.weight == best.weight:
                if drawn <= best_drawn:
                    continue
                best_score = _UNKNOWN
            else:
                if best_score == _UNKNOWN:
                    best_score = _score(best_drawn, best.weight)
                score = _score(drawn, place.weight)
                if score <= best_score:
                    continue
                best_score = score
            best = place
            best_drawn = drawn
        return best


@final
class HashTree:
    def __init__(self) -> None:
        self.root: Place = Place(0, 0, None)
        self.leaves: dict[Node, Place] = {}

    def weight_of(self, destination: Node) -> i64:
        leaf = self.leaves.get(destination)
        return 0 if leaf is None else leaf.weight

    def add(self, destination: Node, weight: i64) -> None:
        """Give a destination more weight."""
        leaf = self.leaves.get(destination)
        known = leaf is not None
        if leaf is None:
            kind = b"q" if destination.is_queue else b"e"
            leaf = Place(name_hash(kind + destination.key), 0, destination)
            self.leaves[destination] = leaf
        node = self.root
        depth: i64 = 0
        while True:
            node.weight += weight
            if node is leaf:
                return
            depth += 1
            following = node.child(_digit(leaf.path, depth))
            if following is None or depth == DEPTH_MAX:
                break
            if following.destination is not None and not known:
                following = _split(node, following, depth)
            node = following
        if not known:
            leaf.settle(depth)
            node.children.append(leaf)
        leaf.weight += weight

    def take(self, destination: Node, weight: i64) -> None:
        """Take weight from a destination; without any it is gone."""
        leaf = self.leaves.get(destination)
        if leaf is None:
            return
        gone = leaf.weight == weight
        path: list[Place] = []
        node = self.root
        while node is not leaf:
            node.weight -= weight
            path.append(node)
            digit = _digit(leaf.path, len(path))
            following = leaf if leaf in node.children else node.child(digit)
            assert following is not None
            node = following
        leaf.weight -= weight
        if gone:
            del self.leaves[destination]
            path[-1].children.remove(leaf)
            _lift(path)

    def drop(self, destination: Node) -> None:
        """Forget a destination, whatever its weight."""
        self.take(destination, self.weight_of(destination))

    def find(self, number: i64) -> Node | None:
        """Return the destination that a number belongs to."""
        node = self.root
        while node.children:
            node = node.draw(number)
        return node.destination


def _score(drawn: i64, weight: i64) -> float:
    """What a draw counts: negative, the largest wins, and a heavier place wins more often.

    The draw becomes exponentially distributed with the weight as rate.
    """
    return log((float(drawn) + 1.0) / _RANGE) / float(weight)


def _digit(path: i64, depth: i64) -> i64:
    return path >> (DEPTH_MAX - depth) * DIGIT_BITS & _DIGIT_MASK


def _split(parent: Place, leaf: Place, depth: i64) -> Place:
    """Put a branch in the place of a leaf, with the leaf under it."""
    branch = Place(leaf.path, leaf.weight, None)
    branch.settle(depth)
    parent.children[parent.children.index(leaf)] = branch
    leaf.settle(depth + 1)
    branch.children.append(leaf)
    return branch


def _lift(path: list[Place]) -> None:
    """Put the last leaf of a branch into the branch's place, and so on upwards."""
    depth: i64 = len(path) - 1
    while depth > 0:
        branch = path[depth]
        if len(branch.children) > 1:
            return
        only = branch.children[0] if branch.children else None
        if only is not None and only.destination is None:
            return
        siblings = path[depth - 1].children
        if only is None:
            siblings.remove(branch)
        else:
            only.settle(depth)
            siblings[siblings.index(branch)] = only
        depth -= 1
