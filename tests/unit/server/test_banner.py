"""The lines a node prints when clients may connect."""

from pathlib import Path

import pytest

from warren.server.banner import banner
from warren.server.config import Settings
from warren.server.view import ListenerRow

LISTENERS = (
    ListenerRow(protocol="amqp", address="127.0.0.1", port=5672),
    ListenerRow(protocol="amqps", address="::1", port=5671),
)


@pytest.mark.rule("O-2.9")
def test_the_banner_says_where_everything_is() -> None:
    settings = Settings(
        data_dir=Path("/var/lib/warren"), node_name="w@h", log_file=Path("/var/log/w")
    )
    text = banner(settings, LISTENERS, event_loop="uvloop", compiled_count=3, compiled_count_max=3)
    assert text.splitlines()[1:] == [
        "  node     w@h",
        "  runs     uvloop, 3 of 3 hot modules compiled",
        "  listens  amqp 127.0.0.1:5672",
        "  listens  amqps [::1]:5671",
        "  data     /var/lib/warren",
        "  control  /var/lib/warren/control.sock",
        "  log      /var/log/w, stderr (info, text)",
    ]


def test_an_interpreted_node_says_so() -> None:
    text = banner(Settings(), (), event_loop="asyncio", compiled_count=0, compiled_count_max=0)
    assert "interpreted" in text
