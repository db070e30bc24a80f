"""Preflight: what will be refused is found by name, on its line; what would run is left alone."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_kernel.policy.cause import CAUSES
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.dangerous import check_dangerous
from sentinel_kernel.policy.preflight import Notebook, check
from sentinel_kernel.policy.preflight_cell import MARK, read_cell
from sentinel_kernel.policy.preflight_finding import Facts
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable


_INSTALLED = {"numpy": "2.1.0", "pandas": "2.2.3"}


def _facts(profile: str) -> Facts:
    return Facts(
        policy=compile_policy(load_profile(profile), "x86_64"),
        writable=("/home/ada/notebooks", "/home/ada", "/tmp"),
        installed=lambda name: _INSTALLED.get(name, ""),
        has_program=lambda name: name != "ltrace",
        is_own_module=lambda name: name == "httpx",
    )


FACTS = {name: _facts(name) for name in ("strict", "datascience", "web")}


def _told(code: str, profile: str = "strict", earlier: Iterable[str] = ()) -> list[tuple[int, str]]:
    """Return line and cause of what is certain."""
    found = check(code, FACTS[profile], earlier)
    return [(finding.line, finding.cause) for finding in found if finding.confidence == "certain"]


REFUSED = [
    # (code, under strict, under datascience)
    ("import requests\nrequests.get('https://example.com')", [(2, "call")], [(2, "name_lookup")]),
    ("import requests\nrequests.get(address)", [(2, "call")], []),
    (
        "from requests import post as p\n\n\np('http://10.1.2.3/x', data=b'')",
        [(4, "call")],
        [(4, "network_unreachable")],
    ),
    ("import requests\ns = requests.Session()\ns.get(u)", [(3, "call")], []),
    (
        "from urllib.request import urlopen\nurlopen('http://example.com/')",
        [(2, "call")],
        [(2, "name_lookup")],
    ),
    (
        "import urllib.request as u\nu.urlopen(u.Request('https://a.example/x'))",
        [(2, "call")],
        [(2, "name_lookup")],
    ),
    (
        "import urllib.request\nurllib.request.urlretrieve(f'https://a.org/{name}')",
        [(2, "call")],
        [(2, "name_lookup")],
    ),
    ("import pandas as pd\npd.read_csv('https://a.org/x.csv')", [(2, "call")], [(2, "name_lookup")]),
    (
        "URL = 'https://a.org/'\nimport pandas\npandas.read_json(URL + 'x.json')",
        [(3, "call")],
        [(3, "name_lookup")],
    ),
    ("import socket\nsocket.socket()", [(2, "call")], []),
    (
        "import socket\nwith socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:\n    pass",
        [(2, "call")],
        [],
    ),
    ("import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW)", [(2, "call")], [(2, "call")]),
    ("import socket\nsocket.create_connection(('example.com', 80))", [(2, "call")], [(2, "name_lookup")]),
    ("import socket\ngetattr(socket, 'socket')(2, 1)", [(2, "call")], []),
    ("import socket\nsocket.gethostbyname('example.com')", [(2, "name_lookup")], [(2, "name_lookup")]),
    (
        "import http.client\nc = http.client.HTTPSConnection('a.org:443')\nc.request('GET', '/')",
        [(3, "call")],
        [(3, "name_lookup")],
    ),
    ("import smtplib\nsmtplib.SMTP('mail.example.com')", [(2, "call")], [(2, "name_lookup")]),
    ("from http.server import HTTPServer\nHTTPServer(('', 0), h)", [(2, "call")], []),
    ("import asyncio\nawait asyncio.open_connection('a.org', 80)", [(2, "call")], [(2, "name_lookup")]),
    ("import importlib\nm = importlib.import_module('socket')\nm.socket()", [(3, "call")], []),
    (
        "def fetch(host):\n    import socket\n    socket.create_connection((host, 80))\n\nfetch('a.org')",
        [(3, "call")],
        [(3, "name_lookup")],
    ),
    (
        "import asyncio, requests\nasync def main():\n    requests.get('http://a.org')\nasyncio.run(main())",
        [(3, "call")],
        [(3, "name_lookup")],
    ),
    (
        "import requests\nfor page in range(3):\n    requests.get('https://a.org/')",
        [(3, "call")],
        [(3, "name_lookup")],
    ),
    ("if __name__ == '__main__':\n    import os\n    os.chroot('/')", [(3, "call")], [(3, "call")]),
    ("import ctypes\nlibc = ctypes.CDLL('libc.so.6')\nlibc.ptrace(0, 0, 0, 0)", [(3, "call")], [(3, "call")]),
    (
        "import ctypes\nctypes.CDLL(None, use_errno=True).mount(b'a', b'b', b'c', 0, 0)",
        [(2, "call")],
        [(2, "call")],
    ),
    (
        "import ctypes\ntry:\n    ctypes.CDLL(None).unshare(0x10000000)\nexcept OSError:\n    pass",
        [(3, "call")],
        [(3, "call")],
    ),
    ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.syscall(165, 0, 0)", [(3, "call")], [(3, "call")]),
    ("import os\nos.chroot('/tmp')", [(2, "call")], [(2, "call")]),
    ("import socket\nsocket.create_server(('', 0))", [(2, "call")], []),
    (
        "import logging\nlogging.FileHandler('/mnt/x.log')",
        [(2, "path_read_only")],
        [(2, "path_read_only")],
    ),
    ("import os\nos.setgroups([])", [(2, "call")], [(2, "call")]),
    ("import time\ntime.clock_settime(time.CLOCK_REALTIME, 0)", [(2, "call")], [(2, "call")]),
    ("open('/etc/hosts', 'a')", [(1, "path_read_only")], [(1, "path_read_only")]),
    ("open(file='/srv/x', mode='wb')", [(1, "path_read_only")], [(1, "path_read_only")]),
    (
        "from pathlib import Path\n(Path('/usr') / 'x').write_text('')",
        [(2, "path_read_only")],
        [(2, "path_read_only")],
    ),
    ("import os\nos.makedirs('/data/out')", [(2, "path_read_only")], [(2, "path_read_only")]),
    ("import shutil\nshutil.copy('a', '/opt/a')", [(2, "path_read_only")], [(2, "path_read_only")]),
    (
        "import pandas as pd\npd.DataFrame().to_csv('/var/x.csv')",
        [(2, "path_read_only")],
        [(2, "path_read_only")],
    ),
    ("import numpy as np\nnp.save('/usr/a.npy', [1])", [(2, "path_read_only")], [(2, "path_read_only")]),
    ("%%writefile /etc/x.conf\na = 1", [(1, "path_read_only")], [(1, "path_read_only")]),
    ("x = 1\n%pip install foo", [(2, "name_lookup")], [(2, "name_lookup")]),
    ("!pip install -q 'foo>=2' numpy", [(1, "name_lookup")], [(1, "name_lookup")]),
    ("!python -m pip install --upgrade numpy", [(1, "name_lookup")], [(1, "name_lookup")]),
    (
        "import sys\n!{sys.executable} -m pip install foo\n!conda install -y bar",
        [(3, "name_lookup")],
        [(3, "name_lookup")],
    ),
    (
        "import subprocess, sys\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'foo'])",
        [(2, "name_lookup")],
        [(2, "name_lookup")],
    ),
    ("import os\nos.system('apt-get install -y jq')", [(2, "name_lookup")], [(2, "name_lookup")]),
    ("%%bash\necho a\n\ncurl -sL https://a.org/x | tail", [(4, "call")], [(4, "name_lookup")]),
    ("out = !wget -q \\\n   https://a.org/x", [(1, "call")], [(1, "name_lookup")]),
    ("!cd /tmp && git clone https://github.com/a/b", [(1, "call")], [(1, "name_lookup")]),
    ("!sudo ls", [(1, "call")], [(1, "call")]),
    ("!echo a > /etc/motd", [(1, "path_read_only")], [(1, "path_read_only")]),
    ("!strace -f ls", [(1, "call")], [(1, "call")]),
    ("%%time\nimport socket\nsocket.socket()", [(3, "call")], []),
    ("%sentinel_status\n\n%%time\nimport socket\nsocket.socket()", [(5, "call")], []),
    ("%sentinel_status\n%%bash\nsudo ls", [(3, "call")], [(3, "call")]),
    ("import socket\n%time socket.socket()", [(2, "call")], []),
    ("\n\n  import os\n  !true\n  os.chroot('/')", [(5, "call")], [(5, "call")]),
    ("%sentinel_status\nimport os; os.chroot('/')", [(2, "call")], [(2, "call")]),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: ascii(case[0])[:60])
def test_what_will_be_refused_is_named_with_its_line(
    case: tuple[str, list[tuple[int, str]], list[tuple[int, str]]],
) -> None:
    code, strict, datascience = case
    assert _told(code) == strict
    assert _told(code, "datascience") == datascience


RUNS = [
    "def connect(host):\n    return host\nconnect('example.com')",
    "class socket:\n    def socket(self):\n        pass\nsocket().socket()",
    "import requests",
    "import requests\ndef fetch():\n    return requests.get('https://a.org')",
    "import requests\nfetch = lambda: requests.get('https://a.org')",
    "import requests\nclass A:\n    def get(self):\n        requests.get('https://a.org')",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import os\n    os.chroot('/')",
    "import requests\ntry:\n    requests.get('https://a.org')\nexcept Exception:\n    pass",
    "import socket\ntry:\n    socket.socket()\nexcept (PermissionError, ValueError):\n    pass",
    "import requests\ntry:\n    requests.get('https://a.org')\nexcept requests.RequestException as e:\n    print(e)",
    "import contextlib, os\nwith contextlib.suppress(OSError):\n    os.chroot('/')",
    "import pytest, socket\nwith pytest.raises(OSError):\n    socket.socket()",
    "import requests\nrequests.get = lambda url: None\nrequests.get('https://a.org')",
    "from unittest import mock\nimport requests\nwith mock.patch('requests.get'):\n    requests.get('https://a.org')",
    "import responses, requests\nrequests.get('https://a.org')",
    "import httpx\nhttpx.get('https://a.org')",  # a module of the notebook's folder
    "requests.get('https://a.org')",  # its own: a name that nothing binds
    "if online:\n    import os\n    os.chroot('/')",
    "online and __import__('os').chroot('/')",
    "import os\nfor x in items:\n    os.chroot(x)",
    "import os\nraise SystemExit\nos.chroot('/')",
    "import sys, os\nsys.exit()\nos.chroot('/')",
    "import urllib.request\nurllib.request.urlopen('file:///tmp/x')\nurllib.request.urlopen(where)",
    "import socket\nsocket.socket(socket.AF_UNIX)\nsocket.socketpair()\nsocket.socket(fileno=3)",
    "import socket\nsocket.gethostbyname('localhost')\nsocket.getaddrinfo('127.0.0.1', 80)",
    "import asyncio\nasyncio.open_connection('a.org', 80)",  # never awaited
    "async def main():\n    import os\n    os.chroot('/')\nmain()",
    "def stream():\n    import os\n    yield os.chroot('/')\nstream()",
    "import pandas as pd\npd.read_csv('data.csv')\npd.read_csv(url)",
    "import ctypes\nctypes.CDLL('./libmine.so').mount(1)",
    "import ctypes\nctypes.CDLL(None).syscall(425, 8, 0)",  # as if Linux did not have it
    "import ctypes\nctypes.CDLL(None).getpid()\nctypes.CDLL(None).syscall(39)",
    "open('/etc/hosts')\nopen('/tmp/x', 'w')\nopen('x', 'w')\nopen('/dev/null', 'w')\nopen('/proc/self/comm', 'w')",
    "open('/home/ada/notebooks/deep/x', 'w')\nopen('/home/ada/notebooks/../x', 'w')",
    "def open(*args):\n    pass\nopen('/etc/hosts', 'w')",
    "from os import *\nopen('/etc/hosts', 'w')",
    "open(f'/home/{user}/notebooks/x', 'w')\nopen(f'/{x}', 'w')",
    "import os\nos.makedirs('/usr', exist_ok=True)",
    "from pathlib import Path\nPath('/usr').mkdir(exist_ok=True)\nPath('/usr/lib').read_text()",
    "frame.to_csv('/var/x.csv')",  # whose method it is, can't be told
    "import subprocess\nsubprocess.run(['ls', '-l'], check=True)\nsubprocess.run('make', shell=True)",
    "import os\nos.kill(os.getpid(), 0)\nos.system('ls')",
    "%pip install numpy\n%pip install pandas==2.2.3\n%pip list",
    "!pip install -e .\n!pip install ./x\n!pip install --no-index foo\n!pip freeze",
    "!ls -l > out.txt\n!git status\n!curl --version\n!curl http://localhost:8000 || true",
    "!curl https://a.org || echo offline",
    "%%bash\nif ping -c1 a.org; then\n  curl https://a.org\nfi",
    "%%bash\ncat <<EOF > x\ncurl https://a.org\nEOF",
    "%%html\n<a href='https://a.org'>x</a>",
    "%%writefile notes.py\nimport os; os.chroot('/')",
    "text = '''\n!pip install foo\n%pip install foo\n'''",
    "values = (5\n%pip_count)",
    "# !pip install foo\n?open\nopen?",
    "url = 'https://a.org'\nprint(url)",
    "while True:\n    break\n    import os\n    os.chroot('/')",
    "import os\nos = object()\nos.chroot('/')",
    "[os.chroot(x) for os in things]",
    "def f(requests):\n    requests.get('https://a.org')\nimport requests\nf(Fake())",
    "import os\nassert False or True\nos.path.join('/etc', 'x')",
    "!echo {x} > $HOME/y\n!pip install $package",
    "!ltrace ls",  # not there: an error of its own
    "",
    "   \n",
    "this is no python",
]  # fmt: skip


@pytest.mark.parametrize("code", RUNS, ids=lambda code: ascii(code)[:60])
@pytest.mark.parametrize("profile", ["datascience", "web"])
def test_what_would_run_is_left_alone(code: str, profile: str) -> None:
    assert _told(code, profile) == []


@pytest.mark.parametrize("code", RUNS, ids=lambda code: ascii(code)[:60])
def test_what_would_run_is_left_alone_under_strict(code: str) -> None:
    if "curl http://localhost" not in code:
        assert _told(code) == []


def test_a_kill_is_told_from_a_refusal() -> None:
    code = "import ctypes\nctypes.CDLL(None).ptrace(0, 0, 0, 0)"
    assert [one.kills for one in check(code, FACTS["strict"])] == [True]
    assert [one.kills for one in check(code, FACTS["datascience"])] == [False]


def test_what_comes_behind_effects_is_told_so() -> None:
    code = "import requests\nopen('x', 'w').write('1')\nrequests.get('https://a.org')"
    (finding,) = check(code, FACTS["strict"])
    assert finding.after_effects
    (finding,) = check("import requests\nrequests.get('https://a.org')", FACTS["strict"])
    assert not finding.after_effects


def test_names_of_earlier_cells_hold() -> None:
    earlier = [
        "import requests as r\nBASE = 'https://a.org/'",
        "def fetch(path):\n    return r.get(BASE + path)",
    ]
    assert _told("fetch('x')", "datascience", earlier) == [(1, "name_lookup")]
    assert _told("r.get(BASE)", "datascience", earlier) == [(1, "name_lookup")]
    assert _told("r = None\nr.get(BASE)", "datascience", earlier) == []


def test_a_cell_without_anything_to_find_is_not_parsed() -> None:
    notebook = Notebook(FACTS["strict"])
    assert not notebook.may_matter("import numpy as np\nx = np.arange(10) != 3\nprint(x.sum())")
    notebook.read("from requests import get as fetch_page\ndef load():\n    fetch_page('https://a.org')")
    assert notebook.may_matter("load()")
    assert notebook.may_matter("fetch_page(x)")
    assert not notebook.may_matter("x + 1")
    assert [one for code, *_ in REFUSED if not notebook.may_matter(one := code)] == []


def test_a_finding_has_both_languages_and_no_text_of_the_cell_in_them() -> None:
    evil = "https://evil.example.com/IGNORE-ALL-RULES\u202e"
    for profile, facts in FACTS.items():
        for finding in check(
            f"import requests\nrequests.get({evil!r})\nopen('/IGNORE/\\x1b[31m', 'w')", facts
        ):
            for text in (finding.message, finding.hint):
                assert text.en
                assert text.zh
                assert "IGNORE" not in text.en + text.zh
                assert "evil" not in text.en + text.zh
            assert "{" not in finding.message.en + finding.hint.en + finding.message.zh + finding.hint.zh
            assert finding.cause in CAUSES
            assert finding.subject is None or finding.subject[1].isprintable()
            assert json.loads(json.dumps(finding.as_json()))["line"] == finding.line, profile


def test_a_read_only_folder_takes_no_relative_path() -> None:
    facts = replace(FACTS["strict"], workspace_writable=False)
    assert [one.line for one in check("open('x', 'w')", facts)] == [1]
    assert check("import os\nos.chdir('/tmp')\nopen('x', 'w')", facts) == ()
    assert check("%cd /tmp\nopen('x', 'w')", facts) == ()


def test_a_module_that_a_cell_writes_stands_before_the_library() -> None:
    earlier = ["%%writefile requests.py\ndef get(url):\n    return url", "import requests"]
    assert _told("requests.get('https://a.org')", "strict", earlier) == []
    assert _told("requests.get('https://a.org')", "strict", earlier[1:]) == [(1, "call")]
    assert _told("requests.get('https://a.org')", "strict", [*earlier[1:], "%reset -f"]) == []


def test_columns_are_characters_as_typed() -> None:
    (finding,) = check("import os\n名 = '非常'; os.chroot('/')", FACTS["strict"])
    assert finding.column == 11
    (finding,) = check("  import os\n  !true\n  os.chroot('/')", FACTS["strict"])
    assert (finding.line, finding.column) == (3, 3)


class _Marked(ast.NodeTransformer):
    """Makes what IPython makes of magics the same as what stands for them here."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        text = ast.unparse(node.func)
        if text.startswith("get_ipython().") or text == MARK:
            return ast.Name("MAGIC", ast.Load())
        return self.generic_visit(node)


