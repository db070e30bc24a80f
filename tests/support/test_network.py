"""A network for tests alone: one namespace for the kernel, one for the hosts that it may or may not reach; no real one.

    with network(folder, {"allowed.example": ["203.0.113.10", "2001:db8:9::10"]}) as hosts:
        server = hosts.listen("203.0.113.10", 443)           # a listening socket out there
        subprocess.run([*hosts.prefix(), "curl", ...])        # a command of the kernel's side

Names are looked up in ``/etc/hosts`` alone, which is the mapping's; :meth:`Hosts.rename` changes it while all runs.
A kernel on that side is reached over ``transport="ipc"``: its loopback is another one.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

NEAR_4, FAR_4 = "198.51.100.1", "198.51.100.254"
NEAR_6, FAR_6 = "2001:db8:1::1", "2001:db8:1::fe"
"""The kernel's own addresses, and those of the router to all others."""

_MAKER = """
import json, socket
control = socket.socket(fileno=0)
while packet := control.recv(4096):
    wanted = json.loads(packet)
    made = socket.socket(wanted["family"], wanted["kind"])
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if wanted["family"] == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((wanted["address"], wanted["port"]))
        if wanted["kind"] == socket.SOCK_STREAM:
            made.listen(wanted["backlog"])
        socket.send_fds(control, [b"ok"], [made.fileno()])
    except OSError as error:
        control.send(str(error).encode())
    made.close()
"""


class Hosts:
    """What a test has of its network."""

    def __init__(
        self, near: int, far: int, names: Path, control: socket.socket, near_control: socket.socket
    ) -> None:
        """``near`` and ``far`` are processes that keep the namespaces."""
        self.near = near
        self.far = far
        self._names = names
        self._control = control
        self._near_control = near_control

    def prefix(self, folder: Path | str = "/") -> tuple[str, ...]:
        """Return what goes in front of a command, of any user's, to run it on the kernel's side in ``folder``."""
        return (*_enter(self.near, mount=True), "env", f"--chdir={folder}")

    def far_prefix(self) -> tuple[str, ...]:
        """Return what goes in front of a command that is to run where the hosts are: a server of its own."""
        return _enter(self.far, mount=False)

    def rename(self, names: Mapping[str, Sequence[str]]) -> None:
        """Have other names, or the same ones lead elsewhere, from the next look-up on."""
        lines = [f"{address} {name}" for name, addresses in names.items() for address in addresses]
        self._names.write_text("\n".join(["127.0.0.1 localhost", "::1 localhost", *lines, ""]))

    def add(self, address: str) -> None:
        """Have the hosts answer at one more address."""
        _ip(self.far, "address", "add", address, "dev", "lo")

    def listen(
        self,
        address: str,
        port: int,
        *,
        kind: int = socket.SOCK_STREAM,
        backlog: int = 128,
        near: bool = False,
    ) -> socket.socket:
        """Return a socket that is bound out there, and listens if it is of TCP; ``port`` 0 takes any.

        ``near``: it is bound on the kernel's side instead, outside its sandbox.
        """
        control = self._near_control if near else self._control
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        wanted: dict[str, Any] = {"family": family, "kind": kind, "address": address, "port": port}
        control.send(json.dumps({**wanted, "backlog": backlog}).encode())
        said, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not descriptors:
            raise OSError(said.decode())
        return socket.socket(fileno=descriptors[0])


@contextlib.contextmanager
def network(folder: Path, names: Mapping[str, Sequence[str]]) -> Iterator[Hosts]:
    """Make the namespaces below ``folder``; ``names`` lead to addresses that the hosts answer at.

    Precondition: root.
    """
    folder.mkdir(parents=True, exist_ok=True)
    hosts_file, services = folder / "hosts", folder / "nsswitch.conf"
    hosts_file.touch()
    services.write_text("passwd: files\ngroup: files\nhosts: files\n")
    with contextlib.ExitStack() as stack:
        far = _keep(stack, "--net")
        near = _keep(stack, "--net", "--mount", "--propagation", "private")
        for source, target in ((hosts_file, "/etc/hosts"), (services, "/etc/nsswitch.conf")):
            subprocess.run(
                [*_enter(near, mount=True), "mount", "--bind", str(source), target], check=True, timeout=30
            )
        _ip(near, "link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(far))
        for process, device, four, six in ((near, "near", NEAR_4, NEAR_6), (far, "far", FAR_4, FAR_6)):
            _ip(process, "address", "add", f"{four}/24", "dev", device)
            _ip(process, "address", "add", f"{six}/64", "dev", device, "nodad")
            _ip(process, "link", "set", "lo", "up")
            _ip(process, "link", "set", device, "up")
        _ip(near, "route", "add", "default", "via", FAR_4)
        _ip(near, "-6", "route", "add", "default", "via", FAR_6)
        controls = [_maker(stack, process) for process in (far, near)]
        hosts = Hosts(near, far, hosts_file, *controls)
        for address in dict.fromkeys(address for addresses in names.values() for address in addresses):
            if address not in (NEAR_4, NEAR_6) and not address.startswith("127.") and address != "::1":
                hosts.add(address)
        hosts.rename(names)
        yield hosts


def _maker(stack: contextlib.ExitStack, process: int) -> socket.socket:
    """Start who makes sockets in a namespace, and return where it is asked for them."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stack.callback(ours.close)
    with theirs:
        maker = subprocess.Popen(
            [*_enter(process, mount=False), sys.executable, "-I", "-c", _MAKER], stdin=theirs.fileno()
        )
    stack.callback(_end, maker)
    return ours


def _keep(stack: contextlib.ExitStack, *namespaces: str) -> int:
    """Start a process that does nothing but keep new namespaces, and wait until it has them."""
    keeper = subprocess.Popen(
        ["unshare", *namespaces, "sh", "-c", "echo ready; exec sleep infinity"], stdout=subprocess.PIPE
    )
    stack.callback(_end, keeper)
    assert keeper.stdout is not None
    with keeper.stdout as output:
        assert output.readline() == b"ready\n"
    return keeper.pid


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _enter(process: int, *, mount: bool) -> tuple[str, ...]:
    places = (f"--net=/proc/{process}/ns/net", *([f"--mount=/proc/{process}/ns/mnt"] if mount else []))
    return ("nsenter", *places, "--")


def _ip(process: int, *arguments: str) -> None:
    subprocess.run([*_enter(process, mount=False), "ip", *arguments], check=True, timeout=30)
