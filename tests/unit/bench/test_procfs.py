"""CPU and memory are read from /proc, children included."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from warren.bench.procfs import ProcessTree, machine_busy_s


@pytest.fixture
def child() -> Iterator[int]:
    words = [
        sys.executable,
        "-c",
        "import sys; x = bytearray(30 << 20); print(1); sys.stdin.read()",
    ]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process.pid
        process.terminate()


def test_children_are_part_of_the_tree(child: int) -> None:
    tree = ProcessTree((os.getpid(),))
    assert child in tree.ticks
    alone = ProcessTree((child,))
    assert tree.memory().rss > alone.memory().rss >= 30
    assert alone.memory().anonymous >= 30


def test_cpu_time_never_falls_when_a_process_ends(child: int) -> None:
    tree = ProcessTree((os.getpid(), child))
    before = tree.cpu_s()
    os.kill(child, 15)
    assert tree.cpu_s() >= before


def test_no_processes_cost_nothing() -> None:
    tree = ProcessTree(())
    assert (tree.cpu_s(), tree.memory().rss, tree.written_octets()) == (0.0, 0.0, 0)


def test_the_machine_was_busy() -> None:
    assert machine_busy_s() > 0
