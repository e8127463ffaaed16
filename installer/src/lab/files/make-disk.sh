#!/bin/sh
# Makes a virtual machine's disk: the tree LOWER with the host's own files over it.
# make-disk.sh FOLDER LOWER
set -eu
folder=$1 lower=$2

mount -t overlay -o "lowerdir=$lower,upperdir=$folder/upper,workdir=$folder/work" overlay "$folder/root"
printf 'LABEL=root / ext4 defaults 0 1\n' >"$folder/root/etc/fstab"
# Sparse: it takes the room that is written to.
mke2fs -q -F -t ext4 -L root -E lazy_itable_init=1,lazy_journal_init=1,nodiscard -d "$folder/root" "$folder/disk.img" 32G
umount "$folder/root"
# All of it is in the disk now.
rm -rf "$folder/upper" "$folder/work"
