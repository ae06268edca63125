"""Management: the process beside the node that speaks HTTP: API, metrics, definitions.

A client of the control interface: it keeps a copy of the node's state that the node sends at an
interval, and answers questions from it. It must never import the node, nor ask it anything whose
cost grows with the number of objects on a page: a dashboard cannot slow a message.
Start reading at `main.py`, `app.py`, `mirror.py`; endpoints are in `api/`.
"""
