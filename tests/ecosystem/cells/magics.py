"""What IPython itself offers in a cell."""

# ruff: noqa: E501 - a line of a cell is one line here

from __future__ import annotations

from ecosystem_cell import entry

ENTRIES = (
    entry(
        "a pipeline of the shell",
        "!printf 'b\\na\\nc\\n' | sort | head -2 | tr a-z A-Z",
        prints=r"A\r?\nB\r?\n",
    ),
    entry(
        "the lines of a command", "lines = !printf 'x\\ny\\n'\nprint(list(lines))", prints=r"\['x', 'y'\]\n"
    ),
    entry(
        "%%bash",
        "%%bash\nset -euo pipefail\nfor i in 1 2 3; do echo $((i * i)); done | paste -sd+ | tee total\nwc -l < total",
        prints=r"1\+4\+9\n1\n",
    ),
    entry("%%bash with an error", "%%bash\necho before\nexit 7", prints=r"before\n<CalledProcessError>"),
    entry("%%script", "%%script python3 -\nprint(6 * 7)", prints=r"42\n"),
    entry(
        "%timeit",
        "%timeit -n 20 -r 2 sum(range(100))",
        "taken = %timeit -o -q -n 10 -r 3 sum(range(100))\nprint(taken.loops, taken.repeat)",
        prints=r"(?:The slowest run .*\n)?.* per loop \(mean .* std\. dev\. of 2 runs, 20 loops each\)\n10 3\n",
    ),
    entry("%%time", "%%time\nprint(sum(range(1000)))", prints=r"(?s)499500\nCPU times: .*Wall time: .*\n"),
    entry(
        "%prun",
        "%prun -q -T profile.txt sorted(range(1000), key=lambda value: -value)",
        "print('1000' in open('profile.txt').read(), 'lambda' in open('profile.txt').read())",
        prints=r"(?s).*profile\.txt.*True True\n",
    ),
    entry(
        "%debug after an error",
        "def divide(above, below):\n    return above / below\n\ndivide(12345, 0)",
        "%debug",
        prints=r"(?s)<ZeroDivisionError>.*12345.*54321.*",
        answers=("p above", "up", "p 54300 + 21", "q"),
    ),
    entry(
        "breakpoint()",
        "def work(value):\n    breakpoint()\n    return value + 1\n\nprint('gave', work(41))",
        prints=r"gave 42\n",  # ipykernel's own: it waits for a debugger's client, and goes on where there is none
    ),
    entry(
        "pdb.set_trace()",
        "import pdb\n\ndef work(value):\n    pdb.set_trace()\n    return value + 1\n\nprint('gave', work(41))",
        prints=r"(?s).*value is 41.*gave 42\n",
        answers=("p f'value is {value}'", "c"),
    ),
    entry(
        "input and getpass",
        "import getpass\nname = input('Name: ')\nword = getpass.getpass('Word: ')\nprint(name, word)",
        prints=r"Ada secret\n",
        answers=("Ada", "secret"),
    ),
    entry(
        "await at the top of a cell",
        "import asyncio\n\nasync def double(value):\n    await asyncio.sleep(0.01)\n    return 2 * value\n",
        "print(await asyncio.gather(double(1), double(2)))\nasync with asyncio.timeout(5):\n    print(await double(3))",
        prints=r"\[2, 4\]\n6\n",
    ),
    entry(
        "a task that outlives its cell",
        "import asyncio\nticks = []\n\nasync def tick():\n    for number in range(3):\n        ticks.append(number)\n"
        "        await asyncio.sleep(0.01)\n\nrunning = asyncio.create_task(tick())",
        "await running\nprint(ticks)",
        prints=r"\[0, 1, 2\]\n",
    ),
    entry(
        "history across cells",
        "first_of_history = 20 + 1",
        "first_of_history",
        "print(_, In[-2], Out[max(Out)], _ih[-3].startswith('first_of'))",
        "%history -l 3",
        prints=r"21\n21 first_of_history 21 True\nfirst_of_history = 20 \+ 1\nfirst_of_history\nprint\(_, .*\n",
    ),
    entry(
        "%%writefile, import and %run",
        "%%writefile ecosystem_module.py\ndef answer():\n    return 42\n\nif __name__ == '__main__':\n    print('run', answer())",
        "import ecosystem_module\nprint(ecosystem_module.answer())",
        "%run ecosystem_module.py",
        "%run -m timeit -n 1 -r 1 pass",
        prints=r"Writing ecosystem_module\.py\n42\nrun 42\n1 loop, .*\n",
    ),
    entry(
        "%load_ext and an extension beside the notebook",
        "%%writefile ecosystem_extension.py\ndef load_ipython_extension(shell):\n"
        "    shell.push({'from_extension': 'loaded'})",
        "%load_ext ecosystem_extension\nprint(from_extension)",
        prints=r"Writing ecosystem_extension\.py\nloaded\n",
    ),
    entry(
        "%autoreload",
        "%%writefile ecosystem_changing.py\ndef version():\n    return 'old'",
        "%load_ext autoreload\n%autoreload 2\nimport ecosystem_changing\nprint(ecosystem_changing.version())",
        "import os\nopen('ecosystem_changing.py', 'w').write(\"def version():\\n    return 'new one'\\n\")\n"
        "os.utime('ecosystem_changing.py', (2**31, 2**31))",
        "print(ecosystem_changing.version())\n%autoreload 0",
        prints=r"(?s)Writing ecosystem_changing\.py\nold\n.*new one\n",
    ),
    entry(
        "%cd, %pwd, %pushd, %env, %who",
        "import os\nstart = os.getcwd()\nos.makedirs('folder with spaces/größe', exist_ok=True)",
        "%cd -q folder with spaces/größe\nprint(os.path.relpath(os.getcwd(), start))\n%cd -q {start}\nprint(os.getcwd() == start)",
        "%env ECOSYSTEM=set here\n!echo $ECOSYSTEM\nprint(os.environ['ECOSYSTEM'])",
        "only_one = 1\n%who int",
        prints=r"folder with spaces/größe\nTrue\nenv: ECOSYSTEM=set here\nset here\r?\nset here\n(?s:.*)only_one(?s:.*)",
    ),
    entry(
        "%store",
        "kept = {'a': 1}\n%store kept",
        "del kept\n%store -r kept\nprint(kept)",
        prints=r"Stored 'kept' \(dict\)\n\{'a': 1\}\n",
    ),
    entry(
        "%%capture and %xmode",
        "%%capture caught\nprint('inside')\nimport sys\nprint('to stderr', file=sys.stderr)",
        "print(caught.stdout == 'inside\\n', caught.stderr == 'to stderr\\n')",
        prints=r"True True\n",
    ),
    entry(
        "sys.exit", "import sys\nsys.exit(3)", "print('still here')", prints=r"(?s)<SystemExit>.*still here\n"
    ),
    entry(
        "help and sources",
        "def documented():\n    '''Says what it is.'''\n\nhelp(documented)",
        "documented??",
        "import inspect, json\nprint(len(inspect.getsource(json)) > 1000)",
        prints=r"(?s)Help on function documented.*Says what it is\..*True\n",
    ),
    entry(
        "%lsmagic", "print('timeit' in str(get_ipython().run_line_magic('lsmagic', '')))", prints=r"True\n"
    ),
)
