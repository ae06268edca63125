"""The tree behind consistent hashing: shares, what a change moves, and that only content counts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.routing import Exchange, Matcher, Node, Sink
from warren.routing.digest import key_hash, keys_hash, mix, name_hash
from warren.routing.hash_tree import DEPTH_MAX, HashTree, Place

KEYS = [key_hash(b"user-%d" % number) for number in range(4000)]


def tree_of(weights: dict[str, int]) -> HashTree:
    tree = HashTree()
    for name, weight in weights.items():
        tree.add(Sink(name, None), weight)
    return tree


def owners(tree: HashTree, keys: list[int] = KEYS) -> list[str]:
    found = []
    for key in keys:
        node = tree.find(key)
        assert node is not None
        found.append(node.name)
    return found


def leaf_of(tree: HashTree, name: str) -> Node:
    return next(node for node in tree.leaves if node.name == name)


def shape(place: Place) -> object:
    """What decides where keys go: identities, weights, names, whatever their order."""
    name = None if place.destination is None else place.destination.name
    parts = sorted((shape(child) for child in place.children), key=repr)
    return (place.identity, place.weight, name, parts)


def check(place: Place, depth: int = 0) -> int:
    """Check the invariants below a place; the weight of its leaves."""
    if place.destination is not None:
        assert place.children == []
        return int(place.weight)
    assert place.weight == sum(check(child, depth + 1) for child in place.children)
    digits = [child.digit for child in place.children]
    assert depth + 1 == DEPTH_MAX or len(set(digits)) == len(digits)
    if depth > 0:
        branches = [child for child in place.children if child.destination is None]
        assert branches or len(place.children) > 1
    return int(place.weight)


def test_an_empty_tree_finds_nothing() -> None:
    tree = HashTree()
    assert tree.find(7) is None
    tree.take(Sink("never there", None), 1)
    assert tree.find(7) is None


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_equal_weights_have_equal_shares(count: int) -> None:
    tree = tree_of({f"queue-{number}": 5 for number in range(count)})
    shares = Counter(owners(tree))
    expected = len(KEYS) / count
    # Chi-squared, divided by its mean; three is beyond chance for any count.
    deviation = sum((shares[f"queue-{n}"] - expected) ** 2 / expected for n in range(count))
    assert deviation / (count - 1) < 3


def test_shares_are_as_the_weights() -> None:
    weights = {f"q{number}": 10 * (number + 1) for number in range(10)}
    shares = Counter(owners(tree_of(weights)))
    for name, weight in weights.items():
        expected = len(KEYS) * weight / 550
        assert abs(shares[name] - expected) < 4.5 * expected**0.5


def test_a_heavy_weight_costs_nothing_and_wins_nearly_always() -> None:
    tree = tree_of({"light": 1, "heavy": 1_000_000_000})
    assert set(owners(tree)) == {"heavy"}


@pytest.mark.parametrize("count", [1, 2, 5, 10, 40, 300])
def test_a_new_destination_takes_its_share_and_moves_little_else(count: int) -> None:
    tree = tree_of({f"q{number}": 1 for number in range(count)})
    before = owners(tree)
    tree.add(Sink("new", None), 1)
    after = owners(tree)
    share = len(KEYS) / (count + 1)
    moved = [now for then, now in zip(before, after, strict=True) if then != now]
    aside = [now for now in moved if now != "new"]
    assert abs(moved.count("new") - share) < 5 * share**0.5
    assert len(aside) < 1.5 * share + 5 * share**0.5


@pytest.mark.parametrize("count", [2, 5, 10, 40, 300])
def test_what_goes_gives_its_keys_away_and_moves_little_else(count: int) -> None:
    tree = tree_of({f"q{number}": 1 for number in range(count)})
    before = owners(tree)
    tree.drop(leaf_of(tree, "q1"))
    after = owners(tree)
    assert "q1" not in after
    stayed = sum(then == now for then, now in zip(before, after, strict=True))
    share = len(KEYS) / count
    assert stayed > len(KEYS) - 3 * share - 5 * share**0.5
    # And back where it was when it returns.
    tree.add(Sink("q1", None), 1)
    assert owners(tree) == before


def test_more_weight_only_draws_keys_in() -> None:
    tree = tree_of({"a": 10, "b": 10, "c": 10})
    before = owners(tree)
    tree.add(leaf_of(tree, "b"), 10)
    for then, now in zip(before, owners(tree), strict=True):
        assert now in (then, "b")
    tree.take(leaf_of(tree, "b"), 10)
    assert owners(tree) == before


@given(
    st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 9), st.booleans()), min_size=1, max_size=250
    )
)
def test_only_the_content_counts_not_how_it_came_about(
    steps: list[tuple[int, int, bool]],
) -> None:
    tree = HashTree()
    nodes: dict[int, Sink] = {}
    weights: dict[int, int] = {}
    for number, weight, adding in steps:
        node = nodes.setdefault(number, Sink(f"q{number}", None))
        if adding:
            tree.add(node, weight)
            weights[number] = weights.get(number, 0) + weight
        elif number in weights:
            taken = min(weight, weights[number])
            tree.take(node, taken)
            weights[number] -= taken
            if not weights[number]:
                del weights[number]
        check(tree.root)
    fresh = HashTree()
    for number in sorted(weights, reverse=True):
        fresh.add(nodes[number], weights[number])
    assert shape(tree.root) == shape(fresh.root)
    assert {node.name: place.weight for node, place in tree.leaves.items()} == {
        f"q{number}": weight for number, weight in weights.items()
    }


def test_names_that_agree_in_all_digits_lie_side_by_side() -> None:
    deep = HashTree()
    nodes = [Sink("same", None) for _ in range(3)]
    for node in nodes:
        deep.add(node, 2)
    assert check(deep.root) == 6
    assert deep.find(1) in nodes
    for node in nodes:
        deep.take(node, 2)
        check(deep.root)
    assert deep.find(1) is None
    assert deep.root.children == []


def test_a_queue_and_an_exchange_of_one_name_differ() -> None:
    exchange = Exchange(
        "same",
        "fanout",
        Matcher(),
        durable=False,
        auto_delete=False,
        internal=False,
        arguments={},
        alternate_argument=None,
    )
    tree = HashTree()
    tree.add(Sink("same", None), 1)
    tree.add(exchange, 1)
    kinds = Counter(node.is_queue for node in map(tree.find, KEYS) if node is not None)
    assert kinds[True] > len(KEYS) / 3
    assert kinds[False] > len(KEYS) / 3


def test_numbers_are_the_same_for_ever() -> None:
    # A change of these would send every key elsewhere at the next upgrade.
    assert key_hash(b"") == 0
    assert key_hash(b"user-1") == 1_273_838_191
    assert keys_hash(b"user-1", []) == keys_hash(b"user-1", None) == key_hash(b"user-1")
    assert keys_hash(b"user-1", [b"x"]) == 8_544_927
    assert name_hash(b"qorders") == 783_826_167_751_782_268
    assert mix(1) == 824_515_495
    assert tree_of({"a": 1, "b": 1, "c": 2}).find(key_hash(b"user-1")) is not None
    assert owners(tree_of({"a": 1, "b": 1, "c": 2}), KEYS[:8]) == list("cbacbcaa")


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
def test_mixing_keeps_numbers_apart(one: int, other: int) -> None:
    assert (mix(one) == mix(other)) == (one == other)
    assert 0 <= mix(one) < 1 << 32
