"""Programs that run notebooks, on the kernel `sentinel` as they are: for root and for an ordinary user."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import textwrap
import time
from typing import TYPE_CHECKING

import nbformat
import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from ordinary_user import Identity

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]


def _notebook(path: Path, *sources: str, parameters: str = "") -> Path:
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    if parameters:
        cells.insert(0, nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    spec = {"kernelspec": {"name": "sentinel", "display_name": "Python 3 (Sentinel)", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=spec), path)
    return path


def _printed(path: Path) -> str:
    cells = nbformat.read(path, as_version=4).cells
    outputs = [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]
    return "".join(output.get("text", "") for output in outputs)


def test_nbclient(identity: Identity, folder: Path, environment: dict[str, str]) -> None:
    _notebook(
        folder / "a b.ipynb",
        "value = 6 * 7",
        "print(value)",
        "open('made.txt', 'w').write('x')\nopen('a.py', 'w')",
    )
    (folder / "run.py").write_text(
        textwrap.dedent("""\
        import nbformat, nbclient
        notebook = nbformat.read("a b.ipynb", as_version=4)
        nbclient.NotebookClient(notebook, kernel_name="sentinel", resources={"metadata": {"path": "."}}).execute()
        print([cell.execution_count for cell in notebook.cells], notebook.cells[1].outputs[0].text)
        failing = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
        try:
            nbclient.NotebookClient(failing, kernel_name="sentinel").execute()
        except nbclient.exceptions.CellExecutionError as error:
            print(error.ename)
        """)
    )
    done = identity.run(identity.python, "run.py", cwd=folder, env=environment)
    assert done.stdout == "[1, 2, 3] 42\n\nZeroDivisionError\n"
    assert (folder / "made.txt").read_text() == "x"  # plain data is saved by itself
    assert not (folder / "a.py").exists()


def test_papermill_with_parameters(
    own_user: Identity, folder_of_own: Path, own_environment: dict[str, str]
) -> None:
    asked = _notebook(
        folder_of_own / "in.ipynb", "print(name, count + 1)", parameters="name = 'nobody'\ncount = 0"
    )
    papermill = (own_user.python, "-m", "papermill", "--no-progress-bar", str(asked))
    own_user.run(
        *papermill,
        "out.ipynb",
        "-p",
        "name",
        "Ada",
        "-p",
        "count",
        "41",
        cwd=folder_of_own,
        env=own_environment,
    )
    assert _printed(folder_of_own / "out.ipynb") == "Ada 42\n"
    _notebook(asked, "print('before')", "raise KeyError('gone')", "print('after')")
    failed = own_user.run(*papermill, "failed.ipynb", cwd=folder_of_own, env=own_environment, check=False)
    assert failed.returncode == 1
    assert "KeyError: 'gone'" in failed.stderr
    assert "before" in (folder_of_own / "failed.ipynb").read_text()
    assert "after\\n" not in _printed(folder_of_own / "failed.ipynb")


def test_nbconvert_execute(own_user: Identity, folder_of_own: Path, own_environment: dict[str, str]) -> None:
    _notebook(
        folder_of_own / "in.ipynb", "print(6 * 7)", "from IPython.display import HTML\nHTML('<b>bold</b>')"
    )
    nbconvert = (own_user.python, "-m", "jupyter", "nbconvert", "--execute", "in.ipynb")
    own_user.run(
        *nbconvert, "--to", "notebook", "--output", "out.ipynb", cwd=folder_of_own, env=own_environment
    )
    assert _printed(folder_of_own / "out.ipynb") == "42\n"
    own_user.run(*nbconvert, "--to", "html", cwd=folder_of_own, env=own_environment)
    assert "<b>bold</b>" in (folder_of_own / "in.html").read_text()


def test_jupyter_run(own_user: Identity, folder_of_own: Path, own_environment: dict[str, str]) -> None:
    (folder_of_own / "script.py").write_text("import os\nprint('ran in', os.uname().nodename)\n")
    run = (own_user.python, "-m", "jupyter", "run", "--kernel", "sentinel", "script.py")
    assert "ran in sentinel\n" in own_user.run(*run, cwd=folder_of_own, env=own_environment).stdout
    (folder_of_own / "script.py").write_text("print('begins')\n1 / 0\n")
    failed = own_user.run(*run, cwd=folder_of_own, env=own_environment, check=False)
    assert "begins\n" in failed.stdout
    assert "ZeroDivisionError" in failed.stdout + failed.stderr
    notebook = _notebook(folder_of_own / "in.ipynb", "print('from a notebook')")
    os.chown(notebook, own_user.uid, -1)  # it is written anew in its place
    run = (own_user.python, "-m", "jupyter", "execute", str(notebook), "--kernel_name=sentinel", "--inplace")
    own_user.run(*run, cwd=folder_of_own, env=own_environment)
    assert _printed(notebook) == "from a notebook\n"


class _Terminal:
    """A program in a terminal: type into it, and wait for what it shows."""

    def __init__(self, identity: Identity, *command: str, folder: Path, environment: dict[str, str]) -> None:
        self.ours, theirs = pty.openpty()
        self.process = identity.popen(
            *command,
            cwd=folder,
            env={**environment, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def until(self, pattern: str) -> str:
        """Wait until something matches, forget all up to its end, and return it."""
        end = time.monotonic() + 90
        while not (match := re.search(pattern, self.seen)):
            assert time.monotonic() < end, self.seen
            if select.select([self.ours], [], [], 1)[0]:
                try:
                    new = os.read(self.ours, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(self.seen) from None
                if "\x1b[6n" in new:  # where is the cursor? prompt_toolkit waits for the answer
                    os.write(self.ours, b"\x1b[1;1R")
                self.seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()=>]\w?", "", new)
        self.seen = self.seen[match.end() :]
        return match[0]

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.ours)


def test_jupyter_console(identity: Identity, folder: Path, environment: dict[str, str]) -> None:
    console = (
        identity.python,
        "-m",
        "jupyter",
        "console",
        "--kernel",
        "sentinel",
        "--ZMQCompleter.timeout=60",
    )
    terminal = _Terminal(identity, *console, folder=folder, environment=environment)
    try:
        terminal.until(r"In ?\[1\]:")
        terminal.type("long_name_of_mine = 6 * 7\r")
        terminal.until(r"In ?\[2\]:")
        terminal.type("long_na\t")
        terminal.until(r"me_of_mine")
        terminal.type("\r")
        terminal.until(r"Out ?\[2\]: ?42")
        terminal.until(r"In ?\[3\]:")
        terminal.type("input('Your name: ')\r")
        terminal.until(r"[\r\n]Your name: ")
        terminal.type("Ada\r")
        terminal.until(r"Out ?\[3\]: ?'Ada'")
        terminal.until(r"In ?\[4\]:")
        terminal.type("1 / 0\r")
        terminal.until(r"ZeroDivisionError: division by zero")
        terminal.until(r"In ?\[5\]:")
        terminal.type("print('sandboxed' if __import__('os').uname().nodename == 'sentinel' else 'not')\r")
        terminal.until(r"\nsandboxed\r")
        terminal.until(r"In ?\[6\]:")
        terminal.type("exit\r")
        assert terminal.process.wait(60) == 0
    finally:
        terminal.close()


_COURSE = """\
c = get_config()
c.CourseDirectory.course_id = "sandboxing"
c.ExecutePreprocessor.kernel_name = "sentinel"
c.Exchange.root = {exchange!r}
"""


def test_nbgrader_autograde(own_user: Identity, folder_of_own: Path, own_environment: dict[str, str]) -> None:
    course = folder_of_own
    (course / "nbgrader_config.py").write_text(_COURSE.format(exchange=str(course / "exchange")))
    source = course / "source" / "ps1"
    source.mkdir(parents=True)
    notebook = nbformat.read(_notebook(source / "p1.ipynb", "# placeholder"), as_version=4)
    solution = "def square(x):\n    ### BEGIN SOLUTION\n    return x * x\n    ### END SOLUTION"
    graded = {"schema_version": 3, "locked": False, "points": 0}
    notebook.cells = [
        nbformat.v4.new_code_cell(
            solution,
            metadata={"nbgrader": {**graded, "grade": False, "solution": True, "grade_id": "square"}},
        ),
        *(
            nbformat.v4.new_code_cell(
                test,
                metadata={
                    "nbgrader": {
                        "schema_version": 3,
                        "locked": True,
                        "grade": True,
                        "solution": False,
                        "points": points,
                        "grade_id": f"test{points}",
                    }
                },
            )
            for points, test in ((2, "assert square(3) == 9"), (3, "assert square(-2) == 4"))
        ),
    ]
    nbformat.write(notebook, source / "p1.ipynb")
    nbgrader = (own_user.python, "-m", "nbgrader")
    options = {"cwd": course, "env": own_environment, "timeout": 200}
    own_user.run(*nbgrader, "generate_assignment", "ps1", **options)
    released = nbformat.read(course / "release" / "ps1" / "p1.ipynb", as_version=4)
    assert "raise NotImplementedError" in released.cells[0].source
    # A submission that is half right, and reads the teacher's files.
    teacher = course / "gradebook.db"
    released.cells[
        0
    ].source = f"def square(x):\n    import os\n    assert not os.path.exists({str(teacher)!r})\n    return abs(x) * x"
    submitted = course / "submitted" / "ada" / "ps1"
    submitted.mkdir(parents=True)
    nbformat.write(released, submitted / "p1.ipynb")
    own_user.run(*nbgrader, "autograde", "ps1", **options)
    own_user.run(*nbgrader, "export", "--to", "grades.csv", **options)
    [heading, line] = (course / "grades.csv").read_text().splitlines()
    grades = dict(zip(heading.split(","), line.split(","), strict=True))
    assert (grades["student_id"], float(grades["score"]), float(grades["max_score"])) == ("ada", 2.0, 5.0)


@pytest.fixture
def folder_of_own(own_user: Identity, make_folder: object) -> Path:
    path: Path = make_folder(own_user, "course")  # type: ignore[operator]
    return path


@pytest.fixture
def own_environment(own_user: Identity, jupyter_environment: object) -> dict[str, str]:
    made: dict[str, str] = jupyter_environment(own_user)  # type: ignore[operator]
    return made


def test_the_list_of_kernels(identity: Identity, environment: dict[str, str]) -> None:
    done = identity.run(identity.python, "-m", "jupyter", "kernelspec", "list", "--json", env=environment)
    assert json.loads(done.stdout)["kernelspecs"]["sentinel"]["spec"]["language"] == "python"
