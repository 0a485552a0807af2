# One target per task. Targets announce and install missing programs with apt-get (.ci/need). Steps that
# need root (namespaces, interfaces) use sudo unless you are root. The demo uses sudo only if the system
# forbids user namespaces to ordinary users.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help simulate build wasm python faucet ryu release install repro ui ui-test deb demo check publish-check loom test schemathesis hostile chaos build-sabotaged soak fuzz v2 miri man docs bench bench-long peers figures table1

# Debian leaves the sbin directories out of an ordinary user's PATH.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

LAB := ip ping ethtool tcpdump ovsdb-tool ovsdb-server ovs-vswitchd ovs-vsctl ovs-ofctl
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
OF ?= 1.3

help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build: ## compile the programs and the bundled apps into target/debug
	@.ci/need cargo cc
	cargo build --workspace --bins --examples

# Two builds: in one, the hosts would contain the compiler. PROFILE=release after `make release`.
WASM_PROFILE := $(if $(filter release,$(PROFILE)),--release)

wasm: ## the programs that compile and host apps in WebAssembly, in target/debug (PROFILE=release): minutes
	@.ci/need cargo cc
	cargo build $(WASM_PROFILE) --package rosemary-wasm --features host,kernel --bin rosemary-wasm --bin rosemary-kernel-wasm
	cargo build $(WASM_PROFILE) --package rosemary-wasm --features compiler --bin rosemary-compile

release: ## compile the optimised programs and apps into target/release, for `make install`
	@.ci/need cargo cc
	cargo build --release --workspace --bins --examples

# `make python PYTHON=/usr/bin/python3` selects the interpreter; PYTHON_PROFILE=release optimises the SDK.
PYTHON ?= python3
PYTHON_PROFILE ?= dev

python: ## the virtual environment for apps in Python: target/python (PYTHON=python3, PYTHON_PROFILE=release)
	@.ci/need cargo cc $(PYTHON)
	@etc/make-python.sh target/python $(PYTHON_PROFILE) $(PYTHON)

FAUCET := target/faucet

faucet: build python ## Faucet 1.10.12 from PyPI, for `rosemary faucet`: target/faucet
	@.ci/need cc $(PYTHON)
	@etc/make-faucet.sh $(FAUCET)

# The environment of Ryu's own apps, fetched at test time.
RYU := target/ryu

ryu: build python ## every app of Ryu 4.34, Faucet, and a client of Ryu's REST interface, on Open vSwitch, and the table in docs/ryu-apps.md: a quarter of an hour
	@.ci/need $(LAB) cc curl tshark
	@etc/make-ryu.sh $(RYU)
	@etc/make-faucet.sh $(FAUCET)
	@etc/make-ryurest.sh target/ryurest
	@etc/test-ryu.sh $(RYU)
	@rm -rf $(RYU)/passed
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1" \
	  cargo test --workspace --test system -- --nocapture --include-ignored ryu:: faucet::
	@etc/ryu-table.sh $(RYU) > docs/ryu-apps.md

PREFIX ?= /usr/local
BUILD ?= target/release

# DESTDIR comes from the environment, as it may have letters that the shell would interpret.
install: ## install what `make release`, `make python` and `make faucet` built: programs, apps, SDKs, manual, unit (PREFIX=/usr/local, DESTDIR=, RELEASE_KEY= signs)
	@etc/install.sh "$(BUILD)" "$(PREFIX)" "$${DESTDIR-}" target/python $(FAUCET)

# The manifests are in the packages, which are compared bit for bit.
repro: ## whether two builds make the same manifests of the release: an hour
	@$(MAKE) deb CHECK=1
	@for package in $(DEB)/rosemary_*.deb $(DEB)/rosemary-python_*.deb; do \
	  dpkg-deb --fsys-tarfile $$package | tar --extract --to-stdout --wildcards './usr/lib/rosemary/MANIFEST*' | sha256sum; \
	done

