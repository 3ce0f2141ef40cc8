# Everything runs in .venv, made by scripts/setup.sh; see CONTRIBUTING.md.
.DEFAULT_GOAL := help
.PHONY: help setup tools demo test test-large check crash crash-exhaustive crash-quote golden clean
MAKEFLAGS += --no-print-directory

RUN := .venv/bin/python
WORKERS ?= 2
# Quick parts of the suite: pure code, keys, and the house itself.
QUICK := tests/house $(wildcard tests/formats tests/rules tests/keys)

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with lastgood in it
	@scripts/setup.sh install

tools: setup
	@scripts/setup.sh tools

demo: setup ## run the product's main job and show it
	@scripts/demo.sh

test: tools ## run every test, then again under python -O
	$(RUN) -m pytest -n $(WORKERS)
	PYTHONOPTIMIZE=1 $(RUN) -m pytest -n $(WORKERS) -m "not normal_only"

test-large: tools ## run what is too large for every day: a log of 1 GiB, 100,000 events with 1,000 kills
	LASTGOOD_LARGE=1 $(RUN) -m pytest -s tests/large tests/journeys/test_hundred_thousand_events.py

check: tools ## lint, format, types, import contracts and quick tests, in under a minute
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	.venv/bin/lint-imports --no-logo
	$(RUN) -m pytest -n $(WORKERS) -m "not slow" $(QUICK)

crash: tools ## stop the process, the power and the disk at every step, then see that planted bugs are found
	@mkdir -p build
	$(RUN) -m fault_injection run --budget ci --workers $(WORKERS) --json build/crash.json
	$(RUN) -m fault_injection mutants --workers $(WORKERS) --json build/mutants.json

crash-exhaustive: tools ## the same with every budget raised; the table says what is still a sample
	@mkdir -p build
	$(RUN) -m fault_injection run --budget exhaustive --workers $(WORKERS) --json build/crash-exhaustive.json

crash-quote: crash ## write what make crash found into README.md
	$(RUN) -m tests.injection.quote build/crash.json build/mutants.json

golden: setup ## make the golden records again and compare them with the kept ones
	$(RUN) -m tests.golden.make

clean: ## remove .venv and everything that can be made again
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist
	find src tests fault_injection -name __pycache__ -type d -exec rm -rf {} +
