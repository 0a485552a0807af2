# One command each. They install with apt-get what is missing, and say so before (.ci/need).
# What needs root (namespaces, interfaces) runs through sudo, where you are not root. The demo does so
# only where the system forbids ordinary users namespaces of their own.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo check loom test hostile soak fuzz v2 miri man docs bench bench-long peers figures

# Debian leaves the sbin directories out of an ordinary user's PATH.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

LAB := ip ping ethtool tcpdump ovsdb-tool ovsdb-server ovs-vswitchd ovs-vsctl ovs-ofctl
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
OF ?= 1.3

help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

build: ## compile the programs and the apps that ship, into target/debug
	@.ci/need cargo cc
	cargo build --workspace --bins --examples

demo: build ## two hosts ping through Rosemary, and its app is killed under them (OF=1.0 or 1.3, KEEP=1)
	@.ci/need $(LAB)
	@unshare --user --map-root-user --net --mount true 2>/dev/null && root= || root="$(SUDO)"; \
	 $$root target/debug/rosemary demo --of $(OF) $(if $(KEEP),--keep)

man: build ## the manual's pages, into target/man: man -l target/man/rosemary.1
	@target/debug/rosemary man target/man

# mdBook is a program of its own: it is compiled once, into target/tools.
MDBOOK := target/tools/bin/mdbook

docs: ## this documentation as a book: target/book/html/index.html
	@.ci/need cargo cc python3
	@docs/build.py target/book/src
	@cp docs/book.toml target/book/
	@[ -x $(MDBOOK) ] || { echo "make: compiling mdBook into target/tools, which takes minutes" >&2; \
	  cargo install mdbook --version 0.5.4 --locked --no-default-features --root target/tools; }
	@$(MDBOOK) build target/book --dest-dir html
	@echo "The book is in target/book/html/index.html"

