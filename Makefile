# Two commands: `make repro` runs the experiment, `make test` checks the code. Both work twice, and
# offline once installed. PYTHON names another interpreter, VENV another environment, EXTRAS what is installed with it
# in place of `all` for the experiment and `dev,docs,s3` for the rest (EXTRAS=dev,docs,s3,cluster adds Ray), PORT another
# port for MLflow.
PYTHON ?= python3
VENV ?= .venv
EXTRAS ?=
PORT ?= 5000
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed
RUNS := $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(VENV)/runs)
DEV := dev,docs,s3
INSTALL = $(BIN)/pip install -qq --no-compile --editable
export PATH := $(abspath $(BIN)):$(PATH)
export DVC_NO_ANALYTICS := 1
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := 1
unexport PYTHONDONTWRITEBYTECODE  # a stage is a process: each would compile the sources anew

.DEFAULT_GOAL := help
.PHONY: help repro test lint check-machine ui docs replicate calibrate bench clean

help:  ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stages import their packages once, see src/markedness/warm.py.
repro: export MARKEDNESS_WARM := 1
repro: $(RUNS)  ## the whole experiment: install, pipeline, report
	python scripts/side_by_side.py
	@echo
	@echo "Report:  $(CURDIR)/reports/index.html"
	@echo "MLflow:  make ui, then open http://127.0.0.1:$(PORT)"

test: $(INSTALLED)  ## ruff, mypy and the tests; says at its end what was skipped and how to have it
	ruff check .
	ruff format --check .
	mypy
	pytest -m '' -n auto --dist loadfile --no-loadscope-reorder

ui: $(RUNS)  ## MLflow on the local store
	markedness track
	mlflow ui --backend-store-uri sqlite:///mlflow.db --host 127.0.0.1 --port $(PORT)

docs: $(INSTALLED)  ## the documentation, into site/
	mkdocs build --strict

replicate: $(RUNS)  ## how well this reproduces the literature
	-markedness corpora get
	markedness literature

calibrate: $(RUNS)  ## error rates and power on worlds of known truth, into docs/calibration.md; may be stopped and continued
	markedness calibrate

bench: $(INSTALLED)  ## speed and memory, as ratios within one run
	for script in benchmarks/*.py; do python $$script; done

check-machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "markedness needs Python 3.11 or newer: install it, or name one with 'make PYTHON=/path/to/python3.11 ...'."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "This Python has no venv module: install it (Debian: apt-get install python3-venv)."; exit 1; }
	@test -d $(VENV) || $(PYTHON) -c 'import shutil, sys; sys.exit(shutil.disk_usage(".").free < 6e9)' || { \
	  echo "Less than 6 GB of disk are free here: the environment takes 3.5 GB, the embedded model 1.3 GB; free some space."; exit 1; }

$(VENV)/runs: WANTED = '.[$(or $(EXTRAS),all)]'
$(INSTALLED): WANTED = '.[$(or $(EXTRAS),$(DEV))]' 'moto[server]' 'aiobotocore[boto3]'
$(VENV)/runs $(INSTALLED): pyproject.toml constraints.txt | check-machine
	@echo "Installing into $(VENV) (about 3 GB, some minutes) ..."
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) $(WANTED) --constraint constraints.txt || { \
	  for attempt in 1 2 3; do \
	    $(BIN)/python scripts/offered_pins.py constraints.txt > $(VENV)/offered.txt && \
	      $(INSTALL) $(WANTED) --constraint $(VENV)/offered.txt && exit 0; \
	  done; \
	  echo "The installation failed, see above: the first one needs a package registry; after it everything works offline."; exit 1; }
	touch $@

clean:  ## remove the environment; data, results and ledgers stay
	rm -rf $(VENV)
