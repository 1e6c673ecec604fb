# make install | demo | test: each does all the set-up it needs on a machine with Python 3.11, make and gcc.
PYTHON ?= python3.11
VENV := .venv
OUT := out
# Some hundred processes are started here, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo test run-tests check coverage lock clean

install: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python -r requirements.lock
	$(VENV)/bin/uv pip install --quiet --python $(VENV)/bin/python --no-deps -e .
	touch $@

demo: install
	$(VENV)/bin/sweep run examples/quickstart.toml --store $(OUT)/quickstart --engine local
	$(VENV)/bin/python -m analysis $(OUT)/quickstart --figure $(OUT)/quickstart/rates.png

test: install
	$(MAKE) --jobs=2 check run-tests

run-tests: install
	$(VENV)/bin/python -m tests

check: install
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

coverage: install
	$(VENV)/bin/coverage erase
	$(VENV)/bin/coverage run -m tests
	$(VENV)/bin/coverage combine --quiet
	$(VENV)/bin/coverage report

lock:
	$(VENV)/bin/uv pip compile --quiet --no-header --no-annotate --python-version 3.11 --extra dev pyproject.toml -o requirements.lock

clean:
	rm -rf $(OUT)