check: loom ## format, lints, unit tests, links of the documents: minutes
	@.ci/need cargo cc python3
	@cargo fmt --version >/dev/null 2>&1 || { echo "make: rustfmt is missing; type: rustup component add rustfmt" >&2; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 || { echo "make: clippy is missing; type: rustup component add clippy" >&2; exit 1; }
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo test --workspace --exclude rosemary-tests
	@docs/build.py target/book/src
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --offline check licenses bans sources; \
	 else echo "make: cargo deny is not installed: licences and sources were not checked"; fi

# In a folder of its own: the flag would make cargo build everything anew each time.
loom: ## the rings between kernel and zone under a model checker: seconds, once it is compiled
	@.ci/need cargo cc
	RUSTFLAGS="--cfg loom" cargo test --package rosemary-sys --lib --release --target-dir target/loom ring::model

# As root, because a system test makes a lab of its own (crates/cli/src/lab); one that has to skip
# fails here. --show-output, because they print what they measured.
RUNNER = CARGO_TARGET_$(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p' | tr a-z- A-Z_)_RUNNER
SYSTEM_LOG := target/system-tests.log

# The rings, and what crosses the C ABI by both of Miri's models of who may use which pointer. Not part
# of `make test`, because it needs a nightly toolchain. Isolation stays on: what starts programs or opens
# files is not for Miri. For the rings its emulation of weak memory is off, which panics by itself where
# bytes overlap an atomic in part (a message's end); the models of `make loom` are about that.
MIRI := cargo +nightly miri test --target-dir target/miri

miri: ## the rings and the app ABI under Miri, which looks for undefined behaviour: minutes
	@.ci/need cargo cc
	@cargo +nightly miri --version >/dev/null 2>&1 || { echo "make: Miri is missing; type: rustup toolchain install nightly --component miri,rust-src" >&2; exit 1; }
	@for model in -Zmiri-strict-provenance "-Zmiri-strict-provenance -Zmiri-tree-borrows"; do \
	  MIRIFLAGS="$$model -Zmiri-disable-weak-memory-emulation" $(MIRI) --package rosemary-sys --lib ring:: && \
	  MIRIFLAGS="$$model" $(MIRI) --package rosemary-sdk --features host --lib --test rust_app --test templates && \
	  MIRIFLAGS="$$model" $(MIRI) --package rosemary-apps --examples || exit 1; \
	done

test: check build ## all of it: check, then the whole system against Open vSwitch
	@.ci/need $(LAB) setpriv openssl minisign ovs-pki tshark mn strace
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1" \
	  cargo test --package rosemary-tests -- --show-output 2>&1 | tee $(SYSTEM_LOG)
	@echo
	@echo "Passed: format, lints, unit tests, and system tests:"
	@sed -n 's/^test result: ok. \([1-9][0-9]* passed\).*finished in \(.*\)/  \1 in \2/p' $(SYSTEM_LOG)

HOSTILE_LOG := target/hostile.log

hostile: build ## every hostile app beside others, alone and together; UNCONFINED=1 lets them loose: minutes
	@.ci/need $(LAB)
	@status=0; $(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1 ROSEMARY_HOSTILE=all ROSEMARY_UNCONFINED=$(UNCONFINED)" \
	  cargo test --package rosemary-tests --test system -- --nocapture \
	  hostile::all:: hostile::fuzz:: attacks::memory:: 2>&1 \
	  | tee $(HOSTILE_LOG) || status=$$?; \
	sed -n '/^[0-9]* contained, [0-9]* escaped$$/p' $(HOSTILE_LOG); exit $$status

# What takes long and is random: a seed is printed, and make soak ROSEMARY_SEED=... has the moments again.
SEED := $(if $(ROSEMARY_SEED),ROSEMARY_SEED=$(ROSEMARY_SEED))

figures: build ## Rosemary's published figures on containment, beside os-ken from PyPI: minutes
	@.ci/need $(LAB) cc python3
	@for number in 4_18 11 12 16 17; do $(SUDO) target/debug/examples/rosemary_fig$$number; done

# Messages that are sent from inside a zone, to be judged by what the switches then do.
ROSEMARY_FUZZ_MESSAGES ?= 1000000

soak: build ## the long runs: apps die 100 times each way under traffic, the storage 300 times, a zone is fuzzed: minutes
	@.ci/need $(LAB) tshark
	$(RUNNER)="$(SUDO) env ROSEMARY_REQUIRE_ALL=1 ROSEMARY_DEATHS=100 $(SEED) \
	  ROSEMARY_FUZZ_MESSAGES=$(ROSEMARY_FUZZ_MESSAGES)" cargo test --package rosemary-tests -- --show-output \
	  deaths:: guards::guard_killed hostile::fuzz:: 2>&1 | tee target/soak.log
	ROSEMARY_KILLS=300 cargo test --package rosemary-services --test kills -- --show-output 2>&1 | tee -a target/soak.log
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then $(MAKE) fuzz; \
	 else echo "make: cargo-fuzz is not installed: NOTHING WAS FUZZED" >&2; fi

# Seconds for each target. Not part of `make test`, because it needs a nightly toolchain.
FUZZ ?= 60

fuzz: ## every fuzz target for a while (FUZZ=60 seconds each): minutes
	@.ci/need cargo cc
	@cargo +nightly fuzz --version >/dev/null 2>&1 || { echo "make: cargo-fuzz is missing; type: rustup toolchain install nightly && cargo install cargo-fuzz" >&2; exit 1; }
	@for target in $$(cargo +nightly fuzz list); do \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ) || exit 1; \
	done

# Which Debian, and which system tests: make v2 SUITE=trixie TESTS="limits:: hostile::".
v2: ## the wall and the limits under systemd with cgroups of version 2, in QEMU: a quarter of an hour
	@.ci/need cargo cc debootstrap mke2fs qemu-system-x86_64
	@tests/v2/run $(or $(SUITE),bookworm) $(TESTS)

# Two cores: all of Rosemary on the one, ofbench on the other. What is compared with is built in a worktree
# and a folder of its own, target/against.
MEASURE := cargo cc python3 ss taskset

bench: ## how fast it is, in tables: minutes (AGAINST=REV: this tree and another, in turn)
	@.ci/need $(MEASURE)
	@python3 experiments/speed/speed.py $(if $(AGAINST),--against $(AGAINST))

bench-long: ## every figure of docs/performance.md: half an hour
	@.ci/need $(MEASURE) $(LAB) ovs-testcontroller
	@python3 experiments/speed/speed.py --long
	@$(SUDO) target/release/examples/first_ping

peers: ## Rosemary beside ovs-testcontroller and os-ken, by the same runs: minutes
	@.ci/need $(MEASURE) ovs-testcontroller
	@python3 experiments/peers/peers.py
