# Everything runs in .venv, which the first target that needs it creates.
PYTHON ?= python3
VENV := .venv
, := ,
BIN := $(VENV)/bin
# Bytecode is written for what is imported, when it is; pip would make it of everything.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile
# uv takes an eighth of pip's time. It does not read pip's configuration: where packages come from
# a registry that is set there, it fails, and pip does the work.
INSTALL = $(BIN)/uv pip install --quiet --python $(BIN)/python --constraint constraints.txt \
	--editable $(1) || $(PIP) --constraint constraints.txt --editable $(1)
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install demo test quick-tests test-long mutants faults fuzz soak bench docs dist lint style types clean

install: $(VENV)/.installed

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint constraints.txt uv

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call INSTALL,'.[control]')
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(call INSTALL,'.[control$(,)dev]')
	@touch $(VENV)/.installed $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(call INSTALL,'.[docs]')
	@touch $@

demo: install
	$(BIN)/traceclass run mountain-car --preset paper --set priors=tcnn --set kernels=pcn \
		--set num_data_sets=1 --out runs/demo --overwrite

lint: style types

style: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev
	$(BIN)/basedpyright

# Nearly all the time of the tests is XLA's, and most of that spent on code that runs once. What
# has to be compiled as it is for users asks for it (tests/as_shipped.py); so is `make test-long`.
# Three workers on two cores: while one waits for a process it has started, the others go on.
# Compilers chase pointers: glibc's heap in huge pages saves a sixth of their time.
QUICK_TO_COMPILE := --xla_cpu_max_isa=SSE4_2 --xla_backend_optimization_level=0
QUICKLY := GLIBC_TUNABLES=glibc.malloc.hugetlb=1 XLA_FLAGS='$(QUICK_TO_COMPILE)'

# Types are checked beside the tests: neither keeps two cores busy by itself.
test: style
	$(MAKE) --no-print-directory --jobs=2 types quick-tests

quick-tests: $(VENV)/.installed-dev
	$(QUICKLY) $(BIN)/pytest -n 3 --dist loadgroup -m 'not long'

test-long: $(VENV)/.installed-dev
	$(BIN)/pytest -n 2 -m long

mutants: $(VENV)/.installed-dev
	$(QUICKLY) $(BIN)/pytest -n 2 -m long tests/mutation

faults: $(VENV)/.installed-dev
	$(QUICKLY) $(BIN)/pytest -m long tests/sampling/test_real_faults.py

fuzz: $(VENV)/.installed-dev
	$(BIN)/pytest -m long tests/experiments/test_fuzz.py

# make soak MINUTES=3 for a trial
MINUTES ?= 60
soak: install
	$(BIN)/python -m benchmarks.soak $(MINUTES)

bench: install
	$(BIN)/python -m benchmarks.mountain_car
	$(BIN)/python -m benchmarks.priors
	$(BIN)/python -m benchmarks.half_cheetah
	$(BIN)/python -m benchmarks.samplers
	$(BIN)/python -m benchmarks.widths
	$(BIN)/python -m benchmarks.cores

docs: $(VENV)/.installed-docs
	$(BIN)/mkdocs build --strict

dist: $(VENV)/.installed-dev
	$(BIN)/python -m hatchling build

clean:
	rm -rf $(VENV) dist site runs .pytest_cache .ruff_cache .hypothesis
