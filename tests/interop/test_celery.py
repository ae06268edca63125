"""Celery with real workers: what its users rely on, over the `rpc://` result backend."""

import importlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group
from celery.exceptions import ChordError, TaskRevokedError
from celery.signals import before_task_publish

from tests.interop.celery_tasks import Worker, application
from tests.interop.target import until, url
from tests.support.broker import Broker, Settings
from tests.support.document import document
from tests.support.fixtures import StartBroker
from tests.support.fixtures import start_broker as start_broker

pools: Any = importlib.import_module("kombu.pools")

SECONDS = 30.0  # How long a result may take before the test fails.
AN_HOUR = 3600
GUIDE = "docs/guides/celery.md"
LATER = "wait_in_the_exchange"

StartWorker = Callable[..., Worker]


class Queue:
    """Looks at the queue of the tasks."""

    def __init__(self, app: Any) -> None:
        self.name = app.conf.task_default_queue
        self.connection = app.connection()

    def look(self) -> tuple[int, int]:
        """Messages that wait, and consumers."""
        channel = self.connection.channel()
        try:
            found = channel.queue_declare(self.name, passive=True)
        finally:
            channel.close()
        return found.message_count, found.consumer_count

    def wait_until(self, *, messages: int, consumers: int) -> None:
        def look() -> bool:
            time.sleep(0.01)
            return self.look() == (messages, consumers)

        until(look)

    def close(self) -> None:
        with self.connection.channel() as channel:
            channel.queue_delete(self.name)
        self.connection.release()


@pytest.fixture
def settings() -> dict[str, Any]:
    """Settings of the application; a test that wants others is parametrized with them."""
    return {}


@pytest.fixture
def broker_settings() -> Settings | None:
    """Settings of a broker of its own; without them the tests share one."""
    return None


@pytest.fixture
def target(
    broker_settings: Settings | None,
    start_broker: StartBroker,
    request: pytest.FixtureRequest,
) -> Broker:
    if broker_settings is not None:
        return start_broker(broker_settings)
    shared: Broker = request.getfixturevalue("broker")
    return shared


@pytest.fixture
def app(target: Broker, name: str, settings: dict[str, Any]) -> Iterator[Any]:
    app = application(url(target), name, **settings)
    yield app
    if app.backend.result_consumer._connection is not None:
        app.backend.result_consumer.stop()
    app.close()
    pools.reset()


@pytest.fixture
def queue(app: Any) -> Iterator[Queue]:
    queue = Queue(app)
    yield queue
    queue.close()


@pytest.fixture
def start_worker(app: Any, queue: Queue, tmp_path: Path) -> Iterator[StartWorker]:
    """Start workers of the application; the queue is deleted after they have ended."""
    workers: list[Worker] = []

    def start(name: str = "first") -> Worker:
        workers.append(Worker(app, tmp_path, name))
        return workers[-1]

    yield start
    for each in workers:
        each.kill()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal"
    path.touch()
    return path


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Tasks named `hold` go on when this file is there; at the latest when the test ends."""
    path = tmp_path / "gate"
    yield path
    path.touch()


def lines(journal: Path, count: int) -> list[str]:
    """The journal, once it has so many lines."""

    def look() -> list[str]:
        time.sleep(0.01)
        found = journal.read_text().splitlines()
        return found if len(found) >= count else []

    return until(look)


def test_tasks_for_later_do_not_keep_others(
    app: Any, queue: Queue, start_worker: StartWorker
) -> None:
    """A worker that holds tasks for later asks for more, and gives them back when it ends."""
    worker = start_worker()
    for number in range(50):
        app.tasks["add"].apply_async((number, 1), countdown=AN_HOUR)
    assert app.tasks["add"].delay(2, 3).get(timeout=SECONDS) == 5
    before = time.time()
    late, soon = (app.tasks["now"].apply_async(countdown=delay) for delay in (0.5, 0.2))
    assert late.get(timeout=SECONDS) >= before + 0.5
    assert soon.get(timeout=SECONDS) >= before + 0.2
    queue.wait_until(messages=0, consumers=1)
    worker.stop()
    queue.wait_until(messages=50, consumers=0)


# Celery calls these settings "using quorum queues"; what it makes of them is its delayed delivery.
IN_THE_BROKER = {
    "task_default_queue_type": "quorum",
    "task_default_exchange": "interop",
    "task_default_exchange_type": "topic",
    "broker_transport_options": {"confirm_publish": True},
}


@pytest.mark.rule("DL-1", "TT-1")
@pytest.mark.parametrize("settings", [IN_THE_BROKER])
@pytest.mark.parametrize("broker_settings", [{}])
def test_tasks_for_later_wait_in_the_broker(
    app: Any, queue: Queue, start_worker: StartWorker
) -> None:
    """They go from one queue with a time to live to the next, one for each bit of the delay."""
    app.conf.task_default_routing_key = app.conf.task_default_queue
    start_worker()
    for number in range(20):
        app.tasks["add"].apply_async((number, 1), countdown=AN_HOUR)
    now = app.tasks["now"]
    before = time.time()
    assert now.apply_async(countdown=1).get(timeout=SECONDS) >= before + 1
    with queue.connection.channel() as channel:
        highest = channel.queue_declare("celery_delayed_11", passive=True)
    assert highest.message_count == 20
    assert app.control.inspect(timeout=SECONDS, limit=1).scheduled() == {"first@here": []}


def test_tasks_for_later_wait_in_an_exchange(
    broker: Broker, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of the guide, with a task of its own."""
    if broker.is_reference:
        pytest.skip("the reference has this exchange type with a plug-in only")
    [code] = [block.text for block in document(GUIDE).blocks("python") if LATER in block.text]
    code = code.replace("127.0.0.1:5672", f"{broker.host}:{broker.port}").replace("tasks", name)
    code += "\n@app.task(name='now', shared=False)\ndef now():\n"
    code += "    return datetime.now(UTC).timestamp()\n"
    (tmp_path / "later_program.py").write_text(code.replace(f"{name}_queues", "task_queues"))
    monkeypatch.syspath_prepend(tmp_path)
    program: Any = importlib.import_module("later_program")
    queue = Queue(program.app)
    worker = None
    try:
        worker = Worker(program.app, tmp_path, "first", "later_program")
        for _ in range(50):
            program.now.apply_async(countdown=AN_HOUR)
        before = time.time()
        late = program.now.apply_async(countdown=0.5)
        assert program.now.delay().get(timeout=SECONDS) < before + AN_HOUR
        assert late.get(timeout=SECONDS) >= before + 0.5
        held = program.app.control.inspect(timeout=SECONDS, limit=1).scheduled()
        assert held == {worker.name: []}
    finally:
        before_task_publish.disconnect(program.wait_in_the_exchange)
        if worker is not None:
            worker.kill()
        with queue.connection.channel() as channel:
            channel.exchange_delete(name)
        queue.close()
        program.app.backend.result_consumer.stop()
        program.app.close()
        pools.reset()


