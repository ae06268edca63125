"""Server: the composition root: settings, logs, control socket, listeners, boot and shutdown.

Must never hold broker rules: it joins the machines of the packages below to sockets and files.
Start reading at `config.py`, then `control.py`. Nothing is re-exported here: the command line
imports `warren.server.place` and must not pay for the rest.
"""
