"""Bench: the load generator, a client that verifies order and loss while it measures.

Must never use the broker's own codec or touch a broker other than over the wire and /proc.
Start reading at `main.py`, then `worker.py`; the compiled core is `block`, `stream`, `verify`.
"""

from warren.bench.main import main

__all__ = ["main"]
