"""The endpoints, subject by subject; a subject is a module with a list, and a line here.

Endpoints answer from the copy and change things through commands of the node; they must never keep
state of their own. Start reading at `identity.py`.
"""

from typing import Final

from warren.management.api import (
    change,
    declare,
    definition,
    health,
    identity,
    message,
    metrics,
    objects,
    overview,
    rights,
    why,
)
from warren.management.router import Endpoint

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *identity.ENDPOINTS,
    *overview.ENDPOINTS,
    *objects.ENDPOINTS,
    *rights.ENDPOINTS,
    *change.ENDPOINTS,
    *declare.ENDPOINTS,
    *message.ENDPOINTS,
    *definition.ENDPOINTS,
    *health.ENDPOINTS,
    *metrics.ENDPOINTS,
    *why.ENDPOINTS,
)
METRICS: Final[tuple[Endpoint, ...]] = metrics.ENDPOINTS
