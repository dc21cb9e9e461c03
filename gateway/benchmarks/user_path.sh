#!/bin/bash
# What a query costs the server's side with the gateway in user space, beside UDP and the kernel's TCP.
#
#   cargo build --release -p narrows-gateway --bin narrows-gateway --example dnsload
#   sudo RATE=5000 SECONDS_EACH=5 ROUNDS=3 gateway/benchmarks/user_path.sh
#
# With BEFORE=<another build of narrows-gateway> that one takes turns with this one, as arms tun-before and packet-before.
# With ARMS="tun packet" those alone are measured.
#
# NSD in a network namespace, one query a connection from another, client and server each on a core of its own.
# Microseconds of CPU a query of NSD, the gateway, and the softirqs of the server's end of the link (threaded NAPI and
# schedstat); the median of the rounds, in which the arms take turns. Needs root, nsd, iproute2 and ethtool.
set -euo pipefail
cd "$(dirname "$0")/../.."
TARGET=${CARGO_TARGET_DIR:-target}/release
RATE=${RATE:-5000} SECONDS_EACH=${SECONDS_EACH:-5} ROUNDS=${ROUNDS:-3} ARMS=${ARMS:-udp kernel-tcp tun packet} BEFORE=${BEFORE:-}
[ "$(id -u)" = 0 ] || { echo "error: needs root, for network namespaces; hint: sudo $0" >&2; exit 2; }
for program in nsd:nsd ip:iproute2 ethtool:ethtool nsenter:util-linux sysctl:procps taskset:util-linux pgrep:procps python3:python3; do
    command -v "${program%:*}" > /dev/null || { echo "error: no ${program%:*}; hint: apt-get install ${program#*:}" >&2; exit 2; }
done
for program in "$TARGET/narrows-gateway" ${BEFORE:+"$BEFORE"} "$TARGET/examples/dnsload"; do
    [ -x "$program" ] || { echo "error: $program is not there; hint: see the head of $0" >&2; exit 2; }
done

