"""Processes, threads, signals and timers of a cell."""

# ruff: noqa: E501 - a line of a cell is one line here

from __future__ import annotations

from ecosystem_cell import entry

_JOBS = """
%%writefile ecosystem_jobs.py
import multiprocessing as mp
from multiprocessing.shared_memory import SharedMemory

def square(value):
    return value * value

def put(queue, event):
    queue.put([1, 2, 3])
    event.set()

def fill(name, size):
    block = SharedMemory(name=name)
    block.buf[:size] = bytes(range(size))
    block.close()

def add(shared, lock):
    with lock:
        shared['sum'] = shared.get('sum', 0) + 1

def talk(pipe):
    pipe.send(pipe.recv()[::-1])
    pipe.close()

def everything(method):
    context = mp.get_context(method)
    with context.Pool(2) as pool:
        print('pool', pool.map(square, range(5)))
        pool.close()
        pool.join()
    queue, event = context.Queue(), context.Event()
    process = context.Process(target=put, args=(queue, event))
    process.start()
    print('queue', queue.get(timeout=30), event.wait(30))
    process.join()
    block = SharedMemory(create=True, size=64)
    process = context.Process(target=fill, args=(block.name, 8))
    process.start()
    process.join()
    print('memory', bytes(block.buf[:8]).hex())
    block.close()
    block.unlink()
    with context.Manager() as manager:
        shared, lock = manager.dict(), manager.Lock()
        workers = [context.Process(target=add, args=(shared, lock)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print('manager', dict(shared))
    ours, theirs = context.Pipe()
    process = context.Process(target=talk, args=(theirs,))
    process.start()
    ours.send('abc')
    print('pipe', ours.recv())
    process.join()
    print('exit codes', process.exitcode)
"""
_ALL_JOBS = (
    r"(?s).*pool \[0, 1, 4, 9, 16\]\nqueue \[1, 2, 3\] True\nmemory 0001020304050607\n"
    r"manager \{'sum': 3\}\npipe cba\nexit codes 0\n"
)


def _multiprocessing(method: str) -> tuple[str, str]:
    return _JOBS, f"import ecosystem_jobs\necosystem_jobs.everything('{method}')"


