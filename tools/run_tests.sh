#!/bin/sh
# Runs every test of the laboratory (of its crates and their packages, of Python, of the wheel; but
# not the trials of other people's DNS programs, make test-servers), of the gateway, or of both.
#
# Usage: run_tests.sh BIN [lab] [gateway], where BIN is the folder of the environment's commands. If
# CI is set, the guest kernel for the kernel backend's tests is built meanwhile, because many tests
# mostly wait.
set -eu
bin=$1
shift
lab="" gateway=""
for part; do
    case $part in
    lab) lab="tests python" ;;
    gateway) gateway=gateway/tests ;;
    *) echo "error: no part $part; hint: lab, gateway" >&2; exit 2 ;;
    esac
done

if [ -n "${CI:-}" ] && [ -n "$lab" ]; then
    nice -n 5 "$bin/narrows" kernel prepare >.venv/tmp/guest.log 2>&1 &
    guest=$!
    # The tests that need the guest wait for this build. If it fails, they build the guest
    # themselves, and report why that fails.
    trap 'kill "$guest" 2>/dev/null || :' EXIT
    trap 'exit 130' INT TERM
fi

if [ -n "$lab" ]; then
    # Without it, the tests of the page say that they need it.
    sh tools/build_web.sh "$bin/python" || [ -z "${CI:-}" ]
    cargo test --locked -q
    sh tools/package_crates.sh --may-skip
fi
[ -z "$gateway" ] || sh gateway/test.sh
failed=0
# In CI they end after 45 minutes as with Ctrl-C, so that pytest still says what failed.
bounded=""
[ -z "${CI:-}" ] || bounded="timeout --signal=INT --kill-after=60 45m"
# Both parts at once, with one process more than processors, because the tests of real servers and
# machines, which run in one process, mostly wait.
workers=$(($(getconf _NPROCESSORS_ONLN) + 1))
# shellcheck disable=SC2086 # one word per folder, or per word
$bounded "$bin/pytest" -q -n $workers -m "not alone and not servers" $lab $gateway || failed=1
# shellcheck disable=SC2086 # one word per folder
"$bin/pytest" -q -m "alone and not servers" $lab $gateway || failed=1
[ -z "$lab" ] || "$bin/python" tools/check_wheel.py
exit $failed