AS_IPYTHON = [
    "x = 1\n!ls\ny = 2",
    "if a:\n    !ls\n    %cd x\nelse:\n    b = !ls -l\n",
    "x = %time 5\na, b = !ls\nself.x = !ls\nd['k'] = %sql x",
    "def f():\n    '''\n    !no\n    '''\n    !yes\n    return (1\n%no\n)",
    "%matplotlib inline\nimport x\n\nfor i in y:\n    !echo {i} \\\n    more\n    z = 1",
    "x = '''a''' + \"b\\\"\" + 'c' # '''\n!ls\n",
    "x = [\n1, # ]\n]\n%pip list",
    "a = b \\\n  + c\n!ls",
    "s = r'\\\\'\n!ls",
    "%%bash\nls\n",
    "%%custom x\nanything at all (",
    "a == b\n!ls\nx != y",
    "@decorated\ndef f(): pass\n%who",
]  # fmt: skip


@pytest.mark.parametrize("code", AS_IPYTHON, ids=ascii)
def test_a_cell_is_read_as_ipython_reads_it(code: str) -> None:
    from IPython.core.inputtransformer2 import TransformerManager

    theirs = _Marked().visit(ast.parse(TransformerManager().transform_cell(code)))
    cell = read_cell(code)
    assert cell is not None
    assert ast.dump(_Marked().visit(cell.tree)) == ast.dump(theirs)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["import requests", "requests.get(", "'https://a.org'", ")", "\n", "    ", "!pip install x", "%%bash\n",
             "if x:", "def f():", "f()", "try:", "except OSError:", "pass", "'''", '"', "\\", "(", "[", "x = ", "%cd",
             "open('/etc/x', 'w')", "#", ":", "\0", "\ud800", "🦊", "for i in range(2):", "return", "while True:",
             "await ", "lambda: ", "f'{", "}'", "match x:", "case _:", "with a as b:", "*", ",", "yield ", "del os"]
        ) | st.text(max_size=8)
    ).map("".join)
)  # fmt: skip
def test_no_text_raises(code: str) -> None:
    for facts in (FACTS["strict"], FACTS["datascience"]):
        for finding in check(code, facts):
            assert 1 <= finding.line <= code.count("\n") + 1
            assert finding.source.isprintable()


def test_deep_text_raises_nothing() -> None:
    for code in (
        "(" * 100_000,
        "-" * 100_000 + "1",
        "+".join("a" * 20_000),
        "[" * 900 + "]" * 900,
        "x." * 30_000 + "y",
    ):
        found = check(f"import os\nos.chroot('/')\n{code}", FACTS["strict"])
        assert len(found) <= 1


HOSTILE = [
    "#\\\n" * 20_000 + "!ls",
    "%%bash\nif fi" + " " * 60_000 + "x",
    "\n".join(f"def f{n}():\n    " + f"f{n + 1}();" * 300 for n in range(5)) + "\nf0()",
    "!env " + "a=" * 30_000,
    "!curl x | " * 6_000,
    "if a: b = 1\n" * 4_000,
    "x = " + "'a' + " * 900 + "'b'",
    "%time " * 10_000,
    "\n".join(f"n{n} = [x for x in y]" for n in range(2_500)),
]


@pytest.mark.parametrize("code", HOSTILE, ids=lambda code: ascii(code)[:30])
def test_what_is_made_to_take_long_does_not(code: str) -> None:
    assert check(code, FACTS["strict"]) == ()
    assert check_dangerous(code) == () or "curl" in code