client=nrw-user-$$-c server=nrw-user-$$-g link=nu$$ folder=$(mktemp -d) gateway="" nsd=""
clean_up() {
    # shellcheck disable=SC2086 # one word a process
    kill $gateway $nsd 2>/dev/null || true
    wait 2>/dev/null || true
    ip netns del "$client" 2>/dev/null || true
    ip netns del "$server" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean_up EXIT
at() { nsenter --net="/run/netns/$1" "${@:2}"; }

ip netns add "$client"
ip netns add "$server"
ip link add "${link}c" netns "$client" type veth peer name "${link}s" netns "$server"
ip -n "$client" addr add 10.9.0.2/24 dev "${link}c"
ip -n "$server" addr add 10.9.0.1/24 dev "${link}s"
for end in "$client ${link}c" "$server ${link}s"; do
    read -r space name <<< "$end"
    ip -n "$space" link set lo up
    ip -n "$space" link set "$name" up
    # veth has NAPI with GRO, and takes packets through it where the sender has no TSO; else each end would do the other's
    # work in its own send calls.
    at "$space" ethtool -K "$name" gro on tso off
    ip netns exec "$space" sh -c "echo 1 > /sys/class/net/$name/threaded"
done
ip -n "$client" route add 192.0.2.53 via 10.9.0.1
at "$client" sysctl -qw net.ipv4.tcp_tw_reuse=1 net.ipv4.ip_local_port_range="1024 65000"
napi=$(pgrep "^napi/${link}s") && taskset -pc 1 "$napi" > /dev/null
taskset -pc 0 "$(pgrep "^napi/${link}c")" > /dev/null

cat > "$folder/zone" <<'ZONE'
$ORIGIN example.test.
@ 60 IN SOA ns hostmaster 1 3600 600 86400 60
@ 60 IN NS ns
ns 60 IN A 192.0.2.53
* 60 IN A 192.0.2.81
ZONE
cat > "$folder/nsd.conf" <<CONF
server:
 ip-address: 127.0.0.1@5353
 ip-address: 10.9.0.1@53
 username: ""
 chroot: ""
 pidfile: "$folder/pid"
 database: ""
 zonesdir: "$folder"
 xfrdfile: "$folder/xfrd"
 xfrdir: "$folder"
 zonelistfile: "$folder/list"
 server-count: 1
 tcp-count: 1000
 rrl-ratelimit: 0
remote-control:
 control-enable: no
zone:
 name: example.test
 zonefile: "$folder/zone"
CONF
nsenter --net="/run/netns/$server" taskset -c 1 nsd -d -c "$folder/nsd.conf" 2> /dev/null &
nsd=$!
sleep 1

cpu_ns() { # of all threads that serve
    local total=0 process file ran
    for process in $(pgrep -f "$folder/nsd.conf") $napi $gateway; do
        for file in /proc/"$process"/task/*/schedstat; do
            read -r ran _ < "$file" && total=$((total + ran))
        done
    done
    echo "$total"
}
measure() { # ARM ADDRESS TRANSPORT
    local before after
    before=$(cpu_ns)
    at "$client" taskset -c 0 "$TARGET/examples/dnsload" --server "$2:53" --zone example.test --transport "$3" \
        --rate "$RATE" --seconds "$SECONDS_EACH" --source 10.9.0.2 > "$folder/out"
    after=$(cpu_ns)
    python3 - "$1" $((after - before)) "$folder/out" <<'PY' | tee -a "$folder/rows"
import json, pathlib, sys
arm, ns, out = sys.argv[1:]
load = json.loads(pathlib.Path(out).read_text().splitlines()[-1])
missing = load["lost"] + load["failed"] + load["unsent"]
print(arm, f'{int(ns) / 1000 / max(load["answered"], 1):.1f}', load["answered"], missing)
PY
}
begin() { # PROGRAM FLAGS
    # Without a function of the shell, so that the process is the gateway's own.
    nsenter --net="/run/netns/$server" taskset -c 1 "$1" run --mode user --user-upstream 127.0.0.1:5353 \
        --limits-query-rate 0 --limits-syn-rate 0 "${@:2}" > "$folder/ready" 2> "$folder/log" &
    gateway=$!
    for _ in $(seq 100); do ! grep -q '"ready"' "$folder/ready" || return 0; sleep 0.1; done
    cat "$folder/log" >&2
    exit 1
}
end() {
    kill "$gateway"
    wait "$gateway" || true
    gateway=""
}

echo "arm, us of CPU a query, answered, not answered"
gateways=("$TARGET/narrows-gateway" ${BEFORE:+"$BEFORE"})
for _ in $(seq "$ROUNDS"); do
    for arm in $ARMS; do
        case $arm in
            udp) measure udp 10.9.0.1 udp ;;
            kernel-tcp) measure kernel-tcp 10.9.0.1 tcp ;;
            tun)
                at "$server" sysctl -qw net.ipv4.ip_forward=1
                for program in "${gateways[@]}"; do
                    begin "$program" --interface nrwtun --server 192.0.2.53
                    measure "tun$([ "$program" != "$BEFORE" ] || echo -before)" 192.0.2.53 tcp
                    end
                done
                ;;
            packet)
                at "$server" sysctl -qw net.ipv4.ip_forward=0
                for program in "${gateways[@]}"; do
                    begin "$program" --user-link packet --interface "${link}s" --server 10.9.0.53
                    measure "packet$([ "$program" != "$BEFORE" ] || echo -before)" 10.9.0.53 tcp
                    end
                done
                ;;
        esac
    done
done
python3 - "$folder/rows" <<'PY'
import json, pathlib, statistics, sys
rows = [line.split() for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
arms = {row[0]: [float(r[1]) for r in rows if r[0] == row[0]] for row in rows}
print(json.dumps({"us_per_query": {arm: statistics.median(values) for arm, values in arms.items()}}))
PY
