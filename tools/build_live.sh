#!/bin/sh
# Builds narrows-live without shared libraries and puts it into the Python package, where the kernel
# backend finds it.
#
# Usage: build_live.sh PROFILE, a profile of Cargo.toml.
#
# Only this program is linked statically, so it shares its crates with other builds. The kernel
# backend needs Linux, so this script does nothing elsewhere.
set -eu

[ "$(uname -s)" = Linux ] || exit 0
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$root/python/narrows/backends/kernel/narrows-live
folder=$1
[ "$folder" != dev ] || folder=debug

cd "$root"
cargo rustc --locked --quiet -p narrows-live --bin narrows-live --profile "$1" -- \
    -C target-feature=+crt-static -C strip=symbols
# A run may be using the old one.
cp "$target/$folder/narrows-live" "$place.part"
mv "$place.part" "$place"
