"""The verdict: which component is the bottleneck behind one that is in flow.

Owns the walk along the credit links from a component downstream. A component in flow is not the
bottleneck; the first one downstream that is not in flow is (spec section 1.5). Rule CF-14: the
chain as data, with the peer each one waits for, since when, and how much credit is missing.

The walk reads the same lingering state that listings show, so that a connection which oscillates
between blocked and not is explained also at an instant when it is not blocked.
"""

from dataclasses import dataclass

from warren.flow.credit import Account, Flow
from warren.flow.wait import CHAIN_WAITS_MAX, Reason, Subject, Wait


@dataclass(frozen=True)
class Blockage:
    """One link of the chain; `missing` is the credit `subject` needs before it goes on."""

    subject: Subject
    peer: Subject
    since_ns: int
    missing: int
    setting: str


@dataclass(frozen=True)
class Verdict:
    """The chain, nearest first, and the components at its ends, which are not in flow."""

    chain: tuple[Blockage, ...]
    bottlenecks: tuple[Subject, ...]


def diagnose(flow: Flow, now_ns: int) -> Verdict:
    """Walk from a component to the ones it waits for in the end; empty if it is not in flow."""
    chain: list[Blockage] = []
    ends: list[Subject] = []
    seen = {flow}
    frontier = [flow] if flow.shown(now_ns) else []
    while frontier:
        beyond: list[Flow] = []
        for waiting in frontier:
            for account, since_ns in waiting.waits_on(now_ns):
                if len(chain) == CHAIN_WAITS_MAX:
                    return Verdict(tuple(chain), tuple(ends))
                chain.append(_blockage(account, since_ns))
                peer = account.receiver
                if peer in seen:
                    continue
                seen.add(peer)
                if peer.shown(now_ns):
                    beyond.append(peer)
                else:
                    ends.append(peer.subject)
        frontier = beyond
    return Verdict(tuple(chain), tuple(ends))


def credit_wait(account: Account, since_ns: int) -> Wait:
    """The explained wait of a sender whose account is exhausted."""
    return Wait(
        reason=Reason.CREDIT,
        subject=account.sender.subject,
        cause=account.receiver.subject,
        since_ns=since_ns,
        setting=account.settings.setting,
    )


def _blockage(account: Account, since_ns: int) -> Blockage:
    return Blockage(
        subject=account.sender.subject,
        peer=account.receiver.subject,
        since_ns=since_ns,
        missing=max(0, 1 - account.credit),
        setting=account.settings.setting,
    )
