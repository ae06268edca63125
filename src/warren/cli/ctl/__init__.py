"""`warrenctl`: RabbitMQ's `rabbitmqctl`, for a Warren node, over its control socket.

Names, arguments, options, columns, texts and exit codes are those that scripts know; what cannot
be had here is refused with a reason. Must never be slow to start: a verb imports what it needs when
it runs. Start reading at `main.py`, then `verbs.py` and `call.py`.
"""
