"""The node that a verb asks over its control socket; what goes wrong is told alike for all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from warren.cli.ctl.failure import CtlError
from warren.cli.ctl.link import LateError, Link, RefusedError, UnreachableError
from warren.cli.exit import FAILED, NOT_PERMITTED, TIMEOUT, UNAVAILABLE, CliError
from warren.cli.question import node_socket

if TYPE_CHECKING:
    from argparse import Namespace


@contextmanager
def asked(given: "Namespace") -> Iterator[Link]:
    """Give the link to the node that the options name, and close it in the end."""
    link = Link(str(node_socket(given)), given.timeout)
    try:
        yield link
    except RefusedError as refusal:
        fix = f"\n{refusal.fix}" if refusal.fix else ""
        raise CliError(refusal.message + fix, FAILED) from None
    except LateError:
        message = f"the node did not answer within {given.timeout:g} s"
        raise CliError(message, TIMEOUT) from None
    except UnreachableError as failure:
        raise CliError(f"no node answers at {failure}", UNAVAILABLE) from None
    except CtlError as failure:
        raise CliError(str(failure), NOT_PERMITTED) from None
    finally:
        link.close()
