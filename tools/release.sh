#!/bin/sh
# Builds everything of a release into dist/, tries it on clean roots, and says what to publish where. It
# publishes nothing.
#
# Usage: release.sh [--check] VERSION. With --check, it only looks whether this commit can be released.
# With TESTED=1 it does not run `make test`: for a commit on which that has passed.
#
# The same commit gives the same bytes on machines with the same Rust, clang and zig: archives carry the
# time of the commit, and programs no path of this machine.
set -eu
cd "$(dirname "$0")/.."
# What `make release` hands on is meant for this script alone: VERSION would become the gateway's.
unset VERSION TARGETS MAKEFLAGS MAKEOVERRIDES MAKELEVEL

refuse() {
    echo "release: $1; hint: $2" >&2
    exit 2
}
step() { echo "release: $1" >&2; }

check_only=""
if [ "${1:-}" = --check ]; then
    check_only=yes
    shift
fi
version=${1:-}
[ -n "$version" ] || refuse "no version" "make release VERSION=0.2.0"
case $version in
*[!0-9.]* | .* | *. | *..* | *.*.*.*) version=bad ;;
*.*.*) ;;
*) version=bad ;;
esac
[ "$version" != bad ] || refuse "'$1' is no version" "three numbers, such as 0.2.0"

case $PWD${CARGO_HOME:-$HOME} in
*" "*) refuse "the path of the checkout or of cargo has a space" "move it" ;;
esac

# The release is a commit, without other changes.
commit=$(git rev-parse --verify --quiet HEAD 2>/dev/null) ||
    refuse "this folder has no commit" "git clone, and release from there"
changed=$(git status --porcelain)
[ -z "$changed" ] ||
    refuse "the tree is not clean ($(echo "$changed" | sed -n '1s/^...//p'))" "commit or remove it"
# The tag's own commit may be built again, to compare.
tagged=$(git rev-parse --verify --quiet "refs/tags/v$version^{commit}" || :)
[ "${tagged:-$commit}" = "$commit" ] ||
    refuse "the tag v$version is on another commit" "choose a new version, or git checkout v$version"

# The files that name the version.
first_section() { sed -n 's/^## //p' "$1" | head -n 1; }
set_it="sh tools/set_version.sh $version, then commit"
crates=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
[ "$crates" = "$version" ] || refuse "Cargo.toml has version $crates" "$set_it"
! grep '^narrows-.* path = ' Cargo.toml | grep -qvF "version = \"$version\"" ||
    refuse "Cargo.toml asks for another version of a crate" "$set_it"
for lock in Cargo.lock fuzz/Cargo.lock benchmarks/memory/Cargo.lock; do
    awk -v wanted="\"$version\"" '$1 == "name" { name = $3 }
        $1 == "version" && name == "\"narrows-sim\"" && $3 != wanted { exit 1 }' $lock ||
        refuse "$lock has another version" "$set_it"
done
dated=$(first_section CHANGELOG.md)
date=${dated#"$version ("}
date=${date%)}
echo "$date" | grep -Eqx '[0-9]{4}-[0-9]{2}-[0-9]{2}' ||
    refuse "CHANGELOG.md begins with '$dated', and not with '$version (date)'" "$set_it"
for line in "version: $version" "date-released: $date"; do
    grep -Fqx "$line" CITATION.cff || refuse "CITATION.cff lacks '$line'" "$set_it"
done
gateway=$(sed -n 's/^version = "\(.*\)"$/\1/p' gateway/Cargo.toml)
dated=$(first_section gateway/CHANGELOG.md)
case $dated in
"$gateway ("*) ;;
*) refuse "gateway/CHANGELOG.md begins with '$dated', and the gateway is $gateway" \
    "sh tools/set_version.sh $version GATEWAY'S, then commit" ;;
esac

# The programs that building and trying need.
[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] ||
    refuse "this is not Linux on x86-64" "the forge's workflow wheels.yml builds for other machines"
