"""Conformance: what a client can observe, rule by rule, on Warren and on the reference.

Every test names the rules it covers: `@pytest.mark.rule("WI-5")`. See `tests/rules.py`.
"""
