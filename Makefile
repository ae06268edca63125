# The one door. Every target is one line that calls a tool; the tools say what they do.
PY := .venv/bin/python
# make fuzz EXAMPLES=100000, make bench ARGS="stream --size 128"
EXAMPLES ?= 20000
POINTS ?= 100000
ARGS ?=

.PHONY: run test check format fuzz crash bench kill soak full-disk flow interop build docs clean ready

run:
	./run $(ARGS)

test:
	./test $(ARGS)

check: ready
	$(PY) tools/check.py

format: ready
	$(PY) -m ruff check --select I --fix . && $(PY) -m ruff format .

fuzz:
	WARREN_TEST_EXAMPLES=$(EXAMPLES) ./test tests/fuzz tests/model --hypothesis-profile=long --timeout=0 $(ARGS)

crash:
	tools/setup/ready package dev && $(PY) tools/crash.py --points $(POINTS) $(ARGS)

interop:
	./test tests/interop $(ARGS)

bench:
	tools/setup/ready package && $(PY) -m tools.bench.run $(ARGS)

# Real brokers under load: docs/guides/bench.md.
kill soak:
	tools/setup/ready package && $(PY) -m tools.$@ $(ARGS)

full-disk:
	tools/setup/ready package && $(PY) -m tools.full_disk $(ARGS)

flow:
	tools/setup/ready package && $(PY) -m tools.flow_load $(ARGS)

build: ready
	WARREN_REQUIRE_COMPILED=1 $(PY) -m pip wheel --no-deps --wheel-dir dist .

docs:
	tools/setup/ready docs && $(PY) -m mkdocs build --strict --site-dir .cache/site

clean:
	rm -rf .cache .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

ready:
	@tools/setup/ready dev
