# Everything runs in a project-local virtual environment; PYTHON may name any Python 3.11 to 3.14.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test test-all test-postgres bench mutants shapes wheel check docs tutorial screenshots clean
help:            ## what can be made
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

install: $(VENV)/installed  ## build the environment, versions held by constraints.txt

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: install    ## run the whole pipeline on the sample campaign
	$(BIN)/crowdassay demo

test: install    ## the tests that guard every change, minutes
	$(BIN)/python -m pytest -n 2 --dist loadfile -m 'not slow'

test-all: install  ## those and the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-postgres: install  ## the ledger's tests on a real server, Debian's, in a folder of its own
	bash .ci/postgres

mutants: install  ## plant small faults in what keeps promises; each must be caught, an hour
	$(BIN)/python -m benchmarks.mutants.run

bench: install   ## speed against the peers, in one run; fails where a promised ratio is missed
	$(BIN)/python -m benchmarks.gates

shapes: install  ## the pure rooms' tests with every array's shape and type checked
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/quality tests/privacy tests/learners -q \
		-m 'not refusal and not slow and not long' --jaxtyping-packages=quality,privacy,learners,beartype.beartype

wheel: install   ## build the wheel and run the demo from it, in an environment of its own, and its extra for workbooks
	rm -rf dist && $(BIN)/pip wheel --quiet --no-deps --wheel-dir dist .
	$(PYTHON) -m venv dist/venv
	dist/venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd dist && venv/bin/crowdassay demo
	$(BIN)/python -m tests.flows.tables.workbook dist/labels.xlsx
	! dist/venv/bin/crowdassay check dist/labels.xlsx  # and says that the extra is missing
	dist/venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[excel]"
	dist/venv/bin/crowdassay check dist/labels.xlsx

check: install   ## formatting, lints, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

tutorial: install  ## every command of the tutorial, and whether it prints what the page shows
	$(BIN)/python -m pytest tests/test_tutorial.py

docs: install    ## build the documentation into site/, which opens without a server
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

screenshots: install  ## the report's pages at three widths, light and dark, into screenshots/
	$(BIN)/python -m tests.flows.report.screenshots

clean:           ## remove the environment and what was built
	rm -rf $(VENV) demo dist site screenshots
