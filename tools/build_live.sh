#!/bin/sh
# Builds narrows-live and puts it into the Python package, where the kernel backend finds it.
#
# Usage: build_live.sh PROFILE, a profile of Cargo.toml.
#
# A guest has this machine's files, and so its C library. The kernel backend needs Linux, so this
# script does nothing elsewhere.
set -eu

[ "$(uname -s)" = Linux ] || exit 0
root=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$root/target}
place=$root/python/narrows/backends/kernel/narrows-live
folder=$1
[ "$folder" != dev ] || folder=debug

cd "$root"
cargo rustc --locked --quiet -p narrows-live --bin narrows-live --profile "$1" -- -C strip=symbols
# A run may be using the old one.
cp "$target/$folder/narrows-live" "$place.part"
mv "$place.part" "$place"
