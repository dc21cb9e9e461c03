# Everything that is made here stays in the checkout, in .venv, target, runs and dist. Only pip and
# cargo keep their caches elsewhere.

SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3

RUST_SOURCES := Cargo.toml $(wildcard Cargo.lock) \
	$(shell find crates -name target -prune -o \( -name '*.rs' -o -name 'Cargo.toml' \) -print)

# pyo3 looks at this interpreter, so that cargo and maturin agree and share what they build.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

# CI builds once, so incremental compilation would only cost time and gigabytes. Nobody debugs there,
# and a panic says its line without debug information.
ifdef CI
export CARGO_INCREMENTAL := 0
export CARGO_PROFILE_DEV_DEBUG := 0
export CARGO_PROFILE_QUICK_DEBUG := 0
endif

.PHONY: help setup optimised run check check-gateway test test-lab test-gateway test-servers lint lint-quick lint-lab lint-gateway lint-form gateway deb gateway-kernels web site wheel wheels package release results study docs lock guest-2010 agreement agreement-7 bench-sim bench-agreement bench-flows bench-memory bench-disciplines bench-queues bench-gateway bench-sweep bench-start bench-import bench-probe bench-page bench-kernel mutants clean

help: ## Lists these tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.extension ## Builds .venv with the extension, the command narrows, and narrows-live for kernels

optimised: $(VENV)/.optimised

run: setup ## A first result: Table I of the first paper, with an HTML report (narrows reproduce has all papers)
	$(BIN)/narrows reproduce H1 H2 --no-sensitivity

check: lint-quick ## Fast checks of the laboratory: the linters that an edit meets most, and the tests that take seconds
	$(BIN)/pytest -q -n auto -m "not slow and not alone and not servers" tests python

check-gateway: ## Fast checks of the gateway alone: its linters and the tests that take seconds (no root, no clang)
	cargo fmt -p narrows-gateway --check
	cargo clippy --locked -p narrows-gateway --all-targets -q -- -D warnings
	cargo test --locked -q -p narrows-gateway --lib --bins --test core --test documents

test: lint ## Everything that CI runs (with CI set: installs what tests need, none may skip)
	@test -z "$$CI" || sh tools/install_test_tools.sh
	sh tools/run_tests.sh $(BIN) lab gateway

test-lab: lint-lab ## All of `make test` except the gateway, of which it compiles nothing
	sh tools/run_tests.sh $(BIN) lab

test-gateway: lint-gateway ## The gateway's part of `make test` (root, for most of its tests)
	sh tools/run_tests.sh $(BIN) gateway

test-servers: setup ## Tries other people's DNS programs again, after their profiles or captures changed (root; minutes)
	sh tools/install_test_tools.sh --servers
	CI=1 $(BIN)/pytest -q -m "servers and not alone"
	CI=1 $(BIN)/pytest -q -m "servers and alone"
	$(BIN)/python -m tests.dns_behaviour.digest

lint: lint-lab lint-gateway

lint-form: setup
	cargo fmt --all --check
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .

lint-quick: lint-form
	cargo clippy --locked --workspace --exclude narrows-gateway --all-targets -q -- -D warnings
	$(BIN)/mypy

lint-lab: lint-quick
	cargo check --locked -q --manifest-path fuzz/Cargo.toml --no-default-features --target-dir target
	cargo check --locked -q --manifest-path benchmarks/memory/Cargo.toml --target-dir target
	RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --exclude narrows-gateway --no-deps -q
	@! command -v cargo-deny >/dev/null || cargo deny --locked check bans licenses sources

lint-gateway: lint-form
	cargo clippy --locked -p narrows-gateway --all-targets -q -- -D warnings
	cargo check --locked -q --manifest-path fuzz/Cargo.toml --no-default-features --features gateway --bin gateway --target-dir target
	RUSTDOCFLAGS="-D warnings" cargo doc --locked -p narrows-gateway --no-deps -q

