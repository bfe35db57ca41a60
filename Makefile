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
CXRTEXT := $(BIN)/cxrtext
# Images are decoded once for training, evaluation and indexing.
CACHE := $(DEMO)/decoded
# Of the run's two models the one that validation images chose; the last step's may be past its best.
MODEL := $(DEMO)/run/checkpoint-best
# Sums are split among threads, so that another number of them trains to other weights: two wherever
# it runs, or one where the models are so small that a second only costs.
ONE := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
TWO := OMP_NUM_THREADS=2 MKL_NUM_THREADS=2

# Processes that share the tests; each takes up to 2 GB of memory.  "make test TEST_WORKERS=0" runs
# them one after the other in one process.
TEST_WORKERS ?= auto
# Threads of each: models of tests are small, too.  "make test TEST_THREADS=4" tries another number.
TEST_THREADS ?= 1
# A seed: files, and the tests of each, run in another order.
TEST_ORDER ?=
# Bytecode is written whatever the environment says: each worker, and each program that a test starts,
# would else compile everything anew.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$(TEST_THREADS) TEST_ORDER=$(TEST_ORDER) \
    $(BIN)/python -m pytest -q
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)

.PHONY: install demo test test-all test-browser check format docs clean-demo

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[full,train,pacs,dev]'
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

# Each stage makes its file once; a stopped demonstration goes on where it was.  The image encoder
# and the language model need nothing of each other: each has a core.
demo: $(INSTALLED)
	@$(MAKE) --no-print-directory -j 2 $(DEMO)/data/sentences.csv $(DEMO)/encoder/encoder.safetensors
	@$(MAKE) --no-print-directory $(DEMO)/index/index.json
	@echo "serving the page and the API; stop with Ctrl-C"
	@$(CXRTEXT) serve --model $(MODEL) --index $(DEMO)/index \
	    --prompts docs/demo-prompts.yaml --port $(DEMO_PORT)

$(DEMO)/data/manifest.csv: | $(INSTALLED)
	@echo "1/5 phantoms"
	@$(ONE) $(CXRTEXT) phantom $(DEMO)/data --studies 2500 --size 144 --seed 0

$(DEMO)/language-model/model.safetensors: $(DEMO)/data/manifest.csv
	@echo "2/5 language model, and beside it the image encoder (its words: $(DEMO)/encoder/words.txt)"
	@$(ONE) $(CXRTEXT) pretrain-text $(DEMO)/data/reports.csv --out $(DEMO)/language-model --size demo
	@touch $@

$(DEMO)/data/sentences.csv: $(DEMO)/language-model/model.safetensors
	@echo "    likelihood of every sentence"
	@$(ONE) $(CXRTEXT) score-text $(DEMO)/data/reports.csv --model $(DEMO)/language-model --out $@
	@touch $@

# Beside another stage, so its progress goes into a file.
$(DEMO)/encoder/encoder.safetensors: $(DEMO)/data/manifest.csv
	@mkdir -p $(DEMO)/encoder
	@$(ONE) $(CXRTEXT) pretrain-image $(DEMO)/data/manifest.csv --out $(DEMO)/encoder --image resnet-narrow \
	    --resize 128 --crop 112 --cache $(CACHE) \
	    $$(test -d $(DEMO)/encoder/state && echo --resume) > $(DEMO)/encoder.log 2>&1 \
	    || { tail -3 $(DEMO)/encoder.log >&2; exit 1; }
	@touch $@

$(DEMO)/run/.trained: $(DEMO)/data/sentences.csv $(DEMO)/encoder/encoder.safetensors docs/demo.yaml
	@echo "3/5 training"
	@$(TWO) $(CXRTEXT) train docs/demo.yaml --set out=$(DEMO)/run --set data.manifest=$(DEMO)/data/manifest.csv \
	    --set data.sentences=$(DEMO)/data/sentences.csv --set data.words=$(DEMO)/encoder/words.txt \
	    --set data.cache=$(CACHE) --set model.text=$(DEMO)/language-model \
	    --set model.image_weights=$(DEMO)/encoder/encoder.safetensors \
	    $$(test -d $(DEMO)/run/state && echo --resume $(DEMO)/run)
	@touch $@

$(DEMO)/evaluation/report.html: $(DEMO)/run/.trained
	@echo "4/5 evaluation on held-out patients"
	@$(TWO) $(CXRTEXT) evaluate $(MODEL) --data $(DEMO)/data --out $(DEMO)/evaluation \
	    --prompts docs/demo-prompts.yaml --cache $(CACHE) --calibrate

$(DEMO)/index/index.json: $(DEMO)/evaluation/report.html
	@echo "5/5 index"
	@$(TWO) $(CXRTEXT) index build $(DEMO)/data/manifest.csv --model $(MODEL) --out $(DEMO)/index \
	    --prompts docs/demo-prompts.yaml --cache $(CACHE)
	@touch $@

clean-demo:
	rm -rf $(DEMO)
