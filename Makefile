# Everything that can be done with a clone. Only Python 3.11 or later, make and Git need to be there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: setup demo test lint types screenshots bench bench-screen large-history soak docs lock clean live live-setup mutate
.DEFAULT_GOAL := setup

setup: $(STAMP)

# The stamp is written last, so an interrupted set-up is done again.
$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Fluzo needs Python 3.11 or later; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements/dev.lock
	@# The build tool warns about every editable install; this one keeps its packages where they are anyway.
	PYTHONWARNINGS=ignore $(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

demo: setup
	$(BIN)/fluzo demo

test: setup lint types
	$(BIN)/pytest -n auto --dist worksteal

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# The folders of the source tree are one package only when installed (see package-dir in pyproject.toml); a checker
# sees them as one through a tree of links.
types: setup
	@rm -rf build/types && mkdir -p build/types
	@cp -rs "$(CURDIR)/fluzo" build/types/
	@for folder in commands screens; do \
		if [ -d $$folder ]; then ln -s "$(CURDIR)/$$folder" build/types/fluzo/; fi; \
	done
	cd build/types && "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/pyproject.toml" \
		--cache-dir "$(CURDIR)/build/mypy" -p fluzo
	cd bench && MYPYPATH="$(CURDIR)/build/types" "$(CURDIR)/$(BIN)/mypy" --config-file "$(CURDIR)/pyproject.toml" \
		--cache-dir "$(CURDIR)/build/mypy" run.py soak.py journal_pairs.py model_turns.py search_runs.py stream_server.py \
		large_history.py screen_child.py screen_server.py echo_reference.py

bench: setup
	$(BIN)/python bench/run.py

bench-screen: setup
	$(BIN)/python bench/run.py screen

# 10,000 messages, 100,000 events, 256 MiB of artifacts, from a seed; `make bench` makes it when it is not there.
large-history: setup
	$(BIN)/python bench/large_history.py

# Pictures for docs/screens in real terminal programs: needs Xvfb, xdotool, ImageMagick, alacritty, xterm and kitty.
screenshots: setup
	$(BIN)/python tests/shots/take.py

# Ten deliberate bugs in the reader, each in a copy of the package: every one must make a named test fail.
mutate: setup
	$(BIN)/python tests/mutation/reader_bugs.py

# A real llama.cpp server with a real small model (127 MB to download), in an environment of its own. To try another
# server: .venv/bin/pytest tests/live --live-base-url URL --live-model NAME
LIVE := build/live
live-setup: setup
	$(PYTHON) -m venv $(LIVE)
	$(LIVE)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --require-hashes \
		-r requirements/live.lock

live:
	@test -x $(LIVE)/bin/python || { echo "not_run: there is no server to ask; run: make live-setup"; exit 1; }
	$(LIVE)/bin/python tests/live/serve_llama.py --context 2048 -- \
		$(BIN)/pytest tests/live --live-base-url {url} --live-model {model}

soak: setup
	$(BIN)/python bench/soak.py

docs: setup
	@mkdir -p build docs
	$(BIN)/python -m fluzo.commands.reference > build/configuration.md
	mv build/configuration.md docs/configuration.md

# Exact versions with the hashes of all their files, for every supported Python; where they come from is not recorded.
LOCK := build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate --upgrade pyproject.toml
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip --quiet install uv
	$(LOCK) -o requirements/runtime.lock
	$(LOCK) --extra dev -c requirements/runtime.lock -o requirements/dev.lock

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
