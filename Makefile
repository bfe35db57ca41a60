# make demo          the main job, end to end, on drawn radiographs; ends with the address of a page
# make test          the tests
# make test-all      those too that kill, stop and race processes for minutes
# make test-browser  those of the page alone, in a Chromium
# make check         formatting, lint, types, layers
# make docs          the guides as a site in site/, links checked; nothing is loaded from elsewhere
#
# All share one virtual environment, made when there is none. With PIP_EXTRA_INDEX_URL the
# caller chooses PyTorch's CPU or CUDA wheels (see README.md).

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

DEMO ?= demo
DEMO_PORT ?= 0

# Processes that share the tests; each takes up to 2 GB of memory.  "make test TEST_WORKERS=0" runs
# them one after the other in one process.
TEST_WORKERS ?= auto
# Threads of each: models of tests are small, too.  "make test TEST_THREADS=4" tries another number.
TEST_THREADS ?= 1
# A seed: files, and the tests of each, run in another order.
TEST_ORDER ?=
# Bytecode is written whatever the environment says: each worker, and each program that a test starts,
# would else compile everything anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$(TEST_THREADS) OMP_WAIT_POLICY=PASSIVE \
    TEST_ORDER=$(TEST_ORDER) $(BIN)/python -m pytest -q
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: install demo test test-all test-browser check format docs clean-demo

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[tensorboard,pacs,dev]'
	@touch $@

test: $(INSTALLED)
	$(PYTEST) -n $(TEST_WORKERS) --maxprocesses 4 --dist worksteal -m "not slow"

test-all: $(INSTALLED)
	$(PYTEST) -n $(TEST_WORKERS) --maxprocesses 4 --dist worksteal

test-browser: $(INSTALLED)
	@test -x "$(CHROMIUM)" || { echo "there is no Chromium; install one (Debian: apt-get install" \
	    "chromium) or name yours: make test-browser CHROMIUM=/path/to/chromium" >&2; exit 1; }
	CHROMIUM="$(CHROMIUM)" $(PYTEST) tests/browser

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(INSTALLED)
	$(BIN)/mkdocs build --strict --quiet
	@echo "the guides: site/index.html"

demo: $(INSTALLED)
	@$(BIN)/cxrtext demo --out $(DEMO) --port $(DEMO_PORT)

clean-demo:
	rm -rf $(DEMO)