gateway: ## Builds narrows-gateway with the in-kernel data path (needs clang and libelf-dev)
	cargo build --locked --release -p narrows-gateway --features ebpf

deb: gateway ## Makes a Debian package of narrows-gateway in target/ (needs dpkg-dev)
	sh gateway/packaging/deb.sh

gateway-kernels: ## Runs the gateway's tests on other kernels, in QEMU (KERNELS="6.1 6.12"; about an hour)
	sh gateway/tests/kernels/run.sh $(KERNELS)

web: setup ## Builds the laboratory page for `narrows lab` (two minutes; needs no Node)
	sh tools/build_web.sh $(BIN)/python

site: web ## Builds the site in dist/site, with the laboratory page: open dist/site/index.html
	rm -rf dist/site
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --quiet --conf-dir docs --doctree-dir $(VENV)/tmp/doctrees . dist/site

wheel: web ## Builds a wheel in dist/, with the laboratory page
	sh tools/build_live.sh release
	$(BIN)/maturin build --release --locked --out dist

wheels: web ## Builds wheels for other machines in dist/: manylinux with zig, or on a Mac for macOS
	sh tools/build_wheels.sh $(BIN)

package: ## Packages and builds the crates for other programs, from narrows-units to narrows-engine
	sh tools/package_crates.sh

release: ## Builds and tries a release in dist/, and says what to publish where (VERSION=0.2.0; TESTED=1: without make test)
	@sh tools/release.sh "$$VERSION"

results: optimised ## Runs the reproductions and writes their result.json and READMEs (RESULTS=H: one paper)
	$(BIN)/python tools/reproduction_results.py $(RESULTS)

study: optimised ## Runs the study of DNS transports (up to an hour) and updates its README (QUICK=1: minutes)
	$(BIN)/narrows study dns-transport $(if $(QUICK),--quick,) --out runs/study-dns-transport
	$(BIN)/python tools/study_results.py runs/study-dns-transport

docs: setup ## Generates the scenario reference, the JSON schema, and the tables of run folders and DNS profiles
	$(BIN)/python tools/scenario_reference.py
	$(BIN)/python tools/table_reference.py
	$(BIN)/python tools/notebook.py
	$(BIN)/python tools/dns_profile_tables.py

lock: setup ## Updates requirements-dev.txt and the Cargo.lock files to the newest allowed versions, and LICENSE-THIRD-PARTY
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9,<1"
	printf '# Written by `make lock`: the versions of pyproject.toml and its extra dev.\n' >requirements-dev.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev --upgrade --universal --python-version 3.11 \
		--generate-hashes --no-annotate --no-header --quiet >>requirements-dev.txt
	cargo update --quiet
	cargo update --quiet --manifest-path fuzz/Cargo.toml
	cargo update --quiet --manifest-path benchmarks/memory/Cargo.toml
	$(BIN)/python tools/third_party.py

guest-2010: setup ## Builds the guest kernel with the TCP of 2010, for --backend kernel-2010 (4 to 9 minutes on one core)
	$(BIN)/narrows kernel prepare --kernel 2010

agreement: setup ## Compares the simulator with a real kernel on 60 random scenarios (SEED=1); goes on where it was stopped
	$(BIN)/narrows agreement --draws $(or $(DRAWS),60) --seed $(or $(SEED),1) --out runs/agreement-seed-$(or $(SEED),1)

agreement-7: setup ## The same with the guest of Linux 7 and today's congestion controls and queues (SEED=1)
	$(BIN)/narrows agreement --distribution modern --backend kernel-7 --draws $(or $(DRAWS),60) \
		--seed $(or $(SEED),1) --out runs/agreement-7-seed-$(or $(SEED),1)

bench-sim: optimised ## Speed compared with ns-3 and ns-2 (QUICK=1: under 5 minutes)
	$(BIN)/python benchmarks/bench_sim.py

bench-agreement: optimised ## Results compared with ns-2's over ten seeds (QUICK=1: three)
	$(BIN)/python benchmarks/bench_agreement.py

