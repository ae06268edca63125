"""The persistence layer: a journal for all queues, an index and segments for each, large bodies.

Owns what is on the disk of a queue's messages, its formats, and what a crash leaves of it; must
never know what a consumer, an exchange or a client is, nor touch a file except in a job.
Start reading at `persistence.py`, then `index.py`; the formats are in `record.py`, `batch.py`,
`segment.py`, `state.py` and `body_file.py`.
"""
