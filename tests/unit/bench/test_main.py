"""Exit codes and what `--help` promises."""

import socket

import pytest

from warren.bench.main import main


def test_help_has_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert "--confirm" in text
    assert "examples:" in text
    assert "exit status:" in text


def test_wrong_usage_could_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--size", "1"]) == 2
    assert "12 octets" in capsys.readouterr().err


def test_no_broker_could_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert main(["--uri", f"amqp://127.0.0.1:{port}"]) == 2
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
