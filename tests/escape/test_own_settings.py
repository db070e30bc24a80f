"""A cell makes Sentinel's own settings, where variables have them lie in the notebook's folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from conversation import Conversation
from live_kernel import notebook

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.sandbox, pytest.mark.requires("user_namespaces", "overlay")]

_KEYS = ("memory_bytes", "pids", "disk_bytes", "tmp_bytes", "shm_bytes")


def test_no_cell_makes_a_profile_that_the_next_sandbox_obeys(tmp_path: Path) -> None:
    secret = tmp_path / "private" / "secret"
    secret.parent.mkdir()
    secret.write_text("secret of the person")
    (tmp_path / "work" / "mine").mkdir(parents=True)
    profile = {
        "name": "datascience",
        "default_action": "ALLOW",
        "syscall_rules": [],
        "network": {"allow": True},
        "filesystem": {"commit": "new", "mounts": [{"path": str(secret.parent), "mode": "ro"}]},
        "resources": {**dict.fromkeys(_KEYS, "256MiB"), "pids": 128, "cpu_count": 1, "open_files": 4096},
    }
    text = json.dumps(profile)
    places = {
        "XDG_CONFIG_HOME": str(tmp_path / "work" / "mine"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    with notebook(tmp_path, SENTINEL_PROFILE="datascience", SENTINEL_SPARE="off", **places) as book:
        made = book.run(
            "import os\nos.makedirs('mine/sentinel-kernel/profiles')\n"
            f"open('mine/sentinel-kernel/profiles/datascience.json', 'w').write({text!r})\n"
            f"open('results.json', 'w').write({text!r})"
        )
        assert made.reply["status"] == "ok"
        assert (tmp_path / "work" / "results.json").exists()  # by its contents it is data
        assert list((tmp_path / "work" / "mine").iterdir()) == []
        read = book.run(f"%sentinel_reset\nprint(open({str(secret)!r}).read())")
        assert read.reply["ename"] == "FileNotFoundError"


def test_no_yes_has_a_cell_write_profiles(tmp_path: Path) -> None:
    own = tmp_path / "mine" / "sentinel-kernel"
    (own / "profiles").mkdir(parents=True)
    (own / "profiles" / "roomy.json").write_text('{"extends": "strict"}')
    places = {"XDG_CONFIG_HOME": str(own.parent), "XDG_STATE_HOME": str(tmp_path / "state")}
    with notebook(tmp_path, SENTINEL_SPARE="off", **places) as book:
        talk = Conversation(book.client)
        for folder in (own, own / "profiles"):
            refused = talk.run(f"%sentinel_mount {folder} rw\n1", allow_stdin=True)
            assert refused.content["ename"] == "MountError"
        code = "import os; print(os.listdir('/mnt/mine/sentinel-kernel'))"
        around = talk.execute(f"%sentinel_mount {own.parent} rw\n{code}", allow_stdin=True)
        talk.wait_for_prompt(around)
        book.client.input("y")
        assert talk.finish(around).text == "[]\n"


@pytest.mark.parametrize(
    ("variables", "arguments"),
    [
        ({"SENTINEL_MAPPINGS": "words.json"}, ()),
        ({"SENTINEL_MAPPINGS": "~/work/words.json"}, ()),
        ({}, ("--SentinelKernel.mappings=words.json",)),
    ],
)
def test_no_cell_makes_the_words_that_the_next_kernel_says(
    tmp_path: Path, variables: dict[str, str], arguments: tuple[str, ...]
) -> None:
    places = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "SENTINEL_SPARE": "off"}
    variables = {"SENTINEL_PROFILE": "datascience", **variables, **places}
    with notebook(tmp_path, extra_arguments=arguments, **variables) as book:
        made = book.run("for name in ('words', 'results'):\n    open(f'{name}.json', 'w').write('[1, 2]')")
        assert made.reply["status"] == "ok"
        assert (tmp_path / "work" / "results.json").exists()  # by its contents it is data
        assert not (tmp_path / "work" / "words.json").exists()
        assert "words.json" in book.run("%sentinel_files").bundles("text/plain")[0]
