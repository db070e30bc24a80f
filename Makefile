# The stable interface: install, run, demo, test, suites, bench, soak, fuzz.
# PYTHON selects the interpreter (3.11 or newer, with venv); VENV the folder of the environment.

VENV ?= .venv
DIR ?= notebooks
ARGS ?=
# Tests mostly wait, for kernels that start and for the emulated machine, which one of these has for itself: three at a
# time are well on two processors. What `make test` prints at its end tells whether there was room for more.
JOBS ?= 3

# The newest interpreter that can make a virtual environment.
PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 python3.11 python3 /usr/bin/python3; do \
	"$$name" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$name"; break; }; done)

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# JupyterLab refuses to run as root unless told; the sandbox never keeps root's uid either way.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help install run demo test test-vm suites bench soak fuzz lint clean

help: ## print this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

install: $(STAMP) ## make .venv with everything and put the kernelspec into it

$(STAMP): pyproject.toml $(wildcard kernelspec/*)
	@test -n "$(PYTHON)" || { echo "No Python 3.11 or newer with venv was found." \
		"Install one (Debian, Ubuntu: apt-get install python3-venv) or set PYTHON=/path/to/python3." >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing JupyterLab and what the tour and the tests need: some minutes the first time."
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[demo,test]'
	$(BIN)/python -m compileall -q sentinel_kernel
	$(BIN)/sentinel-kernel install --sys-prefix
	touch $@

# A notebook from elsewhere names a kernel of its own, most python3: where it is not offered, JupyterLab takes this one.
run: $(STAMP) ## JupyterLab with "Python 3 (Sentinel)" for every notebook (DIR=folder, ARGS=more options)
	folder="$$(cd "$$(echo "$(DIR)" | sed "s|^~|$$HOME|")" && pwd)" && $(BIN)/jupyter lab --MultiKernelManager.default_kernel_name=sentinel \
		--KernelSpecManager.allowed_kernelspecs=sentinel --ServerApp.root_dir="$$folder" \
		--ServerApp.tornado_settings="{'headers': {'X-DNS-Prefetch-Control': 'off'}}" $(AS_ROOT) $(ARGS)

demo: $(STAMP) ## execute notebooks/tour.ipynb in the terminal and show what it shows
	$(BIN)/python notebooks/run_tour.py

test: $(STAMP) ## every test (ARGS=pytest options; JOBS=0: all in one process, for a debugger)
	$(BIN)/python -m compileall -q sentinel_kernel
	$(BIN)/python -m pytest --numprocesses=$(JOBS) --dist=loadfile --no-loadscope-reorder $(ARGS)

test-vm: $(STAMP) ## every check of limits in a virtual machine with control groups of version 2, with and without systemd
	$(BIN)/python -m pytest -m "vm or not vm" --timeout=0 -s tests/vm $(ARGS)

suites: $(STAMP) ## tests of ipykernel, nbclient and papermill, on plain ipykernel and on this kernel (ARGS=names)
	$(BIN)/python tests/suites/run.py $(ARGS)

bench: $(STAMP) ## measure beside plain ipykernel, xeus-python and bubblewrap (ARGS="start loss ...": only these)
	test -d $(VENV)/share/jupyter/kernels/xpython || $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check --editable '.[bench]'
	$(BIN)/python tests/benchmarks/run.py $(ARGS)

soak: $(STAMP) ## long runs: leaks, kills at varied moments (ARGS="chaos --kernels 8 --minutes 60": everything at once)
	$(BIN)/python tests/soak/run.py $(ARGS)

fuzz: $(STAMP) ## long random runs (ARGS="dns 1800": a target for so many seconds; ARGS="million messages")
	$(BIN)/python -c 'import atheris' 2>/dev/null || $(BIN)/python -m pip install --quiet \
		--disable-pip-version-check --editable '.[fuzz]'
	$(BIN)/python tests/fuzz/run.py $(ARGS)

lint: $(STAMP) ## the style checks alone (part of `make test`)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

clean: ## remove the environment and every cache
	rm -rf $(VENV) .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build dist tests/artifacts
