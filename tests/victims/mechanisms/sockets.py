"""Sockets: families that no network namespace holds, services of the host, names that are no files."""

import ctypes
import os
import socket

from attacking import LIBC, TARGETS, attack, call

_FAMILIES = {
    "AX25": 3, "IPX": 4, "APPLETALK": 5, "NETROM": 6, "ATMPVC": 8, "X25": 9, "ROSE": 11, "PF_KEY": 15, "PACKET": 17,
    "ECONET": 19, "ATMSVC": 20, "RDS": 21, "IRDA": 23, "PPPOX": 24, "LLC": 26, "IB": 27, "MPLS": 28, "CAN": 29,
    "TIPC": 30, "BLUETOOTH": 31, "IUCV": 32, "RXRPC": 33, "ISDN": 34, "PHONET": 35, "IEEE802154": 36, "CAIF": 37,
    "ALG": 38, "NFC": 39, "VSOCK": 40, "KCM": 41, "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45,
}  # fmt: skip


def _family(name, number):
    def made():
        descriptor = call(
            "socket", number, socket.SOCK_RAW if name in ("PACKET", "CAN") else socket.SOCK_STREAM, 0
        )
        os.close(descriptor)

    made.__name__ = f"family {name}"
    attack("sockets", "EPERM", None)(made)


for _name, _number in _FAMILIES.items():
    _family(_name, _number)


def _netlink(name, protocol):
    def made():
        os.close(call("socket", socket.AF_NETLINK, socket.SOCK_RAW, protocol))

    made.__name__ = f"netlink {name}"
    attack("sockets", "EPERM", "ok")(made)


for _name, _number in {
    "audit": 9,
    "events of devices": 15,
    "generic": 16,
    "packet filter": 12,
    "socket tables": 4,
}.items():
    _netlink(_name, _number)


@attack("sockets", "EPERM", "ok")
def service_of_the_host_on_loopback():
    """The canary's listener, as every notebook server and database is one."""
    with socket.socket() as sock:
        sock.connect(("127.0.0.1", TARGETS["port"]))
        return "ok" if TARGETS["canary"].encode() in sock.recv(200) else "another"


@attack("sockets", "EAFNOSUPPORT", "ok")
def service_of_the_host_on_loopback_of_version_6():
    """The same by an IPv4 address inside of an IPv6 one."""
    with socket.socket(socket.AF_INET6) as sock:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.connect(("::ffff:127.0.0.1", TARGETS["port"]))
        return "ok" if TARGETS["canary"].encode() in sock.recv(200) else "another"


@attack("sockets", "EPERM", "ok")
def datagram_to_the_host():
    """sendto(2) needs no connection."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"out", ("127.0.0.1", TARGETS["port"]))


@attack("sockets", "EPERM", ("ok", "EPERM"))
def raw_packets():
    """ICMP carries what it likes."""
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


@attack("sockets", "EPERM", None)
def multipath_tcp():
    """MPTCP, a protocol of its own in the same family."""
    socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).close()


@attack("sockets", "ECONNREFUSED", "ok")
def abstract_socket_of_the_host():
    """A name that is in no folder: X11 and D-Bus have such."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + TARGETS["abstract"])
        return "ok" if TARGETS["canary"].encode() in sock.recv(200) else "another"


@attack("sockets", "ENOENT", "ok")
def socket_of_the_host_by_its_path():
    """Below /tmp, where many services have theirs."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(TARGETS["path"])
        return "ok" if TARGETS["canary"].encode() in sock.recv(200) else "another"


@attack("sockets", "ECONNREFUSED", "ok")
def socket_of_the_host_in_the_workspace():
    """A service that was started in the notebook's folder: the file is shown, who listens is not there."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("service.sock")
        return "ok" if TARGETS["canary"].encode() in sock.recv(200) else "another"


@attack("sockets", "EPERM", None)
def pair_of_another_family():
    """socketpair(2) of TIPC."""
    pair = (ctypes.c_int * 2)()
    ctypes.set_errno(0)
    if LIBC.socketpair(30, 1, 0, pair) < 0:
        raise OSError(ctypes.get_errno(), "socketpair")


@attack("sockets", "only its own", None)
def devices_of_the_network():
    """Every interface but loopback leads out."""
    with open("/proc/net/dev") as file:
        names = {line.split(":")[0].strip() for line in file if ":" in line}
    return "only its own" if names == {"lo"} else "ok"
