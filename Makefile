# Every target sets up what it needs. Start with `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NATIVE_SOURCES := $(wildcard src/fedsdg/crypto/backends/native/*)

.PHONY: help demo example test test-engines check bench tables build clean
.DEFAULT_GOAL := help

help:           ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py constraints.txt $(NATIVE_SOURCES)
	@echo "Setting up $(VENV) (once; a minute or two) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,flare,flower]"
	@touch $@

demo: $(READY)  ## three parties select features securely: generated tables, real 2,048-bit keys (minutes)
	@rm -rf runs/demo
	@$(BIN)/fedsdg demo --out runs/demo

example: $(READY) ## three parties' raw tables to predictions, step by step (about a minute)
	@rm -rf runs/three_parties
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash examples/three_parties/walkthrough.sh runs/three_parties

test: $(READY)  ## run all tests, two at a time
	@OMP_NUM_THREADS=1 FEDSDG_REQUIRE_ENGINES=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-engines: $(READY) ## only the tests that start NVIDIA FLARE and Flower
	@OMP_NUM_THREADS=1 FEDSDG_REQUIRE_ENGINES=1 FEDSDG_THREE_HOSTS=flare,flower $(BIN)/python -m pytest tests/engines

check: $(READY) ## ruff, mypy, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(READY) ## measure, and write bench-results/*.json and the pages docs/benchmarks*.md
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check sf-heu==0.5.2b0 || \
		echo "sf-heu does not install here: the comparison with it is left out"
	@mkdir -p bench-results
	@$(BIN)/fedsdg bench crypto --json bench-results/crypto.json --markdown docs/benchmarks.md
	@$(BIN)/fedsdg bench job --json bench-results/job.json --markdown docs/benchmarks-job.md
	@$(BIN)/fedsdg bench scale --json bench-results/scale.json --markdown docs/benchmarks-scale.md
	@$(BIN)/fedsdg bench engines --json bench-results/engines.json --markdown docs/benchmarks-engines.md

tables: $(READY) ## write the recorded results (results/*) into README.md and docs/reproduction.md
	@$(BIN)/python docs/recorded_tables.py

build: $(READY) ## sdist and wheel in dist/
	@$(BIN)/python -m build --outdir dist .

clean:          ## remove everything that was made
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info bench-results runs
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src -name '*.so' -delete
