"""The registry of commands: typed arguments and replies, refusals, hostile requests."""

import asyncio
import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.server.fake_node import CHANNEL, NAME, QUEUE, Events, FakeNode
from warren.flow.wait import Kind, Reason, Subject, Wait
from warren.server.command_node import COMMANDS, subjects
from warren.server.control import Code, Control, ControlError, NoArgs, Slices, command, listing
from warren.server.diagnosis import check_descriptors, why_reply
from warren.server.view import HealthReason, Status


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def control(node: FakeNode, events: Events) -> Control:
    return Control(node, events, COMMANDS)


def ask(control: Control, name: str, /, **args: object) -> Any:
    request = {"v": 1, "id": 7, "command": name, "args": args}
    reply = json.loads(asyncio.run(control.answer(json.dumps(request).encode())))
    assert reply["v"] == 1
    assert reply["id"] == 7
    return reply


def raw(control: Control, request: bytes) -> Any:
    return json.loads(asyncio.run(control.answer(request)))


def test_every_command_answers_and_says_what_it_does(control: Control) -> None:
    listed = ask(control, "commands")["ok"]["commands"]
    assert set(listed) == {one.name for one in COMMANDS} | {"commands"}
    assert all(doc.endswith(".") for doc in listed.values())
    for name in listed:
        assert "ok" in ask(control, name), name


def test_a_command_exists_once(control: Control) -> None:
    with pytest.raises(ValueError, match="status exists"):
        control.add(COMMANDS[0])


def test_a_part_can_add_a_command_that_takes_its_time(control: Control, node: FakeNode) -> None:
    async def later(view: object, args: NoArgs) -> Status:
        await asyncio.sleep(0)
        return node.status()

    control.add(command("later", "Status, later.", NoArgs, Status, later))
    assert ask(control, "later")["ok"]["pid"] == 4711


def numbers(view: object, args: NoArgs) -> Slices:
    yield [1, 2]
    yield []
    yield [3]


def test_a_list_comes_in_parts_and_ends_with_its_count(control: Control) -> None:
    control.add(listing("numbers", "Some numbers.", NoArgs, numbers))
    request = b'{"v":1,"id":7,"command":"numbers"}'
    lines = [json.loads(one) for one in asyncio.run(control.answer(request)).splitlines()]
    assert [one.get("rows") for one in lines] == [[1, 2], [3], None]
    assert lines[-1] == {"v": 1, "id": 7, "ok": {"count": 3}}


def test_a_list_that_fails_on_its_way_ends_with_the_refusal(control: Control) -> None:
    def broken(view: object, args: NoArgs) -> Slices:
        yield [1]
        raise ControlError(Code.NOT_FOUND, "gone")

    control.add(listing("broken", "Fails.", NoArgs, broken))
    answer = asyncio.run(control.answer(b'{"v":1,"id":7,"command":"broken"}'))
    assert json.loads(answer.splitlines()[-1])["error"]["code"] == "not_found"


@pytest.mark.rule("O-1.10")
def test_status_has_the_numbers_of_the_node(control: Control) -> None:
    status = ask(control, "status")["ok"]
    assert status["messages_ready"] == 1234567
    assert status["listeners"] == [{"protocol": "amqp", "address": "::1", "port": 5672}]
    assert status["alarms"][0]["source"] == "disk"


def test_why_follows_the_chain_from_any_name(control: Control) -> None:
    for subject in (str(CHANNEL.name), f"channel:{CHANNEL.name}"):
        steps = ask(control, "why", subject=subject)["ok"]["steps"]
        assert [(one["reason"], one["state"]) for one in steps] == [
            ("credit", "flow"),
            ("credit", "flow"),
            ("journal_full", "flow"),
        ]
        assert steps[0]["cause"] == steps[1]["subject"] == "queue 'orders' in vhost '/'"
        assert [one["since_ms"] for one in steps] == [2000, 5000, 6000]
        assert steps[2]["cause"] == ""
        assert steps[2]["setting"] == "journal_bytes_max"
        assert all(one["advice"] and one["fact"] for one in steps)


def test_why_knows_what_does_not_wait_and_what_does_not_exist(control: Control) -> None:
    idle = ask(control, "why", subject=NAME)["ok"]
    assert idle == {
        "subject": f"connection '{NAME}'",
        "steps": [],
        "unlisted": 0,
        "bottlenecks": [],
    }
    refusal = ask(control, "why", subject="gone")["error"]
    assert refusal["code"] == "not_found"
    assert "KIND:NAME" in refusal["fix"]
    assert ask(control, "why", subject="orders", vhost="/other")["error"]["code"] == "not_found"
    assert len(ask(control, "why")["ok"]["steps"]) == 3


