"""Who may ask: Basic authentication, tags, virtual hosts, and how long an answer is remembered."""

import pytest

from tests.support.fixtures import StartBroker
from tests.support.http import SETTINGS, Managed, basic, managed

REALM = 'Basic realm="RabbitMQ Management"'


def test_nobody_is_told_to_log_in(managed_broker: Managed) -> None:
    answer = managed_broker.ask("GET", "/api/whoami", login=None)
    assert (answer.status, answer.body) == (401, b"")
    assert answer.headers["www-authenticate"] == REALM


@pytest.mark.parametrize(
    "header",
    [
        basic("guest", "wrong"),
        basic("nobody", "guest"),
        basic("guest", ""),
        basic("", "guest"),
        basic("x" * 300, "guest"),
        "Basic %%%",
        "Basic Z3Vlc3Q=",
        "Basic /////w==",
    ],
)
def test_who_is_not_who_it_says_is_refused(managed_broker: Managed, header: str) -> None:
    answer = managed_broker.ask("GET", "/api/whoami", login=None, headers={"authorization": header})
    assert answer.status == 401
    assert answer.json() == {"error": "not_authorized", "reason": "Login failed"}
    assert answer.headers["www-authenticate"] == REALM


def test_another_scheme_is_no_login(managed_broker: Managed) -> None:
    answer = managed_broker.ask(
        "GET", "/api/whoami", login=None, headers={"authorization": "Bearer x"}
    )
    assert (answer.status, answer.body) == (401, b"")


def test_a_user_without_tags_is_no_management_user(managed_broker: Managed) -> None:
    managed_broker.broker.control("add_user", user="plain", password="p")
    answer = managed_broker.ask("GET", "/api/whoami", login=("plain", "p"))
    assert answer.status == 401
    assert answer.json() == {"error": "not_authorised", "reason": "Not management user"}
    assert "www-authenticate" not in answer.headers


def test_a_change_of_a_user_is_seen_at_once(managed_broker: Managed) -> None:
    control = managed_broker.broker.control
    control("add_user", user="changing", password="one", tags=["management"])
    who = ("changing", "one")
    assert managed_broker.get("/api/whoami", login=who)["tags"] == ["management"]
    control("set_user_tags", user="changing", tags=["monitoring", "management"])
    site = managed_broker
    site.until("/api/whoami", lambda found: found["name"] == "guest")
    assert site.get("/api/whoami", login=who)["tags"] == ["monitoring", "management"]
    control("change_password", user="changing", password="two")
    assert site.ask("GET", "/api/whoami", login=who).status == 401
    assert site.get("/api/whoami", login=("changing", "two"))["name"] == "changing"
    control("delete_user", user="changing")
    assert site.ask("GET", "/api/whoami", login=("changing", "two")).status == 401


def test_refused_logins_are_logged_without_the_password(managed_broker: Managed) -> None:
    managed_broker.ask("GET", "/api/whoami", login=("guest", "hunter2"))
    text = managed_broker.broker.log_text()
    assert 'connection="http 127.0.0.1" user=guest' in text
    assert "wrong_password" in text
    assert "hunter2" not in text


@pytest.mark.slow
def test_an_address_that_guesses_is_not_answered_any_more(start_broker: StartBroker) -> None:
    pytest.importorskip("uvicorn")
    site = managed(start_broker({**SETTINGS, "login_failures_per_s": 1}))
    for _ in range(3):
        assert site.ask("GET", "/api/whoami", login=("guest", "wrong")).status == 401
    # The right password is not even looked at.
    assert site.ask("GET", "/api/whoami").status == 401
    assert "login.brake_on" in site.broker.log_text()


def test_paths_and_methods_come_before_the_login(managed_broker: Managed) -> None:
    answer = managed_broker.ask("GET", "/api/nowhere", login=None)
    assert answer.status == 404
    assert answer.json() == {"error": "Object Not Found", "reason": "Not Found"}
    answer = managed_broker.ask("DELETE", "/api/whoami", login=None)
    assert (answer.status, answer.body) == (405, b"")
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    answer = managed_broker.ask("OPTIONS", "/api/whoami", login=None)
    assert (answer.status, answer.headers["allow"]) == (200, "GET, HEAD, OPTIONS")
    answer = managed_broker.ask("HEAD", "/api/whoami")
    assert (answer.status, answer.body) == (200, b"")


def test_auth_is_everybodys(managed_broker: Managed) -> None:
    assert managed_broker.get("/api/auth", login=None)["enable_uaa"] is False
