"""The programs in the documents run, and the command line answers in the form they show."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.interop.target import until
from tests.support.broker import Broker, free_port
from tests.support.document import document, document_paths
from tests.support.fixtures import StartBroker
from tests.support.fixtures import start_broker as start_broker

ADDRESS: Final = "127.0.0.1:5672"
TLS_PAGE: Final = "docs/operations/tls.md"
# Its programs are tests: test_testing_guide runs them.
TESTING_PAGE: Final = "docs/guides/testing.md"
SECONDS_MAX: Final = 40


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "100", "NO_COLOR": "1"}


def python(code: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pages() -> list[str]:
    found = [path for path in document_paths() if document(path).blocks("python")]
    return [path for path in found if path not in {TLS_PAGE, TESTING_PAGE}]


@pytest.mark.slow
@pytest.mark.parametrize("path", pages())
def test_the_programs_of_a_page_run(path: str, broker: Broker, tmp_path: Path) -> None:
    """One after the other; a plain block behind a program is what it prints."""
    blocks = document(path).blocks()
    following = [*blocks[1:], None]
    for block, behind in zip(blocks, following, strict=True):
        if block.kind != "python":
            continue
        code = block.text.replace(ADDRESS, f"{broker.host}:{broker.port}")
        if "celery" in code and find_spec("celery") is None:
            # Not among the clients of the suite; the program is at least Python.
            compile(code, path, "exec")
            continue
        printed = python(code, tmp_path)
        if behind is not None and not behind.kind:
            assert printed == behind.text


@pytest.mark.slow
def test_the_tls_page(start_broker: StartBroker, tmp_path: Path) -> None:
    """The certificate is made, the node started and the client run as the page says."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl command")
    page = document(TLS_PAGE)
    make = next(block.text for block in page.blocks("sh") if "openssl req" in block.text)
    subprocess.run(make, shell=True, cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    broker = start_broker(
        settings={
            "tls_port": port,
            "tls_certfile": str(tmp_path / "cert.pem"),
            "tls_keyfile": str(tmp_path / "key.pem"),
        }
    )
    broker.wait_until_accepts(port)
    client = page.blocks("python")[0].text.replace("5671", str(port))
    assert python(client, tmp_path) == "True\n"


# -- the command line ----------------------------------------------------------------------------


def ask(broker: Broker, verb: str, *, code: int = 0) -> str:
    assert broker.log is not None
    folder = broker.log.parent / "data"
    done = subprocess.run(
        [sys.executable, "-m", "warren.cli.main", verb, "--data-dir", str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def explained(broker: Broker, reason: str) -> str:
    """The answer of `warren why`, once it names this reason."""
    answer = ask(broker, "why")
    return answer if reason in answer else ""


def sample(path: str, verb: str, word: str = "") -> str:
    """What a document shows as the answer of a verb: the first with this word in it."""
    for block in document(path).blocks("console"):
        command, _, answer = block.text.partition("\n")
        if re.search(rf"warren {verb}\b", command) and word in answer:
            return answer
    raise AssertionError(f"{path} shows no answer of {verb}")


def form(answer: str) -> list[str]:
    """The words of an answer, without what differs from node to node and from run to run."""
    plain = re.sub(r"warren@[\w.-]+", "NODE", re.sub(r"[│├└─]", " ", answer))
    plain = re.sub(r"ctag[\w.]+", "TAG", plain)
    return re.sub(r"\d[\d.,:]*( ms| s|\b)", "N", plain).split()


def labels(answer: str) -> list[str]:
    return re.findall(r"^  (\S+(?: \S+)*?)  ", answer, re.MULTILINE)


def test_status(broker: Broker) -> None:
    assert labels(ask(broker, "status")) == labels(sample("README.md", "status"))


def test_health(broker: Broker) -> None:
    assert form(ask(broker, "health")) == form(sample("docs/operations/health.md", "health"))


@pytest.mark.slow
def test_a_blocked_publisher_is_explained_as_shown(start_broker: StartBroker) -> None:
    broker = start_broker(settings={"vm_memory_high_watermark": 0})
    client = broker.connect(client_properties={"capabilities": {"connection.blocked": True}})
    channel = client.channel()
    for _ in range(12):
        channel.publish(bytes(100_000), routing_key="nowhere")
    client.expect("connection.blocked", channel=0)
    answer = until(lambda: explained(broker, "parked_budget"))
    for path in ("README.md", "docs/operations/flow.md"):
        assert form(answer) == form(sample(path, "why", "parked_budget"))
    failed = ask(broker, "health", code=1)
    assert form(failed) == form(sample("docs/operations/health.md", "health", "FAIL"))


@pytest.mark.slow
def test_a_consumer_at_its_prefetch_is_explained_as_shown(start_broker: StartBroker) -> None:
    broker = start_broker()
    channel = broker.connect().channel()
    channel.queue_declare("orders")
    for _ in range(101):
        channel.publish(b"x", routing_key="orders")
    channel.qos(100)
    channel.consume("orders", "ctag1.0")
    for _ in range(100):
        channel.recv_delivery()
    shown = sample("docs/operations/flow.md", "why", "prefetch_full")
    assert form(until(lambda: explained(broker, "prefetch_full"))) == form(shown)


@pytest.mark.slow
def test_a_stop_is_told_as_shown(start_broker: StartBroker) -> None:
    broker = start_broker()
    shown = sample("docs/operations/shutdown.md", "stop")
    broker.stopping = True
    assert form(ask(broker, "stop")) == form(shown)
