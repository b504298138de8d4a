# Needs make and Python 3.11 or newer. Each target prepares .venv by itself, once, and again when pyproject.toml changes.
PYTHON ?= python3
EDITABLE ?= -e  # set to nothing: install the built wheel instead of the source tree, as CI does
ARGS ?=         # more for pytest: make test ARGS="-k replay --cov"
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check lint types bench soak screenshots clean

demo: .venv/demo-ready
	mkdir -p .demo
	$(BIN)/alpineagents demo .demo/runs.db

test: .venv/dev-ready
	$(BIN)/python -m pytest $(ARGS)

check: lint types test

lint: .venv/dev-ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/dev-ready
	$(BIN)/pyright
	if [ -f tests/typing/api.py ]; then $(BIN)/mypy tests/typing/api.py; fi

bench: .venv/dev-ready
	$(BIN)/python -m bench

soak: .venv/dev-ready
	$(BIN)/python -m pytest -m soak --timeout=0 -rP $(ARGS)

screenshots: .venv/dev-ready
	$(BIN)/python tests/viewer/screenshots.py $(ARGS)

clean:
	rm -rf .venv .demo build dist htmlcov .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src viewer tests -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo 'alpineagents needs Python 3.11 or newer. Say which one to use: make PYTHON=python3.11' >&2; exit 1; }
	@{ $(PYTHON) -m venv .venv && $(BIN)/python -m pip --version >/dev/null; } \
		|| { echo '"$(PYTHON) -m venv" made no environment with pip in it. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@touch $@

.venv/demo-ready: pyproject.toml | .venv/made
	$(INSTALL) $(EDITABLE) '.[viewer]'
	@touch $@

.venv/dev-ready: pyproject.toml | .venv/made
	$(INSTALL) $(EDITABLE) '.[dev]'
	@touch .venv/demo-ready $@
