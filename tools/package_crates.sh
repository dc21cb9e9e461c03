#!/bin/sh
# Packages the crates for other programs, builds the packages, and checks that they have the licences.
#
# Usage: package_crates.sh [--may-skip | --check]. If cargo is too old to package several crates at
# once, it exits with 2; with --may-skip it prints SKIP instead. With --check, it does nothing else.
#
# The first five stand alone. The last three are for `narrows new --registry`.
set -eu

needed=90
crates="narrows-units narrows-qdisc narrows-link narrows-transport narrows-wire narrows-apps narrows-sim narrows-engine"

version=$(cargo --version | cut -d ' ' -f 2)
minor=$(echo "$version" | cut -d . -f 2)
if [ "$minor" -lt $needed ]; then
    why="cargo packages several crates at once from 1.$needed on, and this is $version"
    hint="rustup update stable"
    if [ "${1:-}" = --may-skip ]; then
        echo "SKIP packages of crates: $why; hint: $hint"
        exit 0
    fi
    echo "$why; hint: $hint" >&2
    exit 2
fi
[ "${1:-}" != --check ] || exit 0

# cargo unpacks our own packages below its home, by version and by the path of this checkout, and
# does not look whether they changed. So packages of an earlier state would be built against.
for crate in $crates; do
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$crate"-[0-9]*
done

# Uncommitted changes are packaged too.
set -- package --locked --quiet --allow-dirty
for crate in $crates; do
    set -- "$@" -p "$crate"
done
cargo "$@"

packages=${CARGO_TARGET_DIR:-target}/package
for crate in $crates; do
    archive=$(ls -t "$packages/$crate"-[0-9]*.crate | head -n 1)
    for licence in LICENSE-APACHE LICENSE-MIT; do
        tar -xzOf "$archive" "$(basename "$archive" .crate)/$licence" | cmp -s - $licence ||
            { echo "$archive: $licence is missing or differs" >&2; exit 1; }
    done
    echo "$archive"
done
