# make demo          the main job, end to end, on drawn radiographs; ends with the address of a page
# make test          the tests
# make border        the tests that know only commands, files, HTTP and public Python names
# make test-peers    those that drive a real Chromium or a real Orthanc; skipped where there is none
# make test-device   the CUDA branches, on tensors that only say that they are on a GPU; needs g++
# make test-benchmarks  every script of benchmarks/, at its smallest size
# make test-all      all of them, those too that kill, stop and race processes for minutes
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
WORKERS := -n $(TEST_WORKERS) --maxprocesses 4 --dist worksteal
# Threads of each: models of tests are small, too.  "make test TEST_THREADS=4" tries another number.
TEST_THREADS ?= 1
# A seed: files, and the tests of each, run in another order.
TEST_ORDER ?=
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
# Bytecode is written whatever the environment says: each worker, and each program that a test starts,
# would else compile everything anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$(TEST_THREADS) OMP_WAIT_POLICY=PASSIVE \
    TEST_ORDER=$(TEST_ORDER) CHROMIUM="$(CHROMIUM)" $(BIN)/python -m pytest -q

.PHONY: install demo test border test-peers test-device test-benchmarks test-all check format docs clean-demo

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[tensorboard,pacs,dev]'
	@touch $@

test: $(INSTALLED)
	$(PYTEST) $(WORKERS) -m "not slow and not peers and not device and not benchmarks"

border: $(INSTALLED)
	$(PYTEST) $(WORKERS) --dist loadfile --no-loadscope-reorder tests/border

test-peers: $(INSTALLED)
	$(PYTEST) $(WORKERS) -m "peers and not slow"

test-device: $(INSTALLED)
	$(PYTEST) -m device tests/device

test-benchmarks: $(INSTALLED)
	$(PYTEST) $(WORKERS) tests/test_benchmarks.py

test-all: $(INSTALLED)
	$(PYTEST) $(WORKERS)

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
