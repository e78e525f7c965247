# Two commands are all: `make demo` and `make test`. Each first makes `.venv` what requirements*.lock say.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
TOOLS := .tools
UV := $(shell command -v uv 2>/dev/null || echo $(TOOLS)/uv/bin/uv)
BIN := .venv/bin
LOCKS := requirements.lock requirements-dev.lock
PACKAGES := streaming tuner learning rheostat
CODE := $(PACKAGES) tests benchmarks dashboards docs_build dist_build deploy_build
export UV_PYTHON_DOWNLOADS := never

.PHONY: help venv demo test test-fast faults stories compat compat-containers records soak check docs bench swarm format lock screenshots image dist audit

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: .venv/.synced ## the Python environment of the lock files (again only when they changed)

demo: venv ## a stalled reassignment on a real cluster is rescued; about two minutes
	$(BIN)/rheostat demo $(ARGS)

test: venv ## every test that fits a laptop: unit, streaming, real brokers; about half an hour; only some with ARGS="tests/..."
	$(if $(ARGS),$(BIN)/python -m pytest $(ARGS),bash ci/run-tests.sh)

test-fast: venv ## what only computes: no broker, no Spark, no test that takes long; about four minutes
	$(BIN)/python -m pytest -n auto -m 'not campaign and not slow' tests/unit tests/simulation tests/rules $(wildcard tests/test_*.py) $(ARGS)

faults: venv ## the fault campaign on real brokers, one thing that goes wrong a row; an hour and a half
	$(BIN)/python -m pytest tests/faults -m "" $(ARGS)

stories: venv ## long stories on real brokers, with every process as shipped, and every alert that fires; about half an hour
	$(BIN)/python -m pytest tests/integration tests/ui -m campaign $(ARGS)

check: venv docs ## style, types, import rules, generated files, links of the documentation
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m dashboards.build --check
	$(BIN)/python -m dashboards.runbook_page --check
	$(BIN)/python -m docs_build --check
	$(BIN)/python -m deploy_build --check
	$(BIN)/python -m benchmarks.performance_page --check

docs: venv ## the documentation site, in site/; a broken link or anchor fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: venv ## the benchmarks; each prints its ratio to its bound
	$(BIN)/python -m benchmarks $(ARGS)

soak: venv ## two hours of moves, storms, restarts, reloads and a roll of two tuners: nothing may grow; MINUTES=10 for less
	$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),120) --plot soak.svg $(ARGS)

swarm: venv ## ten thousand simulated worlds in which everything goes wrong; some minutes
	$(BIN)/python -m tuner.simulation --swarm $(or $(N),10000)

format: venv ## rewrite the code in the house format
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/python -m dashboards.build
	$(BIN)/python -m dashboards.runbook_page
	$(BIN)/python -m docs_build
	$(BIN)/python -m deploy_build
	$(BIN)/python -m benchmarks.performance_page

lock: $(UV) ## write requirements*.lock again from pyproject.toml
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --extra oidc pyproject.toml -o requirements.lock
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --extra oidc --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock

dist: venv ## wheel and sdist in dist/, with the list of components (SBOM), licences, lock file and checksums beside them
	rm -f dist/*.*
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m dist_build.sbom dist
	cp requirements.lock dist/
	cd dist && sha256sum rheostat-* requirements.lock > SHA256SUMS

audit: venv ## known vulnerabilities of the locked packages; says so if the database does not answer (error 3)
	$(BIN)/python -m dist_build.audit

screenshots: venv ## the pictures of the page in README and docs, taken again
	RHEOSTAT_SCREENSHOTS=1 $(BIN)/python -m pytest tests/ui/test_ui_plan.py tests/ui/test_ui_week.py tests/ui/test_ui_questions.py tests/ui/test_ui_plan_preview.py -m ""

records: venv ## the stored records of tests/unit/records/unreleased, written again after their format has changed
	RHEOSTAT_WRITE_RECORDS=1 $(BIN)/python -m pytest tests/unit/test_stored_records.py -k stored

compat: venv ## the contract suite and a story with each version of Kafka from 3.9 to 4.4; a quarter of an hour; one with VERSIONS=4.1
	RHEOSTAT_COMPAT_VERSIONS="$(or $(VERSIONS),all)" RHEOSTAT_COMPAT_RESULTS=tests/compat/results.json $(BIN)/python -m pytest tests/compat -m "" $(ARGS)

compat-containers: venv ## the contract suite with Kafka in containers, whose images are built from the same jars; one with VERSIONS=4.1
	RHEOSTAT_COMPAT_VERSIONS="$(or $(VERSIONS),all)" RHEOSTAT_COMPAT_CONTAINERS=1 $(BIN)/python -m pytest tests/compat/test_compat_contract.py $(ARGS)

image: venv ## the container image rheostat:dev, its components (SBOM) and licences in dist/image; BASE=debian:bookworm-slim@sha256:...
	docker build --build-arg BASE=$(or $(BASE),debian:bookworm-slim) -t rheostat:dev .
	$(BIN)/python -m dist_build.image_sbom rheostat:dev dist/image

$(TOOLS)/uv/bin/uv:
	@echo "uv is not installed: putting it into $(TOOLS)/uv"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "rheostat needs Python 3.11 or newer, '$(PYTHON)' is older: run make PYTHON=python3.12 (or newer)" >&2; exit 2; }
	@$(PYTHON) -m venv $(TOOLS)/uv || { echo "'$(PYTHON)' cannot make virtual environments: on Debian apt-get install python3-venv" >&2; exit 2; }
	@$(TOOLS)/uv/bin/python -m pip install -q uv

# The stamp is written last: an interrupted sync is done again.
.venv/.synced: $(LOCKS) pyproject.toml | $(UV)
	@test -x $(BIN)/python || $(UV) venv -q --python "$$(command -v $(PYTHON))" .venv
	$(UV) pip sync -q --compile-bytecode --python $(BIN)/python $(LOCKS)
	$(UV) pip install -q --python $(BIN)/python --no-deps --editable .
	@# Where PYTHONDONTWRITEBYTECODE is set every start would else compile all of it again: two seconds of three and a half.
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@
