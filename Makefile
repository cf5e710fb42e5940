# The chores of this repository. `make` alone lists them. Cargo's target folder is CARGO_TARGET_DIR, or target/.
.DEFAULT_GOAL := help
.PHONY: help demo check-demo test lint bench flights venv

TARGET := $(or $(CARGO_TARGET_DIR),target)
VENV := $(or $(FLOTT_VENV),$(TARGET)/venv)
PYTHON := $(VENV)/bin/python
# One build for demo and tests: with the same packages and targets, dependencies have the same features.
BUILD := cargo build --workspace --lib --bins --examples

help: ## list these targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "make %-11s %s\n", $$1, $$2 }'

demo: flights ## run the main job: departures, cancellations and delays per airport and hour, New York 2013
	$(BUILD)
	$(TARGET)/debug/examples/flights --input target/demo/flights.csv --output target/demo/result

check-demo: demo venv ## compare the demo's result with DuckDB's
	$(PYTHON) scripts/check_flights.py

test: venv flights ## everything: Rust tests, Python tests, lint
	$(BUILD)
	FLOTT_VENV=$(abspath $(VENV)) cargo test --workspace
	cp $(TARGET)/debug/libflott_engine.so python/flott/_engine.abi3.so
	PYTHONPATH=python $(PYTHON) -m unittest discover -s tests/python
	$(MAKE) lint

lint: ## formatting, clippy, and the rules of CONTRIBUTING.md
	cargo fmt --all --check
	cargo xtask tidy
	cargo clippy --workspace --all-targets -- -D warnings

bench: venv ## the benchmarks, beside their peers; ARGS="..." goes to the program
	FLOTT_VENV=$(abspath $(VENV)) cargo xtask bench $(ARGS)

flights: ## fetch the demo's input
	python3 scripts/fetch_flights.py

venv: $(VENV)/.ready ## a Python environment with what tests and benchmarks compare with

$(VENV)/.ready: scripts/requirements-test.txt
	python3 -m venv $(VENV)
	$(PYTHON) -m pip install --quiet --require-hashes --only-binary=:all: --requirement $<
	touch $@
