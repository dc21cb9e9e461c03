#!/bin/sh
# Prints assignments for `env` with which cargo compiles for wasm32-unknown-unknown. Where it has to,
# it first installs what is missing:
#
# - With rustup, the target's standard library.
# - Without rustup, or where its server cannot be reached: the newest Rust for the Web that apt has
#   (Debian's rustc-web), with the sources of the standard library, which cargo then compiles. The
#   packages conflict with other Rust packages, so they are only unpacked, below target/. apt checks
#   their signatures.
#
# Usage: wasm_toolchain.sh [--apt], where --apt leaves rustup aside.
set -eu
cd "$(dirname "$0")/.."

say() { echo "$*" >&2; }
installed() {
    ls "$(rustc --print target-libdir --target wasm32-unknown-unknown)"/libstd-*.rlib >/dev/null 2>&1
}

if [ "${1:-}" != --apt ]; then
    if installed; then exit 0; fi
    if command -v rustup >/dev/null 2>&1 &&
        timeout 300 rustup target add wasm32-unknown-unknown >&2 && installed; then
        exit 0
    fi
    say "note: rustup has no wasm32-unknown-unknown here; trying apt"
fi

command -v apt-get >/dev/null 2>&1 || {
    say "error: no Rust for WebAssembly; hint: rustup target add wasm32-unknown-unknown"
    exit 2
}
root=$PWD/target/rustc-web
if [ ! -x "$root/rustc" ]; then
    # These packages are named after their versions.
    needed() { apt-cache depends "$1" 2>/dev/null | sed -n "s/^ *Depends: \\($2[^ ]*\\)$/\\1/p" | head -1; }
    standard=$(needed libstd-rust-web-dev libstd-rust-web-)
    llvm=$(needed "$standard" libllvm)
    [ -n "$standard" ] && [ -n "$llvm" ] || {
        say "error: apt has no rustc-web; hint: apt-get update, or rustup target add wasm32-unknown-unknown"
        exit 2
    }
    rm -rf "$root"
    mkdir -p "$root/packages"
    (
        cd "$root/packages"
        apt-get download -qq -o APT::Sandbox::User=root \
            rustc-web rust-web-src rust-web-llvm libstd-rust-web-dev "$standard" "$llvm" >&2
        for package in *.deb; do dpkg-deb -x "$package" "$root"; done
    )
    rm -rf "$root/packages"
    cat >"$root/rustc.new" <<END
#!/bin/sh
LD_LIBRARY_PATH=$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu") exec $root/usr/bin/rustc "\$@"
END
    chmod 755 "$root/rustc.new"
    mv "$root/rustc.new" "$root/rustc"
fi
# Debian's rust-lld is a link to a program of another package, which may be missing.
linker=$(find -L "$(rustc --print sysroot)/lib" "$root/usr" -name rust-lld -type f 2>/dev/null | head -1)
[ -n "$linker" ] || linker=$(command -v wasm-ld || :)
[ -n "$linker" ] || {
    say "error: no linker for WebAssembly; hint: apt-get install lld"
    exit 2
}
echo "RUSTC=$root/rustc"
# To compile the standard library is a feature of nightly compilers only.
echo "RUSTC_BOOTSTRAP=1"
echo "CARGO_UNSTABLE_BUILD_STD=std,panic_abort"
echo "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker"
