#!/bin/sh
# Builds wheels for other machines into dist/: sh tools/build_wheels.sh MATURIN
#
# One wheel per platform is enough, because the extension keeps to Python's stable ABI (abi3).
# On Linux, zig links against an old glibc, so that the wheels run on any distribution since 2014
# (manylinux2014); `pip install ziglang` brings it. On a Mac, one wheel holds both processors' code.
# Tried on Debian 12 for x86_64 (zig from ziglang); the other targets have not been built yet.
set -eu

maturin=$1
build() { "$maturin" build --release --locked --out dist "$@"; }

case $(uname -s) in
Linux)
    targets="x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu"
    "$(dirname "$maturin")/python" -c "import ziglang" 2>/dev/null ||
        { echo "zig is missing; install it with: $(dirname "$maturin")/pip install ziglang" >&2; exit 2; }
    ;;
Darwin)
    targets="x86_64-apple-darwin aarch64-apple-darwin"
    ;;
*)
    echo "no wheels are built on $(uname -s); use Linux or macOS" >&2
    exit 2
    ;;
esac

for target in $targets; do
    rustup target list --installed | grep -qx "$target" ||
        { echo "$target is missing; install it with: rustup target add $target" >&2; exit 2; }
done

if [ "$(uname -s)" = Darwin ]; then
    build --target universal2-apple-darwin
else
    for target in $targets; do
        build --zig --target "$target" --compatibility manylinux2014
    done
fi
