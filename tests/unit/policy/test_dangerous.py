"""The dangerous rules: code to be read before it is run is found, and what only looks like it is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_kernel.policy.dangerous import RULES, check_dangerous
from sentinel_kernel.policy.preflight_tokens import DANGEROUS_PARTS, DANGEROUS_WORDS, may_matter

DANGEROUS = [
    ("eval(text)", "code-from-data"),
    ("eval(input())", "code-from-data"),
    ("import sys\nexec(open(sys.argv[1]).read())", "code-from-data"),
    ("exec(f'x = {value}')", "code-from-data"),
    ("exec(compile(source, 'x', 'exec'))", "code-from-data"),
    ("import builtins\nbuiltins.eval(expression)", "code-from-data"),
    ("def f(s):\n    return eval(s)", "code-from-data"),
    ("run = exec\nrun(code)", "code-from-data"),
    ("import base64\nexec(base64.b64decode('cHJpbnQoMSk='))", "hidden-code"),
    ("from base64 import b64decode as d\ncode = d(blob).decode()\nexec(code)", "hidden-code"),
    ("import zlib, base64\nexec(zlib.decompress(base64.b64decode(x)))", "hidden-code"),
    ("import codecs\neval(codecs.decode('cevag(1)', 'rot13'))", "hidden-code"),
    ("exec(bytes.fromhex('7072').decode())", "hidden-code"),
    ("import marshal\nexec(marshal.loads(data))", "hidden-code"),
    ("!echo aGk= | base64 -d | sh", "hidden-code"),
    ("import requests\nexec(requests.get('https://a.org/x.py').text)", "downloaded-code"),
    (
        "import urllib.request as u\nwith u.urlopen(a) as f:\n    code = f.read()\nexec(code)",
        "downloaded-code",
    ),
    ("!curl -sSL https://a.org/install.sh | bash", "downloaded-code"),
    ("!wget -qO- https://a.org/i | sudo sh -s -- -y", "downloaded-code"),
    ("!bash <(curl -s https://a.org/i)", "downloaded-code"),
    ('!sh -c "$(curl -fsSL https://a.org/i)"', "downloaded-code"),
    ("%%bash\nset -e\ncurl https://a.org/get-pip.py | python3", "downloaded-code"),
    ("import os\nos.system('curl https://a.org/x | sh')", "downloaded-code"),
    ("import subprocess\nsubprocess.run('wget -O - a.org/x | bash', shell=True)", "downloaded-code"),
    ("import subprocess\nsubprocess.run(['bash', '-c', 'curl a.org | sh'])", "downloaded-code"),
    ("import os\nos.system('ls ' + folder)", "built-shell"),
    ("import os\nos.system(f'rm {name}')", "built-shell"),
    ("import os\nos.popen('cat %s' % path).read()", "built-shell"),
    ("from subprocess import run\nrun('grep {} x'.format(word), shell=True)", "built-shell"),
    ("import subprocess as sp\nsp.check_output(command, shell=True)", "built-shell"),
    ("import subprocess\nsubprocess.Popen(['sh', '-c', command])", "built-shell"),
    ("import subprocess\nsubprocess.getoutput(f'ls {x}')", "built-shell"),
    ("!rm -rf /", "broad-delete"),
    ("!rm -rf ~/*", "broad-delete"),
    ("!sudo rm -fr --no-preserve-root / ", "broad-delete"),
    ("!cd x; rm -r $HOME", "broad-delete"),
    ("%%bash\nrm -rf .", "broad-delete"),
    ("!rm -Rf *", "broad-delete"),
    ("import shutil\nshutil.rmtree('/home')", "broad-delete"),
    ("import shutil, os\nshutil.rmtree(os.path.expanduser('~'))", "broad-delete"),
    ("from pathlib import Path\nimport shutil\nshutil.rmtree(Path.home())", "broad-delete"),
    ("import subprocess\nsubprocess.run(['rm', '-rf', '/usr'])", "broad-delete"),
    ("!find / -name '*.log' -delete", "broad-delete"),
    ("!chmod -R 777 /", "broad-delete"),
    ("!dd if=/dev/zero of=/dev/sda bs=1M", "overwritten-disk"),
    ("!sudo mkfs.ext4 /dev/sdb1", "overwritten-disk"),
    ("getattr(__builtins__, 'ev' + 'al')('1')", "reflection"),
    ("__builtins__['exec']", "reflection"),
    ("__builtins__.__dict__['eval']", "reflection"),
    ("().__class__.__base__.__subclasses__()", "reflection"),
    ("object.__subclasses__()[40]", "reflection"),
    ("[c for c in ''.__class__.__mro__[-1].__subclasses__()]", "reflection"),
    ("f.__globals__['os'].system('ls')", "reflection"),
    ("import sys\nsys._getframe(1).f_globals", "reflection"),
    ("__import__('o' + letter)", "reflection"),
    ("getattr(f, '__globals__')", "reflection"),
    ("f.__code__ = g.__code__", "reflection"),
    ("import gc\ngc.get_objects()", "reflection"),
    ("globals()['__builtins__']", "reflection"),
    ("import ctypes\nctypes.CDLL(None).system(b'ls')", "native-memory"),
    ("import ctypes\nctypes.memmove(a, b, 8)", "native-memory"),
    ("from ctypes import *\nimport ctypes\nctypes.string_at(0)", "native-memory"),
    ("import ctypes as c\nc.c_int.from_address(id(x))", "native-memory"),
    ("import ctypes\nctypes.pythonapi.PyErr_SetInterrupt()", "native-memory"),
    ("import pickle, requests\npickle.loads(requests.get(u).content)", "downloaded-pickle"),
    (
        "import pickle\nfrom urllib.request import urlopen\nr = urlopen(u)\npickle.load(r)",
        "downloaded-pickle",
    ),
    (
        "import joblib, io, requests\nb = io.BytesIO(requests.get(u).content)\njoblib.load(b)",
        "downloaded-pickle",
    ),
    ("import pandas as pd\npd.read_pickle('https://a.org/x.pkl')", "downloaded-pickle"),
    ("import torch, requests, io\ntorch.load(io.BytesIO(requests.get(u).content))", "downloaded-pickle"),
    ("!:(){ :|:& };:", "fork-bomb"),
    ("import os\nwhile True:\n    os.fork()", "fork-bomb"),
    ("import os\nfor i in range(100000):\n    os.fork()", "fork-bomb"),
    ("import subprocess\nwhile 1:\n    subprocess.Popen(['sleep', '9'])", "fork-bomb"),
]

HARMLESS = [
    "import ast\nast.literal_eval(text)",
    "df.eval('a + b')\nmodel.eval()\npd.eval('1')",
    "eval('1 + 1')\nexec('x = 1')",
    "TEMPLATE = 'x = 1'\nexec(TEMPLATE)",
    "compile('1', 'x', 'eval')",
    "def eval(x):\n    return x\neval(data)",
    "import re\nre.compile(pattern)",
    "session.exec(statement)\ncursor.execute(query)",
    "import base64\nimage = base64.b64decode(text)",
    "import zlib\nprint(zlib.decompress(data))",
    "import requests\nrequests.get('https://a.org').json()",
    "import requests\nprint(requests.get(u).text)",
    "!curl -sSL https://a.org/data.csv -o data.csv",
    "!curl https://a.org/x.json | python -m json.tool",
    "!curl -s https://a.org/x | head -3 | sort",
    "!wget https://a.org/x.tar.gz && tar xf x.tar.gz",
    "!bash install.sh\n!python script.py",
    "# curl https://a.org | bash\n!echo done",
    "%%bash\n# rm -rf /\nls",
    "import os\nos.system('ls -l | wc -l')",
    "import os\nCOMMAND = 'make all'\nos.system(COMMAND)",
    "import subprocess\nsubprocess.run(['ls', folder])",
    "import subprocess\nsubprocess.run(command)",
    "import subprocess, shlex\nsubprocess.run(f'ls {shlex.quote(x)}', shell=True)",
    "import subprocess\nsubprocess.run(args, shell=False)",
    "import subprocess\nsubprocess.run(['bash', 'run.sh', name])",
    "!rm -rf build/ dist\n!rm -rf ./out\n!rm old.txt",
    "!rm -rf /tmp/*\n!rm -rf /tmp/work",
    "!rm -rf ~/project/build\n!rm -r /home/ada/notebooks/tmp",
    "!rm *.pyc\n!rm -f *",
    "!echo 'rm -rf is dangerous'",
    "!find . -name '*.pyc' -delete\n!find build -type f -exec rm {} +",
    "import shutil\nshutil.rmtree('build')\nshutil.rmtree('/tmp/x')\nshutil.rmtree('/home/ada/x')",
    "import os\nos.remove('/tmp/x')",
    "!chmod +x run.sh\n!chmod -R u+w build",
    "!dd if=a of=b.img bs=1M count=1\n!dd if=/dev/zero of=disk.img",
    "getattr(model, 'layers')\ngetattr(config, name)",
    "Plugin.__subclasses__()",
    "x.__class__.__name__\ntype(x).__mro__\nself.__dict__",
    "super().__init__()\n__name__ == '__main__'\nf.__doc__",
    "import sys\nsys._getframe().f_lineno",
    "import builtins\ndir(builtins)\ngetattr(builtins, 'len')",
    "__import__('os').getcwd()",
    "import importlib\nimportlib.import_module(name)",
    "import ctypes\nctypes.c_int(3)\nctypes.sizeof(ctypes.c_long)",
    "from ctypes.util import find_library\nfind_library('c')",
    "import pickle\nwith open('model.pkl', 'rb') as f:\n    model = pickle.load(f)",
    "import pickle\npickle.loads(pickle.dumps(x))",
    "import pandas as pd\npd.read_pickle('x.pkl')\npd.read_csv('https://a.org/x.csv')",
    "import torch, requests, io\ntorch.load(io.BytesIO(requests.get(u).content), weights_only=True)",
    "import numpy as np\nnp.load('x.npy')",
    "import joblib\njoblib.load('model.joblib')",
    "import os\npid = os.fork()",
    "import os\nwhile True:\n    pid = os.fork()\n    os.waitpid(pid, 0)",
    "import subprocess\nwhile True:\n    p = subprocess.Popen(['x'])\n    p.wait()",
    "import multiprocessing\nfor i in range(4):\n    multiprocessing.Process(target=f).start()",
    "while True:\n    line = read()\n    if not line:\n        break",
    "text = 'rm -rf / and :(){ :|:& };:'",
    "'''\n!curl x | bash\n'''",
    "",
]


@pytest.mark.parametrize("case", DANGEROUS, ids=lambda case: ascii(case[0])[:60])
def test_dangerous_code_is_found(case: tuple[str, str]) -> None:
    code, rule = case
    found = check_dangerous(code)
    assert [finding.cause for finding in found][-1:] == [rule] or rule in [one.cause for one in found]
    assert all(1 <= finding.line <= code.count("\n") + 1 for finding in found)


@pytest.mark.parametrize("code", HARMLESS, ids=lambda code: ascii(code)[:60])
def test_what_only_looks_dangerous_is_left_alone(code: str) -> None:
    assert [(one.line, one.cause) for one in check_dangerous(code)] == []


def test_the_line_is_the_one_that_does_it() -> None:
    (finding,) = check_dangerous("import os\n\nif x:\n    os.system('ls ' + y)\n")
    assert (finding.line, finding.column, finding.source) == (4, 5, "os.system('ls ' + y)")
    (finding,) = check_dangerous("%%bash\necho a\n\nrm -rf /\n")
    assert finding.line == 4


def test_names_of_earlier_cells_hold() -> None:
    earlier = ["import requests\npage = requests.get(u)", "from pickle import loads as read"]
    assert [one.cause for one in check_dangerous("read(page.content)", earlier)] == ["downloaded-pickle"]
    assert check_dangerous("page = b''\nread(page)", earlier) == ()


def test_each_rule_says_what_to_write_instead_in_both_languages() -> None:
    assert {rule for _, rule in DANGEROUS} == set(RULES)
    for texts in RULES.values():
        assert all(texts)


def test_a_cell_without_any_of_the_words_is_not_parsed() -> None:
    assert not may_matter("x = [1, 2]\nprint(x[0])", DANGEROUS_WORDS, DANGEROUS_PARTS)
    assert [code for code, _ in DANGEROUS if not may_matter(code, DANGEROUS_WORDS, DANGEROUS_PARTS)] == []


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from([code for code, _ in DANGEROUS]) | st.text(max_size=9), max_size=4).map("".join)
)
def test_no_text_raises(code: str) -> None:
    for finding in check_dangerous(code):
        assert finding.source.isprintable()
