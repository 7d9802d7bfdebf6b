# The verbs of this repository.  `make demo` and `make test` set everything up by themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# How many processes run the tests.
WORKERS ?= auto
# Extra arguments for the command or for pytest, as in `make test ARGS="-k queue"`.
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup demo test check audit format e2e ui simulate load mutants soak bench bench-check clean distclean

help: ## list the verbs
	@echo "usage: make VERB"
	@echo
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /  \1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

setup: $(VENV)/.package ## make .venv with everything in it (the other verbs do this for you)

demo: setup ## schedule a few thousand pods on an embedded cluster and show what happened
	@$(BIN)/stowplan demo $(ARGS)

test: setup ## run all tests but end-to-end and the large simulations
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not e2e and not ui and not (slow and simulation)" $(ARGS)

check: setup ## format, lint, types, and the order of the rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy src
	$(BIN)/lint-imports --no-logo

audit: setup ## known vulnerabilities in the locked dependencies, where PyPI can be asked
	@$(BIN)/python -m tests.house.audit

format: setup ## format the code and fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Processes race with each other, and with the stock scheduler that they are compared with.
again = { echo "== once more, alone: $(1)"; $(BIN)/pytest -q -p no:randomly -m e2e --last-failed \
	--last-failed-no-failures none --maxfail 5 tests/e2e tests/load; }

e2e: setup ## run real processes against real API servers (kube-apiserver is built once, 10 minutes)
	@$(BIN)/python -m tests.e2e.build_control_plane
	$(BIN)/pytest -q -p no:randomly -n 2 --dist worksteal -m e2e $(ARGS) tests/e2e tests/load || \
		$(call again,what failed beside other work) || $(call again,what failed alone as well)

ui: setup ## drive the page in a real browser; installs chromium (Debian) and what checks it (npm)
	@command -v chromium >/dev/null || { apt-get update && apt-get install -y chromium; }
	@cd tests/ui && npm ci --no-audit --no-fund --silent
	tests/ui/node_modules/.bin/tsc -p tests/ui
	$(BIN)/pytest -q -p no:randomly -m ui $(ARGS) tests/ui

simulate: setup ## run simulations; SEEDS=1000 runs that many, SEED=7 shows one step by step
	@$(BIN)/python -m tests.simulation $(if $(SEED),$(SEED) --trace,--seeds $(or $(SEEDS),200)) $(ARGS)

load: setup ## hundreds of clients on one API server, half of them slow or hostile, for a minute
	@$(BIN)/python -m tests.load $(ARGS)

mutants: setup ## plant 200 small bugs, drawn from a seed, and count those the tests notice
	@$(BIN)/python -m tests.mutants --workers $(or $(filter-out auto,$(WORKERS)),2) --seed $(or $(SEED),1) $(ARGS)

soak: setup ## half an hour of churn: does the memory stay flat?
	@$(BIN)/python -m tests.load.soak $(ARGS)

bench: setup ## measure the speed, and print it beside the goals
	@$(BIN)/stowplan bench $(ARGS)

bench-check: setup ## has it become slower? compares ratios, not times, in under a minute
	@$(BIN)/python -m tests.bench.check_ratios $(ARGS)

clean: ## remove caches and build results
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .mutants
	find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf $(VENV)

# Set-up, in two steps so that a change of pyproject.toml does not reinstall the world.
# Each leaves a stamp; while the stamps are newer, nothing is done and no network is needed.

$(VENV)/.requirements: requirements/dev.txt
	@command -v $(PYTHON) >/dev/null || { \
		echo "error: '$(PYTHON)' not found"; \
		echo "  hint: install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3"; exit 1; } >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: Stowplan needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) -V 2>&1)"; \
		echo "  hint: name a newer one: make PYTHON=python3.12"; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: '$(PYTHON)' cannot make virtual environments: its module venv or ensurepip is missing"; \
		echo "  hint: install it; on Debian and Ubuntu: apt install python3-venv"; exit 1; } >&2
	@echo "setup 1/3: making $(VENV) with $$($(PYTHON) -V)"
	@$(PYTHON) -m venv $(VENV)
	@echo "setup 2/3: installing the locked dependencies (once; one to four minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.package: $(VENV)/.requirements pyproject.toml
	@echo "setup 3/3: installing stowplan"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q src
	@touch $@
