"""Which suites of other projects are run, what each needs, and what can't pass in a sandbox by its design."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one package's source distribution that reach a kernel through a client alone."""

    package: str
    copied: tuple[str, ...]
    """What is taken out of the source distribution: nothing that would hide the installed package."""

    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    impossible: dict[str, str] = field(default_factory=dict)
    """Tests that pass on plain ipykernel and can't here: the name, and the reason."""


_STAYS = "the kernel outlives its worker: the cell that ended it gets the reason, as an error"
_IPYKERNEL = ("kernel", "message_spec", "subshells", "debugger", "async", "matplotlib_eventloops")
_PAPERMILL = ("execute", "engines", "cli", "clientwrap", "autosave")

SUITES = {
    suite.package: suite
    for suite in (
        Suite(
            "ipykernel",
            copied=("tests",),
            files=tuple(f"tests/test_{name}.py" for name in _IPYKERNEL),
            options=("-o", "asyncio_mode=auto"),
            requirements=("flaky", "matplotlib", "pytest-asyncio", "pytest-cov"),
        ),
        Suite(
            "nbclient",
            copied=("tests",),
            files=("tests",),
            requirements=("flaky", "ipywidgets", "nbconvert", "pytest-asyncio", "testpath", "xmltodict"),
            impossible={
                # It sends SIGTERM to its own pid, and expects nbclient to find no kernel any more.
                "test_kernel_death_during_execution": _STAYS,
                "test_error_notebook_hook": _STAYS,
            },
        ),
        Suite(
            "papermill",
            copied=("papermill",),  # its tests import their neighbours by relative names
            files=tuple(f"papermill/tests/test_{name}.py" for name in _PAPERMILL),
        ),
    )
}
