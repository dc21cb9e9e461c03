#!/bin/sh
# Puts the files of a package of narrows-gateway into a folder, where they will be installed.
#
#   gateway/packaging/tree.sh PROGRAM FOLDER UNITS
#
# UNITS is the folder of systemd's units, such as /usr/lib/systemd/system.
set -eu
gateway=$(dirname "$(readlink -f "$0")")/..
put() { install -D -m "$1" "$2" "$3"; }
put 755 "$1" "$2/usr/sbin/narrows-gateway"
put 644 "$gateway/systemd/narrows-gateway.service" "$2$3/narrows-gateway.service"
put 644 "$gateway/narrows-gateway.toml" "$2/etc/narrows-gateway/narrows-gateway.toml"
put 644 "$gateway/man/narrows-gateway.8" "$2/usr/share/man/man8/narrows-gateway.8"
gzip -9n "$2/usr/share/man/man8/narrows-gateway.8"
for page in README.md OPERATING.md SETTINGS.md USER-SPACE.md PROTOCOL.md; do
	put 644 "$gateway/$page" "$2/usr/share/doc/narrows-gateway/$page"
done
for file in grafana.json alerts.yml; do
	put 644 "$gateway/monitoring/$file" "$2/usr/share/doc/narrows-gateway/monitoring/$file"
done
