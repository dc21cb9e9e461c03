#!/bin/busybox sh
# The guest's first process. It makes the machine's files its root, with a layer in memory over them
# for what the guest writes.
busybox=/bin/busybox
end() {
	echo "first.sh: $1"
	$busybox poweroff -f
}
$busybox mount -t proc proc /proc
$busybox mount -t devtmpfs dev /dev
for module in $($busybox cat /modules/order); do
	$busybox insmod "/modules/$module" || end "no module $module"
done
share() { $busybox mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2" || end "no $1"; }
share host /host ro,cache=loose
$busybox mount -t tmpfs -o size=1g over /over
$busybox mkdir /over/up /over/work
$busybox mount -t overlay -o lowerdir=/host,upperdir=/over/up,workdir=/over/work over /new || end "no overlay"
for place in /proc /sys /dev /run /lib/modules /mnt/results; do
	$busybox mkdir -p "/new$place"
done
$busybox umount /proc
$busybox umount /dev
$busybox mount -t proc proc /new/proc
$busybox mount -t sysfs sys /new/sys
$busybox mount -t devtmpfs dev /new/dev
$busybox mkdir -p /new/dev/pts /new/dev/shm
$busybox mount -t tmpfs shm /new/dev/shm
$busybox mount -t tmpfs run /new/run
share modules /new/lib/modules ro,cache=loose
share results /new/mnt/results rw
exec $busybox switch_root /new /bin/sh "$($busybox cat /new/mnt/results/root)/gateway/tests/kernels/guest.sh"
