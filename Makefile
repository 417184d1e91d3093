# The two commands are `make book` and `make test`; `make help` lists the rest.

PROFILE ?= quick
CORPUS ?=
DATA ?=
SIZES ?=
SETTINGS ?=
POOLINGS ?=
SEEDS ?=
CELL ?=
LAYERS ?=
UNMASKED ?=
ENCODER ?=
LABELS ?=
SYSTEMS ?=
UNLABELLED ?=
PARAPHRASES ?=
ONLY ?=
ENGINE ?=
ADDRESS ?=
WORKERS ?=
DEVICE ?=
TOGETHER ?=
PRECISION ?=
DEADLINE ?=
DRY_RUN ?=
CHAPTER ?=
NAME ?=
PORT ?= 8000

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready-$(shell cksum requirements.txt pyproject.toml | cksum | cut -d' ' -f1)

WHAT = --profile $(PROFILE) \
	$(if $(CORPUS),--corpus '$(CORPUS)') $(if $(DATA),--data '$(DATA)') \
	$(if $(SIZES),--sizes $(SIZES)) $(if $(SETTINGS),--settings $(SETTINGS)) \
	$(if $(POOLINGS),--poolings $(POOLINGS)) $(if $(SEEDS),--seeds $(SEEDS)) \
	$(if $(CELL),--cell $(CELL)) $(if $(LAYERS),--layers $(LAYERS)) $(if $(UNMASKED),--unmasked) \
	$(if $(ENCODER),--encoder '$(ENCODER)') $(if $(LABELS),--labels $(LABELS)) \
	$(if $(SYSTEMS),--systems $(SYSTEMS)) $(if $(UNLABELLED),--unlabelled $(UNLABELLED)) \
	$(if $(PARAPHRASES),--paraphrases '$(PARAPHRASES)') $(if $(ONLY),--only '$(ONLY)') \
	$(if $(CHAPTER),--chapter $(CHAPTER))
SPEED = $(if $(WORKERS),--workers $(WORKERS)) $(if $(DEVICE),--device $(DEVICE)) \
	$(if $(TOGETHER),--together $(TOGETHER)) $(if $(PRECISION),--precision $(PRECISION))
HOW = $(SPEED) $(if $(ENGINE),--engine $(ENGINE)) $(if $(ADDRESS),--address '$(ADDRESS)') \
	$(if $(DEADLINE),--deadline '$(DEADLINE)')

.PHONY: help book test run status data chapter live notebooks serve pdf look lint audit bench clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Variables: PROFILE=quick|paper CORPUS=imdb|yelp|reviews.csv DATA=folder SIZES=1000,2000"
	@echo "           SETTINGS=standard,mid POOLINGS=last,max_attention SEEDS=3 UNMASKED=1"
	@echo "           CELL=gru LAYERS=2 (other models than the thesis's, in any chapter)"
	@echo "           ENCODER=bert-base-uncased LABELS=1,3,10 SYSTEMS=bert,max_attention"
	@echo "           UNLABELLED=5000 PARAPHRASES=file.jsonl (the few-shot chapter)"
	@echo "           NAME=nwi (chapter, live) CHAPTER=training_to_skip ONLY=table=1.3,corpus=imdb,size=1000+2000"
	@echo "           DEADLINE=40m DRY_RUN=1 (run: only say what would be done, and how long it takes)"
	@echo "           WORKERS=2 DEVICE=cpu|cuda TOGETHER=5 PRECISION=float32|tf32|bfloat16"
	@echo "           ENGINE=local|ray ADDRESS=host:6379 PORT=8000"

book: $(READY)  ## execute the chapters and build the pages into _build/html
	@$(BIN)/whenpool book $(WHAT) $(HOW)

test: $(READY)  ## run the test suite
	@$(BIN)/python -m pytest -n 2 --dist loadgroup

run: $(READY)  ## execute runs without building the book
	@$(BIN)/whenpool run $(WHAT) $(HOW) $(if $(DRY_RUN),--dry-run)

status: $(READY)  ## how many runs are done and missing, and how long they take
	@$(BIN)/whenpool status $(WHAT) $(SPEED)

data: $(READY)  ## which corpora are there, and whether they are the publishers'
	@$(BIN)/whenpool data verify $(if $(DATA),--data '$(DATA)')

chapter: $(READY)  ## execute one chapter and render its page: make chapter NAME=nwi
	@test -n '$(NAME)' || { echo "name the chapter: make chapter NAME=nwi" >&2; exit 2; }
	@$(BIN)/whenpool book $(WHAT) $(HOW) --chapter '$(NAME)'

live: $(READY)  ## serve the book on localhost and follow every edit; ctrl-C stops
	@$(BIN)/python -u -m whenpool.editing.live --port $(PORT) $(if $(NAME),--chapter '$(NAME)') $(WHAT) $(HOW)

notebooks: $(READY)  ## write the notebooks that the launch buttons open
	@$(BIN)/python -m whenpool.launch

serve: $(READY)  ## open the built book on localhost
	@test -f _build/html/index.html || { echo "there is no book yet: run make book" >&2; exit 2; }
	@echo "The book is at http://localhost:$(PORT)/ (ctrl-C stops)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

pdf: $(READY)  ## print the built book into _build/whenpool.pdf (needs a Chromium)
	@$(BIN)/whenpool pdf

look: $(READY)  ## look at the built pages in a real browser (needs a Chromium)
	@WHENPOOL_PAGES=_build/html WHENPOOL_NEEDS_BROWSER=1 $(BIN)/python -m pytest tests/test_pages.py

lint: $(READY)  ## style, types, the floors of the house, cells and notebooks of chapters
	@$(BIN)/ruff check lib tests bench .ci
	@$(BIN)/ruff format --check lib tests bench .ci
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m whenpool.editing.lint
	@$(BIN)/python -m whenpool.launch --check

audit: $(READY)  ## look the installed packages up among known vulnerabilities
	@$(BIN)/python .ci/audit.py

bench: $(READY)  ## measure speed, printed as ratios
	@$(BIN)/python -m bench

clean:  ## remove built pages; finished runs stay
	@rm -rf _build

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else 0'
	@echo "Making .venv from requirements.txt (a few minutes, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@rm -f .venv/ready-* && touch $(READY)
