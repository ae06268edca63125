"""Replies of a node as objects whose fields are read like those of the types in `server.view`.

Decoding into those types would import more than a question is worth.
"""

from warren.cli.exit import FAILED, CliError


class Reply(dict[str, object]):
    """A JSON object whose keys are read as fields."""

    def __getattr__(self, name: str) -> object:
        try:
            return self[name]
        except KeyError:
            message = f"the node's reply is of another version ({name} is missing); try --json"
            raise CliError(message, FAILED) from None


def as_reply(value: object) -> object:
    """Return decoded JSON with replies for its objects."""
    if isinstance(value, dict):
        return Reply({key: as_reply(one) for key, one in value.items()})
    if isinstance(value, list):
        return [as_reply(one) for one in value]
    return value
