"""Permissions and topic permissions."""

import pytest

from warren.security import Access, PatternError, Permission, Permissions, TopicPermission


def permissions(configure: str = "", write: str = "", read: str = "") -> Permissions:
    store = Permissions()
    store.put(Permission("ann", "/", configure, write, read))
    return store


def may_write(pattern: str, name: str) -> bool:
    return permissions(write=pattern).allowed("ann", "/", Access.WRITE, name)


@pytest.mark.rule("VH-3")
@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (".*", "anything", True),
        ("ord", "my-orders", True),
        ("^ord", "my-orders", False),
        ("^ord", "orders", True),
        ("orders$", "my-orders", True),
        ("^orders$", "orders2", False),
        ("", "anything", False),
        ("", "", False),
        ("^$", "", False),
        ("^(amq\\.gen.*|amq\\.default)$", "", True),
        ("^amq\\.default$", "amq.default", True),
        ("^é", "étage", True),
        ("^é", "etage", False),
    ],
)
def test_expressions_are_searched_and_the_empty_one_matches_nothing(
    pattern: str, name: str, expected: bool
) -> None:
    assert may_write(pattern, name) is expected


@pytest.mark.rule("VH-3")
def test_each_access_has_its_own_expression() -> None:
    store = permissions("^c", "^w", "^r")
    answers = [
        [store.allowed("ann", "/", access, name) for name in ("c", "w", "r")]
        for access in (Access.CONFIGURE, Access.WRITE, Access.READ)
    ]
    assert answers == [[True, False, False], [False, True, False], [False, False, True]]


@pytest.mark.rule("VH-3")
def test_permission_is_per_user_and_vhost() -> None:
    store = permissions(".*", ".*", ".*")
    assert store.may_enter("ann", "/")
    for user, vhost in (("ann", "other"), ("bob", "/")):
        assert not store.may_enter(user, vhost)
        assert not store.allowed(user, vhost, Access.READ, "q")


def test_entering_needs_a_permission_even_an_empty_one() -> None:
    store = permissions()
    assert store.may_enter("ann", "/")
    assert store.clear("ann", "/")
    assert not store.may_enter("ann", "/")
    assert not store.clear("ann", "/")


def test_a_bad_expression_is_refused_and_changes_nothing() -> None:
    store = permissions(read=".*")
    with pytest.raises(PatternError, match=r"invalid regular expression '\('"):
        store.put(Permission("ann", "/", "(", "", ""))
    with pytest.raises(PatternError, match="invalid regular expression"):
        store.put_topic(TopicPermission("ann", "/", "t", "*", ""))
    assert store.version == 1
    assert store.allowed("ann", "/", Access.READ, "q")
    assert store.topic_allowed("ann", "/", "t", Access.WRITE, b"key")


@pytest.mark.rule("VH-4")
def test_without_a_topic_permission_every_key_is_allowed() -> None:
    store = permissions()
    assert store.topic_allowed("ann", "/", "t", Access.WRITE, b"any.key")
    assert not store.restricts_topics("ann", "/", "t")


@pytest.mark.rule("VH-4")
def test_a_topic_permission_restricts_keys_of_its_exchange_only() -> None:
    store = Permissions()
    store.put_topic(TopicPermission("ann", "/", "t", write="^a\\.", read=""))
    assert store.restricts_topics("ann", "/", "t")
    assert store.topic_allowed("ann", "/", "t", Access.WRITE, b"a.b")
    assert not store.topic_allowed("ann", "/", "t", Access.WRITE, b"b.a")
    assert not store.topic_allowed("ann", "/", "t", Access.READ, b"a.b")
    assert store.topic_allowed("ann", "/", "other", Access.WRITE, b"b.a")
    assert store.topic_allowed("bob", "/", "t", Access.WRITE, b"b.a")


@pytest.mark.rule("VH-4")
def test_user_and_vhost_stand_in_topic_expressions_literally() -> None:
    store = Permissions()
    for user in ("ann", ".*"):
        store.put_topic(TopicPermission(user, "v.1", "t", "^{vhost}/{username}/", ".*"))
    assert store.topic_allowed("ann", "v.1", "t", Access.WRITE, b"v.1/ann/x")
    assert not store.topic_allowed("ann", "v.1", "t", Access.WRITE, b"v.1/bob/x")
    assert not store.topic_allowed("ann", "v.1", "t", Access.WRITE, b"vx1/ann/x")
    assert not store.topic_allowed(".*", "v.1", "t", Access.WRITE, b"v.1/bob/x")
    assert store.all_topic()[0].write == "^{vhost}/{username}/"


def test_the_version_counts_every_change_and_nothing_else() -> None:
    store = Permissions()
    seen = [store.version]
    topic = TopicPermission("ann", "/", "t", ".*", ".*")
    for change in (
        lambda: store.put(Permission("ann", "/", "", "", "")),
        lambda: store.put_topic(topic),
        lambda: store.clear_topic("ann", "/", "t"),
        lambda: store.clear("ann", "/"),
        lambda: store.put_topic(topic),
        lambda: store.forget_user("ann"),
        lambda: store.put_topic(topic),
        lambda: store.forget_vhost("/"),
    ):
        change()
        seen.append(store.version)
    assert seen == list(range(9))
    assert not store.clear("ann", "/")
    assert not store.clear_topic("ann", "/")
    store.forget_user("ann")
    store.forget_vhost("/")
    store.allowed("ann", "/", Access.READ, "q")
    assert store.version == 8


def test_topic_permissions_of_all_exchanges_are_cleared_at_once() -> None:
    store = Permissions()
    for exchange in ("a", "b"):
        store.put_topic(TopicPermission("ann", "/", exchange, "x", "x"))
    assert not store.clear_topic("ann", "/", "c")
    assert store.clear_topic("ann", "/")
    assert store.all_topic() == []


def test_a_deleted_vhost_or_user_takes_its_permissions_along() -> None:
    store = Permissions()
    for user in ("ann", "bob"):
        for vhost in ("/", "v"):
            store.put(Permission(user, vhost, "", "", ""))
            store.put_topic(TopicPermission(user, vhost, "t", "", ""))
    store.forget_user("ann")
    store.forget_vhost("v")
    assert [(each.user, each.vhost) for each in store.all()] == [("bob", "/")]
    assert [(each.user, each.vhost) for each in store.all_topic()] == [("bob", "/")]
