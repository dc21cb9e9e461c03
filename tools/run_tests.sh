#!/bin/sh
# Runs every test: of the crates and their packages, of the gateway with its eBPF programs, of
# Python, of the wheel; but not the trials of other people's DNS programs (make test-servers).
#
# Usage: run_tests.sh BIN, where BIN is the folder of the environment's commands. If CI is set, the
# guest kernel for the kernel backend's tests is built meanwhile, because many tests mostly wait.
set -eu
bin=$1

if [ -n "${CI:-}" ]; then
    nice -n 5 "$bin/narrows" kernel prepare >.venv/tmp/guest.log 2>&1 &
    guest=$!
    # The tests that need the guest wait for this build. If it fails, they build the guest
    # themselves, and report why that fails.
    trap 'kill "$guest" 2>/dev/null || :' EXIT
    trap 'exit 130' INT TERM
fi

cargo test --locked -q
sh tools/package_crates.sh --may-skip
sh gateway/test.sh
failed=0
"$bin/pytest" -q -n auto -m "not alone and not servers" || failed=1
"$bin/pytest" -q -m "alone and not servers" || failed=1
"$bin/python" tools/check_wheel.py
exit $failed
