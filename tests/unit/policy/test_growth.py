"""Text of cells that is made to keep its readers busy: what they do grows no faster than the text does."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING

import pytest
from growing import grows_evenly

from sentinel_kernel.policy import (
    destinations,
    launch_values,
    needs,
    preflight_system,
    repair_paths,
    typed_hosts,
    typed_installs,
)
from sentinel_kernel.policy.cell_source import words
from sentinel_kernel.policy.dangerous import DangerousNotebook
from sentinel_kernel.policy.dangerous_shell import RULES, dangerous_lines

if TYPE_CHECKING:
    from sentinel_kernel.policy.dangerous_shell import Rule

BLANKS = ("\n", " ", "\t", "\f", "\\\n", "#\n", " #", "\n#")
WORDS = words(
    "; | & $( ` ( ) { ' \" <( / - = * ~ . > : "
    "a R a= env sudo sh python3. curl wget base64 eval while do dd find chmod mkfs rm rmdir source .. ../ /a /a/ "
    "-R -exec -delete -sudo =a a== |sh |python3 |/a |env =|env |sudo /bin/sh ;mkfs $(curl :( :(){ a(){a| &done dd of="
)
MADE = (
    "env a== ", "env =env ", "a=b|env ", "sudo -a ", "python3.3 -c ", "| sh", "wget x| ", "base64 -d ", "xxd -r|",
    "eval $(", "eval `", "sh -c $(", "while true;do ", "of=/dev/sda ", ">/dev/", ">/dev/sda", "find / ", "-exec rm",
    "chmod -R ", "chmod -R a ", "sudo mkfs.", "rm -r ", "rm -rf a ",
)  # fmt: skip
PARTS = (*BLANKS, *(word + end for word in sorted(WORDS) for end in ("", " ")), *MADE)
HEADS = (
    "",
    "curl x | env ",
    "curl x ",
    "chmod -",
    "while true;do ",
    "eval $(",
    "bash ",
    "name(){name|",
    "rm -rf ",
)


class Made:
    """Text that repeats a part, behind a head and before what fits no rule."""

    def __init__(self, head: str, part: str) -> None:
        self.head, self.part = head, part

    def __call__(self, count: int) -> str:
        return f"{self.head}{self.part * count}!\n"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{RULES.index(rule)}")
def test_a_rule_for_shell_text_searches_no_part_of_it_again_and_again(rule: Rule) -> None:
    for head, part in product(HEADS, PARTS):
        assert grows_evenly(lambda text: list(rule.places(text)), Made(head, part)), (head, part)


def test_neither_do_all_of_them_together_nor_what_reads_the_cell_around_it() -> None:
    for head, part in product(("", "rm -rf "), PARTS):
        assert grows_evenly(lambda text: list(dangerous_lines(text)), Made(head, part)), (head, part)
    for magic, part in product(("%%bash\n", "!"), PARTS):
        made = Made(f"{magic}curl x | env ", part)
        assert grows_evenly(lambda text: DangerousNotebook().read(text), made), (magic, part)


@pytest.mark.parametrize(
    ("search", "head", "part"),
    [
        (r"env\s+(?:\S+=\S*\s+)*sh", "env ", "a== "),
        (r"(?m)^(\s*)#", "", "\n"),
        (r"\bcurl\b[^\n;]*\| sh", "", "curl "),
    ],
)
def test_searches_that_grow_faster_are_told_from_these(search: str, head: str, part: str) -> None:
    pattern = re.compile(search)
    assert not grows_evenly(pattern.search, Made(head, part))


SEARCHES = (
    *(pattern for name, pattern in vars(destinations).items() if name in ("_URL", "_ADDRESS", "_FETCHES")),
    *(pattern for name, pattern in vars(needs).items() if isinstance(pattern, re.Pattern)),
    *(pattern for name, pattern in vars(repair_paths).items() if isinstance(pattern, re.Pattern)),
    *(pattern for name, pattern in vars(typed_installs).items() if name == "_LINE"),
    *(
        pattern
        for name, pattern in vars(typed_hosts).items()
        if name in ("_PROGRAM", "_URL", "_OF_GIT", "_BARE")
    ),
    *(pattern for name, pattern in vars(preflight_system).items() if name == "_URL"),
    *(pattern for name, pattern in vars(launch_values).items() if name == "_VERSION"),
)
REPAIRED = (
    "touch -touch ", "touch -a ", "mkdir ", "bs=1 ", "dd bs=1 ", "dd bs=1 count=", "-s ", "-s", "sleep ", "cp ",
    "cp a ", "of=", " -o", ">> ", "pip install ", "pip ", "install ", "git ", "git a@b:", "a@b:", "a@", "a.", "1.",
    "1.1.1.", "1-", "http://", "http://a@", "http://a:", "https://[", "s3+",
)  # fmt: skip


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: search.pattern[:40])
def test_neither_do_the_searches_for_hosts_sizes_packages_and_targets_in_a_cell(
    search: re.Pattern[str],
) -> None:
    for part in (*PARTS, *REPAIRED):
        assert grows_evenly(lambda text: [*search.finditer(text)], Made("", part)), part
