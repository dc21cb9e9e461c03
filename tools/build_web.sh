#!/bin/sh
# Builds the laboratory page in python/narrows/lab/site/, a folder that any web server can serve.
#
# Usage: build_web.sh PYTHON
set -eu
python=$1
cd "$(dirname "$0")/.."
site=python/narrows/lab/site

toolchain=$(sh tools/wasm_toolchain.sh)
# A run must not take a reader's whole memory.
flags="-C link-arg=--max-memory=1073741824"
# Without the folder's path, the bytes are the same in every folder. cargo splits these flags at spaces,
# so a path with a space stays.
home=${CARGO_HOME:-$HOME/.cargo}
case $PWD$home in
*" "*) ;;
*) flags="$flags --remap-path-prefix=$PWD=/narrows --remap-path-prefix=$home=/cargo" ;;
esac
# shellcheck disable=SC2086 # one assignment per word
env $toolchain CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="$flags" \
    cargo build --locked --quiet --profile web -p narrows-web --target wasm32-unknown-unknown
mkdir -p $site
cp target/wasm32-unknown-unknown/web/narrows_web.wasm $site/engine.wasm.new
# Until the new page is whole, no copy of an old engine.
rm -f $site/engine.wasm.br
mv $site/engine.wasm.new $site/engine.wasm
PYTHONPATH=python "$python" -m narrows.lab.build web
