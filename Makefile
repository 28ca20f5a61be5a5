# Everything there is to run. Bare `make` prints the list.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests at a time: most of them wait for a condition.
WORKERS ?= 2
SAY := printf '\033[1m== %s\033[0m\n'

.PHONY: help
help: ## print this list
	@printf 'rta-supervisor: live telemetry sessions from Spark\n\n'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | while IFS= read -r line; do \
	  printf '  make %-9s %s\n' "$${line%%:*}" "$${line##*## }"; done

# One virtual environment. `demo` needs less than `dev`, so a first demo downloads less.
$(VENV)/ready-demo: requirements/demo.lock pyproject.toml tools/install
	@tools/install "$(PYTHON)" "$(VENV)" demo
$(VENV)/ready-dev: requirements/dev.lock pyproject.toml tools/install
	@tools/install "$(PYTHON)" "$(VENV)" dev

.PHONY: demo
demo: $(VENV)/ready-demo ## run the main job on embedded defaults: server, supervisor, Spark, and a proof
	@$(BIN)/rta-supervisor demo $(ARGS)

.PHONY: watch
watch: $(VENV)/ready-demo ## play cars in real time and look at them in a browser, until Ctrl-C; then archive them
	@$(BIN)/rta-supervisor demo --watch build/watch

.PHONY: test
test: $(VENV)/ready-dev ## run all tests on a real server and a real Spark (ARGS="-k name" narrows)
	@$(SAY) "tests"
	@$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(ARGS)

.PHONY: chaos
chaos: $(VENV)/ready-dev ## break everything, judge every sample: some minutes (ARGS="--seed … --only storm")
	@$(SAY) "chaos"
	@$(BIN)/python -m tests.chaos --json build/chaos.json $(ARGS)

.PHONY: soak
soak: $(VENV)/ready-dev ## the same for long, and all properties with many more examples (takes hours)
	@$(SAY) "soak"
	@$(BIN)/python -m tests.chaos --size soak --json build/soak.json
	@RTA_SOAK=1 $(BIN)/python -m pytest --timeout 14400 tests/unit tests/integration tests/chaos $(ARGS)
	@tools/fuzz $(BIN)/python --seconds 600

.PHONY: fuzz
fuzz: $(VENV)/ready-dev ## look for bytes that break a decoder, with atheris (ARGS="--seconds 600 mark" narrows)
	@$(SAY) "fuzz"
	@tools/fuzz $(BIN)/python $(ARGS)

.PHONY: check
check: $(VENV)/ready-dev ## format, lint, types, import directions, generated code up to date
	@$(SAY) "format and lint"; $(BIN)/ruff format --check . && $(BIN)/ruff check --output-format concise .
	@$(SAY) "types"; $(BIN)/mypy
	@$(SAY) "import directions"; $(BIN)/lint-imports --no-cache
	@$(SAY) "generated code"; $(BIN)/python tools/proto.py --check

.PHONY: format
format: $(VENV)/ready-dev ## rewrite the code in the house format
	@$(BIN)/ruff check --fix --quiet --exit-zero .; $(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/ready-dev ## measure speed as ratios in one run, into build/bench.json
	@$(SAY) "benchmarks"
	@$(BIN)/python -m bench $(ARGS)

.PHONY: compat
compat: $(VENV)/ready-dev ## test the codec on every protobuf and the writers on every Spark that we support
	@tools/compat "$(BIN)/python" $(ARGS)
	@[ -n "$(ARGS)" ] || tools/compat-spark "$(BIN)/python"

.PHONY: proto
proto: $(VENV)/ready-dev ## generate the protobuf code anew
	@$(BIN)/python tools/proto.py

.PHONY: lock
lock: ## resolve the dependencies anew into requirements/*.lock
	@[ -x $(BIN)/uv ] || tools/install "$(PYTHON)" "$(VENV)" dev
	@$(SAY) "locks"
	@tools/lock $(BIN)/uv

.PHONY: install uninstall
install: ## install for all users, with systemd units (PREFIX=/usr/local SYSCONFDIR=/etc DESTDIR= PACKAGES="postgres spark")
	@tools/install-system install
uninstall: ## remove what install put there; settings and state stay
	@tools/install-system uninstall
export PYTHON PREFIX SYSCONFDIR DESTDIR PACKAGES

.PHONY: clean
clean: ## remove what was built, the virtual environment included
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse
	@find . -name __pycache__ -prune -exec rm -rf {} +