missing="" packages=""
need() { # need COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || { missing="$missing $1" packages="$packages $2"; }
}
need make make
need cc gcc
need clang clang
need pkg-config pkg-config
need dpkg-shlibdeps dpkg-dev
need strip binutils
need mmdebstrap mmdebstrap
need rustup rustup
need cargo rustup
# libbpf, which the gateway builds from source, includes them.
for header in libelf.h:libelf-dev zlib.h:zlib1g-dev; do
    [ -e "/usr/include/${header%:*}" ] || {
        missing="$missing ${header%:*}" packages="$packages ${header#*:}"
    }
done
[ -z "$missing" ] || refuse "missing:$missing" "apt-get install$packages"
sh tools/check_toolchain.sh || exit 2
sh tools/package_crates.sh --check
[ -z "$check_only" ] || exit 0

if [ "${TESTED:-}" = 1 ]; then
    step "TESTED=1: make test is left out; it should have passed on $commit"
else
    step "make test"
    make test
fi

began=$(date +%s)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
rm -rf dist
mkdir dist

archive() { # archive FOLDER NAME: dist/NAME.tar.gz, with the folder's files below NAME/
    tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go+r,go-w,a+X --format=ustar --transform "s,^\.,$2," --directory "$1" . |
        gzip -9n >"dist/$2.tar.gz"
}

step "the laboratory page and the site"
make site
archive python/narrows/lab/site "narrows-lab-$version"
archive dist/site "narrows-site-$version"
rm -rf dist/site
# Not earlier, so that what `make setup` builds stays as it is. RUSTFLAGS would replace the page's own.
home=${CARGO_HOME:-$HOME/.cargo}
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS="--remap-path-prefix=$PWD=/narrows --remap-path-prefix=$home=/cargo"
step "the wheel for Linux on x86-64"
# As `make wheels`, which would build the page again.
TARGETS=x86_64-unknown-linux-gnu sh tools/build_wheels.sh .venv/bin
step "the source distribution"
.venv/bin/maturin sdist --out dist
step "the crates"
names=$(sh tools/package_crates.sh | sed 's,.*/,,')
for name in $names; do
    cp "${CARGO_TARGET_DIR:-target}/package/$name" dist/
done
step "the gateway's Debian package"
make gateway
sh gateway/packaging/deb.sh "${CARGO_TARGET_DIR:-target}/release/narrows-gateway" dist
sums=$(cd dist && sha256sum -- *)
echo "$sums" >dist/SHA256SUMS
[ -z "$(git status --porcelain)" ] || {
    echo "release: building has changed the tree: $(git status --porcelain | head -n 1)" >&2
    exit 1
}
built=$(date +%s)

step "tries what is in dist/"
.venv/bin/python tools/try_release.py dist

step "built in $((built - began)) s, tried in $(($(date +%s) - built)) s, of commit $commit"
ls -l --block-size=1 dist | awk 'NR > 1 { printf "%12d  %s\n", $5, $9 }'
in_order=$(for name in $names; do echo " -p ${name%-"$version".crate}"; done | tr -d '\n')
cat <<END

Nothing is published yet. docs/maintaining.md explains these commands:

1. The tag, from which the forge makes a draft with these files and the other machines' wheels:
    git tag -a v$version -m "narrows $version" && git push origin v$version
2. PyPI:
    twine upload dist/narrows-$version*.whl dist/narrows-$version.tar.gz
3. crates.io, in this order:
    cargo publish --locked$in_order
4. The forge, if no workflow made the draft:
    gh release create v$version --draft --verify-tag --notes "CHANGELOG.md says what changed." dist/*
5. The gateway's Debian package belongs to that release; an archive of packages takes it from dist/.
6. The site: unpack dist/narrows-site-$version.tar.gz where a web server finds it. The page alone is
   dist/narrows-lab-$version.tar.gz.
END
