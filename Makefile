# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: install demo test test-long bench docs lint clean

install: $(VENV)/.installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install --constraint constraints.txt --editable '.[control]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(PIP) install --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: install
	$(BIN)/traceclass run mountain-car --preset paper --set priors=tcnn --set kernels=pcn \
		--set num_data_sets=1 --out runs/demo --overwrite

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright

test: lint
	$(BIN)/pytest -n 2 --dist loadgroup -m 'not long'

test-long: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 -m long

bench: install
	$(BIN)/python -m benchmarks.mountain_car
	$(BIN)/python -m benchmarks.priors
	$(BIN)/python -m benchmarks.half_cheetah
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.widths

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site runs .pytest_cache .ruff_cache .hypothesis
