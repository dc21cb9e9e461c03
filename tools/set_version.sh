#!/bin/sh
# Sets the version of narrows, and the gateway's if one is given, in every file that has it. What is
# unreleased in the changelogs becomes the section of the version, with today's date. Commit the change.
#
# Usage: set_version.sh VERSION [GATEWAY'S VERSION]
set -eu
cd "$(dirname "$0")/.."
version=${1:-} gateway=${2:-}
today=$(date -u +%Y-%m-%d)

refuse() {
    echo "set_version: $1; hint: $2" >&2
    exit 2
}
for each in "$version" ${gateway:+"$gateway"}; do
    # Not grep, to which a version of two lines would be two versions.
    case $each in
    *[!0-9.]* | .* | *. | *..* | *.*.*.*) ;;
    *.*.*) continue ;;
    esac
    refuse "'$each' is no version" "sh tools/set_version.sh 0.2.0 [0.2.0 of the gateway]"
done
for log in CHANGELOG.md ${gateway:+gateway/CHANGELOG.md}; do
    grep -qx '## Unreleased' $log || refuse "$log has no section 'Unreleased'" "write what changes"
done

# So that cargo can edit the lock files offline, below, without moving other versions.
for folder in . fuzz benchmarks/memory; do
    cargo fetch --locked --quiet --manifest-path "$folder/Cargo.toml"
done

edit() { # edit FILE SED-SCRIPT
    sed "$2" "$1" >"$1.new"
    mv "$1.new" "$1"
}
edit Cargo.toml "s/^version = \".*\"/version = \"$version\"/
    /^narrows-.* path = /s/version = \"[^\"]*\"/version = \"$version\"/"
edit CITATION.cff "/^date-released:/d
    s/^version: .*/version: $version\\
date-released: $today/"
edit CHANGELOG.md "s/^## Unreleased\$/## $version ($today)/"
if [ -n "$gateway" ]; then
    edit gateway/Cargo.toml "s/^version = \".*\"/version = \"$gateway\"/"
    edit gateway/CHANGELOG.md "s/^## Unreleased\$/## $gateway ($today)/"
    edit gateway/man/narrows-gateway.8 "1s/narrows-gateway [0-9.]*/narrows-gateway $gateway/"
fi
for folder in . fuzz benchmarks/memory; do
    cargo update --workspace --offline --quiet --manifest-path "$folder/Cargo.toml"
done
git --no-pager diff --stat
