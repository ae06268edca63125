"""Every verb of `warrenctl`, in a table.

A verb has two lines: its usage, and the function that does it (`module:function`, the function
having the verb's name if none is given) with what it does. `!` marks verbs that do not need the
node's application to run, `-` those of `helping`; the module `missing` has what cannot be had here.
In usage lines `-p`, `-t`, `-H` and `-P` stand for `SHORT`. They are also what is checked
(`words.takes`).
"""

from typing import Final, NamedTuple

SHORT: Final = {
    "-p": "[--vhost <vhost>]",
    "-t": "[--timeout <timeout>]",
    "-H": "[--no-table-headers]",
    "-P": "[--priority <priority>] [--apply-to <apply-to>]",
}
TABLE: Final = """\
Help:
  help [<command>] [--list-commands]
    -! Show help of a command
  version
    -! Print the version
  autocomplete [<prefix>] -t
    -! List commands by prefix
Nodes:
  await_startup
    nodes! Wait until the node serves clients
  start_app
    nodes! Bring the broker back in its process
  stop_app
    nodes! Stop the broker, but not its process
  stop [--idempotent] [<pidfile>]
    nodes! Stop the node
  shutdown [--wait] [--no-wait] -t
    nodes! Stop the node and wait for its end
  wait [<pidfile>] [--pid|-P <pid>] -t
    nodes! Wait until a node has started
  reset
    missing! Forget all data of a stopped node
  rotate_logs
    missing! Do nothing: logs rotate themselves
Cluster:
  cluster_status -t
    status Show the cluster
  await_online_nodes <count> -t
    nodes Wait for nodes of the cluster
  change_cluster_node_type <disc | ram>
    missing:cluster! Change the type of a node
  force_boot
    missing:cluster! Start without the others
  force_reset
    missing:reset! Forget all data of a node
  forget_cluster_node [--offline] <existing_cluster_member_node>
    missing:forget! Remove a node
  join_cluster [--disc] [--ram] <existing_cluster_member>
    missing:cluster! Join a cluster
  rename_cluster_node <oldnode1> <newnode1> [<name> ...]
    missing:cluster! Rename nodes
  update_cluster_nodes <seed_node>
    missing:cluster! Learn the members
Replication:
  sync_queue -p <queue>
    queues Synchronise mirrors
  cancel_sync_queue -p <queue>
    queues Stop synchronising
Users:
  add_user <username> [<password>]
    users Add a user without permissions
  authenticate_user <username> [<password>]
    users Check a password
  change_password <username> [<password>]
    users Change a password
  clear_password <username>
    users Allow no login by password
  clear_user_limits <username> <limit_type>
    users Clear limits: one, or all
  delete_user <username>
    users Delete a user
  list_user_limits [--user <username>] [--global]
    users List limits of users
  list_users -H -t
    users List users and their tags
  set_user_limits <username> <definition>
    users Set limits of a user
  set_user_tags <username> [<tag> ...]
    users Set the tags of a user
Access control:
  clear_permissions -p <username>
    access Take permissions away
  clear_topic_permissions -p <username> [<exchange>]
    access Take topic permissions away
  list_permissions -p -H -t
    access List permissions in a virtual host
  list_topic_permissions -p -H -t
    access List topic permissions in a virtual host
  list_user_permissions -H <username> -t
    access List permissions of a user
  list_user_topic_permissions -H <username> -t
    access List topic permissions of a user
  list_vhosts -H [<column> ...] -t
    vhosts List virtual hosts
  set_permissions -p <username> <conf> <write> <read>
    access Set permissions
  set_topic_permissions -p <username> <exchange> <write> <read>
    access Set topic permissions
Monitoring and health checks:
  list_bindings -p -H [<column> ...] -t
    lists List bindings
  list_channels -H [<column> ...]
    lists List channels
  list_ciphers
    missing:encoding! List ciphers for encoding
  list_connections -H [<column> ...] -t
    lists List connections
  list_consumers -p -H [<column> ...] -t
    lists List consumers
  list_exchanges -p -H [<column> ...] -t
    lists List exchanges
  list_hashes
    missing:encoding! List hashes for encoding
  list_node_auth_attempt_stats [--by-source]
    missing:attempts Count logins
  list_queues -p [--online] [--offline] [--local] -H [<column> ...] -t
    lists List queues
  list_unresponsive_queues [--local] [--queue-timeout <milliseconds>] -H [<column> ...] -t
    lists List queues that do not answer
  ping -t
    nodes! Check that the process answers
  report
    status Everything about the node, for a bug report
  schema_info -H [<column> ...] -t
    missing:schema Show tables of the database
  status [--unit <unit>] -t
    status Show the node
  check_running -t
    checks! Fail unless the node serves clients
  check_alarms -t
    checks Fail if there is an alarm in the cluster
  check_local_alarms -t
    checks Fail if there is an alarm on the node
  check_port_connectivity -t
    checks Fail unless every listener answers
  check_port_listener <port> -t
    checks Fail unless the node listens on a port
  check_virtual_hosts -t
    checks Fail unless every virtual host runs
  alarms -t
    checks List alarms
  listeners -t
    checks List listeners
  is_running -t
    checks! Tell whether the node serves clients
  server_version -t
    checks! Print the version of the node
  node_health_check -t
    checks Check the node
Parameters:
  clear_global_parameter <name>
    parameters Clear a global parameter
  clear_parameter -p <component_name> <name>
    parameters Clear a parameter
  list_global_parameters -H -t
    parameters List global parameters
  list_parameters -p -H -t
    parameters List parameters
  set_global_parameter <name> <value>
    parameters Set a global parameter
  set_parameter -p <component_name> <name> <value>
    parameters Set a parameter
Policies:
  clear_operator_policy -p <name>
    policies Clear an operator policy
  clear_policy -p <name>
    policies Clear a policy
  list_operator_policies -p -H -t
    policies List operator policies
  list_policies -p -H -t
    policies List policies
  set_operator_policy -p -P <name> <pattern> <definition>
    policies Set an operator policy
  set_policy -p -P <name> <pattern> <definition>
    policies Set a policy
Virtual hosts:
  add_vhost <vhost> [--description <text>] [--tags <tags>] [--default-queue-type <type>]
    vhosts Add a virtual host
  clear_vhost_limits -p
    vhosts Clear limits of a virtual host
  delete_vhost <vhost>
    vhosts Delete a virtual host with all in it
  list_vhost_limits -p [--global] -H
    vhosts List limits of virtual hosts
  restart_vhost -p -t
    vhosts Restart a virtual host that failed
  set_vhost_limits -p <definition>
    vhosts Set limits of a virtual host
  set_vhost_tags <vhost> [<tag> ...]
    vhosts Set the tags of a virtual host
  trace_off -p
    vhosts Stop tracing
  trace_on -p
    vhosts Trace messages of a virtual host
Configuration:
  decode [<value> ...]
    missing:encoding! Decrypt a value
  encode [<value> ...]
    missing:encoding! Encrypt a value
  environment
    status Show every setting
  set_cluster_name <name>
    parameters Name the cluster
  set_disk_free_limit <disk_limit> | mem_relative <fraction>
    runtime Set the limit of free disk space
  set_log_level <log_level>
    runtime Set the level of the log
  set_vm_memory_high_watermark <fraction> | absolute <value>
    runtime Set the limit of memory
Definitions:
  export_definitions <file_path> [--format <format>] -t
    definitions Export definitions
  import_definitions [<file_path>] [--format <format>] [--skip-if-unchanged] -t
    definitions Import definitions
Feature flags:
  enable_feature_flag <feature_flag>
    missing Enable a feature flag
  list_feature_flags [<column> ...] -t
    missing List feature flags
Operations:
  close_all_connections -p [--limit <limit>] [--global] [--per-connection-delay <ms>] <explanation>
    queues Close connections
  close_all_user_connections <username> <explanation>
    queues Close connections of a user
  close_connection <connectionpid> <explanation>
    queues Close a connection
  eval <expression>
    evals:evaluate Run one of three known expressions
  eval_file <file_path>
    missing:expressions Run expressions of a file
  exec <expression> [--offline]
    missing:expressions Run an Elixir expression
  force_gc -t
    runtime Run the cycle collector
  resume_listeners
    runtime Accept connections again
  suspend_listeners
    runtime Accept no new connections
  hipe_compile <directory>
    missing:nothing! Do nothing
Queues:
  delete_queue -p <queue_name> [--if-empty|-e] [--if-unused|-u] -t
    queues Delete a queue
  purge_queue -p <queue> -t
    queues Remove the ready messages of a queue
"""


class Verb(NamedTuple):
    group: str
    usage: str
    doc: str
    # module:function; empty for what is part of the help.
    run: str
    app: bool


def _read(table: str) -> dict[str, Verb]:
    verbs: dict[str, Verb] = {}
    group = ""
    lines = iter(table.splitlines())
    for line in lines:
        if not line.startswith(" "):
            group = line.removesuffix(":")
            continue
        name, *usage = line.split()
        place, _, doc = next(lines).strip().partition(" ")
        app = not place.endswith("!")
        place = place.removesuffix("!")
        run = "" if place == "-" else place if ":" in place else f"{place}:{name}"
        verbs[name] = Verb(group, " ".join(SHORT.get(word, word) for word in usage), doc, run, app)
    return verbs


VERBS: Final = _read(TABLE)
