"""Why something waits, in the words of `warren why`: asked of the node at that moment.

Everything that waits, or one object: `/api/why/queue/NAME?vhost=/`, `/api/why/connection/NAME`.
Names of other users' objects are in the answers, so it takes the tag `monitoring`.
"""

from typing import TYPE_CHECKING, Final

from warren.flow.wait import Kind
from warren.management.access import May
from warren.management.answer import Reply, bad_request, said
from warren.management.router import Endpoint

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request

KINDS: Final = frozenset(kind.value for kind in Kind)


async def everything(api: "Api", request: "Request") -> Reply:
    return said(await api.control.ask("why"))


async def one(api: "Api", request: "Request") -> Reply:
    kind = request.named("kind")
    if kind not in KINDS:
        raise bad_request(f"kind must be one of {', '.join(sorted(KINDS))}")
    subject = f"{kind}:{request.named('name')}"
    vhost = request.query.get("vhost", "/")
    return said(await api.control.ask("why", {"subject": subject, "vhost": vhost}))


ENDPOINTS: Final = (
    Endpoint("GET", "/api/why", May.MONITOR, everything),
    Endpoint("GET", "/api/why/{kind}/{name}", May.MONITOR, one),
)
