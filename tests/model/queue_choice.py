"""What is drawn for the queues of `test_queue`: names, targets, rules."""

import itertools
from typing import Any, Final

from hypothesis import strategies as st

from tests.model.queue_fact import Rules

NAMES: Final = ("a", "b", "c")
GRAVE: Final = "grave"
CHANNELS: Final = ((0, 1), (0, 2), (1, 1), (1, 2))
CONFIRMS: Final = 2
WITNESS, TX = (2, 1), (2, 2)
MISSING: Final = "missing"

TTLS: Final = (0, 5, 20, 1500)
TARGETS: Final = (
    ("", "a"), ("", "b"), ("", "c"), ("", "a"), ("", "b"), ("amq.fanout", "k"),
    ("amq.direct", "k"), ("", MISSING),
)  # fmt: skip
LETTERS: Final = (
    ("", GRAVE), ("", GRAVE), ("", "a"), ("", "b"), ("", None), ("amq.fanout", None),
    ("amq.direct", None), ("amq.direct", "k"), (MISSING, None),
)  # fmt: skip
VERBS: Final = (
    ("basic.ack", "ack"), ("basic.nack", "requeue"), ("basic.nack", "drop"),
    ("basic.reject", "requeue"), ("basic.reject", "drop"),
)  # fmt: skip


def every(*parts: Any) -> st.SearchStrategy[Any]:
    """One of all combinations: a single choice, so that long sequences stay cheap."""
    return st.sampled_from(list(itertools.product(*parts)))


def rules_of_queues() -> st.SearchStrategy[Rules]:
    def some(*values: Any) -> st.SearchStrategy[Any]:
        return st.sampled_from((None,) * (len(values) + 1) + values)

    return st.builds(
        make_rules,
        some(*TTLS),
        some(50, 200),
        some(0, 1, 2, 3),
        some(0, 5, 12),
        st.sampled_from(("drop-head", "drop-head", "reject-publish", "reject-publish-dlx")),
        st.sampled_from((None, *LETTERS)),
        st.sampled_from((0, 0, 1, 3)),
        st.sampled_from(("", "", "single", "auto-delete", "quorum")),
        some(0, 1, 2),
    )


def make_rules(
    ttl: int | None,
    expires: int | None,
    length: int | None,
    octets: int | None,
    overflow: str,
    letters: tuple[str, str | None] | None,
    priorities: int,
    kind: str,
    limit: int | None,
) -> Rules:
    dlx, dlk = letters or (None, None)
    return Rules(
        ttl_ms=ttl,
        expires_ms=expires,
        max_length=length,
        max_bytes=octets,
        overflow=overflow,
        dlx=dlx,
        dlk=dlk,
        priorities=0 if kind == "quorum" else priorities,
        single=kind == "single",
        auto_delete=kind == "auto-delete",
        quorum=kind == "quorum",
        limit=limit,
    )
