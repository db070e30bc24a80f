"""The kernel passes the suites that Jupyter gives to kernels, from a kernelspec as it is installed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jupyter_kernel_test
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
    # jupyter_kernel_test leaves its client's sockets to the garbage collector
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]

SPEC = Path(__file__).resolve().parents[2] / "kernelspec" / "kernel.json"


@pytest.fixture(autouse=True, scope="module")
def _kernelspec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Place the shipped kernelspec, for this interpreter, where jupyter_client looks first."""
    folder = tmp_path_factory.mktemp("jupyter")
    place = folder / "kernels" / "sentinel"
    place.mkdir(parents=True)
    spec = json.loads(SPEC.read_text())
    spec["argv"][0] = sys.executable
    (place / "kernel.json").write_text(json.dumps(spec))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(folder))
        patch.chdir(tmp_path_factory.mktemp("work"))
        yield


class TestKernel(jupyter_kernel_test.KernelTests):
    """Everything that jupyter_kernel_test knows, save history's "range", which ipykernel answers with session 0."""

    __test__ = True
    kernel_name = "sentinel"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]  # noqa: RUF012 - as the suite declares it
    complete_code_samples = ["1", "print('hello, world')", "def f(x):\n  return x*2\n\n\n"]  # noqa: RUF012
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]  # noqa: RUF012
    invalid_code_samples = ["import = 7q"]  # noqa: RUF012
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result = [{"code": "1+2+3", "result": "6"}]  # noqa: RUF012
    code_display_data = [  # noqa: RUF012
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
            "mime": "text/html",
        },
        {"code": "from IPython.display import Math, display; display(Math('1/2'))", "mime": "text/latex"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"


class TestIopubWelcome(jupyter_kernel_test.IopubWelcomeTests):
    """A subscription is confirmed (JEP 65)."""

    __test__ = True
    kernel_name = "sentinel"
    support_iopub_welcome = True


del jupyter_kernel_test  # its own classes are no tests of ours
