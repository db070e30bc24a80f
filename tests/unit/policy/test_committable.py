"""Which names may reach the host by themselves, and which need a question of their own."""

from __future__ import annotations

import pytest

from sentinel_kernel.policy.committable import (
    CONFIGURATION,
    LOADED,
    MODEL,
    SPARSE,
    VERSION_CONTROL,
    WAITS,
    Surroundings,
    by_itself,
    why_asked,
    why_waiting,
)

_NOTHING = Surroundings()


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".git/hooks/post-commit", VERSION_CONTROL),
        (".GIT/config", VERSION_CONTROL),
        ("a/.git. /config", VERSION_CONTROL),
        ("a/git~1/config", VERSION_CONTROL),
        (".g\u200cit/config", VERSION_CONTROL),
        ("mirror.git/hooks/update", VERSION_CONTROL),
        ("hooks/pre-push", VERSION_CONTROL),
        (".envrc", CONFIGURATION),
        (".vscode/tasks.json", CONFIGURATION),
        (".ssh/authorized_keys", CONFIGURATION),
        (".BashRC", CONFIGURATION),
        ("jupyter_server_config.py", CONFIGURATION),
        (".venv/bin/python", LOADED),
        ("lib/python3.11/site-packages/x.py", LOADED),
        ("m.pth", LOADED),
        ("__pycache__/m.cpython-311.pyc", LOADED),
        ("results.csv", ""),
        ("src/module.py", ""),
        ("git/notes.txt", ""),
    ],
)
def test_what_the_host_obeys_needs_a_question_of_its_own(path: str, reason: str) -> None:
    assert why_asked("/home/x/work", path, _NOTHING) == reason


def test_folders_that_the_host_loads_from_need_one() -> None:
    inside = Surroundings(("/home/x/work/lib",))
    assert why_asked("/home/x/work", "lib/data.txt", inside) == LOADED
    assert why_asked("/home/x/work", "library/data.txt", inside) == ""
    assert why_asked("/home/x", "work", inside) == LOADED  # a folder around it
    # A layer within such a folder: what is loaded from there is code, results are not.
    around = Surroundings(("/home/x",))
    assert why_asked("/home/x/work", "m.py", around) == LOADED
    assert why_asked("/home/x/work", "m.csv", around) == ""


def test_sentinels_own_folders_need_one_wherever_they_lie() -> None:
    own = Surroundings(own=("/home/x/work/settings/sentinel-kernel",))
    profile = "settings/sentinel-kernel/profiles/strict.json"
    assert why_asked("/home/x/work", profile, own) == CONFIGURATION
    assert why_asked("/home/x/work", "settings/sentinel-kernel", own) == CONFIGURATION
    assert why_asked("/home/x/work", "settings", own) == CONFIGURATION  # a folder around it
    assert why_asked("/home/x/work", "settings/results.json", own) == ""
    # A notebook that lies in there: all beside it are settings.
    assert why_asked("/home/x/work/settings/sentinel-kernel", "profiles/strict.json", own) == CONFIGURATION


@pytest.mark.parametrize(
    "path",
    [
        "a.csv",
        "d/e/Report 2.json",
        "x.TAR.gz",
        "x.parquet",
        "é.png",
        "results.json",
        "data.yaml",
        "inventory.json",
        "galaxy.json",
        "vega-spec.json",
    ],
)
def test_a_plain_result_is_committed_by_itself(path: str) -> None:
    assert by_itself(path)


@pytest.mark.parametrize(
    "path",
    [
        ".hidden",
        ".d/x.csv",
        "a.py",
        "A.PY",
        "a.py.",
        "b.sh",
        "Makefile",
        "n.ipynb",
        "-rf",
        "~",
        "AGENTS.md",
        "a\nb.csv",
        "numbers",
        "index.html",
        "build.ninja",
        "main.tf",
        "mkdocs.yml",
        "x.xlsm",
        "pic.svg",
        "composer.json",
        "nodemon.json",
        "opencode.json",
        "pylintrc",
        "config/x.json",
        "cdktf.json",
        "esy.json",
        "group_vars/all.json",
        "lab/conf.json",
        "x-1.0.dist-info/entry_points.txt",
        "x.egg-info/top_level.txt",
        "dev-requirements.txt",
        "reqs.txt",
        "requirements/base.txt",
        "voila.json",
        "host_vars/x.yml",
        "group_vars.json",
        "local.settings.json",
        "electron-builder.json",
        "nightwatch.json",
        "cloudbuild.json",
        "cloudbuild.yaml",
        "buildspec.yml",
        "buildspec.json",
        "Pulumi.json",
        "Pulumi.dev.yaml",
        "jasmine.json",
        "data.pkl",
    ],
)
def test_what_is_hidden_run_or_obeyed_is_held(path: str) -> None:
    assert not by_itself(path)


def test_why_a_new_file_waits() -> None:
    assert why_waiting("a.csv", 10, 4096) == ""
    assert why_waiting("model.pkl", 10, 4096) == MODEL
    assert why_waiting("a.html", 10, 4096) == WAITS
    assert why_waiting("a.csv", 4 << 40, 0) == SPARSE
    assert why_waiting("a.csv", 5 << 30, 1 << 30) == ""
