"""What cannot be had says so; nothing that RabbitMQ's tool knows is an unknown command here."""

import pytest

from tests.ctl.conftest import Ctl
from tests.support.document import document
from warren.cli.ctl.verbs import VERBS

# Every command of RabbitMQ 3.10.8's rabbitmqctl.
RABBITMQCTL = """
add_user add_vhost authenticate_user autocomplete await_online_nodes await_startup
cancel_sync_queue change_cluster_node_type change_password clear_global_parameter
clear_operator_policy clear_parameter clear_password clear_permissions clear_policy
clear_topic_permissions clear_user_limits clear_vhost_limits close_all_connections
close_all_user_connections close_connection cluster_status decode delete_queue delete_user
delete_vhost enable_feature_flag encode environment eval eval_file exec export_definitions
force_boot force_gc force_reset forget_cluster_node help hipe_compile import_definitions
join_cluster list_bindings list_channels list_ciphers list_connections list_consumers
list_exchanges list_feature_flags list_global_parameters list_hashes
list_node_auth_attempt_stats list_operator_policies list_parameters list_permissions
list_policies list_queues list_topic_permissions list_unresponsive_queues list_user_limits
list_user_permissions list_user_topic_permissions list_users list_vhost_limits list_vhosts
node_health_check ping purge_queue rename_cluster_node report reset restart_vhost
resume_listeners rotate_logs schema_info set_cluster_name set_disk_free_limit
set_global_parameter set_log_level set_operator_policy set_parameter set_permissions set_policy
set_topic_permissions set_user_limits set_user_tags set_vhost_limits set_vhost_tags
set_vm_memory_high_watermark shutdown start_app status stop stop_app suspend_listeners
sync_queue trace_off trace_on update_cluster_nodes version wait
"""


def test_every_command_of_rabbitmqctl_is_known() -> None:
    assert set(RABBITMQCTL.split()) <= set(VERBS)


def test_the_page_has_every_command_and_what_it_is_worth() -> None:
    rows = document("docs/reference/warrenctl.md").rows("command")
    told = {row[0].strip("`"): row[1] for row in rows}
    assert list(told) == list(VERBS)
    for name, verb in VERBS.items():
        nothing = name in {"list_feature_flags", "enable_feature_flag", "hipe_compile"}
        missing = verb.run.startswith("missing:") and not nothing
        assert (told[name] == "refused, says why") is missing, name


@pytest.mark.rule("O-1.8")
@pytest.mark.parametrize(
    "expression",
    [
        "1 + 1.",
        "rabbit_amqqueue:list().",
        "application:set_env(rabbit, channel_max, 0), halt().",
        "application:set_env(rabbit, heartbeat, 5).",
        "application:set_env(rabbit, loopback_users, [os:cmd(x)]).",
        "rabbit_alarm:set_alarm({{resource_limit, file, node()}, []}).",
        "",
    ],
)
def test_nothing_is_evaluated(ctl: Ctl, expression: str) -> None:
    refused = ctl("eval", expression)
    assert refused.code == 64
    assert "evaluates no expressions" in refused.err


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("exec 1", 64),
        ("join_cluster rabbit@other", 64),
        ("forget_cluster_node rabbit@other", 69),
        ("reset", 64),
        ("rotate_logs", 69),
        ("decode a b", 64),
        ("schema_info", 64),
    ],
)
def test_what_cannot_be_had_says_why(ctl: Ctl, line: str, code: int) -> None:
    refused = ctl(*line.split())
    assert refused.code == code
    assert refused.err.startswith("Error: ")
    assert refused.out == ""


def test_an_unknown_command_is_told_with_the_nearest(ctl: Ctl) -> None:
    refused = ctl("list_quees")
    assert refused.code == 64
    assert "Command 'list_quees' not found" in refused.err
    assert "Did you mean 'list_queues'?" in refused.err


def test_help_has_every_command(ctl: Ctl) -> None:
    shown = ctl("help")
    assert shown.code == 0
    assert all(f"   {name} " in shown.out for name in VERBS)
    one = ctl("help", "set_policy")
    assert one.code == 0
    assert "[--apply-to <apply-to>] <name> <pattern> <definition>" in one.out
    assert ctl("set_policy", "--help").out == one.out
    assert ctl("help", "nothing").code == 64
    assert ctl().code == 64
