"""Fuzzing: one property per target, any octets as input. `make fuzz` searches, the suite samples.

Start reading at `target.py`; `program.py` makes sessions out of octets.
"""
