#!/bin/sh
# Runs the crate's tests, then lints it and runs them with the in-kernel data path.
#
# If something that the latter needs is missing, it prints SKIP, or fails if CI is set.
set -eu
cd "$(dirname "$0")"

cargo test --locked -q -p narrows-gateway

skip() {
    [ -z "${CI:-}" ] || { echo "error: $1, and CI is set" >&2; exit 1; }
    echo "SKIP: tests of the gateway's eBPF programs: $1" >&2
    exit 0
}
install="install it with: sh tools/install_test_tools.sh"
command -v clang >/dev/null 2>&1 || skip "clang is not installed; $install"
[ -e /usr/include/libelf.h ] || skip "libelf-dev is not installed; $install"
[ "$(uname -s)" = Linux ] || skip "they are for Linux"
[ "$(id -u)" -eq 0 ] || skip "loading them needs root; run as root: make test-gateway"

cargo clippy --locked -q -p narrows-gateway --features ebpf --all-targets -- -D warnings
# This also builds the binary, which the end-to-end tests take: the newest with the eBPF programs.
cargo test --locked -q -p narrows-gateway --features ebpf --no-run

# These tests mostly wait for processes, and each has a network namespace of its own, so they run
# beside the others at little cost.
waiting="control user_network"
others="--lib --bins --examples"
for file in tests/*.rs tests/*/main.rs; do
    test=$(basename "${file%/main.rs}" .rs)
    case " $waiting " in *" $test "*) ;; *) others="$others --test $test" ;; esac
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2046 # one word per test
cargo test --locked -q -p narrows-gateway --features ebpf $(printf ' --test %s' $waiting) >"$log" 2>&1 &
beside=$!
failed=""
# shellcheck disable=SC2086 # one word per test
cargo test --locked -q -p narrows-gateway --features ebpf $others || failed=yes
cargo test --locked -q -p narrows-gateway --features ebpf --doc || failed=yes
wait $beside || failed=yes
cat "$log"
[ -z "$failed" ]
