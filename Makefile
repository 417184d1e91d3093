# `make book` and `make test` are the two commands; `make help` lists the rest. Options of the program are
# passed on: make book ARGS="--corpus imdb --data folder".

ARGS ?=
NAME := # not of the environment, where some systems have their own
EXECUTED ?=
PORT ?= 8000
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready-$(shell cksum requirements.txt pyproject.toml lib/paper/pyproject.toml | cksum | cut -d' ' -f1)
PYTEST := $(BIN)/python -m pytest -n 2

.PHONY: help setup book test test-all chapter live serve pdf lint clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "ARGS passes options on, such as ARGS=\"--corpus imdb --data folder\"; $(BIN)/whenpool --help has all."

setup: $(READY)  ## make the virtual environment; every other target does it when it is missing

book: $(READY)  ## execute the chapters that have changed and build the pages; EXECUTED=folder: render its notebooks
	@$(BIN)/whenpool book $(if $(EXECUTED),--executed '$(EXECUTED)') $(ARGS)

test: $(READY)  ## the tests, without the slow ones
	@$(PYTEST) -m 'not slow' $(ARGS)

test-all: $(READY)  ## the slow tests: whole books, a browser, a Ray cluster, kills
	@$(PYTEST) -m slow $(ARGS)

chapter: $(READY)  ## execute one chapter and render its page: make chapter NAME=skip
	@test -n '$(NAME)' || { echo "name the chapter: make chapter NAME=skip" >&2; exit 2; }
	@$(BIN)/whenpool book --chapter '$(NAME)' $(ARGS)

live: $(READY)  ## serve the book on localhost and follow every edit; ctrl-C stops
	@$(BIN)/python -u scripts/live.py --port $(PORT) $(if $(NAME),--chapter '$(NAME)') $(ARGS)

serve: $(READY)  ## open the built book on localhost
	@test -f _build/html/index.html || { echo "there is no book yet: run make book" >&2; exit 2; }
	@echo "The book is at http://localhost:$(PORT)/ (ctrl-C stops)"
	@$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

pdf: $(READY)  ## print the built book into _build/whenpool.pdf; ARGS=--paper: its article (needs a Chromium)
	@$(BIN)/whenpool pdf $(ARGS)

lint: $(READY)  ## style, types, the order of the rooms, cells and notebooks of chapters
	@$(BIN)/ruff check lib tests bench scripts .ci book/*.py
	@$(BIN)/ruff format --check lib tests bench scripts .ci book/*.py
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/notebooks.py --check
	@$(BIN)/python scripts/check_pages.py

clean:  ## remove built pages; finished runs stay
	@rm -rf _build

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed") if sys.version_info < (3, 11) else 0'
	@echo "Making .venv from requirements.txt (a few minutes, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --use-pep517 -r requirements.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e . -e lib/paper
	@rm -f .venv/ready-* && touch $(READY)