@pytest.mark.rule("CT-1")
@pytest.mark.parametrize("settings", [{"task_acks_late": True}])
@pytest.mark.parametrize(
    "broker_settings", [{"consumer_timeout": 1500, "channel_tick_interval": 200}]
)
def test_a_worker_ends_when_a_task_is_not_acknowledged_in_time(
    app: Any, queue: Queue, start_worker: StartWorker, journal: Path, gate: Path
) -> None:
    """It takes the closed channel for a mistake of its own; the task is given to the next one."""
    worker = start_worker()
    result = app.tasks["hold"].delay(str(journal), str(gate))
    assert len(lines(journal, 1)) == 1
    queue.wait_until(messages=1, consumers=0)
    gate.touch()
    worker.process.wait(SECONDS)
    assert "PRECONDITION_FAILED" in worker.log.read_text()
    start_worker("second")
    assert len(lines(journal, 2)) == 2
    assert result.get(timeout=SECONDS) in (True, False)


@pytest.mark.parametrize("broker_settings", [{}])
def test_workers_come_back_after_the_broker(
    app: Any, target: Broker, start_worker: StartWorker
) -> None:
    start_worker()
    assert app.tasks["add"].delay(1, 2).get(timeout=SECONDS) == 3
    app.backend.result_consumer.stop()
    target.restart(kill=True)
    fresh = application(url(target), app.conf.task_default_queue)
    assert fresh.tasks["add"].delay(3, 4).get(timeout=SECONDS) == 7
    fresh.backend.result_consumer.stop()
    fresh.close()


def test_retries(app: Any, start_worker: StartWorker) -> None:
    start_worker()
    assert app.tasks["stumble"].delay(2).get(timeout=SECONDS) == 2
    with pytest.raises(ValueError, match="attempt 3"):
        app.tasks["stumble"].delay(9).get(timeout=SECONDS)


def test_chains_and_groups(app: Any, start_worker: StartWorker) -> None:
    """Intermediate results go by way of the workers, the last ones to who asked."""
    start_worker()
    add, total = app.tasks["add"], app.tasks["total"]
    assert chain(add.s(1, 2), add.s(3), add.s(4)).apply_async().get(timeout=SECONDS) == 10
    many = group(add.s(number, number) for number in range(20)).apply_async()
    assert many.get(timeout=SECONDS) == [2 * number for number in range(20)]
    assert total.delay(many.get(timeout=SECONDS)).get(timeout=SECONDS) == 380


