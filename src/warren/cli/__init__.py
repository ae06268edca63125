"""Command line: starts a node, and asks a running one over its control socket.

Must never reach into a node: it is a client of the control interface. Imports are late, because a
command that asks one question has to be quick. Start reading at `main.py`.
"""
