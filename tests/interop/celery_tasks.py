"""The Celery application that the tests drive: its tasks, its settings, and workers of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from celery import Celery

from tests.interop.target import until_within

MODULE: Final = "tests.interop.celery_worker"
ENVIRONMENT: Final = "CELERY_INTEROP"
READY_SECONDS: Final = 40.0  # A worker starts within two; a busy machine may take longer.
REPOSITORY: Final = Path(__file__).resolve().parents[2]
# One process that takes one message at a time, and asks for nothing it does not need.
SETTINGS: Final = {
    "result_backend": "rpc://",
    "worker_concurrency": 1,
    "worker_prefetch_multiplier": 1,
    "broker_connection_retry_on_startup": True,
    "worker_hijack_root_logger": False,
    "worker_cancel_long_running_tasks_on_connection_loss": True,
}


def note(journal: str, line: str) -> None:
    """Add a line to the journal; lines of several processes do not mix."""
    with Path(journal).open("a") as file:
        file.write(f"{line}\n")


def add(first: int, second: int) -> int:
    return first + second


def total(numbers: list[int]) -> int:
    return sum(numbers)


def now() -> float:
    return time.time()


def hold(self: Any, journal: str, gate: str) -> bool:
    """Wait until the gate is there; return whether the message came again."""
    note(journal, f"hold {self.request.id}")
    while not Path(gate).exists():
        time.sleep(0.02)
    return bool(self.request.delivery_info["redelivered"])


def stumble(self: Any, times: int) -> int:
    """Fail that many times."""
    if self.request.retries < times:
        raise self.retry(exc=ValueError(f"attempt {self.request.retries}"), countdown=0)
    return int(self.request.retries)


def die(self: Any) -> str:
    """Take the pool's process along, unless the message came again."""
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def application(broker: str, queue: str, **settings: Any) -> Any:
    app = Celery("interop", broker=broker, set_as_current=False)
    app.conf.update(SETTINGS | {"task_default_queue": queue} | settings)
    for function in (add, total, now, note):
        app.task(function, name=function.__name__, shared=False)
    app.task(hold, name="hold", shared=False, bind=True)
    app.task(stumble, name="stumble", shared=False, bind=True, max_retries=3)
    app.task(die, name="die", shared=False, bind=True, acks_late=True)
    return app


def from_environment() -> Any:
    """The application of a worker."""
    given = msgspec.json.decode(os.environ[ENVIRONMENT], type=dict[str, Any])
    return application(**given)


def described(app: Any) -> dict[str, Any]:
    """What `application` makes the same again of."""
    settings = {key: value for key, value in app.conf.changes.items() if key != "deprecated"}
    queue = settings.pop("task_default_queue")
    return {"broker": app.conf.broker_url, "queue": queue} | settings


class Worker:
    """`celery worker` in a process group of its own."""

    def __init__(self, app: Any, folder: Path, name: str, module: str = MODULE) -> None:
        self.name = f"{name}@here"
        self.log = folder / f"{name}.log"
        environment = os.environ | {
            "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        }
        if module == MODULE:
            environment[ENVIRONMENT] = msgspec.json.encode(described(app)).decode()
        command = [sys.executable, "-m", "celery", "-A", module, "worker"]
        command += ["-n", self.name, "--loglevel", "info", "--without-mingle", "--without-gossip"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_for(" ready.")

    def wait_for(self, text: str) -> None:
        """Return when the log has this text."""

        def look() -> bool:
            written = self.log.read_text()
            assert self.process.poll() is None, written
            if text in written:
                return True
            time.sleep(0.02)
            return False

        until_within(READY_SECONDS, look)

    def stop(self) -> None:
        """Stop as an operator does: what runs is finished, the rest goes back."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(READY_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"did not stop:\n{self.log.read_text()}") from None

    def kill(self) -> None:
        """End it with its pool at once, as the machine does when it fails."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
