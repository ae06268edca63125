"""Verbs of RabbitMQ's that mean nothing here, or cannot be had yet: each says so."""

from warren.cli.ctl.call import Call
from warren.cli.ctl.failure import OK, USAGE, CtlError


def _refuse(why: str, code: int = USAGE) -> CtlError:
    return CtlError(f"Error: {why}", code)


def reset(call: Call) -> int:
    raise _refuse("to start blank, stop the node and move its data folder away")


def cluster(call: Call) -> int:
    raise _refuse("this node is not in a cluster, and cannot join one yet")


def forget(call: Call) -> int:
    raise _refuse("the node selected is not in the cluster: there is only one node", 69)


def rotate_logs(call: Call) -> int:
    raise _refuse("log files are not rotated by the node: send SIGHUP after moving them", 69)


def encoding(call: Call) -> int:
    raise _refuse("values of the configuration cannot be encrypted here")


def attempts(call: Call) -> int:
    raise _refuse("logins are not counted by source")


def schema(call: Call) -> int:
    raise _refuse("there is no Mnesia database here; `warren doctor` checks the metadata")


def expressions(call: Call) -> int:
    raise _refuse("this node evaluates no expressions")


def nothing(call: Call) -> int:
    return OK


def enable_feature_flag(call: Call) -> int:
    """Whatever there is is enabled."""
    call.banner(f'Enabling feature flag "{call.arguments[0]}" ...')
    return OK


FEATURE_FLAGS = (
    "classic_mirrored_queue_version",
    "implicit_default_bindings",
    "user_limits",
    "virtual_host_metadata",
)


def list_feature_flags(call: Call) -> int:
    """Features of RabbitMQ 3.10 that clients of a node may count on."""
    from warren.cli.ctl.failure import Misuse
    from warren.cli.ctl.lists import chosen

    columns = chosen(call, ("name", "state"))
    known = {"name": "", "state": "enabled", "stability": "stable", "provided_by": "warren"}
    known |= {"desc": "", "doc_url": ""}
    unknown = ",".join(sorted(name for name in columns if name not in known))
    if unknown:
        raise Misuse(f"Info key(s) {unknown} are not supported")
    call.banner("Listing feature flags ...")
    rows = [[name if one == "name" else known[one] for one in columns] for name in FEATURE_FLAGS]
    call.table(columns, rows)
    return OK
