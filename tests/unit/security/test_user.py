"""Users and the decision of a login."""

import pytest

from warren.security import (
    Algorithm,
    NoSuchUser,
    Refusal,
    RefusalReason,
    User,
    UserExists,
    UserStore,
    is_loopback,
)


class CountingRandom:
    def __init__(self) -> None:
        self.next = 0

    def octets(self, count: int) -> bytes:
        self.next += 1
        return self.next.to_bytes(count, "big")


FAR = "192.0.2.7"
RANDOM = CountingRandom()


@pytest.fixture
def users() -> UserStore:
    store = UserStore()
    store.add("guest", b"guest", RANDOM, ("administrator",))
    store.add("ann", b"s3cret", RANDOM)
    store.put(User("cert", ""))
    return store


def reason(outcome: User | Refusal) -> RefusalReason:
    assert isinstance(outcome, Refusal)
    return outcome.reason


@pytest.mark.rule("AU-1")
@pytest.mark.parametrize(
    ("name", "password", "peer", "expected"),
    [
        ("nobody", b"s3cret", FAR, RefusalReason.UNKNOWN_USER),
        ("ann", b"S3cret", FAR, RefusalReason.WRONG_PASSWORD),
        ("ann", b"\xff", FAR, RefusalReason.WRONG_PASSWORD),
        ("ann", b"", FAR, RefusalReason.BLANK_PASSWORD),
        ("nobody", b"", FAR, RefusalReason.BLANK_PASSWORD),
        ("cert", b"x", FAR, RefusalReason.NO_PASSWORD_SET),
        ("cert", b"", FAR, RefusalReason.BLANK_PASSWORD),
        ("guest", b"guest", FAR, RefusalReason.LOOPBACK_ONLY),
        ("guest", b"wrong", FAR, RefusalReason.WRONG_PASSWORD),
    ],
)
def test_each_refusal_has_its_reason(
    users: UserStore, name: str, password: bytes, peer: str, expected: RefusalReason
) -> None:
    assert reason(users.authenticate(name, password, peer)) is expected


@pytest.mark.rule("AU-1")
def test_the_right_password_gives_the_user_and_guest_gets_in_from_loopback(
    users: UserStore,
) -> None:
    assert users.authenticate("ann", b"s3cret", FAR) == users.get("ann")
    guest = users.authenticate("guest", b"guest", "127.0.0.1")
    assert isinstance(guest, User)
    assert guest.tags == ("administrator",)


@pytest.mark.rule("AU-1")
def test_the_loopback_rule_is_a_setting() -> None:
    store = UserStore(loopback_users=frozenset())
    guest = store.add("guest", b"guest", RANDOM)
    assert store.authenticate("guest", b"guest", FAR) == guest


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        ("127.0.0.1", True),
        ("127.8.9.10", True),
        ("::1", True),
        ("::1%lo", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.7", False),
        ("fe80::1%eth0", False),
        ("192.0.2.7", False),
        ("128.0.0.1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_what_is_loopback(peer: str, local: bool) -> None:
    assert is_loopback(peer) is local


def test_a_refusal_reads_well_and_holds_no_password(users: UserStore) -> None:
    refusal = users.authenticate("ann", b"hunter2", FAR)
    assert isinstance(refusal, Refusal)
    assert refusal.text() == "user 'ann' from 192.0.2.7: wrong password"
    assert "hunter2" not in repr(refusal)


def test_a_changed_password_replaces_the_old_one_and_its_algorithm(users: UserStore) -> None:
    users.put(User("old", "", Algorithm.MD5, ("monitoring",)))
    changed = users.change_password("old", b"new", RANDOM)
    assert changed.algorithm is Algorithm.SHA256
    assert changed.tags == ("monitoring",)
    assert users.authenticate("old", b"new", FAR) == changed
    users.change_password("old", b"", RANDOM)
    assert reason(users.authenticate("old", b"new", FAR)) is RefusalReason.NO_PASSWORD_SET


def test_equal_passwords_are_stored_differently(users: UserStore) -> None:
    one, two = users.add("one", b"same", RANDOM), users.add("two", b"same", RANDOM)
    assert one.password_hash != two.password_hash


def test_tags_are_replaced_and_cleared(users: UserStore) -> None:
    assert users.set_tags("ann", ["monitoring", "policymaker"]).tags == (
        "monitoring",
        "policymaker",
    )
    assert users.set_tags("ann", []).tags == ()
    assert isinstance(users.authenticate("ann", b"s3cret", FAR), User)


def test_users_are_added_once_and_deleted_once(users: UserStore) -> None:
    with pytest.raises(UserExists, match="ann"):
        users.add("ann", b"other", RANDOM)
    assert users.delete("ann").name == "ann"
    assert users.names() == ["cert", "guest"]
    assert reason(users.authenticate("ann", b"s3cret", FAR)) is RefusalReason.UNKNOWN_USER
    with pytest.raises(NoSuchUser, match="ann"):
        users.delete("ann")
    with pytest.raises(NoSuchUser, match="ann"):
        users.set_tags("ann", [])
    with pytest.raises(NoSuchUser, match="ann"):
        users.change_password("ann", b"x", RANDOM)


@pytest.mark.rule("AM-3")
def test_a_proven_identity_needs_a_user_and_no_password(users: UserStore) -> None:
    assert users.identify("cert", FAR) == users.get("cert")
    assert reason(users.identify("bob", "127.0.0.1")) is RefusalReason.UNKNOWN_USER
    assert reason(users.identify("guest", FAR)) is RefusalReason.LOOPBACK_ONLY


def test_a_refusal_says_its_own_detail_where_it_has_one() -> None:
    refusal = Refusal(RefusalReason.NO_IDENTITY, "", FAR, "the certificate has no dns")
    assert refusal.text() == f"user '' from {FAR}: the certificate has no dns"
