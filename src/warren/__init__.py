"""Warren: a message broker that speaks AMQP 0-9-1 the way RabbitMQ does.

Owns nothing but the version and the choice between the compiled and the interpreted form of the
hot path (`WARREN_PURE`, `WARREN_REQUIRE_COMPILED`). Start reading at ARCHITECTURE.md, then
`warren.session.connection`.
"""

import os

__version__ = "0.1.0"

if os.environ.get("WARREN_PURE", "0") not in {"", "0"}:
    from warren._pure import install

    install()

if os.environ.get("WARREN_REQUIRE_COMPILED", "0") not in {"", "0"}:
    from warren._build import require_compiled

    require_compiled()
