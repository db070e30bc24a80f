"""Which folders are homes, what of them is covered, and which names sound like secrets."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.home_like import is_home, sounds_secret, to_cover


@pytest.mark.parametrize(
    ("names", "home"),
    [
        ([".bashrc", "notes.txt"], True),
        ([".ssh"], True),
        ([".zsh_history"], True),
        ([".config", ".cache"], True),
        ([".config", "app.sln"], False),
        ([".git", ".gitignore", ".env", ".venv", ".github", "src"], False),
        (["data.csv"], False),
    ],
)
def test_a_home_is_told_by_what_shells_and_logins_leave(names: list[str], home: bool) -> None:
    assert is_home(names) is home


def test_all_that_is_hidden_in_a_home_is_covered_but_what_python_lies_in() -> None:
    names = [".bashrc", ".ssh", ".pgpass", ".local", ".venvs", "rivers", "..."]
    kept = ("/home/ada/.local/lib/python3.11/site-packages", "/home/ada/.venvs", "/home/ada/rivers")
    covered, opened = to_cover("/home/ada", names, kept)
    assert covered == ["/home/ada/.bashrc", "/home/ada/.ssh", "/home/ada/.pgpass", "/home/ada/..."]
    assert opened == ["/home/ada/.local"]
    covered, opened = to_cover("/home/ada/.local", ["lib", "share", "bin"], kept, everything=True)
    assert (covered, opened) == (["/home/ada/.local/share", "/home/ada/.local/bin"], ["/home/ada/.local/lib"])


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("id_rsa", True),
        ("id_ed25519", True),
        ("server.key", True),
        ("token", True),
        ("hf_token.txt", True),
        ("auth.json", True),
        ("credentials", True),
        ("client_secret_12.json", True),
        ("passwords.kdbx", True),
        ("kernel-1.json", True),
        (".pgpass", True),
        (".env.local", True),
        ("cert.pem", False),
        ("ca-bundle.pem", False),
        ("tokens.csv", False),
        ("tokenizer.json", False),
        ("monkey.csv", False),
        ("keyboard.png", False),
        ("author.txt", False),
        ("id_numbers.csv", False),
    ],
)
def test_names_that_sound_like_secrets(name: str, secret: bool) -> None:
    assert sounds_secret(name) is secret
