# Everything a developer or CI does here. Needs python3 (3.11 or later) and make; the rest is installed
# into .venv, and once that is done nothing below needs the network.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
QUICKSTART := notebooks/quickstart.ipynb
ROOT_USER := $(filter 0,$(shell id -u))
NPM := tests/npm
PAGE_LIBRARIES := $(NPM)/node_modules/.package-lock.json
JS_TESTS := $(wildcard tests/js/*.test.mjs tests/js/*.test.js)

# Only an interpreter that somebody asked for by name replaces the one .venv was made with.
ifneq ($(origin PYTHON),file)
  VERSION := -c 'import sys; print(sys.version_info[:2])' 2>/dev/null || :
  ifneq ($(shell $(PYTHON) $(VERSION)),$(shell $(BIN)/python $(VERSION)))
    REMAKE := remake
  endif
endif

.PHONY: help install browser libraries demo lab test lint types js pytest clean remake
.DEFAULT_GOAL := help

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv with the package (editable) and all that its tests need
	@echo "install: done, in $(VENV)"

$(STAMP): pyproject.toml tests/constraints.txt $(REMAKE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "install: $(PYTHON) is not a Python 3.11 or later; try: make install PYTHON=python3.12"; exit 1; }
	@$(if $(REMAKE),rm -rf $(VENV))
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(MAKE) --no-print-directory venv
	@echo "install: pagetools_ipy with its development tools"
	@$(PIP) install --editable '.[dev]' --constraint tests/constraints.txt
	@touch $@

# Debian's python3 has no pip for new environments until python3-venv is there.
.PHONY: venv
venv:
	@echo "install: new environment in $(VENV)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { \
	  package="$(notdir $(PYTHON))-venv"; rm -rf $(VENV); \
	  if [ -n "$(ROOT_USER)" ] && command -v apt-get >/dev/null; then \
	    echo "install: $$package, with apt-get, since $(PYTHON) cannot make an environment without it"; \
	    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y $$package >/dev/null; \
	    $(PYTHON) -m venv $(VENV); \
	  else \
	    echo "install: $(PYTHON) cannot make an environment; run this, then again make install:"; \
	    echo "  sudo apt-get install $$package"; \
	    exit 1; \
	  fi; }

remake:

browser: $(STAMP) ## find a browser for the tests and the demo, or install one
	@path=$$($(BIN)/python tests/browser.py) && echo "browser: $$path"

libraries: $(PAGE_LIBRARIES) ## get the libraries that pages with tools bring along, for the tests

# The tests that need them say so and are skipped where they cannot be had.
$(PAGE_LIBRARIES): $(NPM)/package-lock.json
	@command -v npm >/dev/null || [ -z "$(ROOT_USER)" ] || ! command -v apt-get >/dev/null || { \
	  echo "libraries: npm, with apt-get"; \
	  apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends npm >/dev/null || true; }
	@echo "libraries: npm ci, in $(NPM)"
	@npm ci --prefix $(NPM) --ignore-scripts --no-audit --no-fund --silent && touch $@ \
	  || echo "libraries: they cannot be had; tests of pages that bring them are skipped"

demo: $(STAMP) browser ## run the quickstart notebook with a real kernel and a real browser tab
	@$(BIN)/python notebooks/run.py $(QUICKSTART)

# The variable keeps a python3 kernel of another environment from being started instead of this one.
lab: $(STAMP) ## open the quickstart notebook in JupyterLab
	@JUPYTER_PREFER_ENV_PATH=1 $(BIN)/jupyter lab $(if $(ROOT_USER),--allow-root) $(QUICKSTART)

test: lint types js pytest ## run every check: lint, types, JavaScript tests, Python tests

lint: $(STAMP) ## check style and format with ruff
	@echo "lint: ruff check, ruff format"
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check .

types: $(STAMP) ## check types with mypy
	@echo "types: mypy"
	@$(BIN)/mypy

# A machine without node, or with an old one, has the node that Playwright brings along; on a bare Debian
# that one lacks a library, which comes with the browser. The files are named one by one, since node 22
# no longer searches a folder that it is given.
js: $(STAMP) browser
	@node=node; node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null \
	  || node=$$($(BIN)/python -c 'import pathlib, playwright; print(pathlib.Path(playwright.__file__).parent / "driver/node")'); \
	echo "js: node $$($$node --version)"; \
	$(if $(JS_TESTS),$$node --test $(JS_TESTS),echo "js: no tests in tests/js")

pytest: $(STAMP) browser libraries
	@echo "pytest"
	@$(BIN)/pytest

clean: ## delete what was built and cached (not .venv)
	@echo "clean: build, dist and caches"
	@rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	@find . -path ./$(VENV) -prune -o \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -exec rm -rf {} +
