#!/bin/sh
# Builds wheels for other machines into dist/.
#
# Usage: build_wheels.sh BIN, where BIN is the folder of the environment's commands. On Linux, TARGETS
# replaces the machines: `TARGETS=x86_64-unknown-linux-gnu make wheels`.
#
# One wheel per platform is enough, because the extension keeps to Python's stable ABI (abi3).
# On Linux, zig links against an old glibc, so that the wheels run on any distribution since 2014
# (manylinux2014). The package ziglang contains zig; the script installs it into the environment if
# it is missing. On a Mac, one wheel contains the code for both kinds of processors.
# Wheels for Linux contain narrows-live, which plays traffic on kernels, linked against the same glibc.
# Nothing of glibc is in it, so its licence (LGPL) asks for nothing.
# We tried this on Debian 12 for x86_64 (zig from ziglang), but have not built the other targets.
set -eu

bin=$(cd "$1" && pwd)
# maturin looks for zig with the first python3 in the path.
export PATH="$bin:$PATH"
build() { maturin build --release --locked --out dist "$@"; }

case $(uname -s) in
Linux)
    targets=${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}
    ;;
Darwin)
    targets="x86_64-apple-darwin aarch64-apple-darwin"
    ;;
*)
    echo "no wheels are built on $(uname -s); use Linux or macOS" >&2
    exit 2
    ;;
esac

installed=$(rustup target list --installed 2>/dev/null) ||
    { echo "rustup, which installs Rust for other machines, is missing; hint: https://rustup.rs" >&2; exit 2; }
missing=""
for target in $targets; do
    echo "$installed" | grep -qx "$target" || missing="$missing $target"
done
[ -z "$missing" ] ||
    { echo "rust lacks$missing; hint: rustup target add$missing" >&2; exit 2; }

if [ "$(uname -s)" = Linux ] && ! python3 -c "import ziglang" 2>/dev/null; then
    python3 -m pip install --quiet --disable-pip-version-check "ziglang>=0.12" ||
        { echo "zig is missing and could not be installed; hint: $1/pip install ziglang" >&2; exit 2; }
fi

if [ "$(uname -s)" = Darwin ]; then
    build --target universal2-apple-darwin
else
    live=python/narrows/backends/kernel/narrows-live
    work=$(mktemp -d)
    # `make setup` has built a narrows-live for the checkout, which stays as it is.
    put_back() {
        rm -rf "$work"
        [ ! -e $live.own ] || mv $live.own $live
    }
    trap put_back EXIT
    trap 'exit 130' INT TERM
    [ ! -e $live ] || mv $live $live.own
    for target in $targets; do
        set -- --zig --target "$target" --compatibility manylinux2014
        # Only maturin links with zig, so it makes a wheel of the program, too.
        maturin build --release --quiet "$@" --manifest-path crates/live/Cargo.toml --out "$work/$target"
        python3 -m zipfile -e "$work/$target"/*.whl "$work/$target"
        install -m 755 "$work/$target"/*.data/scripts/narrows-live $live
        build "$@"
    done
fi
