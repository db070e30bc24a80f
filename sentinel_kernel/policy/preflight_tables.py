"""What preflight knows of Python's libraries: what connects, starts programs, writes files or makes system calls."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_VERBS = ("get", "post", "put", "delete", "head", "patch", "options")
_PANDAS = ("csv", "table", "json", "html", "xml", "excel", "parquet", "feather", "pickle", "stata", "fwf")

URLS: Final[dict[str, tuple[int, str, bool]]] = {
    **{f"{one}.{verb}": (0, "url", True) for one in ("requests", "httpx") for verb in _VERBS},
    **{
        f"{one}().{verb}": (0, "url", True) for one in ("requests.Session", "httpx.Client") for verb in _VERBS
    },
    "requests.request": (1, "url", True),
    "httpx.request": (1, "url", True),
    "httpx.stream": (1, "url", True),
    "requests.Session().request": (1, "url", True),
    "httpx.Client().request": (1, "url", True),
    "urllib.request.urlopen": (0, "url", False),
    "urllib.request.urlretrieve": (0, "url", False),
    "urllib3.request": (1, "url", True),
    "urllib3.PoolManager().request": (1, "url", True),
    **{f"pandas.read_{kind}": (0, "filepath_or_buffer", False) for kind in _PANDAS},
    "polars.read_csv": (0, "source", False),
    "polars.read_parquet": (0, "source", False),
    "numpy.loadtxt": (0, "fname", False),
    "numpy.genfromtxt": (0, "fname", False),
    "wget.download": (0, "url", True),
}
"""Functions that fetch: which argument is the URL, and whether they go to the network whatever it is."""

HOSTS: Final[dict[str, tuple[int, str, bool]]] = {
    "ftplib.FTP": (0, "host", False),
    "ftplib.FTP_TLS": (0, "host", False),
    "smtplib.SMTP": (0, "host", False),
    "smtplib.SMTP_SSL": (0, "host", False),
    "poplib.POP3": (0, "host", True),
    "poplib.POP3_SSL": (0, "host", True),
    "imaplib.IMAP4": (0, "host", True),
    "imaplib.IMAP4_SSL": (0, "host", True),
    "telnetlib.Telnet": (0, "host", False),
}
"""Classes that connect to a host as they are made."""

LOOKUPS: Final = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyname_ex")
SERVERS: Final = (
    "http.server.HTTPServer",
    "socket.create_server",
    "http.server.ThreadingHTTPServer",
    "socketserver.TCPServer",
    "socketserver.ThreadingTCPServer",
    "socketserver.UDPServer",
    "wsgiref.simple_server.make_server",
    "xmlrpc.server.SimpleXMLRPCServer",
)
AWAITED: Final = {"asyncio.open_connection": 0, "asyncio.start_server": 1}
SYSCALLS: Final = {
    "os.chroot": "chroot",
    "os.setgroups": "setgroups",
    "os.setns": "setns",
    "os.unshare": "unshare",
    "os.name_to_handle_at": "name_to_handle_at",
    "socket.sethostname": "sethostname",
    "time.clock_settime": "clock_settime",
    "time.clock_settime_ns": "clock_settime",
}
PROGRAMS: Final = (
    "os.popen",
    "os.posix_spawn",
    "os.spawnl",
    "os.spawnv",
    "os.system",
    "subprocess.Popen",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "subprocess.run",
)
"""Functions that start a program by execve(2)."""

ALWAYS_SHELL = ("os.popen", "os.system", "subprocess.getoutput", "subprocess.getstatusoutput")
CHECKED = ("subprocess.check_call", "subprocess.check_output")
C_FUNCTIONS: Final = {
    **{
        name: name
        for name in [
            "acct",
            "chroot",
            "delete_module",
            "fanotify_init",
            "init_module",
            "ioperm",
            "iopl",
            "mount",
            "name_to_handle_at",
            "pivot_root",
            "process_vm_readv",
            "process_vm_writev",
            "ptrace",
            "quotactl",
            "reboot",
            "setdomainname",
            "sethostname",
            "setns",
            "settimeofday",
            "clock_settime",
            "swapoff",
            "swapon",
            "umount2",
            "unshare",
            "vhangup",
        ]
    },
    "umount": "umount2",
    "klogctl": "syslog",
}
"""Functions of the C library, and the system call that each of them is."""

WRITES: Final[dict[str, tuple[tuple[int, str], ...]]] = {
    "os.link": ((1, "dst"),),
    "os.makedirs": ((0, "name"),),
    "os.mkdir": ((0, "path"),),
    "os.mkfifo": ((0, "path"),),
    "os.remove": ((0, "path"),),
    "os.rename": ((0, "src"), (1, "dst")),
    "os.replace": ((0, "src"), (1, "dst")),
    "os.rmdir": ((0, "path"),),
    "os.symlink": ((1, "dst"),),
    "os.truncate": ((0, "path"),),
    "os.unlink": ((0, "path"),),
    "shutil.copy": ((1, "dst"),),
    "shutil.copy2": ((1, "dst"),),
    "shutil.copyfile": ((1, "dst"),),
    "shutil.copytree": ((1, "dst"),),
    "shutil.move": ((1, "dst"),),
    "shutil.rmtree": ((0, "path"),),
    "joblib.dump": ((1, "filename"),),
    "logging.FileHandler": ((0, "filename"),),
    "matplotlib.pyplot.savefig": ((0, "fname"),),
    "numpy.save": ((0, "file"),),
    "numpy.savetxt": ((0, "fname"),),
    "numpy.savez": ((0, "file"),),
    "numpy.savez_compressed": ((0, "file"),),
    "torch.save": ((1, "f"),),
}
"""Functions that change what lies at a path: its place among the arguments, and its name."""

PATH_METHODS: Final = (
    "chmod",
    "mkdir",
    "rmdir",
    "symlink_to",
    "hardlink_to",
    "touch",
    "unlink",
    "write_bytes",
    "write_text",
)
FRAME_METHODS: Final = [
    "to_csv",
    "to_excel",
    "to_feather",
    "to_html",
    "to_json",
    "to_parquet",
    "to_pickle",
    "to_stata",
    "to_xml",
    "write_csv",
    "write_json",
    "write_parquet",
    "savefig",
]
TOLERANT = ("exist_ok", "missing_ok", "ignore_errors", "onerror", "onexc", "opener")
"""Arguments by which a call may do without what is refused."""

FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17, "AF_VSOCK": 40}
FAMILIES |= {"AF_ALG": 38, "AF_BLUETOOTH": 31, "AF_CAN": 29}
TYPES = {"SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_RAW": 3}
PROTOCOLS = {"IPPROTO_TCP": 6, "IPPROTO_UDP": 17, "IPPROTO_ICMP": 1, "IPPROTO_RAW": 255}
CLOEXEC = 0x80000
