"""Unsafe: the only room with ctypes and ioctl; thin typed calls, no decisions."""
