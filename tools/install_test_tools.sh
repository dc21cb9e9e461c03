#!/bin/sh
# Installs the programs that some tests call, where CI is set: there, no test may skip.
set -eu

missing=""
command -v tshark >/dev/null 2>&1 || missing="$missing tshark"
[ -n "$missing" ] || exit 0

as_root=""
[ "$(id -u)" -eq 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # one word a package
{
    $as_root apt-get update -qq
    $as_root apt-get install -y -qq --no-install-recommends $missing
}
