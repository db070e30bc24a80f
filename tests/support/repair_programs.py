"""Programs that a sandbox refuses, limits or ends as they are, for a repair by what its tools say alone."""

from __future__ import annotations

from typing import NamedTuple


class Program(NamedTuple):
    """``done`` is a line that is printed only where the program has done its work; ``setup`` sets limits before."""

    name: str
    code: str
    done: str
    setup: str = ""


_TAKE_BACK = (
    "memory",
    "cpu",
    "pids",
    "disk",
    "tmp",
    "shm",
    "open_files",
    "file_size",
    "output",
    "wall",
    "cpu_seconds",
)
TAKE_BACK = "%sentinel_limit " + " ".join(f"{name}=profile" for name in _TAKE_BACK)
"""Sets every limit to the profile's own again."""

PROGRAMS = [
    Program(
        "an answer over a socket",
        """\
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
def answer():
    connection, _ = listener.accept()
    with connection:
        connection.sendall(b"pong")
thread = threading.Thread(target=answer)
thread.start()
with socket.create_connection(listener.getsockname()) as client:
    print("got", client.recv(10).decode())
thread.join()
listener.close()
""",
        "got pong",
    ),
    Program(
        "a report written to a folder of the system",
        """\
rows = [("Ulm", 3), ("Bonn", 5)]
with open("/var/lib/report.csv", "w") as file:
    for name, number in rows:
        file.write(f"{name},{number}\\n")
with open("/var/lib/report.csv") as file:
    print("rows", len(file.readlines()))
""",
        "rows 2",
    ),
    Program(
        "more memory than there is",
        """\
block = bytearray(1_400_000_000)
block[-1] = 7
print("last", block[-1])
del block
""",
        "last 7",
    ),
    Program(
        "a pool of too many threads",
        """\
import concurrent.futures, threading
gate = threading.Event()
def wait(number):
    gate.wait(20)
    return number
with concurrent.futures.ThreadPoolExecutor(max_workers=120) as pool:
    try:
        waiting = [pool.submit(wait, number) for number in range(120)]
    finally:
        gate.set()
print("sum", sum(one.result() for one in waiting))
""",
        "sum 7140",
        "%sentinel_limit pids=24",
    ),
    Program(
        "a device that makes zeros",
        """\
import os, stat
os.mknod("zeros", stat.S_IFCHR | 0o600, os.makedev(1, 5))
with open("zeros", "rb") as zeros:
    print("read", zeros.read(2))
os.remove("zeros")
""",
        "read b'\\x00\\x00'",
    ),
    Program(
        "a cell that takes its time",
        """\
import time
time.sleep(2.5)
print("slept well")
""",
        "slept well",
        "%sentinel_limit wall=1",
    ),
    Program(
        "a web server asked by urllib",
        """\
import threading, urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
class Page(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"page")
    def log_message(self, *_):
        pass
server = HTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
    print("status", answer.status, answer.read().decode())
server.shutdown()
server.server_close()
""",
        "status 200 page",
    ),
    Program(
        "asyncio streams",
        """\
import asyncio
async def double(reader, writer):
    writer.write(await reader.read(10) * 2)
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(double, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"ab")
        print("doubled", (await reader.read(10)).decode())
        writer.close()
await main()
""",
        "doubled abab",
    ),
    Program(
        "datagrams to oneself",
        """\
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    one.bind(("127.0.0.1", 0))
    one.sendto(b"note", one.getsockname())
    print("datagram", one.recvfrom(10)[0].decode())
""",
        "datagram note",
    ),
    Program(
        "remote calls by XML",
        """\
import threading
from xmlrpc.client import ServerProxy
from xmlrpc.server import SimpleXMLRPCServer
server = SimpleXMLRPCServer(("127.0.0.1", 0), logRequests=False)
server.register_function(pow)
threading.Thread(target=server.handle_request, daemon=True).start()
with ServerProxy("http://127.0.0.1:%d" % server.server_address[1]) as proxy:
    print("pow", proxy.pow(2, 10))
server.server_close()
""",
        "pow 1024",
    ),
    Program(
        "a free port that is looked for",
        """\
import socket
def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
try:
    port = free_port()
except OSError:
    port = 0
if port:
    print("port found")
""",
        "port found",
    ),
    Program(
        "a pair of network sockets",
        """\
import socket
left, right = socket.socketpair(socket.AF_INET)
left.sendall(b"x")
print("pair", right.recv(1).decode())
left.close(); right.close()
""",
        "pair x",
    ),
    Program(
        "a manager of shared objects",
        """\
from multiprocessing.managers import BaseManager
import threading
class Counter:
    def __init__(self): self.n = 0
    def add(self): self.n += 1; return self.n
class Manager(BaseManager): pass
Manager.register("counter", Counter)
manager = Manager(address=("127.0.0.1", 0), authkey=b"k")
server = manager.get_server()
threading.Thread(target=server.serve_forever, daemon=True).start()
other = Manager(address=server.address, authkey=b"k")
other.connect()
print("counted", other.counter().add())
""",
        "counted 1",
    ),
    Program(
        "a log file where daemons have theirs",
        """\
import logging
log = logging.getLogger("mill")
log.handlers.clear()
log.addHandler(logging.FileHandler("/var/log/mill.log"))
log.warning("wheel stands")
logging.shutdown()
print("logged", "wheel stands" in open("/var/log/mill.log").read())
""",
        "logged True",
    ),
    Program(
        "a table for everybody under /usr/local",
        """\
import csv
with open("/usr/local/share/stock.csv", "w", newline="") as file:
    csv.writer(file).writerows([("flour", 3), ("rye", 4)])
with open("/usr/local/share/stock.csv", newline="") as file:
    print("stock", sum(int(row[1]) for row in csv.reader(file)))
""",
        "stock 7",
    ),
    Program(
        "a folder for results under /opt",
        """\
import os
os.makedirs("/opt/results/2031", exist_ok=True)
with open("/opt/results/2031/sum.txt", "w") as file:
    file.write("41")
print("kept", os.listdir("/opt/results/2031"))
""",
        "kept ['sum.txt']",
    ),
    Program(
        "text by pathlib into /usr/share",
        """\
from pathlib import Path
place = Path("/usr/share/notes.txt")
place.write_text("remember")
print("note", place.read_text())
""",
        "note remember",
    ),
    Program(
        "JSON into /etc",
        """\
import json
settings = {"mill": "on"}
with open("/etc/mill.json", "w") as file:
    json.dump(settings, file)
with open("/etc/mill.json") as file:
    print("settings", json.load(file)["mill"])
""",
        "settings on",
    ),
    Program(
        "an array that is too large",
        """\
import numpy
field = numpy.ones((13000, 13000))
print("mean", field.mean())
del field
""",
        "mean 1.0",
    ),
    Program(
        "too many open files",
        """\
files = []
try:
    files = [open("/dev/null") for _ in range(400)]
    print("open", len(files))
finally:
    for file in files:
        file.close()
""",
        "open 400",
        "%sentinel_limit open_files=256",
    ),
    Program(
        "a large file in the folder for temporary ones",
        """\
import os, tempfile
with tempfile.NamedTemporaryFile(dir="/tmp") as file:
    file.write(bytes(40_000_000))
    file.flush()
    print("bytes", os.path.getsize(file.name))
""",
        "bytes 40000000",
        "%sentinel_limit tmp=16M",
    ),
    Program(
        "a large file beside the notebook",
        """\
import os
try:
    with open("large.bin", "wb") as file:
        file.write(bytes(40_000_000))
    print("bytes", os.path.getsize("large.bin"))
finally:
    os.remove("large.bin")
""",
        "bytes 40000000",
        "%sentinel_limit file_size=16M",
    ),
    Program(
        "much to compute",
        """\
import time
end = time.process_time() + 2.5
while time.process_time() < end:
    pass
print("computed")
""",
        "computed",
        "%sentinel_limit cpu_seconds=1",
    ),
    Program(
        "much to print",
        """\
for number in range(40_000):
    print("line", number)
print("printed all")
""",
        "printed all",
        "%sentinel_limit output=100K",
    ),
    Program(
        "a pool of too many processes",
        """\
import multiprocessing, time
def wait(number):
    time.sleep(0.2)
    return number
with multiprocessing.get_context("fork").Pool(100) as pool:
    print("sum", sum(pool.map(wait, range(40), chunksize=1)))
""",
        "sum 780",
        "%sentinel_limit pids=32",
    ),
    Program(
        "shared memory between processes",
        """\
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=40_000_000)
try:
    block.buf[:] = bytes(40_000_000)
    print("shared", block.size >= 40_000_000)
finally:
    block.close(); block.unlink()
""",
        "shared True",
        "%sentinel_limit shm=16M",
    ),
]

SHORT = PROGRAMS[:6]
"""One of each kind, for the tests that are run often."""
