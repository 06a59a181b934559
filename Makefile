# Everything a new checkout needs: `make demo`, `make test`, `make check`. Each one makes .venv by itself when there is none.
# A file .venv/.<extra> says that this extra is installed as pyproject.toml, which it is older than, asks for it.

VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
LIT_JOBS ?= 2
PYTEST_FLAGS ?= -n 2
# What `make bench` passes on: BENCH_FLAGS="--rows matmul --threads 1 --clock cpu".
BENCH_FLAGS ?=
# What `make fuzz` passes on: FUZZ_FLAGS="--seconds 3600 --kind torch --seed 7"; `python -m fuzz --help` lists all.
FUZZ_FLAGS ?=
# The first interpreter of a version that mlirtri supports; `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for candidate in python3 python3.13 python3.12 python3.11 python3.10 python3.14 python; do \
	"$$candidate" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& { echo "$$candidate"; break; }; done)

# Tests start a hundred processes, and each would compile all modules that it imports: .7 s of the 2.3 s of a small kernel.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-models test test-slow test-forced dropped-passes fuzz fuzz-hostile lit bench bench-quick bench-rules bench-latency bench-models check typed docs format clean
.DELETE_ON_ERROR:

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

demo: $(VENV)/.demo  ## classify handwritten digits with kernels compiled by all three pipelines
	$(BIN)/python examples/digits/demo.py

demo-models: $(VENV)/.demo  ## compile ResNet-18, MobileNet and GPT-2 shaped networks and compare them with eager torch
	$(BIN)/python examples/models/demo.py

test: $(VENV)/.test  ## pytest, then the lit tests
	$(BIN)/python -m pytest $(PYTEST_FLAGS)
	$(BIN)/lit -sv -j $(LIT_JOBS) lit_tests

test-slow: $(VENV)/.test  ## the tests that `make test` leaves out because they take long
	$(BIN)/python -m pytest -m slow $(PYTEST_FLAGS)

test-forced: $(VENV)/.test  ## the tests with every schedule rule used that fits, however little the work
	MLIRTRI_FORCE_SCHEDULES=1 $(BIN)/python -m pytest $(PYTEST_FLAGS)

dropped-passes: $(VENV)/.test  ## which passes no lit test misses: each is dropped in turn
	PYTHONPATH=tests/support $(BIN)/python -m dropped_passes

fuzz: $(VENV)/.test  ## random programs in all pipelines for two minutes; failures are reduced to tests in build/fuzz
	PYTHONPATH=tests/support $(BIN)/python -m fuzz $(FUZZ_FLAGS)

fuzz-hostile: $(VENV)/.test  ## damaged inputs of every entry point for a minute; findings are kept in build/hostile
	PYTHONPATH=tests/support $(BIN)/python -m fuzz.hostile $(FUZZ_FLAGS)

lit: $(VENV)/.test  ## the lit tests only
	$(BIN)/lit -sv -j $(LIT_JOBS) lit_tests

bench: $(VENV)/.bench  ## the table of speeds beside torch, torch.compile and NumPy, into build/bench.json and .svg
	@mkdir -p build
	$(BIN)/python -m benchmarks --json build/bench.json --plot build/bench.svg $(BENCH_FLAGS)

bench-quick: $(VENV)/.bench  ## some of its rows, without torch.compile, in under two minutes
	$(BIN)/python -m benchmarks --quick --seconds 0.3 $(BENCH_FLAGS)

bench-rules: $(VENV)/.bench  ## each schedule rule beside loops without a schedule
	$(BIN)/python -m benchmarks.rules $(BENCH_FLAGS)

bench-latency: $(VENV)/.bench  ## imports, first results and small calls of each pattern, beside Numba, torch and JAX
	$(BIN)/python -m benchmarks.latency $(BENCH_FLAGS)

bench-models: $(VENV)/.bench  ## whole networks in all pipelines, beside eager torch, torch.compile and ONNX Runtime
	$(BIN)/python -m benchmarks.networks $(BENCH_FLAGS)

check: $(VENV)/.dev  ## ruff, pyright, pytest and lit
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(MAKE) typed
	$(BIN)/python -m pytest $(PYTEST_FLAGS)
	$(BIN)/lit -sv -j $(LIT_JOBS) lit_tests

typed: $(VENV)/.dev  ## pyright, on the packages laid out as they install
	rm -rf build/typed && mkdir -p build/typed && cp -R mlirtri build/typed/ && cp -R dialect lowering build/typed/mlirtri/
	$(BIN)/pyright --warnings

docs: $(VENV)/.docs  ## the documentation as a site in build/site; a dead link is an error
	$(BIN)/mkdocs build --strict

format: $(VENV)/.dev  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:  ## remove what the other targets made, .venv included
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis lit_tests/.out

# The environment counts as made when its pip answers, so a half-made one is made again.
# Debian's python3 without python3-venv can still make one with no pip in it, which its own pip or virtualenv then mends.
$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "mlirtri needs Python 3.10 to 3.14; none is on PATH (make PYTHON=/path/to/python ...)" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 \
	|| $(PYTHON) -m venv $(VENV) \
	|| { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install pip; } \
	|| { rm -rf $(VENV) && $(PYTHON) -m virtualenv $(VENV); } \
	|| { rm -rf $(VENV) && virtualenv --python $(PYTHON) $(VENV); } \
	|| { rm -rf $(VENV) && uv venv --seed --python $(PYTHON) $(VENV); } \
	|| { echo "$(PYTHON) cannot make a virtual environment: install python3-venv, virtualenv or uv" >&2; exit 1; }
	@touch $@

$(VENV)/.demo $(VENV)/.test $(VENV)/.bench $(VENV)/.docs $(VENV)/.dev: $(VENV)/.%: pyproject.toml | $(VENV)/.made
	$(PIP) install --editable '.[$*]'
	@touch $@
