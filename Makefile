# Two commands do everything on a machine with Python 3.11+, make and a package index:
#   make demo   fit three models on the GMM data, print the paper's rows beside ours, draw the figure
#   make test   lint, types, import rules, and the tests of the package
# and what CI runs besides: make test-paper, the tests of the experiments and the benchmarks

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: setup demo tutorials browser test test-package test-paper lint docs bench bench-ood reproduce made-tables fuzz hostile clean

setup: $(VENV)/installed

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# torch comes first, so that no other package brings another build of it.
$(VENV)/torch: constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "bacoun needs Python 3.11 or newer; got " + sys.version.split()[0] + ". Try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	touch $@

$(VENV)/installed: $(VENV)/torch pyproject.toml constraints.txt
	$(INSTALL) --editable '.[dev]'
	touch $@

$(VENV)/demo: $(VENV)/torch pyproject.toml constraints.txt
	$(INSTALL) --editable '.[demo]'
	touch $@

# What developers install holds what the demo needs.
demo: $(or $(wildcard $(VENV)/installed),$(VENV)/demo)
	$(BIN)/python -m examples.gmm_demo

# Measures again what docs/tutorials says, and draws its figures.
tutorials: setup
	$(BIN)/python -m examples.help_desk --docs
	$(BIN)/python -m examples.solar_cells --docs

# The report is also looked at in a real browser, which a root of Debian gets here if it has none.
# Without one those tests are skipped, and say so.
browser:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
		if command -v $$name >/dev/null; then exit 0; fi; \
	done; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "no browser here, and only root can install one by apt-get: its tests will be skipped"; \
	elif ! { timeout 300 apt-get -qq update && DEBIAN_FRONTEND=noninteractive \
		timeout 900 apt-get -qq install --yes --no-install-recommends chromium; } >/dev/null; then \
		echo "chromium could not be installed: the tests of the browser will be skipped"; \
	fi

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Lint runs beside the tests, as mypy keeps one core busy only.
test:
	$(MAKE) --jobs 2 lint test-package

# Two workers, one thread each: small torch models are fastest that way, and no test times anything.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 --dist worksteal

test-package: setup
	$(PYTEST) -m "not paper" src tests --ignore tests/reproduction --ignore tests/benchmarks

test-paper: setup
	$(PYTEST) -m paper

# The long form of a test: new tables, made at random, go the whole way from file to stored model.
MADE_TABLES ?= 10000
made-tables: setup
	OMP_NUM_THREADS=1 BACOUN_MADE_TABLES=$(MADE_TABLES) $(BIN)/pytest tests/tabular/test_made_tables.py

# The long form of another: requests made from the OpenAPI document, and malformed bodies.
FUZZ ?= 5000
fuzz: setup
	OMP_NUM_THREADS=1 BACOUN_FUZZ=$(FUZZ) $(BIN)/pytest tests/server/test_fuzzing.py

# An hour of attacks on a real server, beside ordinary clients whose every answer is checked.
MINUTES ?= 60
hostile: setup
	$(BIN)/python -W ignore -m benchmarks.hostile --minutes $(MINUTES)

# The site in site/, warnings are errors. The variable keeps the theme from speaking of its successor.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: setup
	$(INSTALL) --requirement benchmarks/requirements.txt
	$(BIN)/python -m benchmarks

# Every method on every shift of the benchmark tables, and variants of our default: hours if empty.
bench-ood: setup
	$(INSTALL) --requirement benchmarks/requirements.txt
	$(BIN)/python -W ignore -m benchmarks ood ood-slow ablations

# The paper's experiments: what results/ lacks is run, which takes hours if it is empty.
reproduce: setup
	$(BIN)/python -m reproduction all --page docs/paper.md

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist site
