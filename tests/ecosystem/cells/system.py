"""What the operating system gives a cell: files, time, language, names."""

# ruff: noqa: E501 - a line of a cell is one line here

from __future__ import annotations

from ecosystem_cell import entry

ENTRIES = (
    entry(
        "temporary files",
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder:\n    path = os.path.join(folder, 'größe.txt')\n"
        "    open(path, 'w').write('x' * 100)\n    print(os.path.getsize(path))\nprint(os.path.exists(folder))",
        "with tempfile.NamedTemporaryFile(suffix='.bin') as file, tempfile.TemporaryFile() as other:\n    file.write(b'abc')\n    file.flush()\n"
        "    print(open(file.name, 'rb').read(), os.stat(other.fileno()).st_nlink)",
        "with tempfile.SpooledTemporaryFile(10) as file:\n    file.write(b'x' * 100)\n    print(file.tell())\n"
        "print(os.path.isdir('/var/tmp'), os.access('/var/tmp', os.W_OK), os.access(os.path.expanduser('~'), os.W_OK))",
        prints=r"100\nFalse\nb'abc' 0\n100\nTrue True True\n",
    ),
    entry(
        "files of many kinds",
        "import os, fcntl, mmap, shutil\nopen('a.bin', 'wb').write(bytes(8192))\nos.link('a.bin', 'b.bin')\nos.symlink('a.bin', 'c.bin')\n"
        "shutil.copy2('a.bin', 'd.bin')\nos.rename('d.bin', 'e.bin')\nos.chmod('e.bin', 0o640)\n"
        "print(os.stat('a.bin').st_nlink, os.readlink('c.bin'), oct(os.stat('e.bin').st_mode & 0o777))",
        "with open('a.bin', 'r+b') as file:\n    fcntl.flock(file, fcntl.LOCK_EX)\n    fcntl.lockf(file, fcntl.LOCK_UN)\n"
        "    with mmap.mmap(file.fileno(), 0) as area:\n        area[:5] = b'mmap!'\nprint(open('b.bin', 'rb').read(5))",
        "os.mkfifo('pipe')\nprint(sorted(entry.name for entry in os.scandir('.') if entry.name.endswith('.bin') or entry.name == 'pipe'))\n"
        "os.truncate('a.bin', 10)\nos.utime('a.bin', (1, 2))\nprint(os.stat('b.bin').st_size, os.stat('b.bin').st_mtime)\n"
        "for name in ('a.bin', 'b.bin', 'c.bin', 'e.bin', 'pipe'):\n    os.remove(name)",
        "os.makedirs('deep/er/est')\nshutil.rmtree('deep')\nshutil.make_archive('packed', 'gztar', '.', '.')\nprint(os.path.getsize('packed.tar.gz') > 0)\n"
        "os.remove('packed.tar.gz')",
        prints=r"2 a\.bin 0o640\nb'mmap!'\n\['a\.bin', 'b\.bin', 'c\.bin', 'e\.bin', 'pipe'\]\n10 2\.0\nTrue\n",
    ),
    entry(
        "time zones",
        "import zoneinfo, datetime, os, time\nutc = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)\n"
        "print(utc.astimezone(zoneinfo.ZoneInfo('Europe/Berlin')).isoformat(), len(zoneinfo.available_timezones()) > 400)",
        "os.environ['TZ'] = 'Asia/Tokyo'\ntime.tzset()\nprint(time.localtime(0).tm_hour, time.tzname)\ndel os.environ['TZ']\ntime.tzset()",
        "import pandas as pd\nprint(pd.Timestamp('2024-07-01', tz='America/New_York').tz_convert('Asia/Kolkata'))",
        "print(datetime.datetime.now().astimezone().utcoffset() is not None)\n!TZ=Australia/Sydney date -d @0 +%H:%M",
        prints=r"2024-07-01T14:00:00\+02:00 True\n9 \('JST', 'JST'\)\n2024-07-01 09:30:00\+05:30\nTrue\n10:00\r?\n",
        needs=("pandas",),
    ),
    entry(
        "locales and encodings",
        "import locale, sys\nprint(sys.getfilesystemencoding(), locale.getpreferredencoding().lower(), sys.stdout.encoding)\nprint('naïve 漢字 🙂')",
        "print(locale.setlocale(locale.LC_ALL, 'C.UTF-8'), locale.strxfrm('a') < locale.strxfrm('b'))\n!locale | head -1 | cut -c1-5",
        "!python3 -c \"print('ümläut 漢')\"",
        prints=r"utf-8 utf-8 UTF-8\nnaïve 漢字 🙂\nC\.UTF-8 True\nLANG=\r?\nümläut 漢\r?\n",
    ),
    entry(
        "who and where am I",
        "import getpass, os, platform, pwd, grp, socket\nprint(pwd.getpwuid(os.getuid()).pw_name == getpass.getuser(), bool(grp.getgrgid(os.getgid()).gr_name))\n"
        "print(os.path.isdir(os.path.expanduser('~')), platform.system(), bool(platform.freedesktop_os_release()['ID']))\n"
        "print(bool(socket.gethostname()), platform.libc_ver()[0], os.getloadavg()[0] >= 0, os.cpu_count() >= 1)",
        "import uuid, secrets, shutil, resource, sysconfig, tracemalloc\nprint(len(str(uuid.uuid1())), len(secrets.token_hex(4)), shutil.disk_usage('.').total > 0)\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= 256, len(os.sched_getaffinity(0)) >= 1, os.nice(0) >= 0)",
        "!id -u >/dev/null && whoami >/dev/null && hostname >/dev/null && nproc >/dev/null && df . >/dev/null && ps aux >/dev/null && free >/dev/null && uptime >/dev/null; echo done $?",
        prints=r"True True\nTrue Linux True\nTrue glibc True True\n36 8 True\nTrue True True\ndone 0\r?\n",
        strict="network socket",  # libuuid asks for the network card's address
    ),
    entry(
        "devices",
        "import os\nprint(open('/dev/zero', 'rb').read(3), len(open('/dev/urandom', 'rb').read(4)), len(open('/dev/random', 'rb').read(4)))\n"
        "open('/dev/null', 'w').write('x')\nprint(os.path.exists('/dev/full'), os.path.exists('/dev/tty'), os.path.isdir('/dev/shm'), os.path.isdir('/dev/fd'))",
        "!echo through | cat /dev/stdin | tee /dev/stderr 2>/dev/null | wc -l",
        "%%bash\ncat <(echo substituted) /dev/fd/0 <<< here",
        prints=r"b'\\x00\\x00\\x00' 4 4\nTrue True True True\n1\r?\nsubstituted\nhere\n",
    ),
    entry(
        "the C library, through ctypes",
        "import ctypes, ctypes.util\nlibc = ctypes.CDLL(None)\nprint(ctypes.util.find_library('m'), libc.abs(-5))\n"
        "callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda value: value + 1)\nprint(callback(1))",
        prints=r"libm\.so\.6 5\n2\n",
    ),
    entry(
        "local sockets and asyncio streams",
        "import asyncio, os\n\nasync def serve(reader, writer):\n    writer.write((await reader.readline()).upper())\n    await writer.drain()\n    writer.close()\n\n"
        "server = await asyncio.start_unix_server(serve, 'here.sock')\nreader, writer = await asyncio.open_unix_connection('here.sock')\n"
        "writer.write(b'quiet\\n')\nprint(await reader.readline())\nwriter.close()\nserver.close()\nos.path.exists('here.sock') and os.remove('here.sock')",
        prints=r"b'QUIET\\n'\n",
    ),
    entry(
        "a server and a client over loopback",
        "import http.server, threading, urllib.request\n\nclass Answer(http.server.BaseHTTPRequestHandler):\n    def do_GET(self):\n        self.send_response(200)\n"
        "        self.end_headers()\n        self.wfile.write(b'hello')\n\n    def log_message(self, *arguments):\n        pass\n\n"
        "server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Answer)\nthreading.Thread(target=server.serve_forever, daemon=True).start()\n"
        "print(urllib.request.urlopen(f'http://localhost:{server.server_address[1]}/').read())\nserver.shutdown()\nserver.server_close()",
        prints=r"b'hello'\n",
        strict="network socket",
    ),
    entry(
        "imports that look at the network",
        "import ssl, urllib3, requests, socket\ncontext = ssl.create_default_context()\nprint(context.verify_mode.name, requests.Session().adapters.keys() >= {'https://'})",
        "import http.cookiejar, smtplib, ftplib, xmlrpc.client, asyncio, selectors\nprint(type(selectors.DefaultSelector()).__name__)",
        prints=r"CERT_REQUIRED True\nEpollSelector\n",
        needs=("requests",),
    ),
    entry(
        "user site-packages",
        "import site, sys, os\nfolder = site.getusersitepackages()\nos.makedirs(folder, exist_ok=True)\nopen(os.path.join(folder, 'ecosystem_user.py'), 'w').write('where = \"user\"')\n"
        "site.addsitedir(folder)\nimport ecosystem_user\nprint(ecosystem_user.where)\nos.remove(ecosystem_user.__file__)",
        prints=r"(True\n)?user\n",
    ),
    entry(
        "watching, pollers and events",
        "import select, os\npoll = select.epoll()\nread, write = os.pipe()\npoll.register(read, select.EPOLLIN)\nos.write(write, b'x')\nprint(len(poll.poll(10)))\npoll.close()",
        "event = os.eventfd(0)\nos.eventfd_write(event, 5)\nprint(os.eventfd_read(event))\nos.close(event)\nmemory = os.memfd_create('m')\nos.write(memory, b'abc')\nprint(os.pread(memory, 3, 0))",
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nwatch = libc.inotify_init1(0)\nprint(watch > 0, libc.inotify_add_watch(watch, b'.', 0x100) > 0)\nos.close(watch)",
        "child = os.posix_spawn('/bin/true', ['true'], os.environ)\ndescriptor = os.pidfd_open(child)\nselect.select([descriptor], [], [], 10)\nprint(os.waitpid(child, 0)[1])\nos.close(descriptor)",
        "print(os.sendfile(os.open('sent', os.O_CREAT | os.O_WRONLY), memory, 0, 3), os.copy_file_range(os.open('sent', os.O_RDONLY), os.open('copied', os.O_CREAT | os.O_WRONLY), 3))",
        prints=r"1\n5\nb'abc'\nTrue True\n0\n3 3\n",
    ),
)
