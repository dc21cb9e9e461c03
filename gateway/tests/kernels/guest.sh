#!/bin/sh
# Runs in the guest: what `check` says of this kernel, which tests pass, and whether NSD answers dig
# through the gateway. Writes `row` and a file for each program to /mnt/results, and ends the guest.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/tmp CI=1
results=/mnt/results root=$(cat /mnt/results/root)
gateway=$root/target/release/narrows-gateway
cd "$root/gateway" || exit
ip link set lo up
modprobe tun
mkdir -p /run/netns
mount -t bpf bpf /sys/fs/bpf

say() { echo "$*" | tee -a "$results/part" >/dev/console; }
say "kernel $(uname -r)"
ip netns add look
ip -n look link add v0 type veth peer name v1
ip -n look link set v0 up
nsenter --net=/run/netns/look "$gateway" check --interface v0 >"$results/check" 2>&1
sed -n 's/^\(BTF\|TCX\|bpf_[a-z_]*\|problem:\) /  \1 /p' "$results/check" | while read -r line; do say "  $line"; done
ip netns del look

for name in $(cat "$results/wanted"); do
	if [ "$name" = smoke ]; then
		QUICK=1 timeout 1200 sh tests/smoke.sh "$gateway" native >"$results/smoke" 2>&1 </dev/null
		say "  smoke.sh: $(grep -m 1 -E '^(PASS|FAIL|SKIP)' "$results/smoke")"
		continue
	fi
	# A program of its own, or a module of tests/programs.
	program=$(sed -n "s/^$name //p" "$results/tests") module=
	[ -n "$program" ] || { program=$(sed -n "s/^programs //p" "$results/tests") module=$name::; }
	timeout 1200 "$program" --test-threads 2 $module >"$results/$name" 2>&1 </dev/null
	say "  $name: $(sed -n 's/^test result: [a-zA-Z]*\. \([0-9]* passed; [0-9]* failed\).*/\1/p' "$results/$name")"
done
mv "$results/part" "$results/row"
busybox poweroff -f
