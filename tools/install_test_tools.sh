#!/bin/sh
# Installs the programs that some tests call, on Debian and Ubuntu. If CI is set, no test may skip,
# so `make test` runs this first. With `--servers`, it also installs the programs that only
# `make test-servers` tries.
#
# Usage: install_test_tools.sh [--servers]
#
# The DNS servers are for the tests alone: this script starts no daemon, enables none for the next
# boot, and does not change servers that were already installed.
set -eu

missing=""
services=""
need() { # need COMMAND PACKAGE [SERVICE]
    command -v "$1" >/dev/null 2>&1 || [ -x "/usr/sbin/$1" ] || {
        missing="$missing $2"
        services="$services ${3:-}"
    }
}

# Captures.
need tshark tshark
# For the gateway's eBPF programs, and for libbpf, which is built from source.
need clang clang
need make make
need cc gcc
need pkg-config pkg-config
[ -e /usr/include/libelf.h ] || missing="$missing libelf-dev"
[ -e /usr/include/bpf/bpf_helpers.h ] || missing="$missing libbpf-dev"
[ -e /usr/include/zlib.h ] || missing="$missing zlib1g-dev"
[ -e /usr/include/linux/bpf.h ] || missing="$missing linux-libc-dev"
# For the gateway's tests: servers, clients, and programs that make networks.
need nsd nsd nsd.service
need named bind9 named.service
need dnssec-signzone bind9-utils
need knotd knot knot.service
need unbound unbound unbound.service
need pdns_server pdns-server pdns.service
ls /usr/lib/*/pdns/libbindbackend.so >/dev/null 2>&1 || missing="$missing pdns-backend-bind"
need dig bind9-dnsutils
need kdig knot-dnsutils
need dnsperf dnsperf
need tcpdump tcpdump
need ip iproute2
need ethtool ethtool
need bpftool bpftool
need nft nftables
# For the tests that run scenarios on a real kernel: the guest kernel is built from this source.
need flex flex
need bison bison
need bc bc
need xz xz-utils
need tc iproute2
ls /usr/src/linux-source-6.*.tar.* /usr/src/linux-source-6.*/*.tar.* >/dev/null 2>&1 ||
    missing="$missing linux-source"
need cc libc6-dev
need setpriv util-linux
ours=/usr/local/lib/narrows-tests
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# For the test that runs have the same bytes with another C library.
libc=""
[ -e $ours/libc6 ] || libc=yes
[ -e $keys ] || missing="$missing debian-archive-keyring"
# For the tests of reports and of the laboratory page in a browser, and of the page's engine.
need chromium chromium
need node nodejs
# For the tests of the gateway's man page, systemd unit and packages.
need man man-db
need systemd-analyze systemd
need dpkg-shlibdeps dpkg-dev
need strip binutils
need rpmbuild rpm
# For the trials of what DNS clients and servers do, which use some of the programs above too.
resolved=""
if [ "${1:-}" = --servers ]; then
    need pdns_recursor pdns-recursor pdns-recursor.service
    need kresd knot-resolver kresd@1.service
    need dnsmasq dnsmasq-base
    need dnsdist dnsdist dnsdist.service
    need musl-gcc musl-tools
    # systemd-resolved's package would take over /etc/resolv.conf, so only the program is taken.
    resolved=yes
    for place in /usr/lib/systemd /lib/systemd $ours; do
        [ ! -x $place/systemd-resolved ] || resolved=""
    done
fi
[ -n "$missing$resolved$libc" ] || exit 0

as_root=""
[ "$(id -u)" -eq 0 ] || as_root=sudo

# invoke-rc.d asks this file whether a package's script may start its daemon; 101 means no.
policy=/usr/sbin/policy-rc.d
put_back() {
    $as_root rm -f $policy
    [ ! -e $policy.before-tests ] || $as_root mv $policy.before-tests $policy
}
trap put_back EXIT
trap 'exit 1' HUP INT TERM
[ ! -e $policy ] || $as_root mv $policy $policy.before-tests
printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
$as_root chmod 755 $policy

$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# shellcheck disable=SC2086 # one word per package
[ -z "$missing" ] || {
    $as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get install -y -qq \
        -o DPkg::Lock::Timeout=300 --no-install-recommends $missing
}
if [ -n "$(printf %s "$services" | tr -d ' ')" ] && command -v systemctl >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # one word per service
    $as_root systemctl disable --quiet $services || true
fi
if [ -n "$resolved" ]; then
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root systemd-resolved && dpkg-deb -x systemd-resolved_*.deb .)
    $as_root install -D -m 755 "$folder"/*/systemd/systemd-resolved $ours/systemd-resolved ||
        $as_root install -D -m 755 "$folder"/usr/lib/systemd/systemd-resolved $ours/systemd-resolved
    rm -rf "$folder"
fi
if [ -n "$libc" ]; then
    # A newer one than this machine's, which has all symbols that programs built here need.
    case $(getconf GNU_LIBC_VERSION) in
    "glibc 2.3"* | "glibc 2.40") other=trixie ;;
    *) other=sid ;;
    esac
    # apt with lists of its own, so nothing else here comes from that release.
    folder=$(mktemp -d)
    mkdir -p "$folder/lists/partial"
    echo "deb [signed-by=$keys] http://deb.debian.org/debian $other main" >"$folder/sources.list"
    (
        cd "$folder"
        set -- -qq -o APT::Sandbox::User=root -o Dir::Etc::SourceList="$folder/sources.list" \
            -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder"
        apt-get "$@" update
        apt-get "$@" download libc6
        dpkg-deb -x libc6_*.deb libc6
    )
    $as_root mkdir -p $ours
    $as_root cp -r "$folder/libc6" $ours/
    rm -rf "$folder"
fi
