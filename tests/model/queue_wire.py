"""Between the wire and the model of queues: what events show, and letters as octets."""

from typing import Any

from tests.model.queue_fact import Letter, Seen, Where
from tests.support.machine import publish


def seen_of(where: Where, event: Any) -> Seen:
    shown = fields_of(event)
    return Seen(
        where,
        event.consumer_tag,
        event.delivery_tag,
        event.redelivered,
        event.exchange,
        event.routing_key,
        shown["properties"],
        shown["size"],
    )


def fields_of(event: Any) -> dict[str, Any]:
    """The arguments of a method, and what its content is."""
    method_of_it = getattr(event, "method", event)
    fields: dict[str, Any] = dict(method_of_it.arguments)
    if method_of_it is not event:
        properties = event.properties
        if properties.get("headers") == {}:
            del properties["headers"]
        fields |= {"properties": properties, "size": len(event.body)}
    return fields


def octets_of(channel: int, letter: Letter, mandatory: bool) -> bytes:
    properties = letter.properties({"BCC": list(letter.bcc)} if letter.bcc else {})
    options: dict[str, Any] = {"exchange": letter.exchange, "mandatory": mandatory}
    options["properties"] = properties
    return publish(channel, b"." * letter.size, letter.key, **options)