@pytest.fixture
def backend_of_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result backend that the guide shows, as a module of the application."""
    [code] = [
        block.text for block in document(GUIDE).blocks("python") if "ChordBackend" in block.text
    ]
    (tmp_path / "chords.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)


WITH_CHORDS = {"result_backend": "chords:ChordBackend", "task_acks_late": True}


@pytest.mark.usefixtures("backend_of_the_guide")
@pytest.mark.parametrize("settings", [WITH_CHORDS])
def test_chords(app: Any, start_worker: StartWorker, journal: Path, gate: Path) -> None:
    """Their parts come from several workers, one of which is lost."""
    add, total, hold = app.tasks["add"], app.tasks["total"], app.tasks["hold"]
    first = start_worker()
    parts = group([hold.s(str(journal), str(gate)), *(add.s(each, 1) for each in range(10))])
    lost = chord(parts)(total.s())
    assert len(lines(journal, 1)) == 1
    second = start_worker("second")
    many = [chord(add.s(each, 1) for each in range(size))(total.s()) for size in (1, 5, 20)]
    assert [each.get(timeout=SECONDS) for each in many] == [1, 15, 210]
    assert chain(parts.tasks[1] | group(add.s(1), add.s(2)) | total.s())().get(timeout=SECONDS) == 5
    wrong = chord([add.s(1, 1), add.s(1, "one")])(total.s())
    assert isinstance(wrong.get(timeout=SECONDS, propagate=False), ChordError)
    first.kill()
    gate.touch()
    assert lost.get(timeout=SECONDS) == 56
    assert second.process.poll() is None


def test_celery_itself_has_no_chords_here(app: Any) -> None:
    with pytest.raises(NotImplementedError, match="does not support chords"):
        chord([app.tasks["add"].s(1, 2)])(app.tasks["total"].s())


@pytest.mark.parametrize("settings", [{"task_acks_late": True}])
def test_a_task_of_a_killed_worker_runs_again(
    app: Any, queue: Queue, start_worker: StartWorker, journal: Path, gate: Path
) -> None:
    worker = start_worker()
    result = app.tasks["hold"].delay(str(journal), str(gate))
    assert len(lines(journal, 1)) == 1
    worker.kill()
    queue.wait_until(messages=1, consumers=0)
    gate.touch()
    start_worker("second")
    assert result.get(timeout=SECONDS) is True
    assert lines(journal, 2) == [f"hold {result.id}"] * 2
    queue.wait_until(messages=0, consumers=1)


def test_a_task_acknowledged_early_is_gone_with_its_worker(
    app: Any, queue: Queue, start_worker: StartWorker, journal: Path, gate: Path
) -> None:
    worker = start_worker()
    app.tasks["hold"].delay(str(journal), str(gate))
    assert len(lines(journal, 1)) == 1
    worker.kill()
    queue.wait_until(messages=0, consumers=0)


@pytest.mark.parametrize("settings", [{"task_reject_on_worker_lost": True}])
def test_a_task_that_took_its_process_along_runs_again(app: Any, start_worker: StartWorker) -> None:
    start_worker()
    assert app.tasks["die"].delay().get(timeout=SECONDS) == "alive"


@pytest.mark.rule("QO-2")
@pytest.mark.parametrize("settings", [{"task_acks_late": True}])
def test_a_long_task_does_not_keep_others(
    app: Any, start_worker: StartWorker, journal: Path, gate: Path
) -> None:
    """With a prefetch of one nothing waits behind it: the other worker takes everything."""
    start_worker()
    start_worker("second")
    long = app.tasks["hold"].delay(str(journal), str(gate))
    assert len(lines(journal, 1)) == 1
    short = [app.tasks["add"].delay(number, 1) for number in range(10)]
    assert [each.get(timeout=SECONDS) for each in short] == list(range(1, 11))
    assert not long.ready()
    gate.touch()
    assert long.get(timeout=SECONDS) is False


@pytest.mark.rule("PR-1")
@pytest.mark.parametrize("settings", [{"task_queue_max_priority": 9, "task_acks_late": True}])
def test_tasks_are_taken_by_priority(
    app: Any, queue: Queue, start_worker: StartWorker, journal: Path
) -> None:
    write = app.tasks["note"]
    for priority in (1, 5, 9, 0, 5):
        write.apply_async((str(journal), str(priority)), priority=priority)
    queue.wait_until(messages=5, consumers=0)
    start_worker()
    assert lines(journal, 5) == ["9", "5", "5", "1", "0"]


def test_revoked_tasks(app: Any, start_worker: StartWorker, journal: Path, gate: Path) -> None:
    """One that waits is passed over; one that runs is ended."""
    worker = start_worker()
    running = app.tasks["hold"].delay(str(journal), str(gate))
    waiting = app.tasks["note"].delay(str(journal), "never")
    assert len(lines(journal, 1)) == 1
    app.control.revoke(waiting.id, reply=True, timeout=SECONDS, limit=1)
    app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    for result in (running, waiting):
        with pytest.raises(TaskRevokedError):
            result.get(timeout=SECONDS)
    assert lines(journal, 1) == [f"hold {running.id}"]
    assert app.control.inspect([worker.name], timeout=SECONDS, limit=1).revoked() == {
        worker.name: [waiting.id, running.id]
    }
