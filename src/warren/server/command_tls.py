"""The control command that replaces the node's certificate."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from warren.server.control import Code, Command, ControlError, NoArgs, command
from warren.server.tls import TlsError
from warren.server.view import CertificateRow, NodeView

if TYPE_CHECKING:
    from warren.server.node import Node


def commands(node: "Node") -> Iterator[Command]:
    tls = node.tls

    async def reload_tls(view: NodeView, args: NoArgs) -> CertificateRow:
        if not tls.enabled:
            fix = "set tls_certfile and tls_keyfile, and start the node anew"
            raise ControlError(Code.NOT_FOUND, "this node does not listen with TLS", fix)
        try:
            return await tls.reload()
        except TlsError as refusal:
            fix = "mend the file and reload again; the certificate in use stays in use"
            raise ControlError(Code.REFUSED, str(refusal), fix) from None

    doc = "Load certificate, key and authorities anew."
    yield command("reload_tls", doc, NoArgs, CertificateRow, reload_tls)
