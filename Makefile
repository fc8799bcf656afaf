# The developer's and the newcomer's interface. `make help` lists the targets.
#
# Only make and Python 3.11 or newer are needed: each target makes what it rests on.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
CLUSTER_DIR ?= .cluster
PYTEST_ARGS ?=
# Compiled tests are kept whatever the environment says: each worker loads all of them.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest
# The tests of remote/pytorch train with PyTorch. Its default wheel for Linux brings CUDA, some gigabytes:
# TORCH_INDEX=URL takes it from another package index (PyTorch's own has CPU wheels), TORCH=no does without.
TORCH ?= yes
TORCH_INDEX ?=
TORCH_STAMP := $(if $(filter no,$(TORCH)),,.venv-torch/stamp)
# Most tests wait for a real cluster rather than compute, so there are more workers than cores.
WORKERS ?= 6

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- environments --------------------------------------------------------------------------
# A stamp file says that an environment holds what its lock file says.

$(VENV)/runtime.stamp: requirements/runtime.lock pyproject.toml
	sh tools/venv.sh $(VENV) requirements/runtime.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/test.stamp: requirements/test.lock $(VENV)/runtime.stamp
	sh tools/venv.sh $(VENV) requirements/test.lock
	touch $@

# PyTorch has no wheel for every machine: without it the tests that train with it are skipped and counted.
# It comes after the other environment, as each may have to install Python's venv module first.
.venv-torch/stamp: requirements/torch.txt | $(VENV)/runtime.stamp
	@{ $(if $(TORCH_INDEX),PIP_INDEX_URL=$(TORCH_INDEX)) sh tools/venv.sh .venv-torch requirements/torch.txt && touch $@; } || \
	  echo "PyTorch could not be installed here; the tests that train with it will be skipped." >&2

.PHONY: debian-packages
debian-packages:
	sh tools/debian_packages.sh

# --- using it ------------------------------------------------------------------------------

.PHONY: practice
practice: $(VENV)/runtime.stamp  ## open labtui on the practice cluster (no account needed)
	$(BIN)/labtui practice

# --- checking it ---------------------------------------------------------------------------

.PHONY: test
test: debian-packages $(VENV)/test.stamp $(TORCH_STAMP)  ## set everything up and run all tests
	@$(PYTEST) --collect-only --quiet $(PYTEST_ARGS) >/dev/null 2>&1 || true  # compiles the tests once, not in each worker
	$(PYTEST) -n $(WORKERS) $(PYTEST_ARGS)

.PHONY: fresh
fresh:  ## try both README commands on a bare Debian, before a release (root, debootstrap, network, an hour)
	python3 tools/fresh.py $(FRESH_ARGS)

.PHONY: check style types
check: types style  ## format, lint, types, the import rules, and known vulnerabilities of the packages

.PHONY: environments
environments: $(VENV)/test.stamp $(TORCH_STAMP)  ## make the virtual environments of the checks and the tests

types: $(VENV)/test.stamp
	$(BIN)/mypy

style: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/ruff check --isolated --target-version py38 --line-length 110 --select E,F,W,B remote
	$(BIN)/lint-imports
	if command -v shellcheck >/dev/null; then shellcheck src/labtui/slurm/sh/*.sh; fi
	PYTHON=$(BIN)/python sh tools/audit.sh .venv-audit

.PHONY: format
format: $(VENV)/test.stamp  ## put the code into the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: bench
bench: $(VENV)/test.stamp  ## measure, as ratios beside what a user would use instead
	$(BIN)/python -m benchmarks

.PHONY: coverage
coverage: debian-packages $(VENV)/test.stamp $(TORCH_STAMP)  ## run all tests and say what they reach
	$(BIN)/coverage erase
	COVERAGE_PROCESS_START=$(CURDIR)/pyproject.toml $(BIN)/python -m coverage run -m pytest -n $(WORKERS) $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered --sort=cover

# --- the real cluster on this machine ------------------------------------------------------

.PHONY: cluster-up
cluster-up: debian-packages $(VENV)/test.stamp  ## start a real OpenSSH and a real Slurm on loopback
	$(BIN)/python -m tests.real_cluster up $(CLUSTER_DIR)

.PHONY: cluster-down
cluster-down:  ## stop them and clean up
	$(BIN)/python -m tests.real_cluster down $(CLUSTER_DIR)

.PHONY: two-nodes
two-nodes: debian-packages $(VENV)/test.stamp $(TORCH_STAMP)  ## train on two pretend nodes with real srun and torchrun
	$(BIN)/python -m pytest tests/e2e/test_two_nodes.py -k ranks -rs -s

.PHONY: campaign
campaign: debian-packages $(VENV)/test.stamp  ## ten thousand lives of labtui, each cut, stalled or killed (hours)
	$(BIN)/python -m tests.reliability.campaign $(or $(ROUNDS),10000) $(CAMPAIGN_ARGS)

.PHONY: repeat
repeat: debian-packages $(VENV)/test.stamp $(TORCH_STAMP)  ## tests of clusters, clocks and threads, twenty times on a busy machine
	env -u CI $(BIN)/python tools/repeat.py $(REPEAT_ARGS)

.PHONY: generations
generations: debian-packages $(VENV)/test.stamp  ## the contract tests on newer releases of Slurm (network)
	$(BIN)/python -m tools.generations

.venv-old/stamp:
	sh -c 'for python in $(PYTHON38) python3.8 "$$HOME"/.pyenv/versions/3.8.*/bin/python; do \
	  if "$$python" -m venv .venv-old 2>/dev/null; then exit 0; fi; done; \
	  echo "A Python 3.8 is needed: make PYTHON38=/path/to/python3.8 old-tensorflow" >&2; exit 2'
	.venv-old/bin/python -m pip install --quiet --disable-pip-version-check "tensorflow-cpu==2.11.*"
	touch $@

.PHONY: old-tensorflow
old-tensorflow: $(VENV)/test.stamp .venv-old/stamp  ## the training scripts on Python 3.8 with TensorFlow 2.11 (network)
	LABTUI_TRAINING_PYTHON=$(CURDIR)/.venv-old/bin/python $(BIN)/python -m pytest -n 0 tests/remote $(PYTEST_ARGS)

# --- keeping it ----------------------------------------------------------------------------

.PHONY: lock
lock:  ## write the lock files anew (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group pyproject.toml:build pyproject.toml -o requirements/runtime.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --group pyproject.toml:build --group pyproject.toml:test --group pyproject.toml:check pyproject.toml -c requirements/runtime.lock -o requirements/test.lock

.PHONY: clean
clean:  ## remove what was built
	rm -rf $(VENV) .venv-torch .venv-old build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
