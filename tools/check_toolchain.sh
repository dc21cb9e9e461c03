#!/bin/sh
# Checks that Python, Rust and a linker are installed and new enough, and says how to get them.
# With --python: prints the interpreter to use.
set -eu

python=""
for candidate in "${PYTHON:-python3}" python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
done

if [ "${1:-}" = --python ]; then
    echo "$python"
    exit 0
fi

missing=0
need() {
    echo "make: $1" >&2
    echo "  hint: $2" >&2
    missing=1
}

if [ -z "$python" ]; then
    need "Python 3.11 or later is needed" \
        "Debian 12, Ubuntu 24.04: sudo apt install python3 python3-venv; macOS: brew install python"
elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    need "$python has no venv module" "Debian, Ubuntu: sudo apt install python3-venv"
fi

least=$(sed -n 's/^rust-version = "1\.\([0-9]*\)"$/\1/p' Cargo.toml)
rust=$(rustc --version 2>/dev/null | cut -d ' ' -f 2 || true)
major=${rust%%.*}
rest=${rust#*.}
minor=${rest%%.*}
if [ -z "$rust" ]; then
    need "Rust 1.$least or later is needed (rustc was not found)" \
        "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
elif [ "$major" -eq 1 ] && [ "$minor" -lt "$least" ]; then
    need "Rust 1.$least or later is needed (rustc is $rust; Debian 12's own is too old)" \
        "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh; or: rustup update stable"
elif ! command -v cargo >/dev/null 2>&1; then
    need "cargo was not found beside rustc" "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
fi

if ! command -v cc >/dev/null 2>&1; then
    need "a C linker (cc) is needed to link Rust programs" \
        "Debian, Ubuntu: sudo apt install gcc libc6-dev; macOS: xcode-select --install"
fi

exit "$missing"
