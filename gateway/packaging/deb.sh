#!/bin/sh
# Makes a Debian package of a built narrows-gateway: program, manual page, unit, settings, dashboard
# and alerts.
#
#   gateway/packaging/deb.sh [PROGRAM [FOLDER]]     # target/release/narrows-gateway, target
#
# VERSION replaces the version in Cargo.toml, and MAINTAINER the maintainer. With SOURCE_DATE_EPOCH, the
# same program gives the same bytes. Needs dpkg-dev and binutils, and no root. Prints the package's path.
set -eu
here=$(dirname "$(readlink -f "$0")")
gateway=$here/.. root=$here/../..
program=${1:-$root/target/release/narrows-gateway} folder=${2:-$root/target}
for tool in dpkg-deb dpkg-shlibdeps strip; do
	command -v $tool >/dev/null || { echo "error: no $tool; hint: apt-get install dpkg-dev binutils" >&2; exit 2; }
done
# The object with the eBPF programs has this name in it.
grep -q bpf_sk_assign_tcp_reqsk "$program" 2>/dev/null || {
	echo "error: $program is not there, or has no in-kernel data path; hint: make gateway" >&2
	exit 2
}
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$gateway/Cargo.toml")}
# The project has no public address yet, and .invalid says so (RFC 2606). If you distribute the package,
# give your address: MAINTAINER="Name <address>".
maintainer=${MAINTAINER:-The narrows maintainers <maintainers@narrows.invalid>}
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree

sh "$here/tree.sh" "$program" "$tree" /lib/systemd/system
strip --strip-unneeded "$tree/usr/sbin/narrows-gateway"
doc=$tree/usr/share/doc/narrows-gateway
install -d "$doc"
{
	echo "narrows-gateway. $(sed -n '/^Copyright/p' "$root/LICENSE-MIT")"
	echo "Under the MIT licence or the Apache License 2.0, at your choice; the eBPF programs in it under MIT"
	echo "or GPL-2.0. Debian has the Apache License in /usr/share/common-licenses/Apache-2.0."
	for text in "$root/LICENSE-MIT" "$gateway/LICENSE-THIRD-PARTY"; do
		printf '\n%s\n\n' ----------------------------------------
		cat "$text"
	done
} >"$doc/copyright"

mkdir -p "$work/debian" "$tree/DEBIAN"
printf 'Source: narrows-gateway\n\nPackage: narrows-gateway\nArchitecture: %s\n' "$architecture" >"$work/debian/control"
if ! (cd "$work" && dpkg-shlibdeps -O -e"$tree/usr/sbin/narrows-gateway" >shlibs 2>said); then
	echo "error: $(tail -n 1 "$work/said" | sed "s/: error:/:/"); hint: the libraries that the program is linked with must come from packages" >&2
	exit 2
fi
depends=$(sed -n 's/^shlibs:Depends=//p' "$work/shlibs")
[ -n "$depends" ] || { echo "error: dpkg-shlibdeps names no library that $program needs" >&2; exit 2; }
cat >"$tree/DEBIAN/control" <<-END
	Package: narrows-gateway
	Version: $version
	Architecture: $architecture
	Maintainer: $maintainer
	Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
	Depends: $depends
	Recommends: iproute2
	Section: net
	Priority: optional
	Description: stateless TCP in front of any DNS server
	 Passes the queries of DNS clients that use TCP to the server's UDP socket, by eBPF programs on
	 the interface. Neither the kernel nor the server holds a connection. What needs real TCP (zone
	 transfers, long replies) goes to the server's own listener, on the same connection.
	 .
	 Runs on Linux 6.12 and newer, with BTF.
END
echo /etc/narrows-gateway/narrows-gateway.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
	install -m 755 "$here/$script" "$tree/DEBIAN/$script"
done
mkdir -p "$folder"
package=$folder/narrows-gateway_${version}_$architecture.deb
dpkg-deb --root-owner-group -b "$tree" "$package" >/dev/null
echo "$package"
