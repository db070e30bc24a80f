"""YAML that is numbers under names is told from all other."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.plain_yaml import is_numbers


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"a: 1\nb: [1, 2.5, -3e4]\nc:\n  - 1\n  - .5\nd:\n- e: 1_000\n  f: null # none\n",
        b'---\n# measured\n"x y": 1\n2026: true\n',
        b"- [1, 2]\n- [ ]\n",
        b"train loss: .nan\r\nz: true\n",
        b"a:\n\n  # below\n  b:\n    - 1\n  c:\n    2\n",
        b"a:\n- - 1\n  - 2\nb:\n-\n",
        b"a:\n- b:\n  - 1\n  c: ~\n---\n- 1\n",
        b"- a: 1\n  b: [1]\n- a: 2\n",
    ],
)
def test_numbers_are(text: bytes) -> None:
    assert is_numbers(text)


@pytest.mark.parametrize(
    "text",
    [
        b"a: x",
        b"a: 1 x",
        b"- touch x",
        b"a:\n  touch x",
        b"a: '1'",
        b"a: [1, x]",
        b"a: {b: 1}",
        b"a: *x",
        b"&x a: 1",
        b"a: !!y 1",
        b"<<: 1",
        b"a: |\n 1",
        b"? a",
        b"%YAML 1.2",
        b"a: 1\x85b: x",
        b"a: 1\rb: x",
        b"\xff\xfea\x00:\x00",
        b"a: 1\n" * 100_001,
        b"a" * 5000,
        # A name alone is what is to be done, to Ansible and others.
        b"- reboot:\n- shutdown:\n",
        b"- reboot: # now\r\n- shutdown:\r\n",
        b"  - reboot:\n",
        b"- reboot: null\n",
        b"- retries: 3\n  'reboot': ~\n",
        b"- reboot:\n    reboot_timeout: 5\n",
        b"- block:\n  - reboot:\n",
        b"-\n  reboot:\n",
        b"- - reboot:\n",
        b"a: 1\n---\n- reboot: null\n",
        b"reboot:\n---\n  a: 1\n",
        b"reboot:\na: 1\n",
        b"a:\n- reboot:\n- 1\n",
        b"a:\n  - reboot:\n  -\n",
        b"a: 1\nreboot:\n\n# 1\n",
    ],
)
def test_what_could_be_followed_is_not(text: bytes) -> None:
    assert not is_numbers(text)