bench-flows: optimised ## Speed with 10 to 20,000 flows
	$(BIN)/python benchmarks/bench_flows.py

bench-memory: setup ## Memory for each flow, segment in flight and queued packet
	$(BIN)/python benchmarks/bench_memory.py

bench-disciplines: setup ## Cost of a packet in B1 with each discipline, compared with Drop Tail (QUICK=1: a minute)
	$(BIN)/python benchmarks/bench_disciplines.py

bench-queues: setup ## Cost of enqueue and dequeue in the per-flow disciplines, with 10 to 100,000 flows
	$(BIN)/python benchmarks/bench_queues.py

bench-gateway: setup ## What DNS over TCP costs a server, with and without the gateway (root, clang, libbpf-dev, BIND, NSD, Knot; QUICK=1: 3 minutes; BUDGET=55: at most 55 minutes; RESUME=1: continues an unfinished one)
	$(BIN)/python -m gateway.benchmarks.bench_gateway

bench-import: optimised ## Speed of narrows import on a million Atlas results and captures (QUICK=1: a tenth)
	$(BIN)/python benchmarks/bench_import.py

bench-sweep: optimised ## A sweep of 1000 small runs on one worker and on two
	$(BIN)/python benchmarks/bench_sweep.py

bench-start: setup ## What starting costs, compared with an earlier revision (REVISION=HEAD~20; QUICK=1: three rounds)
	$(BIN)/python benchmarks/bench_start.py $(or $(REVISION),HEAD)

bench-probe: setup ## Whether narrows probe's verdicts and times are right (root; ten minutes, QUICK=1: one)
	$(BIN)/python benchmarks/bench_probe.py

bench-page: web ## Speed of the laboratory page: its engine, the first picture after a knob moves, and sizes
	$(BIN)/python benchmarks/bench_page.py

bench-kernel: setup ## Time of a run on a kernel in virtual time: set-up, and 30 s at 10 Mbit/s (QUICK=1: one round)
	$(BIN)/python benchmarks/bench_kernel.py

mutants: setup ## How many of 200 random mutants the tests notice (AREA=qdisc, tcp, agenda or python; SHARD=1/20, SEED=1; AGAIN=1: survivors once more)
	@test "$(AREA)" = python || test -x target/mutants/bin/cargo-mutants || \
		cargo install --quiet --locked --root target/mutants --version 27.1.0 cargo-mutants
	$(BIN)/python tools/mutants.py $(AREA) --seed $(or $(SEED),1) --shard $(or $(SHARD),1/1) $(if $(AGAIN),--again)

clean: ## Removes what was built, but keeps runs/
	rm -rf $(VENV) target dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	rm -f python/narrows/_core*.so python/narrows/backends/kernel/narrows-live
	find python tests tools benchmarks gateway -name __pycache__ -type d -prune -exec rm -rf {} +

# The packages are installed again when requirements-dev.txt or tools/check_toolchain.sh changes.
$(VENV)/.environment: tools/check_toolchain.sh requirements-dev.txt
	@PYTHON="$(PYTHON)" sh $<
	test -x $(BIN)/python || "$$(PYTHON='$(PYTHON)' sh $< --python)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

# The extension is built again when pyproject.toml or the Rust sources change.
$(VENV)/.extension: $(VENV)/.environment pyproject.toml $(RUST_SOURCES)
	@mkdir -p $(VENV)/tmp
	env -u CONDA_PREFIX VIRTUAL_ENV=$(CURDIR)/$(VENV) TMPDIR=$(CURDIR)/$(VENV)/tmp PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/maturin develop --profile quick --locked
	sh tools/build_live.sh quick
	@touch $@

# The extension as in a wheel, for what is timed or takes long. It stays until the sources change.
$(VENV)/.optimised: $(VENV)/.extension
	env -u CONDA_PREFIX VIRTUAL_ENV=$(CURDIR)/$(VENV) TMPDIR=$(CURDIR)/$(VENV)/tmp PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/maturin develop --release --locked
	@touch $@
