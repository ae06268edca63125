"""Credit: how a slow component slows the one before it, up to the reader of a socket.

An `Account` is one link, sender -> receiver, with the counters of both ends; a `Flow` is one
component (reader, channel, queue, store) with the links it is blocked on and the grants it holds
back. What one credit is, is the link's affair: a publish, a message, a body, or an octet.

A sender calls `take`; when that exhausts the account it calls `Flow.block`. A receiver calls
`processed` for what came in *before* it works on it (CF-9) and hands the grant to `settle`, which
carries it upstream as far as it unblocks somebody. Only those who read from outside stop when
blocked (CF-5); everybody else works on, overdraws (CF-6) and merely grants nothing (CF-4). Who
passes a whole batch on within one turn calls `processed` and `settle` first and `take` after, so
that a batch larger than the credit does not block and unblock for nothing.

Invariants: for each account, credit + messages on the way + part of the next grant + deferred
grants = `initial`, always; a `Flow` is `blocked` exactly while some open account of it has no
credit (CF-3); a blocked one grants nothing. Rules CF-1 to CF-9.
"""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from warren.flow.wait import Subject

# How long after its begin a block still shows, so that sub-second oscillation is visible.
LINGER_NS: Final = 1_000_000_000
LINGER_CONNECTION_NS: Final = 5_000_000_000


@dataclass(frozen=True)
class CreditSettings:
    """Sizes of one kind of link, and the name of the setting that decides them."""

    initial: int
    refill: int
    setting: str

    def __post_init__(self) -> None:
        # A refill above the initial credit would never be earned: the sender runs dry before.
        if not 0 < self.refill <= self.initial:
            raise ValueError(
                f"{self.setting}: refill must be from 1 to the initial credit {self.initial},"
                f" not {self.refill}"
            )


READER_TO_CHANNEL: Final = CreditSettings(400, 200, "credit_flow_default_credit")
CHANNEL_TO_QUEUE: Final = CreditSettings(400, 200, "credit_flow_default_credit")
QUEUE_TO_STORE: Final = CreditSettings(4000, 800, "msg_store_credit_disc_bound")


@final
class Account:
    """One link: the sender's credit and the receiver's count towards the next grant."""

    def __init__(self, sender: "Flow", receiver: "Flow", settings: CreditSettings) -> None:
        self.sender: Flow = sender
        self.receiver: Flow = receiver
        self.settings: CreditSettings = settings
        self.refill: i64 = settings.refill
        self.credit: i64 = settings.initial
        self.until_grant: i64 = settings.refill
        self.deferred: i64 = 0
        self.closed: bool = False

    def take(self, count: i64) -> bool:
        """Spend credit; False when this is the send that exhausts it. Overdraws when empty."""
        before: i64 = self.credit
        after: i64 = before - count
        self.credit = after
        return before <= 0 or after > 0

    def grant(self, count: i64) -> bool:
        """Add credit; True when there was none and now is some."""
        before: i64 = self.credit
        self.credit = before + count
        return before <= 0 and before + count > 0

    def processed(self, count: i64) -> i64:
        """Count what the receiver took; return the grant now due, 0 if none or deferred."""
        left: i64 = self.until_grant - count
        if left > 0:
            self.until_grant = left
            return 0
        steps: i64 = 1 + (-left) // self.refill
        self.until_grant = left + steps * self.refill
        due: i64 = steps * self.refill
        if self.receiver.blocked:
            self.receiver.defer(self, due)
            return 0
        return due


@final
class Flow:
    """One component's side of all its links.

    `blocked` is what the path of every message looks at. `blocked_since_ns` is when the present
    or, if there is none, the last block began; -1 if there never was one.
    """

    def __init__(self, subject: Subject, linger_ns: int = LINGER_NS) -> None:
        self.subject: Subject = subject
        self.linger_ns: int = linger_ns
        self.blocked: bool = False
        self.blocked_since_ns: int = -1
        self._blocked_on: dict[Account, int] = {}
        self._deferring: list[Account] = []
        self._last: Account | None = None

    def block(self, account: Account, now_ns: int) -> None:
        """Note that this sender's account has run out of credit."""
        if account.closed or account in self._blocked_on:
            return
        self._blocked_on[account] = now_ns
        self._last = account
        if not self.blocked:
            self.blocked = True
            self.blocked_since_ns = now_ns

    def unblock(self, account: Account) -> bool:
        """Note that the account has credit again; True when nothing else blocks this sender."""
        if self._blocked_on.pop(account, None) is None:
            return False
        self.blocked = bool(self._blocked_on)
        return not self.blocked

    def defer(self, account: Account, due: i64) -> None:
        """Hold back a grant of this receiver until it is no longer blocked."""
        if account.deferred == 0:
            self._deferring.append(account)
        account.deferred += due

    def release(self) -> list[tuple[Account, int]]:
        """Take the grants held back; those for senders that are gone are dropped."""
        due: list[tuple[Account, int]] = []
        while self._deferring:
            account = self._deferring.pop()
            if not account.closed:
                due.append((account, account.deferred))
            account.deferred = 0
        return due

    def shown(self, now_ns: int) -> bool:
        """Whether listings show `flow`: blocked now, or a block began a short while ago."""
        if self.blocked:
            return True
        return self.blocked_since_ns >= 0 and now_ns - self.blocked_since_ns < self.linger_ns

    def state_shown(self, now_ns: int, own_state: str) -> str:
        """The state in listings; `flow` takes the place of `running` only."""
        return "flow" if own_state == "running" and self.shown(now_ns) else own_state

    def waits_on(self, now_ns: int) -> list[tuple[Account, int]]:
        """The links that block it and since when; while a block lingers, the last such link."""
        if self.blocked:
            return list(self._blocked_on.items())
        if self._last is not None and self.shown(now_ns):
            return [(self._last, self.blocked_since_ns)]
        return []

    def forget_link(self, account: Account) -> bool:
        """Drop every trace of a link as sender; True when that unblocked it."""
        if self._last is account:
            self._last = None
        return self.unblock(account)


def settle(account: Account, count: i64) -> list[Flow]:
    """Grant, and pass on the deferred grants of everyone it unblocks; return those unblocked."""
    resumed: list[Flow] = []
    if account.grant(count) and account.sender.unblock(account):
        _resume(account.sender, resumed)
    return resumed


def forget(account: Account) -> list[Flow]:
    """One end of the link is gone: it blocks nobody any more; return those unblocked."""
    account.closed = True
    resumed: list[Flow] = []
    if account.sender.forget_link(account):
        _resume(account.sender, resumed)
    return resumed


def _resume(flow: Flow, resumed: list[Flow]) -> None:
    """Send what an unblocked component held back, and go on with whom that unblocks."""
    resumed.append(flow)
    pending = flow.release()
    while pending:
        account, count = pending.pop()
        if account.grant(count) and account.sender.unblock(account):
            resumed.append(account.sender)
            pending.extend(account.sender.release())
