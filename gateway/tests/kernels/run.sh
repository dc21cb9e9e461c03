#!/bin/sh
# What works on each kernel? Boots kernels as guests of QEMU with this machine's files (read-only; a
# guest's writes stay in its memory). There it runs the crate's tests with eBPF programs and
# sockets, and smoke.sh with NSD and dig. QEMU emulates each instruction, which is slow; with KVM=1
# it uses /dev/kvm. TESTS="smoke xdp_several" runs only these.
#
#   gateway/tests/kernels/run.sh [KERNEL...]       # default: 6.1 6.12
#
# KERNEL is a version in Debian 12's archive (6.1, 6.12), or the path of a package with a kernel and
# its modules (linux-image-*.deb; join several that belong together by commas, such as Ubuntu's
# linux-image-unsigned-* and linux-modules-*). apt fetches Debian's kernels into target/kernels,
# 180 MB. The last lines of each kernel are its row: what passed.
set -eu
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../../..")
work=$root/target/kernels
[ $# -gt 0 ] || set -- 6.1 6.12
tests=${TESTS:-smoke xdp_frames xdp_limits xdp_verdicts xdp_cookies xdp_several several_model xdp_entries xdp_beside tc_verdicts control user_network differential}

for tool in qemu-system-x86_64:qemu-system-x86 cpio:cpio modprobe:kmod dpkg-deb:dpkg busybox:busybox-static \
	nsd:nsd dig:bind9-dnsutils kdig:knot-dnsutils ip:iproute2 bpftool:bpftool clang:clang python3:python3; do
	command -v ${tool%:*} >/dev/null || PATH=$PATH:/usr/sbin:/sbin command -v ${tool%:*} >/dev/null || {
		echo "error: no ${tool%:*}; hint: apt-get install --no-install-recommends ${tool#*:}" >&2
		exit 2
	}
done
PATH=$PATH:/usr/sbin:/sbin
busybox=$(command -v busybox)
if ldd "$busybox" >/dev/null 2>&1; then
	echo "error: $busybox is not static; hint: apt-get install busybox-static" >&2
	exit 2
fi
mkdir -p "$work"

# apt with its own sources, lists and cache. The machine's stay unchanged.
apt() {
	command=$1
	shift
	$command -q -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/apt/lists" \
		-o Dir::Cache="$work/apt/cache" -o APT::Sandbox::User= "$@"
}
fetch() { # fetch VERSION
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	[ -e $keys ] || { echo "error: no $keys; hint: apt-get install debian-archive-keyring, or name a package's path" >&2; exit 2; }
	if [ ! -e "$work/apt/sources.list" ]; then
		mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
		for suite in 'debian bookworm' 'debian-security bookworm-security'; do
			echo "deb [arch=amd64 signed-by=$keys] http://deb.debian.org/$suite main"
		done >"$work/apt/sources.list"
		apt apt-get update >&2 || { rm "$work/apt/sources.list"; exit 2; }
	fi
	# The metapackages linux-image-amd64 (6.1) and linux-image-6.12-amd64 name the newest.
	case $1 in 6.1) meta=linux-image-amd64 ;; *) meta=linux-image-$1-amd64 ;; esac
	package=$(apt apt-cache show "$meta" 2>/dev/null | sed -n 's/^Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
	[ -n "$package" ] || { echo "error: Debian 12 has no kernel $1; hint: 6.1, 6.12, or the path of a package" >&2; exit 2; }
	(cd "$work" && { ls "$package"_*.deb >/dev/null 2>&1 || apt apt-get download "$package" >&2; } && ls "$PWD/$package"_*.deb)
}

# Programs of the tests, as cargo names them.
cd "$root"
cargo build --locked --release -p narrows-gateway --features ebpf
cargo test --locked --release -p narrows-gateway --features ebpf --no-run --message-format=json >"$work/built.json"
python3 - "$work/built.json" >"$work/tests" <<-'END'
	import json, sys
	for line in open(sys.argv[1]):
	    made = json.loads(line)
	    if made.get("executable") and made["target"]["kind"] == ["test"]:
	        print(made["target"]["name"], made["executable"])
END

guest() { # guest PACKAGES: boots it, and prints what it did
	files=$work/$(basename "${1%%,*}" .deb)
	if [ ! -d "$files" ]; then
		rm -rf "$files.part"
		mkdir "$files.part"
		for package in $(echo "$1" | tr , ' '); do
			dpkg-deb --fsys-tarfile "$package" | tar x -C "$files.part" --exclude='*/kernel/drivers/gpu' --exclude='*/kernel/sound' \
				--exclude='*/kernel/drivers/media' --exclude='*/wireless' --exclude='./usr/share'
		done
		# A merged /usr or not.
		[ -e "$files.part/lib" ] || ln -s usr/lib "$files.part/lib"
		depmod -b "$files.part" "$(ls "$files.part/lib/modules")"
		mv "$files.part" "$files"
	fi
	kernel=$(echo "$files"/boot/vmlinuz-*)
	release=${kernel##*/vmlinuz-}
	results=$work/$release
	rm -rf "$results"
	mkdir -p "$results"
	echo "$root" >"$results/root"
	cp "$work/tests" "$results/tests"
	echo "$tests" >"$results/wanted"

	# The first file system, which mounts the machine's files.
	first=$work/first
	rm -rf "$first"
	mkdir -p "$first/bin" "$first/modules" "$first/proc" "$first/dev" "$first/host" "$first/over" "$first/new"
	cp "$busybox" "$first/bin/busybox"
	for module in virtio_pci 9pnet_virtio 9p overlay; do
		modprobe -d "$files" -S "$release" --show-depends $module
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r file; do
		name=$(basename "$file")
		case $name in
		*.xz) name=${name%.xz} && xz -dc "$file" >"$first/modules/$name" ;;
		*.zst) name=${name%.zst} && zstd -qdc "$file" >"$first/modules/$name" ;;
		*) cp "$file" "$first/modules/$name" ;;
		esac
		echo "$name" >>"$first/modules/order"
	done
	install -m 755 "$here/first.sh" "$first/init"
	(cd "$first" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/first.gz"

	# no_timer_check: on a busy machine the guest misses the timer ticks that it waits for at its
	# start.
	accel=tcg,thread=multi
	[ -z "${KVM:-}" ] || accel=kvm
	timeout 3000 qemu-system-x86_64 -accel $accel -cpu max -smp 2 -m 2G -nographic -no-reboot -nic none \
		-kernel "$kernel" -initrd "$work/first.gz" -append "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check" \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		-virtfs local,path="$results",mount_tag=results,security_model=none \
		-virtfs local,path="$files/lib/modules",mount_tag=modules,security_model=none,readonly=on \
		</dev/null >"$results/console" 2>&1 || true
	if [ -e "$results/row" ]; then
		cat "$results/row"
		echo "(in full: $results)"
	else
		echo "error: the guest did not come to its end; its last words, of $results/console:" >&2
		tail -n 5 "$results/console" >&2
		return 1
	fi
}

failed=0
for one; do
	case $one in *.deb*) packages=$one ;; *) packages=$(fetch "$one") ;; esac
	guest "$packages" || failed=1
done
exit $failed
