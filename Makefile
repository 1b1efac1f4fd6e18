# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Bytecode is written for what is imported, when it is; pip would make it of everything.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile \
	--constraint constraints.txt --editable
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test test-long mutants bench docs dist lint clean

install: $(VENV)/.installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[control]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(INSTALL) '.[control,dev]'
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(INSTALL) '.[docs]'
	@touch $@

demo: install
	$(BIN)/traceclass run mountain-car --preset paper --set priors=tcnn --set kernels=pcn \
		--set num_data_sets=1 --out runs/demo --overwrite

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports

# Nearly all the time of the tests is XLA's, and most of that spent on code that runs once. What
# has to be compiled as it is for users asks for it (tests/as_shipped.py); so is `make test-long`.
# Three workers on two cores: while one waits for a process it has started, the others go on.
# Compilers chase pointers: glibc's heap in huge pages saves a sixth of their time.
QUICK_TO_COMPILE := --xla_cpu_max_isa=SSE4_2 --xla_backend_optimization_level=0
QUICKLY := GLIBC_TUNABLES=glibc.malloc.hugetlb=1 XLA_FLAGS='$(QUICK_TO_COMPILE)'

test: lint
	$(QUICKLY) $(BIN)/pytest -n 3 --dist loadgroup -m 'not long'

test-long: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 -m long

mutants: $(VENV)/.installed-dev
	$(QUICKLY) $(BIN)/pytest -n 2 -m long tests/mutation

bench: install
	$(BIN)/python -m benchmarks.mountain_car
	$(BIN)/python -m benchmarks.priors
	$(BIN)/python -m benchmarks.half_cheetah
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.widths

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

dist: $(VENV)/.installed-dev
	$(BIN)/python -m hatchling build

clean:
	rm -rf $(VENV) dist site runs .pytest_cache .ruff_cache .hypothesis
