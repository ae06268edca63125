"""Brokers under test: each run gets a fresh process and an empty data folder.

A broker can also be ended, by the word or by the axe, and begin again on what it left.
Invariant: only processes started here are stopped, by the process group they were started in.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
# With millions of messages on the disk either may take longer.
RESTART_TIMEOUT_S = 600.0
RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


# Settings of a broker, by the names of rabbitmq.conf.
Settings = Mapping[str, str]


class StartError(Exception):
    """A broker could not be started."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a broker keeps its files and listens."""

    folder: Path
    port: int  # the three above it are the broker's as well

    @property
    def tls_port(self) -> int:
        return self.port + 1

    @property
    def certificate(self) -> Path:
        return self.folder.parent / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.folder.parent / "key.pem"


@dataclass(slots=True)
class Broker:
    """A running broker."""

    process: subprocess.Popen[bytes]
    place: Place
    start_s: float = 0.0
    companions: list[subprocess.Popen[bytes]] = field(default_factory=list)
    kind: str = "warren"
    command: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        return self.process.pid

    def stop(self, *, keep: bool = False) -> None:
        """End the process group and remove the data, unless they are to be kept."""
        for process in [self.process, *self.companions]:
            end_group(process)
        if not keep:
            shutil.rmtree(self.place.folder, ignore_errors=True)

    def end(self, *, kill: bool, timeout_s: float = RESTART_TIMEOUT_S) -> float:
        """End the process and keep the data: in good order, or at once. The seconds it took."""
        began_s = time.monotonic()
        if kill:
            kill_group(self.process)
        elif not end_group(self.process, timeout_s=timeout_s):
            raise StartError(f"the broker did not stop in good order within {timeout_s:.0f} s")
        return time.monotonic() - began_s

    def launch(self) -> float:
        """Start the process again on the data that is there; when, by the monotonic clock."""
        began_s = time.monotonic()
        self.process = launch(self.command, self.place, self.environment)
        return began_s

    def begin_again(self, timeout_s: float = RESTART_TIMEOUT_S) -> float:
        """Start again and wait until it answers; when it was launched."""
        began_s = self.launch()
        wait_until_up(self, began_s, timeout_s)
        return began_s


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to all processes of the group at once, and wait until none is left."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    with suppress(ProcessLookupError):
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.002)


def end_group(process: subprocess.Popen[bytes], *, timeout_s: float = STOP_TIMEOUT_S) -> bool:
    """End every process of the group: a start script may end before the broker it started.

    False when it did not end in good order within the limit and had to be killed.
    """
    for first in (signal.SIGTERM, signal.SIGKILL):
        number = int(first)
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            process.poll()  # Takes in the exit status, or the group would seem to live on.
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                return first == signal.SIGTERM
            number = 0  # From now on only ask whether anyone is left.
            time.sleep(0.05)
    return False


def launch(
    command: list[str], place: Place, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    log = (place.folder / "output.log").open("ab")
    with log:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | environment,
            start_new_session=True,
        )


def answers(port: int) -> bool:
    """Whether something there starts an AMQP handshake."""
    try:
        with socket.create_connection((HOST, port), 5.0) as sock:
            sock.sendall(b"AMQP\x00\x00\x09\x01")
            return sock.recv(8)[:1] == b"\x01"
    except OSError:
        return False


def wait_until_up(broker: Broker, began_s: float, timeout_s: float = START_TIMEOUT_S) -> None:
    while not answers(broker.place.port):
        if broker.process.poll() is not None or time.monotonic() - began_s > timeout_s:
            output = (broker.place.folder / "output.log").read_text(errors="replace")
            broker.stop()
            raise StartError(f"the broker did not start:\n{output[-2000:]}")
        time.sleep(0.01)
    broker.start_s = time.monotonic() - began_s


def make_certificate(folder: Path) -> None:
    """A self-signed certificate for the TLS scenario."""
    if (folder / "certificate.pem").exists():
        return
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-keyout", str(folder / "key.pem"),
         "-out", str(folder / "certificate.pem")],
        check=True, capture_output=True,
    )  # fmt: skip


def tls_lines(place: Place) -> str:
    return (
        f"listeners.ssl.1 = {HOST}:{place.tls_port}\n"
        f"ssl_options.certfile = {place.certificate}\n"
        f"ssl_options.keyfile = {place.key}\n"
        "ssl_options.verify = verify_none\n"
        "ssl_options.fail_if_no_peer_cert = false\n"
    )


def start_warren(
    place: Place,
    *,
    tls: bool,
    command: list[str],
    pure: bool,
    settings: Settings | None = None,
) -> Broker:
    """Warren, compiled or as plain Python."""
    prepare(place, tls=tls)
    words = [*command, "start", "--data-dir", str(place.folder / "data")]
    if tls:
        config = place.folder / "warren.conf"
        config.write_text(f"listeners.tcp.1 = {HOST}:{place.port}\n" + tls_lines(place))
        words += ["--config", str(config)]
    else:
        words += ["--port", str(place.port)]
    for key, value in (settings or {}).items():
        words += ["--set", f"{key}={value}"]
    environment = {"WARREN_PURE": "1"} if pure else {}
    began_s = time.monotonic()
    broker = Broker(
        launch(words, place, environment), place, command=words, environment=environment
    )
    wait_until_up(broker, began_s)
    return broker


def warren_knows(command: list[str], setting: str, value: str) -> bool:
    """Whether this Warren has a setting of that name."""
    words = [*command, "start", "--check", "--set", f"{setting}={value}"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def start_rabbitmq(place: Place, *, tls: bool, settings: Settings | None = None) -> Broker:
    """RabbitMQ as the distribution installs it, on loopback, with its own name service."""
    prepare(place, tls=tls)
    lines = {
        "listeners.tcp.1": f"{HOST}:{place.port}",
        "disk_free_limit.absolute": "500MB",
        "log.file.level": "warning",
        **(settings or {}),
    }
    (place.folder / "rabbitmq.conf").write_text(
        "".join(f"{key} = {value}\n" for key, value in lines.items())
        + (tls_lines(place) if tls else "")
    )
    (place.folder / "plugins").write_text("[].\n")
    names_port = str(place.port + 3)
    environment = {
        "HOME": str(place.folder),
        "RABBITMQ_NODENAME": f"bench{place.port}@localhost",
        "RABBITMQ_MNESIA_BASE": str(place.folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(place.folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(place.folder / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(place.folder / "plugins"),
        "RABBITMQ_DIST_PORT": str(place.port + 2),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_PORT": names_port,
        "ERL_EPMD_ADDRESS": HOST,
    }
    # Its own name service, kept in the foreground so that it ends with the run.
    names = launch(["epmd", "-port", names_port, "-address", HOST], place, {})
    began_s = time.monotonic()
    command = [str(RABBITMQ_SERVER)]
    broker = Broker(
        launch(command, place, environment), place, companions=[names], kind="rabbitmq",
        command=command, environment=environment,
    )  # fmt: skip
    wait_until_up(broker, began_s)
    return broker


def prepare(place: Place, *, tls: bool) -> None:
    shutil.rmtree(place.folder, ignore_errors=True)
    place.folder.mkdir(parents=True)
    if tls:
        make_certificate(place.folder.parent)


def rabbitmq_is_installed() -> bool:
    return RABBITMQ_SERVER.exists()


def rabbitmq_version() -> str:
    libraries = Path("/usr/lib/rabbitmq/lib")
    found = sorted(libraries.glob("rabbitmq_server-*")) if libraries.exists() else []
    return found[-1].name.removeprefix("rabbitmq_server-") if found else "unknown"