def test_subjects_are_written_with_or_without_their_kind() -> None:
    assert subjects("queue:a:b", vhost="/") == [Subject(Kind.QUEUE, "a:b", "/")]
    assert subjects("connection:x", vhost="/") == [Subject(Kind.CONNECTION, "x")]
    assert QUEUE in subjects("orders", vhost="/")
    assert Subject(Kind.CONNECTION, "1.2.3.4:5") in subjects("1.2.3.4:5", vhost="/")


def test_every_reason_can_be_put_into_words() -> None:
    waits = [Wait(reason, QUEUE, None, 0) for reason in Reason]
    reply = why_reply(None, waits, now_ns=1_500_000)
    assert {one.reason for one in reply.steps} == {reason.value for reason in Reason}
    assert all("{" not in one.fact + one.advice for one in reply.steps)
    assert {one.since_ms for one in reply.steps} == {1}


def test_stop_is_told_to_the_node_with_its_reason(control: Control, node: FakeNode) -> None:
    assert ask(control, "stop", reason="new kernel")["ok"] == {"pid": os.getpid()}
    assert node.stopped == ["new kernel"]


def test_lists_come_in_pages(control: Control) -> None:
    page = ask(control, "queue_page", offset=2, limit=3)["ok"]
    assert page["total"] == 2500
    assert [row["name"] for row in page["rows"]] == ["q2", "q3", "q4"]
    assert len(ask(control, "queue_page", limit=1000)["ok"]["rows"]) == 1000
    assert ask(control, "queue_page", vhost="x")["ok"] == {"total": 0, "rows": []}
    assert ask(control, "connection_page")["ok"]["rows"][0]["name"] == NAME


def test_diag_shows_settings_with_origins_and_no_secrets(control: Control) -> None:
    diag = ask(control, "diag")["ok"]
    settings = {row["name"]: row for row in diag["settings"]}
    assert settings["port"] == {"name": "port", "value": "5672", "origin": "default"}
    assert settings["default_pass"]["value"] == "***"
    assert diag["paths"]["control_socket"].endswith("control.sock")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("status", {"x": 1}),
        ("why", {"subject": 1}),
        ("why", {"subject": "x" * 1025}),
        ("queue_page", {"offset": -1}),
        ("queue_page", {"limit": 1001}),
        ("queue_page", {"limit": 0}),
        ("stop", {"reason": "x" * 256}),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    control: Control, node: FakeNode, name: str, args: dict[str, object]
) -> None:
    refusal = ask(control, name, **args)["error"]
    assert refusal["code"] == "bad_arguments"
    assert refusal["message"].startswith(f"{name}: ")
    assert node.stopped == []


def test_unknown_commands_and_versions_are_refused_with_a_fix(control: Control) -> None:
    refusal = ask(control, "statos")["error"]
    assert refusal["code"] == "unknown_command"
    assert "status" in refusal["fix"]
    refusal = raw(control, b'{"v":2,"command":"status"}')["error"]
    assert refusal["code"] == "bad_version"


def test_a_bug_in_a_command_is_logged_and_told_and_ends_there(
    control: Control, node: FakeNode, events: Events
) -> None:
    node.broken = RuntimeError("hunter2 is not for the client")
    refusal = ask(control, "status")["error"]
    assert refusal["code"] == "internal"
    assert "hunter2" not in str(refusal)
    assert events.seen[0][:2] == ("error", "control.failed")
    node.broken = None
    assert "ok" in ask(control, "status")


def test_a_reply_of_another_type_is_a_bug(control: Control) -> None:
    control.add(command("odd", "Odd.", NoArgs, Status, lambda view, args: view.health()))  # type: ignore[arg-type, return-value]
    assert ask(control, "odd")["error"]["code"] == "internal"


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\xff\xfe\n",
        b"null",
        b"[]",
        b"{}",
        b'{"v":"1","command":"status"}',
        b'{"v":1,"command":7}',
        b'{"v":1,"command":"status","id":{}}',
        b'{"v":1e400,"command":"status"}',
        b"[" * 60_000,
        b'{"v":1,"command":"status","args":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"v":1,"command":"status","args":"\xff"}',
        b'{"v":1,"command":"status","args":null}',
        b'{"v":1,"command":"status"} trailing',
    ],
)
def test_hostile_requests_are_refused(control: Control, events: Events, request_: bytes) -> None:
    refusal = raw(control, request_)["error"]
    assert refusal["code"] in {"bad_request", "bad_arguments"}
    assert events.seen == []


@given(st.binary(max_size=200))
def test_any_octets_are_answered(request_: bytes) -> None:
    events = Events()
    assert "error" in raw(Control(FakeNode(), events), request_)
    assert events.seen == []


def test_descriptors_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_descriptors().ok
    monkeypatch.setattr("warren.server.diagnosis.descriptor_count_max", lambda: 70)
    monkeypatch.setattr("warren.server.diagnosis.descriptor_count", lambda: 10)
    check = check_descriptors()
    assert (check.ok, check.reason) == (False, HealthReason.DESCRIPTORS_LOW)