# The page is built with Node.js; without it, `make build` makes a rosemary-northbound that says what is missing.
ui: ## the web page, in target/ui/dist, which the next build contains; fetches packages of npm
	@.ci/need node npm
	@ui/build.sh

ui-test: ui build ## the page in Chromium, with a ring of real switches: minutes (SAVE=1 replaces the pictures in docs/images)
	@.ci/need $(LAB) chromium cc node
	@$(SUDO) env "PATH=$$PATH" SAVE=$(SAVE) ui/test/run.sh

DEB := target/deb

# debian/rules compiles into target/deb with names of directories that are the same on every machine.
deb: ui ## Debian packages of the release build, checked by lintian: target/deb/rosemary*.deb (CHECK=1: build them twice, compare)
	@.ci/need cargo cc dh lintian
	@rm -f $(DEB)/*.deb
	@DESTDIR=$(CURDIR)/$(DEB) debian/rules clean binary
	@lintian --allow-root --fail-on error,warning --info $(DEB)/rosemary*.deb
	@$(if $(CHECK),tests/deb/twice)
	@ls -l $(DEB)/rosemary*.deb

demo: build ## hosts of a ring ping while a link is cut and the app is killed (OF=1.0 or 1.3, KEEP=1)
	@.ci/need $(LAB)
	@unshare --user --map-root-user --net --mount true 2>/dev/null && root= || root="$(SUDO)"; \
	 $$root target/debug/rosemary demo --of $(OF) $(if $(KEEP),--keep)

man: build ## the manual pages, in target/man: man -l target/man/rosemary.1, rosemary.toml.5
	@target/debug/rosemary man target/man

# mdBook is compiled once, into target/tools.
MDBOOK := target/tools/bin/mdbook

docs: ## this documentation as a book: target/book/html/index.html
	@.ci/need cargo cc python3
	@docs/build.py target/book/src
	@cp docs/book.toml target/book/
	@[ -x $(MDBOOK) ] || { echo "make: compiling mdBook into target/tools, which takes minutes" >&2; \
	  cargo install mdbook --version 0.5.4 --locked --no-default-features --root target/tools; }
	@$(MDBOOK) build target/book --dest-dir $(CURDIR)/target/book/html
	@echo "The book is in target/book/html/index.html"

check: loom ## format, lints, unit tests, links of the documents: minutes
	@.ci/need cargo cc python3
	@cargo fmt --version >/dev/null 2>&1 || { echo "make: rustfmt is missing; type: rustup component add rustfmt" >&2; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 || { echo "make: clippy is missing; type: rustup component add clippy" >&2; exit 1; }
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy --workspace --test '*' -- -D warnings
	cargo clippy --package rosemary-wasm --features host,kernel,compiler --all-targets -- -D warnings
	cargo test --package rosemary-wasm --features host,kernel,compiler
	@mkdir -p target
	cargo test --workspace -- --show-output 2>&1 | tee $(UNIT_LOG)
	@docs/build.py target/book/src
	@docs/errors.py --check
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --offline check licenses bans sources; \
	 else echo "make: cargo deny is not installed: licences and sources were not checked"; fi

# What each crate that others may use needs is in its package: cargo compiles the packages.
PUBLISHED := rosemary-names rosemary-openflow rosemary-sys rosemary-series rosemary-routes rosemary-sdk ofbench

publish-check: ## whether the crates for other projects can be published, without publishing: minutes
	@.ci/need cargo cc
	cargo publish --dry-run $(addprefix --package ,$(PUBLISHED))

# A separate target directory: otherwise the flag would cause a full rebuild each time.
loom: ## the rings between kernel and zone under a model checker: seconds, once compiled
	@.ci/need cargo cc
	RUSTFLAGS="--cfg loom" cargo test --package rosemary-sys --lib --release --target-dir target/loom ring::model

# As root, because a system test creates a lab (crates/cli/src/lab). A test that would be skipped fails
# here. --show-output prints the measurements.
RUNNER = CARGO_TARGET_$(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p' | tr a-z- A-Z_)_RUNNER
UNIT_LOG := target/unit-tests.log
SYSTEM_LOG := target/system-tests.log
# The tests that need root or the built programs. Most of their time they wait: more of them run at once than there are processors.
ROOT_TESTS := --test allocations --test dependencies --test monitoring --test summary --test system

# The rings, and the C ABI under both of Miri's aliasing models. Not part of `make test`, because it needs
# a nightly toolchain. The apps are not part of it, because they have no unsafe code of their own. Isolation
# stays on: tests that start programs or open files do not run in Miri. The emulation of weak memory is off
# for the rings, because it panics if bytes partly overlap an atomic (the end of a message); `make loom`
# covers weak memory.
MIRI := cargo +nightly miri test --target-dir target/miri

miri: ## the rings and the app ABI under Miri, which looks for undefined behaviour: minutes
	@.ci/need cargo cc
	@cargo +nightly miri --version >/dev/null 2>&1 || { echo "make: Miri is missing; type: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	@for model in -Zmiri-strict-provenance "-Zmiri-strict-provenance -Zmiri-tree-borrows"; do \
	  MIRIFLAGS="$$model -Zmiri-disable-weak-memory-emulation" $(MIRI) --package rosemary-sys --lib ring:: && \
	  MIRIFLAGS="$$model" $(MIRI) --package rosemary-sdk --features host --lib -- abi:: services::table && \
	  MIRIFLAGS="$$model" $(MIRI) --package rosemary-sdk --features host --test rust_app --test templates || exit 1; \
	done

# The page comes first: rosemary-northbound contains it, and would be compiled again.
test: ui check simulate build wasm python ## everything: check, a simulation, the system tests against Open vSwitch, the page in Chromium, generated requests to the API
	@.ci/need $(LAB) chromium node setpriv openssl minisign ovs-pki tshark mn strace gdb faketime zsh curl promtool vtep-ctl clang wasm-ld
	target/python/bin/python3 -m unittest discover --start-directory python/tests
	target/python/bin/python3 -m unittest discover --start-directory experiments/tests
	@etc/make-ryu.sh $(RYU)
	@etc/make-faucet.sh $(FAUCET)
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1" \
	  cargo test --workspace $(ROOT_TESTS) -- --show-output --test-threads $$(( ($$(nproc) * 3 + 1) / 2 )) 2>&1 | tee $(SYSTEM_LOG)
	@$(SUDO) env "PATH=$$PATH" ui/test/run.sh
	@$(SUDO) env SEED=$(SEED) PHASES=coverage SECONDS_OF_FUZZING=600 tests/schemathesis.sh target/debug
	@echo
	@echo "Passed: format, lints, the page's tests and generated requests to the API."
	@etc/test-summary.sh "unit tests" $(UNIT_LOG)
	@etc/test-summary.sh "system tests" $(SYSTEM_LOG)

schemathesis: build ## generated requests to the API, from its own description, with Schemathesis from PyPI: 2 minutes (SEED=7)
	@.ci/need python3 curl
	@$(SUDO) env SEED=$(SEED) tests/schemathesis.sh target/debug

HOSTILE_LOG := target/hostile.log

hostile: build python ## every hostile app, also in Python, beside others, alone and together, and attacks from outside; UNCONFINED=1 disables the sandbox: minutes
	@.ci/need $(LAB)
	target/python/bin/python3 -m unittest python/tests/test_package.py
	@status=0; $(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1 ROSEMARY_HOSTILE=all ROSEMARY_UNCONFINED=$(UNCONFINED)" \
	  cargo test --workspace --test system -- --nocapture \
	  hostile::all:: hostile::fuzz:: attacks::memory:: python::attacks:: 2>&1 \
	  | tee $(HOSTILE_LOG) || status=$$?; \
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1" \
	  cargo test --workspace --test system -- --nocapture --test-threads 1 --ignored outside:: python::attacks:: 2>&1 \
	  | tee -a $(HOSTILE_LOG) || status=$$?; \
	sed -nE '/^(in Python: )?[0-9]+ contained, [0-9]+ escaped$$/p' $(HOSTILE_LOG); \
	for verdict in contained escaped; do \
	  echo "from outside: $$(grep -cE "(^| )outside: .*: $$verdict \\(" $(HOSTILE_LOG)) $$verdict"; \
	done; exit $$status

SEED ?= 7
STEPS ?= 200

# Rosemary itself is broken on purpose by SABOTAGE=no-restart, wrong-blame, leak-fd, wipe-flows or fail-open; then
# steps must be broken. Such programs are built in a target directory of their own.
ifdef SABOTAGE
CHAOS := target/sabotage/debug/examples/rosemary_chaos
chaos: build-sabotaged
else
CHAOS := target/debug/examples/rosemary_chaos
chaos: build
endif

# Random deaths before a link is cut, in each network.
CUTS ?= 20

chaos: ## random faults under traffic, and the invariants after each (SEED=7 STEPS=200 CUTS=20, APP=forwarding, OF=1.5, SABOTAGE=NAME): minutes
	@.ci/need $(LAB) cc faketime
	@$(SUDO) env ROSEMARY_SABOTAGE=$(SABOTAGE) $(CHAOS) $(SEED) $(STEPS) $(or $(APP),learning-switch) $(OF)
	@$(if $(SABOTAGE),,for network in "1.0 ring" "1.3 ring" "1.0 square" "1.3 square"; do \
	  $(SUDO) $(CHAOS) $(SEED) $(CUTS) cuts $$network || exit 1; \
	done)

SIMULATION := target/release/rosemary-simulate

simulate: STEPS = 1000000
simulate: ## the supervisor among invented processes, operators, disks and clocks, and its promises after each step (SEED=7 STEPS=1000000, SABOTAGE=NAME): a minute
	@.ci/need cargo cc
	@cargo build --release --package rosemary-simulator
	$(SIMULATION) $(SEED) $(STEPS) $(if $(SABOTAGE),--sabotage $(SABOTAGE))

build-sabotaged:
	@.ci/need cargo cc
	cargo build --workspace --bins --examples --features rosemary-monitor/sabotage,rosemary-kernel/sabotage --target-dir target/sabotage

# Long and random runs print their seed; make soak ROSEMARY_SEED=... repeats them.
REPEAT := $(if $(ROSEMARY_SEED),ROSEMARY_SEED=$(ROSEMARY_SEED))

# Experiments draw into target/experiments, or replace the charts of experiments/ with SAVE=1.
SAVED := $(if $(SAVE),--save)

# Every experiment ends with a line that says whether its claim holds.
FIGURES := rosemary-fig4-18 rosemary-fig11 rosemary-fig12 rosemary-fig16 rosemary-fig17 rcane-fig11 tls-cost decoupling protection

figures: build release ## the published figures on containment, TLS and decoupling, beside os-ken from PyPI: minutes (ONLY=NAME: one folder of experiments/, SAVE=1 replaces the tracked charts)
	@.ci/need $(LAB) cc python3 unshare taskset ss ovs-testcontroller
	@for name in $(or $(ONLY),$(FIGURES)); do echo "== $$name"; $(SUDO) experiments/run $$name $(SAVED) || exit 1; done

table1: release ## the reaction to each fault of Table 1, under load: minutes (SAVE=1 replaces the tracked chart)
	@.ci/need $(LAB) cc python3 ovs-testcontroller
	@$(SUDO) target/release/examples/rosemary_table1 $(SAVED)

# Number of messages that the fuzzing app sends from inside a zone.
ROSEMARY_FUZZ_MESSAGES ?= 1000000

soak: build ## long runs: 100 deaths of apps of each kind and of the kernel under traffic, links cut after 100 of each, 300 of the storage, fuzzing from a zone, a partition of the processors: hours
	@.ci/need $(LAB) tshark mn cc faketime
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1 ROSEMARY_DEATHS=100 ROSEMARY_EXCHANGES=1000 ROSEMARY_MOVES=500 ROSEMARY_CUTS=100 ROSEMARY_SWITCHES=1000 $(REPEAT) \
	  ROSEMARY_FUZZ_MESSAGES=$(ROSEMARY_FUZZ_MESSAGES)" cargo test --workspace $(ROOT_TESTS) -- --show-output --include-ignored \
	  over_1_2 over_1_4 repeated_crashes:: kernel_killed:: northbound::kills:: reconnecting:: guards::killed_guard hostile::fuzz:: forwarding:: cut_links:: changes:: path_moves:: 2>&1 | tee target/soak.log
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1" \
	  cargo test --workspace --test system -- --show-output --test-threads 1 --ignored sessions:: 2>&1 | tee -a target/soak.log
	ROSEMARY_KILLS=300 cargo test --package rosemary-services --test kills -- --show-output 2>&1 | tee -a target/soak.log
	@for run in 7:1000 2:200 11:200 33:200 7:200:forwarding 7:200:learning-switch:1.5 7:200:forwarding:1.5 7:100:cuts:1.0:square 7:100:cuts:1.3:square; do \
	  $(SUDO) target/debug/examples/rosemary_chaos $${run//:/ } | tee -a target/soak.log || exit 1; \
	done
	@for sabotage in no-restart wrong-blame leak-fd wipe-flows fail-open; do \
	  if $(MAKE) chaos SEED=8 STEPS=12 SABOTAGE=$$sabotage | tee target/sabotage.log; \
	  then echo "make: $$sabotage was not noticed" >&2; exit 1; fi; \
	  tail -n 1 target/sabotage.log | grep -Eq '^12 steps, [1-9][0-9]* broken$$'; \
	done
	@$(MAKE) simulate STEPS=1000000000
	@for sabotage in no-restart wrong-blame leak-fd wipe-flows fail-open forget-confirmation; do \
	  status=0; $(SIMULATION) 7 1000000 --sabotage $$sabotage || status=$$?; \
	  [ $$status = 1 ] || { echo "make: $$sabotage was not noticed in the simulation" >&2; exit 1; }; \
	done
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then $(MAKE) fuzz; \
	 else echo "make: cargo-fuzz is not installed: NOTHING WAS FUZZED" >&2; fi

# Seconds per target. Not part of `make test`, because it needs a nightly toolchain.
FUZZ ?= 60

fuzz: ## every fuzz target (FUZZ=60 seconds each): minutes
	@.ci/need cargo cc
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "make: cargo-fuzz is missing; type: rustup toolchain install nightly && cargo install cargo-fuzz" >&2; exit 1; }
	@fuzz/seed.sh "$${OPENFLOW_VECTORS-}"
	@for target in $$(cargo +nightly fuzz list); do \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ) || exit 1; \
	done

# Selects the Debian release and the system tests: make v2 SUITE=trixie TESTS="limits:: hostile::".
# TESTS=package tests only the package that `make deb` made: install, upgrade under a ping, reload, remove, purge.
v2: ## the sandbox and the limits under systemd with cgroup v2, and the package, in QEMU: a quarter of an hour
	@.ci/need cargo cc debootstrap dpkg-deb mke2fs qemu-system-x86_64
	@tests/v2/run $(or $(SUITE),bookworm) $(TESTS)

# Uses two cores: Rosemary on one, ofbench on the other. The revision to compare with is built in a
# separate worktree, target/against.
MEASURE := cargo cc python3 ss taskset

bench: ## performance tables: minutes (AGAINST=REV compares with another revision, in alternation)
	@.ci/need $(MEASURE)
	@python3 experiments/speed/speed.py $(if $(AGAINST),--against $(AGAINST))

bench-long: ## every figure of docs/performance.md: half an hour
	@.ci/need $(MEASURE) $(LAB) ovs-testcontroller
	@python3 experiments/speed/speed.py --long
	@$(SUDO) target/release/examples/first_ping

peers: ## compare with ovs-testcontroller and os-ken under the same loads: minutes
	@.ci/need $(MEASURE) ovs-testcontroller
	@python3 experiments/peers/peers.py
