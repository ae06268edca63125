"""Verbs about the life of a node, and how a node is named."""

import os
import subprocess
import sys
from pathlib import Path

from tests.ctl.conftest import Ctl
from tests.support.broker import Broker, accepts

PROGRAM = (sys.executable, "-m", "warren.cli.ctl.main")


def environment(broker: Broker) -> dict[str, str]:
    assert broker.log is not None
    return os.environ | {"WARREN_DATA_DIR": str(broker.log.parent / "data")}


def process(broker: Broker, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as a program."""
    return subprocess.run(
        [*PROGRAM, *words],
        env=environment(broker),
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_prints_to_both_streams(node: Broker) -> None:
    done = process(node, "list_users")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Listing users ...\nuser\ttags\nguest\t[administrator]\n"
    refused = process(node, "delete_user", "nobody")
    assert refused.returncode == 67
    assert refused.stdout == 'Deleting user "nobody" ...\n'
    assert refused.stderr == 'Error:\nUser "nobody" does not exist\n'


def test_words_that_are_no_text_are_refused(node: Broker) -> None:
    done = subprocess.run(
        [*PROGRAM, "add_vhost", b"\xff"],
        env=environment(node),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 69
    assert done.stdout == b'Adding vhost "\\udcff" ...\n'
    assert b"Traceback" not in done.stderr


def test_a_pipe_that_is_closed_early_is_no_error(node: Broker) -> None:
    done = subprocess.run(
        f"{' '.join(PROGRAM)} list_exchanges | head -1",
        shell=True,
        env=environment(node),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "Listing exchanges for vhost / ...\n"
    assert done.stderr == ""


def test_a_password_may_come_from_a_pipe(ctl: Ctl, node: Broker) -> None:
    assert process(node, "add_user", "piped", typed="secret\n").returncode == 0
    assert ctl("authenticate_user", "piped", "secret").code == 0
    assert ctl("authenticate_user", "piped", "wrong").code == 65
    assert ctl("delete_user", "piped").code == 0


def test_what_is_durable_is_there_after_start_app(ctl_fresh: Ctl) -> None:
    with ctl_fresh.broker.connect() as client:
        channel = client.channel()
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("gone")
        with subprocess.Popen(
            [*PROGRAM, "stop_app"], env=environment(ctl_fresh.broker)
        ) as stopping:
            client.expect_close(
                320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
            )
        assert stopping.returncode == 0
    assert not accepts(ctl_fresh.broker.host, ctl_fresh.broker.port)
    stopped = ctl_fresh("list_queues")
    assert stopped.code == 64
    assert "requires the 'rabbit' app to be running" in stopped.err
    assert ctl_fresh("ping").code == 0
    assert ctl_fresh("check_running").code == 69
    assert ctl_fresh("start_app").code == 0
    assert ctl_fresh("await_startup").code == 0
    assert ctl_fresh.rows("list_queues", "name") == [["kept"]]
    ctl_fresh.broker.connect().close()


def test_a_process_without_its_application_can_be_stopped(ctl_fresh: Ctl) -> None:
    process = ctl_fresh.broker.process
    assert process is not None
    assert ctl_fresh("stop_app").code == 0
    # The fixture waits for the process; here only its end is asked for.
    assert ctl_fresh("shutdown", "--no-wait").code == 0
    assert process.wait(10) == 0
    ctl_fresh.broker.process = None
    assert ctl_fresh("ping").code == 69
    assert ctl_fresh("stop", "--idempotent").code == 0
    assert ctl_fresh("stop").code == 69


def test_start_app_that_cannot_listen_says_so_and_may_be_tried_again(ctl_fresh: Ctl) -> None:
    import socket

    assert ctl_fresh("stop_app").code == 0
    with socket.create_server((ctl_fresh.broker.host, ctl_fresh.broker.port)):
        refused = ctl_fresh("start_app")
    assert refused.code == 69
    assert "not started" in refused.err
    assert ctl_fresh("ping").code == 0
    assert ctl_fresh("start_app").code == 0
    ctl_fresh.broker.connect().close()


def test_a_node_is_named_by_its_name_or_its_files(ctl: Ctl, node: Broker) -> None:
    assert node.log is not None
    data = str(node.log.parent / "data")
    for name in ("rabbit@test", data, f"{data}/control.sock"):
        assert ctl("-n", name, "list_users", "-q").code == 0
    other = ctl("--node", "other@test", "list_users")
    assert other.code == 69
    assert "unable to perform an operation on node 'other@test'" in other.err


def test_nobody_answers(ctl: Ctl, tmp_path: Path) -> None:
    refused = ctl("list_users", "--data-dir", str(tmp_path))
    assert refused.code == 69
    assert refused.err.startswith("Error: unable to perform an operation on the node")
    assert str(tmp_path / "control.sock") in refused.err


def test_time_runs_out(ctl: Ctl) -> None:
    refused = ctl("list_queues", "-t", "0")
    assert refused.code == 75
    assert "timed out. Timeout value used: 0" in refused.err


def test_a_list_is_taken_off_the_node_before_it_is_printed(ctl_fresh: Ctl) -> None:
    """A pager may stand still as long as it likes."""
    with ctl_fresh.broker.connect() as client:
        channel = client.channel()
        for number in range(3000):
            channel.send("queue.declare", queue=f"{number:04}{'x' * 200}", nowait=True)
        channel.queue_declare("last")
        # Far more than a pipe holds.
        with subprocess.Popen(
            [*PROGRAM, "list_queues", "name", "-q"],
            env=environment(ctl_fresh.broker),
            stdout=subprocess.PIPE,
        ) as listing:
            assert listing.stdout is not None
            first = listing.stdout.readline()
            ctl_fresh.broker.kill()
            assert first == b"name\n"
            assert len(listing.stdout.readlines()) == 3001
    assert listing.returncode == 0
