#!/bin/busybox sh
# Loads what the disks need, mounts them, and goes on with systemd or our own init, as the command line says.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod "$module"; done
mount -t ext4 /dev/vda /root
mount -t ext4 -o ro /dev/vdb /root/project
mount --move /dev /root/dev
if grep -q vm.systemd /proc/cmdline; then
    umount /proc
    exec switch_root /root /usr/lib/systemd/systemd
fi
umount /proc
exec switch_root /root /usr/bin/python3 -u /project/tests/vm/inside/init.py
