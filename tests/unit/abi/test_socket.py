"""Names of socket families and types agree with this system's own."""

from __future__ import annotations

import socket

from sentinel_kernel.abi.socket import FAMILIES, TYPE_FLAGS, TYPES


def test_families_are_named_as_the_system_names_them() -> None:
    shared = {name: value for name, value in vars(socket).items() if name in FAMILIES.values()}
    assert len(shared) > 10
    for name, value in shared.items():
        assert FAMILIES[int(value)] == name


def test_types_and_their_flags_are_named_as_the_system_names_them() -> None:
    names = {**TYPES, **TYPE_FLAGS}
    for number, name in names.items():
        assert getattr(socket, name, number) == number
