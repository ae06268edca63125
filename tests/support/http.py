"""A broker with its management process, and requests to it over HTTP."""

import base64
import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tests.support.broker import Broker

PATIENCE_S = 20.0
SETTINGS: dict[str, str | int] = {
    "management": "on",
    "management_port": 0,
    "prometheus_port": 0,
    "collect_statistics_interval": 100,
}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Managed:
    """A broker and the addresses of its management process."""

    broker: Broker
    port: int
    metrics_port: int
    login: tuple[str, str] = ("guest", "guest")
    connections: list[http.client.HTTPConnection] = field(default_factory=list)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        login: tuple[str, str] | str | None = "",
        port: int | None = None,
        headers: dict[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        who = self.login if login == "" else login
        if isinstance(who, tuple):
            sent["authorization"] = basic(*who)
        octets = raw if body is None else json.dumps(body).encode()
        opened = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=PATIENCE_S)
        try:
            opened.request(method, path, octets, sent)
            response = opened.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, told, response.read())
        finally:
            opened.close()

    def get(self, path: str, **options: Any) -> Any:
        """Return the JSON at a path that is there."""
        answer = self.ask("GET", path, **options)
        assert answer.status == 200, (path, answer.status, answer.body)
        return answer.json()

    def until(self, path: str, right: Callable[[Any], bool]) -> Any:
        """Return what is at a path once it is right: counters are late by an interval (T-4)."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = self.get(path)
            if right(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.02)

    def child(self) -> int:
        """The pid of the management process."""
        assert self.broker.process is not None
        mine = self.broker.process.pid
        with open(f"/proc/{mine}/task/{mine}/children") as file:
            found = file.read().split()
        return int(found[0]) if found else 0


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def managed(broker: Broker) -> Managed:
    """Return the broker's management process once it answers."""
    listeners = {one["protocol"]: one["port"] for one in broker.control("status")["listeners"]}
    return Managed(broker, listeners["http"], listeners["http/prometheus"])


def part(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
