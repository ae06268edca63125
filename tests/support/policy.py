"""A broker with a client, and the policies that are set and cleared beside it by command."""

from typing import Any

from tests.support.timed import Timed
from warren.testing import CommandError


def one(key: str, value: object) -> dict[str, Any]:
    """Return a definition for `Desk.set`."""
    return {key: value}


class Desk:
    """Time stands still at the broker unless `timed.pass_time` is called."""

    def __init__(self, timed: Timed) -> None:
        self.timed = timed
        self.broker = timed.broker
        self.channel = timed.connect().channel()

    def set(
        self,
        name: str,
        pattern: str = "",
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
        **definition: Any,
    ) -> None:
        """Set a policy; underscores in keys stand for dashes. It is in force on return."""
        self.command(
            "set_operator_policy" if operator else "set_policy",
            name=name,
            pattern=pattern,
            priority=priority,
            apply_to=apply_to,
            definition={key.replace("_", "-"): value for key, value in definition.items()},
        )

    def clear(self, name: str, *, operator: bool = False) -> None:
        self.command("clear_operator_policy" if operator else "clear_policy", name=name)

    def command(self, command: str, /, **arguments: Any) -> dict[str, Any]:
        answer = self.broker.command(command, **arguments)
        self.broker.settle()
        return answer

    def refusal(self, command: str, /, **arguments: Any) -> str:
        """Return the text with which a command is refused."""
        try:
            self.broker.command(command, **arguments)
        except CommandError as refused:
            return refused.message
        raise AssertionError(f"{command} was not refused")

    def queue(self, name: str, **arguments: Any) -> str:
        """Declare a queue; underscores in arguments stand for dashes."""
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        self.channel.queue_declare(name, arguments=given)
        return name

    def applied(self, queue: str) -> tuple[str, str]:
        """Return the names of the policy and the operator policy in force for a queue."""
        found = self.explained(queue=queue)
        return found["policy"], found["operator_policy"]

    def effective(self, queue: str) -> Any:
        return self.explained(queue=queue)["effective_policy_definition"]

    def in_force(self, queue: str) -> dict[str, tuple[Any, str]]:
        """Return the value of each key in force for a queue, and who decided it."""
        rows = self.explained(queue=queue)["settings"]
        return {row["key"]: (row["value"], row["policy"] or row["origin"]) for row in rows}

    def explained(self, **named: str) -> dict[str, Any]:
        found = self.command("explain_policy", **named)
        assert not found["pending"]
        return found

    def listed(self) -> dict[str, tuple[str | None, str | None, Any]]:
        """Return what the list of queues says of policies, by name of the queue."""
        columns = ["name", "policy", "operator_policy", "effective_policy_definition"]
        rows = self.command("list_queues", columns=columns)["rows"]
        return {name: (policy, operator, effective) for name, policy, operator, effective in rows}

    def fill(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        for body in bodies:
            self.channel.publish(body, routing_key=queue, **properties)
        self.channel.sync()

    def bodies(self, queue: str) -> list[bytes]:
        """Take all that waits in a queue."""
        found = []
        while (message := self.channel.get(queue, no_ack=True)) is not None:
            found.append(message.body)
        return found

    def count(self, queue: str) -> int:
        answer = self.channel.queue_declare(queue, passive=True)
        return int(answer.message_count)
