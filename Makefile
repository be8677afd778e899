# Two commands to know: `make demo` and `make test`. Each sets up all it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
# A file's tests stay together, so that what they share is made once.
PARALLEL := -n auto --dist loadfile

.PHONY: install demo test check docs bench clean

install: .venv/.all

.venv/.pip:
	@$(PYTHON) -c 'import sys; sys.exit("ragwright needs Python 3.11 or newer; run: make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "pip>=25.1"
	@touch $@

.venv/.core: .venv/.pip pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/.all: .venv/.core
	$(BIN)/python -m pip install --quiet --editable ".[ann,docs,embed,jobs,lance,measures,pg,records,viz]" --group dev
	@touch $@

demo: .venv/.core
	$(BIN)/ragwright demo

test: .venv/.all
	$(BIN)/python -m pytest $(PARALLEL) $(PYTEST)

check: .venv/.all
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto tests/test_house.py tests/test_architecture.py tests/test_docs.py
	$(BIN)/python docs/reference.py --check
	$(BIN)/python docs/architecture.py --check

docs: .venv/.all
	$(BIN)/python docs/reference.py
	$(BIN)/python docs/architecture.py

bench: .venv/.all
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist
