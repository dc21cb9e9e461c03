#!/bin/sh
# Boots systemd as PID 1 of the namespaces that it is started in (PID, mount, cgroup, UTS and IPC;
# the network is the caller's). booted.py starts it and says what it is for.
#
#   boot.sh FOLDER
#
# The root is the machine's own with a layer in memory over it, so nothing here is permanent. FOLDER
# is /srv there. FOLDER/prepare, a shell script, runs in that root before the boot. FOLDER/before
# lists what the layer holds before that.
set -eu
folder=$1
mount --make-rprivate /
layers=$folder/layers
mkdir -p "$layers"
mount -t tmpfs -o mode=755 tmpfs "$layers"
mkdir "$layers/upper" "$layers/work" "$layers/root"
mount -t overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" overlay "$layers/root"
cd "$layers/root"

# What would also change the real machine is read-only: its settings and its devices.
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,ro,bind proc/sys
mount -t sysfs sysfs sys
mount -o remount,ro,bind sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t bpf bpf sys/fs/bpf
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
	touch "dev/$name"
	mount --bind "/dev/$name" "dev/$name"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount --bind "$folder" srv
mkdir -p srv/layer
mount --bind "$layers/upper" srv/layer

# Only the journal of the machine's units runs: others would mount, load modules, or wait for
# devices.
units=lib/systemd/system
: >etc/fstab
rm -rf etc/systemd/system/* etc/init.d etc/rc?.d $units/*.wants
mkdir $units/sysinit.target.wants $units/sockets.target.wants
ln -s ../systemd-journald.service $units/sysinit.target.wants/
for socket in systemd-journald.socket systemd-journald-dev-log.socket; do
	ln -s ../$socket $units/sockets.target.wants/
done

export PATH=/usr/sbin:/usr/bin:/sbin:/bin
(cd srv/layer && find . | sort) >srv/before
chroot . sh -eu /srv/prepare >srv/prepared 2>&1
pivot_root . mnt
umount -l mnt
exec env -i container=narrows PATH="$PATH" /lib/systemd/systemd --unit=multi-user.target --show-status=no
