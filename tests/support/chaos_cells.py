"""The cells of hostile kernels in a chaos run: each does something that no honest one does."""

HOSTILE_CELLS = (
    "import os; os.kill(-1, 9)",
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'\\xff' * 4096)\n    except OSError: pass",
    "import socket\nfor _ in range(5000):\n    try: socket.socket(socket.AF_PACKET)\n    except OSError: pass",
    "for _ in range(200): print('x' * 50_000)",
    (
        "from IPython.display import publish_display_data as show\n"
        "show({'a/b+json': float('inf')}); show({'text/plain': 5}); show({'application/javascript': 'x'})"
    ),
    (
        "k = get_ipython().kernel\nfor kind in ('status', 'shutdown_reply', 'execute_reply', 'iopub_welcome', 'x'):\n"
        "    k.session.send(k.iopub_socket, kind, {'execution_state': 'dead'}, parent={'msg_id': 'x', 'session': 1})"
    ),
    "held = []\ntry:\n    while True: held.append(bytearray(1 << 28))\nexcept MemoryError: held.clear()",
    "import os\nfor _ in range(40):\n    if os.fork() == 0:\n        import time; time.sleep(60); os._exit(0)",
    "with open('/tmp/full', 'wb') as file:\n    for _ in range(4000): file.write(bytes(1 << 20))",
    "import os, signal\nfor number in range(1, 65):\n    try: os.kill(1, number)\n    except OSError: pass",
    (
        "import array, socket\na, b = socket.socketpair()\nfor fd in range(3, 40):\n"
        "    try: socket.socket(fileno=os.dup(fd)).sendmsg([b'x'], [(1, 1, array.array('i', [a.fileno()] * 8))])\n"
        "    except OSError: pass"
    ),
    "raise KeyError('\\ud800' * 1000)",
    "import faulthandler; faulthandler.dump_traceback(all_threads=True)\n1/0",
)
