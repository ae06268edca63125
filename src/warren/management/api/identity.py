"""Who asks: `/api/whoami` and `/api/auth`."""

from typing import TYPE_CHECKING, Final

from warren.management.access import May
from warren.management.answer import Reply, said
from warren.management.router import Endpoint

if TYPE_CHECKING:
    from warren.management.app import Api
    from warren.management.request import Request


async def whoami(api: "Api", request: "Request") -> Reply:
    identity = request.identity
    return said({"name": identity.user, "tags": list(identity.tag_list)})


async def auth(api: "Api", request: "Request") -> Reply:
    return said({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


ENDPOINTS: Final = (
    Endpoint("GET", "/api/whoami", May.ANY, whoami),
    Endpoint("GET", "/api/auth", May.EVERYBODY, auth),
)