ENTRIES = (
    entry("multiprocessing, fork", *_multiprocessing("fork"), prints=_ALL_JOBS),
    entry("multiprocessing, forkserver", *_multiprocessing("forkserver"), prints=_ALL_JOBS),
    entry("multiprocessing, spawn", *_multiprocessing("spawn"), prints=_ALL_JOBS),
    entry(
        "concurrent.futures",
        "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\nimport math, multiprocessing\n"
        "with ThreadPoolExecutor(4) as pool:\n    print(list(pool.map(math.factorial, range(5))))\n"
        "with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')) as pool:\n"
        "    print(list(pool.map(lambda_free := math.factorial, range(5))))",
        prints=r"\[1, 1, 2, 6, 24\]\n\[1, 1, 2, 6, 24\]\n",
    ),
    entry(
        "joblib with loky",
        "from joblib import Parallel, delayed\nimport os\n"
        "me = os.getpid()\n"
        "results = Parallel(n_jobs=2)(delayed(lambda value: (value**2, os.getpid() != me))(value) for value in range(6))\n"
        "print([value for value, _ in results], all(other for _, other in results))",
        "import numpy as np\nbig = np.arange(300_000.0)\n"  # beyond joblib's limit: handed over as a memory map
        "print(sum(Parallel(n_jobs=2)(delayed(lambda part: float(part.sum()))(big) for _ in range(2))))",
        "from joblib.externals.loky import get_reusable_executor\nget_reusable_executor().shutdown(wait=True)",
        prints=r"\[0, 1, 4, 9, 16, 25\] True\n89999700000\.0\n",
        needs=("joblib",),
    ),
    entry(
        "os.fork and wait",
        "import os, sys\nread, write = os.pipe()\nchild = os.fork()\nif child == 0:\n"
        "    os.write(write, b'from the child')\n    os._exit(5)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.read(read, 100))",
        prints=r"5 b'from the child'\n",
    ),
    entry(
        "what a forked child prints",
        "import os, sys\nchild = os.fork()\nif child == 0:\n    print('child speaks')\n    sys.stdout.flush()\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nprint('parent speaks')",
        prints=r"(child speaks\nparent speaks|parent speaks\nchild speaks)\n",
    ),
    entry(
        "subprocess",
        "import subprocess, sys\nprint(subprocess.run(['sh', '-c', 'cat; echo err >&2; exit 3'], input='in', "
        "capture_output=True, text=True))",
        "print(subprocess.check_output([sys.executable, '-c', 'import sys; print(sys.argv[1:])', 'a b', 'ü']).decode())",
        "try:\n    subprocess.run(['sleep', '60'], timeout=0.2)\nexcept subprocess.TimeoutExpired as error:\n    print(error)",
        "assert subprocess.run('echo to the terminal', shell=True).returncode == 0",
        prints=r"CompletedProcess\(.*returncode=3, stdout='in', stderr='err\\n'\)\n\['a b', 'ü'\]\n\n"
        r"Command '\['sleep', '60'\]' timed out after \S+ seconds\n(to the terminal\n)?",  # read by a thread, perhaps behind the cell's end
    ),
    entry(
        "asyncio subprocesses",
        "import asyncio\nprocess = await asyncio.create_subprocess_exec('tr', 'a-z', 'A-Z', stdin=-1, stdout=-1)\n"
        "print((await process.communicate(b'quiet'))[0], process.returncode)",
        "process = await asyncio.create_subprocess_shell('sleep 60')\nprocess.terminate()\nprint(await process.wait())",
        prints=r"b'QUIET' 0\n-15\n",
    ),
    entry(
        "threads",
        "import threading, queue\nwords = queue.Queue()\nthreads = [threading.Thread(target=words.put, args=(n,)) for n in range(50)]\n"
        "[thread.start() for thread in threads]\n[thread.join() for thread in threads]\nprint(words.qsize(), threading.active_count() > 1)",
        "late = threading.Thread(target=lambda: print('from a thread'))\nlate.start()\nlate.join()",
        "timer = threading.Timer(0.01, lambda: print('later'))\ntimer.start()\ntimer.join()",
        prints=r"50 True\nfrom a thread\nlater\n",
    ),
    entry(
        "signal.alarm and setitimer",
        "import signal, time\n\nclass Late(Exception):\n    pass\n\ndef late(number, frame):\n    raise Late(signal.Signals(number).name)\n\n"
        "before = signal.signal(signal.SIGALRM, late)\n"
        "try:\n    signal.setitimer(signal.ITIMER_REAL, 0.05)\n    time.sleep(60)\nexcept Late as error:\n    print('stopped by', error)",
        "try:\n    signal.alarm(1)\n    while True:\n        pass\nexcept Late as error:\n    print('stopped by', error)\n"
        "finally:\n    signal.alarm(0)\n    signal.signal(signal.SIGALRM, before)",
        "seen = []\nsignal.signal(signal.SIGVTALRM, lambda *_: seen.append(1))\nsignal.setitimer(signal.ITIMER_VIRTUAL, 0.01, 0.01)\n"
        "while len(seen) < 3:\n    sum(range(1000))\nsignal.setitimer(signal.ITIMER_VIRTUAL, 0)\nprint('ticks')",
        prints=r"stopped by SIGALRM\nstopped by SIGALRM\n(\(.*\)\n)?ticks\n",
    ),
    entry(
        "SIGCHLD, SIGUSR1, sigwait and a wake-up descriptor",
        "import os, signal, subprocess\nseen = []\nbefore = signal.signal(signal.SIGCHLD, lambda number, _: seen.append(number))\n"
        "subprocess.run(['true'])\nprint(seen == [signal.SIGCHLD])\nsignal.signal(signal.SIGCHLD, before)",
        "signal.signal(signal.SIGUSR1, lambda *_: print('usr1'))\nos.kill(os.getpid(), signal.SIGUSR1)\nsignal.raise_signal(signal.SIGUSR1)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\nsignal.raise_signal(signal.SIGUSR2)\n"
        "print(signal.sigtimedwait({signal.SIGUSR2}, 10).si_signo == signal.SIGUSR2)\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR2})",
        prints=r"True\n(.*\n)?usr1\nusr1\nTrue\n(.*\n)?",
    ),
    entry(
        "Python's own handler of ctrl-C",
        "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    print('interrupted')",
        prints=r"interrupted\n",
    ),
    entry(
        "sub-interpreters",
        "import sys\n"
        "try:\n    import _xxsubinterpreters as interpreters\nexcept ImportError:\n    import _interpreters as interpreters\n"
        "import os\nread, write = os.pipe()\nmade = interpreters.create()\n"
        "run = getattr(interpreters, 'run_string', None)\n"
        "run(made, f\"import os, sys; os.write({write}, b'from another interpreter')\")\n"
        "interpreters.destroy(made)\nprint(os.read(read, 100).decode())",
        prints=r"from another interpreter\n",
    ),
    entry(
        "a terminal of its own, asked for a password",
        "import os, pty, time\nchild, terminal = pty.fork()\nif child == 0:\n"
        "    os.execvp('python3', ['python3', '-c', 'import getpass; print(getpass.getpass()[::-1], open(\"/dev/tty\").isatty())'])\n"
        "seen = b''\nwhile b'assword' not in seen:\n    seen += os.read(terminal, 1000)\nos.write(terminal, b'secret\\n')\n"
        "while b'True' not in seen:\n    seen += os.read(terminal, 1000)\nprint(b'terces True' in seen, os.waitpid(child, 0)[1])",
        prints=r"True 0\n",
    ),
    entry(
        "a pseudo-terminal",
        "import os, pty, subprocess\nmaster, slave = pty.openpty()\n"
        "done = subprocess.run(['sh', '-c', 'tty >/dev/null && stty size && echo in a terminal'], stdin=slave, stdout=slave, stderr=slave)\n"
        "seen = b''\nwhile b'a terminal' not in seen:\n    seen += os.read(master, 1000)\n"
        "print(done.returncode, seen.decode().split()[-3:])\nos.close(master)\nos.close(slave)",
        prints=r"0 \['in', 'a', 'terminal'\]\n",
    ),
    entry(
        "psutil",
        "import psutil, os\nme = psutil.Process()\n"
        "print(me.pid == os.getpid(), me.memory_info().rss > 0, me.num_threads() > 1, me.is_running(), len(me.open_files()) >= 0)\n"
        "print(psutil.cpu_count() >= 1, psutil.virtual_memory().total > 0, len(psutil.pids()) > 0, psutil.disk_usage('/').total > 0)\n"
        "print(psutil.cpu_percent(0.01) >= 0, psutil.boot_time() > 0, isinstance(me.name(), str), me.cpu_times().user >= 0)\n"
        "print(isinstance(psutil.net_if_addrs(), dict), isinstance(psutil.swap_memory().total, int), len(psutil.getloadavg()))\n"
        "print(isinstance(psutil.net_connections(), list), isinstance(psutil.disk_partitions(), list), isinstance(psutil.users(), list))\n"
        "print(isinstance(psutil.net_io_counters(pernic=True), dict), len(me.cpu_affinity()) > 0, isinstance(me.nice(), int))",
        prints=r"(True True True True( True)?\n){2}True True True True\nTrue True 3\nTrue True True\nTrue True True\n",
        needs=("psutil",),
    ),
)
