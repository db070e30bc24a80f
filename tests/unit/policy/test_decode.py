"""Arguments for people: total for any registers and bytes, bounded, on one line."""

from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.abi.architecture import X86_64
from sentinel_kernel.policy.decode import decode_arguments
from sentinel_kernel.policy.sockaddr import (
    LOCAL,
    LOOPBACK,
    NAME_LOOKUP,
    OUTSIDE,
    UNREADABLE,
    read_address,
)
from sentinel_kernel.policy.text import MAXIMUM_CHARACTERS, shown

registers = st.lists(st.integers(0, (1 << 64) - 1), min_size=6, max_size=6).map(tuple)


def texts(syscall: str, *arguments: int, copied: dict[int, bytes] | None = None) -> list[str]:
    padded = (*arguments, *(0,) * (6 - len(arguments)))
    return [argument.text for argument in decode_arguments(syscall, padded, copied or {})]


def inet(host: str, port: int, family: int = socket.AF_INET) -> bytes:
    if family == socket.AF_INET:
        return struct.pack("=H", 2) + struct.pack("!H", port) + socket.inet_pton(family, host) + bytes(8)
    return struct.pack("=H", 10) + struct.pack("!HI", port, 0) + socket.inet_pton(family, host) + bytes(4)


@pytest.mark.parametrize(
    ("data", "reach", "numeric"),
    [
        (inet("93.184.216.34", 443), OUTSIDE, "93.184.216.34:443"),
        (inet("127.0.0.1", 8888), LOOPBACK, "127.0.0.1:8888"),
        (inet("127.8.9.10", 1), LOOPBACK, "127.8.9.10:1"),
        (inet("0.0.0.0", 80), LOOPBACK, "0.0.0.0:80"),
        (inet("127.0.0.1", 53), NAME_LOOKUP, "127.0.0.1:53"),
        (inet("8.8.8.8", 53), OUTSIDE, "8.8.8.8:53"),
        (inet("::1", 53, socket.AF_INET6), NAME_LOOKUP, "[::1]:53"),
        (inet("::", 80, socket.AF_INET6), LOOPBACK, "[::]:80"),
        (inet("::ffff:127.0.0.1", 80, socket.AF_INET6), LOOPBACK, "[::ffff:127.0.0.1]:80"),
        (inet("::ffff:1.1.1.1", 80, socket.AF_INET6), OUTSIDE, "[::ffff:1.1.1.1]:80"),
        (inet("2606:4700::1111", 443, socket.AF_INET6), OUTSIDE, "[2606:4700::1111]:443"),
        (inet("::2", 1, socket.AF_INET6), OUTSIDE, "[::2]:1"),
        (inet("1.2.3.4", 5)[:15], UNREADABLE, ""),
        (inet("::1", 5, socket.AF_INET6)[:27], UNREADABLE, ""),
        (b"", UNREADABLE, ""),
        (b"\x02", UNREADABLE, ""),
        (struct.pack("=H", 1) + b"/run/x\0rest", LOCAL, ""),
        (struct.pack("=H", 0), LOCAL, ""),
        (struct.pack("=H", 16) + bytes(10), LOCAL, ""),
    ],
)
def test_an_address_tells_where_it_leads(data: bytes, reach: str, numeric: str) -> None:
    address = read_address(data)
    assert (address.reach, address.numeric) == (reach, numeric)


@pytest.mark.parametrize(
    ("path", "text"),
    [(b"/run/a.sock\0junk", "/run/a.sock"), (b"\0abstract\x1b", "@abstract\\x1b"), (b"", "unnamed")],
)
def test_a_local_address_is_shown_without_controls(path: bytes, text: str) -> None:
    assert read_address(struct.pack("=H", 1) + path).text == text


@given(st.binary(max_size=300))
def test_any_bytes_are_an_address(data: bytes) -> None:
    address = read_address(data)
    assert address.text.isprintable()
    assert len(address.text) <= MAXIMUM_CHARACTERS + 1
    assert set(address.numeric) <= set("0123456789abcdef.:[]")


@given(st.binary(max_size=2000) | st.text(max_size=2000))
def test_any_text_is_shown_bounded_and_on_one_line(raw: bytes | str) -> None:
    text = shown(raw)
    assert text.isprintable()
    assert len(text) <= MAXIMUM_CHARACTERS


def test_what_changes_the_order_of_text_is_shown_as_its_escape() -> None:
    assert shown("a\u202eb\u200bc\nd") == "a\\u202eb\\u200bc\\nd"
    assert shown(b"\xff\xfe/x") == "\\xff\\xfe/x"
    assert shown("x" * 500).endswith("…")


@given(
    st.sampled_from(sorted(X86_64.syscalls)),
    registers,
    st.dictionaries(st.integers(0, 5), st.binary(max_size=300)),
)
def test_any_call_is_decoded(syscall: str, arguments: tuple[int, ...], copied: dict[int, bytes]) -> None:
    for argument in decode_arguments(syscall, arguments, copied):
        assert argument.text.isprintable()
        assert len(argument.text) <= 2 * MAXIMUM_CHARACTERS


def test_names_instead_of_numbers() -> None:
    assert texts("socket", 2, 1 | 0o2000000 | 0o4000, 6) == [
        "AF_INET",
        "SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC",
        "6",
    ]
    assert texts("socket", 40, 1, 0)[0] == "AF_VSOCK"
    assert texts("socket", 99, 1, 0)[0] == "family 99"
    assert texts("kill", 5, 9) == ["5", "SIGKILL"]
    assert texts("kill", (1 << 64) - 1, 99) == ["-1", "99"]
    assert texts("unshare", 0x10020000) == ["CLONE_NEWNS|CLONE_NEWUSER"]
    assert texts("ioctl", 0, 0x1_0000_5412, 7) == ["0", "TIOCSTI", "pointer"]
    assert texts("mknodat", (1 << 64) - 100, 1, 0o020666, 0x101) == [
        "AT_FDCWD",
        "pointer",
        "S_IFCHR|0o666",
        "0x101",
    ]
    assert texts("ptrace", 16, 5, 0, 0)[0] == "PTRACE_ATTACH"
    assert texts("bpf", 5, 1, 64)[0] == "BPF_PROG_LOAD"


def test_copied_text_is_marked_as_the_sandboxs() -> None:
    copied = {0: b"/dev/sda1\0tail", 1: b"/mnt\x1b[31m\0", 2: b""}
    arguments = decode_arguments("mount", (1, 2, 0, 4096, 0, 0), copied)
    assert [argument.text for argument in arguments] == [
        "/dev/sda1",
        "/mnt\\x1b[31m",
        "NULL",
        "MS_BIND",
        "NULL",
    ]
    assert [argument.untrusted for argument in arguments] == [True, True, False, False, False]


def test_a_numeric_address_is_ours_a_path_is_not() -> None:
    connect = decode_arguments("connect", (3, 1, 16, 0, 0, 0), {1: inet("1.2.3.4", 5)})
    assert (connect[1].text, connect[1].untrusted) == ("1.2.3.4:5", False)
    local = decode_arguments("connect", (3, 1, 16, 0, 0, 0), {1: b"\x01\x00/tmp/x"})
    assert local[1].untrusted
