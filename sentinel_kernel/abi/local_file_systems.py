"""File systems that lie on this machine, by the numbers that statfs(2) gives them (include/uapi/linux/magic.h).

Looking a name up in any other may send it elsewhere: to a server (NFS, CIFS, 9P), or to a program (FUSE, autofs).
"""

from __future__ import annotations

LOCAL = frozenset(
    {
        0x0000EF53,  # ext2, ext3, ext4
        0x58465342,  # XFS
        0x9123683E,  # Btrfs
        0xF2F52010,  # F2FS
        0xCA451A4E,  # bcachefs
        0x2FC12FC1,  # ZFS
        0x3153464A,  # JFS
        0x00003434,  # NILFS2
        0x24051905,  # UBIFS
        0x00004D44,  # FAT
        0x2011BAB0,  # exFAT
        0x7366746E,  # NTFS (ntfs3)
        0x00009660,  # ISO 9660
        0x15013346,  # UDF
        0x73717368,  # SquashFS
        0xE0F5E1E2,  # EROFS
        0x794C7630,  # overlayfs
        0x01021994,  # tmpfs
        0x858458F6,  # ramfs
        0x00001CD1,  # devpts
        0x62656572,  # sysfs
        0x63677270,  # cgroup2
        0x0027E0EB,  # cgroup
    }
)
