#!/bin/sh
# Is it alive? dig asks NSD through the gateway, in two network namespaces. Each answer must be the
# one that the kernel's own TCP gives. About 20 seconds. Usage, as root, after `make gateway`:
#
#   gateway/tests/smoke.sh [target/release/narrows-gateway] [native|generic]
#
# With QUICK=1 it asks a few names only once, for slow machines (kernels/run.sh). The client's end
# of the link also has an XDP program, because native XDP_TX reaches a veth only then.
set -eu

gateway=${1:-target/release/narrows-gateway} mode=${2:-native}
here=nrw-smoke-$$ work=$(mktemp -d)
server="nsenter --net=/run/netns/$here-s" client="nsenter --net=/run/netns/$here-c"

for tool in nsd dig kdig clang ip; do
	command -v $tool >/dev/null || {
		echo "SKIP smoke: no $tool; hint: apt-get install nsd bind9-dnsutils knot-dnsutils clang iproute2"
		[ -z "${CI:-}" ]
		exit
	}
done
[ "$(id -u)" = 0 ] || { echo "SKIP smoke: needs root"; [ -z "${CI:-}" ]; exit; }

pids=
stop() {
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	ip netns del "$here-s" 2>/dev/null || true
	ip netns del "$here-c" 2>/dev/null || true
	umount "$work/bpf" 2>/dev/null || true
	rm -rf "$work"
}
trap stop EXIT
trap 'exit 1' INT TERM

ip netns add "$here-s"
ip netns add "$here-c"
ip -n "$here-s" link add v0 type veth peer name v0 netns "$here-c"
for end in s c; do
	ip -n "$here-$end" link set lo up
	ip -n "$here-$end" link set v0 up
done
ip -n "$here-s" addr add 192.0.2.53/24 dev v0
ip -n "$here-c" addr add 192.0.2.7/24 dev v0
ip -n "$here-s" addr add 2001:db8::53/64 dev v0 nodad
ip -n "$here-c" addr add 2001:db8::7/64 dev v0 nodad
cat >"$work/pass.c" <<-END
	#include <linux/bpf.h>
	__attribute__((section("xdp"), used)) int pass(struct xdp_md *ctx) { return XDP_PASS; }
END
clang -O2 -target bpf -I"/usr/include/$(uname -m)-linux-gnu" -c "$work/pass.c" -o "$work/pass.o"
ip -n "$here-c" link set dev v0 xdpdrv obj "$work/pass.o" sec xdp

# A name for each size of reply, and enough of them for a transfer in several messages.
{
	printf '$ORIGIN example.org.\n@ 300 SOA ns hostmaster 1 3600 600 86400 300\n@ NS ns\nns A 192.0.2.53\nwww 300 A 192.0.2.80\n'
	for size in 1 5 6 16 48 120 230; do
		i=0
		while [ $i -lt $size ]; do
			printf 't%d 300 TXT "%04d %0230d"\n' $size $i $i
			i=$((i + 1))
		done
	done
} >"$work/zone"
# NSD's rate limit would truncate replies over UDP. Without minimal responses, NSD leaves out more
# over UDP than over TCP.
cat >"$work/nsd.conf" <<-END
	server:
	  ip-address: 192.0.2.53
	  ip-address: 2001:db8::53
	  username: ""
	  zonesdir: "$work"
	  pidfile: "$work/pid"
	  database: ""
	  zonelistfile: "$work/list"
	  xfrdfile: ""
	  xfrdir: "$work"
	  ipv4-edns-size: 65000
	  ipv6-edns-size: 65000
	  rrl-ratelimit: 0
	  minimal-responses: yes
	remote-control:
	  control-enable: no
	zone:
	  name: example.org
	  zonefile: zone
	  provide-xfr: 0.0.0.0/0 NOKEY
	  provide-xfr: ::/0 NOKEY
END
$server nsd -d -c "$work/nsd.conf" 2>"$work/nsd.log" &
pids="$pids $!"

names="www t1 t5 t6 t16 t48 t120 t230 missing" each="default +noedns +dnssec +ednsopt=10:0102030405060708"
[ -z "${QUICK:-}" ] || { names="www t48 t120" each=default; }
# Writes one answer to a file, whose name says what was asked.
ask() {
	$client dig +tcp +tries=1 +time=4 "$@" | grep -v -E '^;; (Query time|WHEN|SERVER)|^; <<>>|^;; XFR size|->>HEADER<<-' || true
}
ask_all() {
	mkdir -p "$work/$1"
	for address in 192.0.2.53 2001:db8::53; do
		for name in $names; do
			for options in $each; do
				ask "@$address" $name.example.org TXT +nocookie ${options#default} >"$work/$1/$address $name $options"
			done
		done
		ask "@$address" example.org AXFR >"$work/$1/$address AXFR"
		$client kdig +tcp +keepopen +retry=0 +time=4 "@$address" www.example.org t48.example.org TXT t6.example.org TXT |
			grep -v -E '^;; (From|Received|Time)|->>HEADER<<-' >"$work/$1/$address keepopen" || true
	done
}
tries=0
until $client dig +tries=1 +time=1 @192.0.2.53 www.example.org >/dev/null; do
	tries=$((tries + 1))
	[ $tries -lt 60 ] || { echo "FAIL $mode: NSD does not answer"; cat "$work/nsd.log"; exit 1; }
	sleep 0.5
done
ask_all kernel

mkdir "$work/bpf"
$server "$gateway" run --interface v0 --server 192.0.2.53 --server 2001:db8::53 --mode "$mode" --bpffs "$work/bpf" \
	--edns-size '65000 B' --loglevel 2 >"$work/gateway.log" 2>&1 &
running=$! tries=0
pids="$pids $running"
until $server "$gateway" status --interface v0 --bpffs "$work/bpf" >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries = 1200 ] || ! kill -0 $running 2>/dev/null; then
		echo "FAIL $mode: the gateway does not start"
		cat "$work/gateway.log"
		exit 1
	fi
	sleep 0.1
done

failed=0
compare() {
	ask_all "$1"
	for answer in "$work/kernel"/*; do
		name=${answer##*/}
		if [ -s "$answer" ] && cmp -s "$answer" "$work/$1/$name"; then continue; fi
		echo "FAIL $mode, $1: $name: not what the kernel's TCP gives"
		failed=1
	done
}
compare plain
if [ -z "${QUICK:-}" ]; then
	$server ethtool -K v0 tx off >/dev/null 2>&1
	compare "without transmit checksumming"
	ip -n "$here-c" route replace 192.0.2.53/32 dev v0 advmss 536
	ip -n "$here-c" -6 route replace 2001:db8::53/128 dev v0 advmss 1220
	compare "with small segments"
	$client sysctl -qw net.ipv4.tcp_timestamps=0
	compare "without timestamps"
fi

# The gateway gave them, in each of its ways.
$server "$gateway" status --all --interface v0 --bpffs "$work/bpf" >"$work/status"
for counter in query reply reply_segmented to_kernel_transfer query_later to_kernel_reply adopted; do
	if ! grep -qE "^ *$counter +[1-9]" "$work/status"; then
		echo "FAIL $mode: nothing was counted as $counter"
		failed=1
	fi
done
if [ $failed = 0 ]; then echo "PASS smoke ($mode)"; else cat "$work/status"; fi
exit $failed
