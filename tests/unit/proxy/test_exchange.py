"""The proxy's exchanges against a server of the test's: what is passed on, what is refused, and what is never seen."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from sentinel_kernel.policy import profile
from sentinel_kernel.policy.http_rules import HttpPolicy, read_requests
from sentinel_kernel.policy.json_document import Reader
from sentinel_kernel.policy.network import Decision, NetworkPolicy, parse_rule
from sentinel_kernel.proxy import exchange, names, wanted, way_out
from sentinel_kernel.proxy.exchange import Exchange
from sentinel_kernel.proxy.secret_values import SecretValues

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sentinel_kernel.proxy.way_out import Ends

SECRET = "s3cret-value-of-the-host"
HOST, PLAIN, PRIVATE = "api.example.org", "plain.example.org", "inside.example.org"
NAMES = {HOST: "127.0.0.1", PLAIN: "127.0.0.1", PRIVATE: "10.1.2.3"}


class Network(NetworkPolicy):
    """As the real one, but for the test's server, which is on loopback."""

    def decide(self, name: str, address: bytes, port: int) -> Decision:
        if address == bytes([127, 0, 0, 1]):
            known = any(rule.has_name(name) and rule.has_port(port) for rule in self.rules)
            return Decision(allowed=known, reason="listed" if known else "not-listed")
        return super().decide(name, address, port)


class Server:
    """Answers each request with what it got; a handler may do otherwise."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        body = b""
        if b"chunked" in head.lower():
            body = await reader.readuntil(b"0\r\n\r\n")
        elif b"content-length: " in head.lower():
            body = await reader.readexactly(
                int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            )
        self.bodies.append(body)
        writer.write(self.answer)
        await writer.drain()
        writer.close()


Talk = "Callable[[Ends], Awaitable[Any]]"


class World:
    """One proxy with one client, and one server outside."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = Server()
        self.reports: list[dict[str, Any]] = []
        self.monkeypatch = monkeypatch
        self.asked_names: list[str] = []
        self.context: ssl.SSLContext | None = None

    def policy(self, port: int, extra: dict[str, Any] | None = None) -> HttpPolicy:
        document = {
            "http": [
                {"method": "GET, POST", "scheme": "http", "host": f"{HOST}:{port}", "path": "/v1/*"},
                {"method": "*", "scheme": "http", "host": f"any.example.org:{port}"},
                {"method": "GET", "host": f"safe.example.org:{port}", "path": "/*"},
                {"method": "CONNECT", "host": f"tunnel.example.org:{port}"},
            ],
            "secrets": [
                {"host": HOST, "header": "Authorization", "from": "env:NP_TOKEN", "prefix": "Bearer "},
                {"host": "any.example.org", "header": "X-Key", "from": "env:NP_ABSENT"},
                {"host": "safe.example.org", "header": "X-Key", "from": "env:NP_TOKEN"},
            ],
            **(extra or {}),
        }
        reader = Reader(document, "$")
        rules = (parse_rule(f"{PLAIN}:{port}"), parse_rule(f"{PRIVATE}:{port}"))
        told = read_requests(reader, profile.Network())
        return HttpPolicy(Network(rules), told.http, told.secrets)

    def run(self, talk: Callable[[Ends, int], Awaitable[Any]]) -> Any:
        async def resolve(host: str) -> list[bytes]:
            self.asked_names.append(host)
            return [bytes(map(int, NAMES.get(host, "127.0.0.1").split(".")))]

        async def main() -> Any:
            outside = await asyncio.start_server(self.server.serve, "127.0.0.1", 0, ssl=self.context)
            port = outside.sockets[0].getsockname()[1]
            policy = self.policy(port)

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await Exchange((reader, writer), policy, SecretValues(os.getpid()), self.reports.append).run()

            inside = await asyncio.start_server(serve, "127.0.0.1", 0)
            ends = await asyncio.open_connection(*inside.sockets[0].getsockname())
            try:
                async with asyncio.timeout(30):
                    return await talk(ends, port)
            finally:
                ends[1].close()
                inside.close()
                outside.close()
                async with asyncio.timeout(30):
                    await asyncio.gather(
                        *asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True
                    )
                    for _ in range(5):  # what was closed is gone a few turns later
                        await asyncio.sleep(0)

        self.monkeypatch.setattr(way_out, "_resolve", resolve)
        return asyncio.run(main())

    def ask(self, request: str | bytes) -> tuple[int, bytes]:
        """Send bytes, with PORT put in, and return the status and all that came back."""

        async def talk(ends: Ends, port: int) -> bytes:
            data = request.encode() if isinstance(request, str) else request
            ends[1].write(data.replace(b"PORT", str(port).encode()))
            ends[1].write_eof()
            return await ends[0].read()

        said = self.run(talk)
        return (int(said.split(b" ", 2)[1]) if said else 0), said


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    # What a process was started with is what counts: the test's own environment is given that way.
    monkeypatch.setattr(SecretValues, "_variable", lambda _self, name: {"NP_TOKEN": SECRET}.get(name, ""))
    return World(monkeypatch)


def get(target: str, *headers: str, method: str = "GET", host: str | None = None) -> str:
    authority = target.partition("://")[2].partition("/")[0]
    lines = [f"{method} {target} HTTP/1.1", f"Host: {authority if host is None else host}", *headers]
    return "\r\n".join(lines) + "\r\n\r\n"


def test_a_request_by_rule_gets_the_secret_and_nothing_of_the_cells_in_its_place(world: World) -> None:
    status, said = world.ask(
        get(f"http://{HOST}:PORT/v1/items?x=1", "Authorization: mine", "Proxy-Authorization: x", "X-A: b")
    )
    assert status == 200
    assert said.endswith(b"ok")
    [head] = world.server.heads
    assert head.startswith(b"GET /v1/items?x=1 HTTP/1.1\r\nHost: api.example.org:")
    assert f"Authorization: Bearer {SECRET}".encode() in head
    assert b"mine" not in head
    assert b"roxy" not in head
    assert b"x-a: b" in head.lower()
    [report] = world.reports
    assert (report["host"], report["method"], report["path"], report["verdict"]) == (
        HOST,
        "GET",
        "/v1/items",
        "allowed",
    )
    assert SECRET not in json.dumps(report)
    assert SECRET.encode() not in said


@pytest.mark.parametrize(
    ("request_text", "status", "code"),
    [
        (get(f"http://{HOST}:PORT/v2/items"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/items", method="DELETE"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/../v2/items"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/%2e%2e/v2/items"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/..%2fv2"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1//x"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/%zz"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/\\..\\v2"), 403, "rule"),
        (get(f"http://{HOST}:1/v1/items"), 403, "rule"),
        (get("http://evil.example.net/"), 403, "not-listed"),
        (get("http://secret-data.evil.example.net/"), 403, "not-listed"),
        (get(f"http://{PRIVATE}:PORT/"), 403, "private"),
        (get("http://10.1.2.3/"), 403, "private"),
        (get("http://127.0.0.1:PORT/"), 403, "not-listed"),
        (get("http://[::1]:PORT/"), 403, "loopback"),
        (get("http://[::ffff:127.0.0.1]:PORT/"), 403, "not-listed"),
        (get("http://169.254.169.254/latest/"), 403, "metadata"),
        (get("http://127.1/"), 400, "host"),
        (get("http://0x7f.1/"), 400, "host"),
        (get("http://2130706433/"), 400, "host"),
        (get("http://a@b@evil.example.net/"), 400, "host"),
        (get(f"http://user:pass@{HOST}:PORT/v1/x"), 400, "host"),
        (get(f"http://{HOST}:PORT/v1/x", host="evil.example.net"), 400, "host"),
        (get(f"http://{HOST}:PORT/v1/x", host=f"{HOST}:1"), 400, "host"),
        (get(f"https://{HOST}:PORT/v1/x"), 400, "target"),
        (get(f"ftp://{HOST}:PORT/v1/x"), 400, "target"),
        (get("/v1/x", host=HOST), 400, "target"),
        (get(f"http://{HOST}:PORT/v1/x", method="TRACE"), 405, "method"),
        (get(f"http://{HOST}:PORT/v1/x", method="get"), 405, "method"),
        (get(f"http://{HOST}:PORT/v1/x", "X-HTTP-Method-Override: DELETE", method="POST"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/x", "X_Original_URL: /admin"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/x", "x-rewrite-url: /admin"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/x", "SCRIPT_NAME: /v1"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/x", "Path-Info: /admin"), 403, "rule"),
        (get(f"http://{HOST}:PORT/v1/x", "X-Envoy-Original-Path: /admin"), 403, "rule"),
        (get("http://any.example.org:PORT/x"), 502, "secret"),
        (get(f"{HOST}:443", method="CONNECT", host=f"{HOST}:443"), 403, "rule"),
        (get("evil.example.net:443", method="CONNECT", host="evil.example.net:443"), 403, "not-listed"),
        (get("tunnel.example.org:22", method="CONNECT", host="tunnel.example.org:22"), 403, "rule"),
        (get("10.1.2.3:443", method="CONNECT", host="10.1.2.3:443"), 403, "private"),
        (get(f"{PLAIN}", method="CONNECT", host=PLAIN), 400, "host"),
        (
            get(f"http://{HOST}:PORT/v1/x", "Content-Length: 3", "Transfer-Encoding: chunked", method="POST"),
            400,
            "framing",
        ),
        (
            get(f"http://{HOST}:PORT/v1/x", "Content-Length: 3", "Content-Length: 4", method="POST"),
            400,
            "malformed",
        ),
        (
            get(f"http://{HOST}:PORT/v1/x", "Transfer-Encoding: gzip, chunked", method="POST"),
            501,
            "malformed",
        ),
        (get(f"http://{HOST}:PORT/v1/x", "Content-Length : 3"), 400, "malformed"),
        (get(f"http://{HOST}:PORT/v1/x", "Host: evil.example.net"), 400, "malformed"),
        (get(f"http://{HOST}:PORT/v1/x", "X: a\rb"), 400, "malformed"),
        (get(f"http://{HOST}:PORT/v1/x", *(f"X-{n}: 1" for n in range(200))), 431, "headers"),
        (get(f"http://{HOST}:PORT/v1/x", "X-Long: " + "a" * 70000), 431, "malformed"),
        (get(f"http://{HOST}:PORT/v1/x", "X-Long: " + "a" * 33000), 431, "headers"),
        (get(f"http://{HOST}:PORT/v1/x?{'a' * 33000}"), 431, "headers"),
        ("GET http://api.example.org:PORT/v1/x y HTTP/1.1\r\nHost: a\r\n\r\n", 400, "malformed"),
    ],
    ids=str,
)
def test_what_is_refused_never_leaves(world: World, request_text: str, status: int, code: str) -> None:
    got, said = world.ask(request_text)
    assert got == status, said
    assert f"x-sentinel-refusal: {code}".encode() in said.lower()
    assert b"Sentinel Kernel" in said
    assert world.server.heads == []
    assert not any("evil" in name for name in world.asked_names)


def test_a_secrets_header_and_those_of_framing_are_the_proxys_however_they_are_spelled(world: World) -> None:
    own = (
        "Content_Length: 7",
        "Transfer_Encoding: chunked",
        "AUTHORIZATION: mine",
        "Keep_Alive: 9",
        "X_A: b",
    )
    status, _ = world.ask(get(f"http://{HOST}:PORT/v1/x", *own))
    assert status == 200
    [head] = world.server.heads
    names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:] if line}
    assert names == {b"host", b"x_a", b"authorization", b"connection"}
    assert b"mine" not in head
    left = wanted.passed_on(
        [(b"x_api_key", b"mine"), (b"x_b", b"c"), (b"x-api-key", b"mine")], but=[b"x-api-key"]
    )
    assert left == [(b"x_b", b"c")]


def test_a_body_is_framed_anew_and_a_second_request_in_it_stays_a_body(world: World) -> None:
    smuggled = b"GET http://evil.example.net/ HTTP/1.1\r\nHost: evil.example.net\r\n\r\n"
    head = get(
        f"http://{HOST}:PORT/v1/x", "Transfer-Encoding: chunked", "Connection: x-a", "X-A: b", method="POST"
    )
    chunk = f"{len(smuggled):x};ext=1\r\n".encode() + smuggled + b"\r\n0\r\nTrailer: no\r\n\r\n"
    status, _ = world.ask(head.encode() + chunk)
    assert status == 200
    [head_sent], [body] = world.server.heads, world.server.bodies
    assert b"x-a" not in head_sent.lower()
    assert b"ext=1" not in body
    assert b"Trailer" not in body
    assert body == f"{len(smuggled):x}\r\n".encode() + smuggled + b"\r\n0\r\n\r\n"


def test_requests_follow_each_other_on_one_connection_and_each_is_checked(world: World) -> None:
    first, second = get(f"http://{HOST}:PORT/v1/a"), get(f"http://{HOST}:PORT/v2/b")
    status, said = world.ask(first + second)
    assert status == 200
    assert b" 403 " in said
    assert len(world.server.heads) == 1
    assert [report["verdict"] for report in world.reports] == ["allowed", "refused"]


def test_a_listed_host_is_asked_in_plain_http_without_rules_and_without_secrets(world: World) -> None:
    status, _ = world.ask(get(f"http://{PLAIN}:PORT/any%2Fthing/../x", "Authorization: mine"))
    assert status == 200
    assert world.server.heads[0].startswith(b"GET /any%2Fthing/../x HTTP/1.1")
    assert b"mine" in world.server.heads[0]
    assert SECRET.encode() not in world.server.heads[0]


def test_what_the_server_says_wrongly_is_not_passed_on(world: World) -> None:
    world.server.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok"
    status, said = world.ask(get(f"http://{HOST}:PORT/v1/x"))
    assert status == 502
    assert b"answer" in said


def test_a_redirect_is_left_to_the_client_whose_next_request_is_checked_too(world: World) -> None:
    world.server.answer = b"HTTP/1.1 302 Found\r\nLocation: http://10.1.2.3/\r\nContent-Length: 0\r\n\r\n"
    status, said = world.ask(get(f"http://{HOST}:PORT/v1/x") + get("http://10.1.2.3/"))
    assert status == 302
    assert b" 403 " in said
    assert len(world.server.heads) == 1


def test_a_tunnel_moves_bytes_both_ways_until_both_sides_have_ended(world: World) -> None:
    async def talk(ends: Ends, port: int) -> bytes:
        ends[1].write(
            f"CONNECT tunnel.example.org:{port} HTTP/1.1\r\nHost: tunnel.example.org\r\n\r\n".encode()
        )
        assert b" 200 " in await ends[0].readuntil(b"\r\n\r\n")
        ends[1].write(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
        ends[1].write_eof()
        return await ends[0].read()

    assert world.run(talk).endswith(b"ok")
    assert world.server.bodies == [b"hello"]
    assert world.reports[0]["sent"] > 5
    assert world.reports[0]["received"] == len(world.server.answer)


def test_the_proxy_encrypts_outside_and_a_redirect_to_the_same_host_comes_back(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    authority = trustme.CA()
    world.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("safe.example.org").configure_cert(world.context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    world.server.answer = (
        b"HTTP/1.1 302 Found\r\nLocation: https://safe.example.org/next\r\nContent-Length: 0\r\n\r\n"
    )
    status, said = world.ask(get("http://safe.example.org:PORT/x"))
    assert status == 302
    assert b"http://safe.example.org/next" in said
    assert f"X-Key: {SECRET}".encode() in world.server.heads[0]


def test_a_server_that_is_not_who_it_should_be_gets_no_secret(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    authority = trustme.CA()
    world.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example.org").configure_cert(world.context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    status, said = world.ask(get("http://safe.example.org:PORT/x"))
    assert status == 502
    assert b"trusted" in said
    assert world.server.heads == []


@pytest.mark.parametrize(
    "start", [b"", b"GET http://api.exam", b"POST http://api.example.org:PORT/v1/x HTTP/1.1\r\n"]
)
def test_a_head_that_does_not_come_ends_the_connection(
    world: World, monkeypatch: pytest.MonkeyPatch, start: bytes
) -> None:
    monkeypatch.setattr(exchange, "HEAD_SECONDS", 0.05)

    async def talk(ends: Ends, port: int) -> bytes:
        ends[1].write(start.replace(b"PORT", str(port).encode()))
        return await ends[0].read()

    assert world.run(talk) == b""


def test_a_tunnel_whose_request_does_not_end_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "HEAD_SECONDS", 0.05)

    async def talk(ends: Ends, port: int) -> bytes:
        asked = f"tunnel.example.org:{port}"
        ends[1].write(get(asked, "Content-Length: 9999", method="CONNECT", host=asked).encode())
        return await ends[0].read()

    assert world.run(talk) == b""


def test_names_are_looked_up_once_for_a_while_and_not_as_many_as_one_likes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    async def main() -> None:
        async def getaddrinfo(name: str, *_: Any, **__: Any) -> list[Any]:
            asked.append(name)
            if name == "known.example":
                return [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 0))]
            raise socket.gaierror(socket.EAI_NONAME, "no such name")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        looked_up = names.Names()
        # As an absolute name, and as one of /etc/hosts.
        assert await looked_up.look_up("known.example") == [bytes((192, 0, 2, 1))]
        assert asked == ["known.example.", "known.example"]
        for number in range(59):
            assert await looked_up.look_up(f"{number}.example") == []
        looked_up._tokens = 0.0  # a second that has passed gives one more
        with pytest.raises(names.TooMany):
            await looked_up.look_up("other.example")
        assert await looked_up.look_up("known.example") == [bytes((192, 0, 2, 1))], (
            "what is known costs nothing"
        )

    asyncio.run(main())


def test_a_body_that_stops_ends_the_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SILENT_SECONDS", 0.05)

    async def talk(ends: Ends, port: int) -> bytes:
        head = get(f"http://{HOST}:{port}/v1/x", "Content-Length: 100", method="POST")
        ends[1].write(head.encode() + b"some")
        return await ends[0].read()

    assert b" 504 " in world.run(talk)


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(world: World) -> None:
    async def talk(ends: Ends, port: int) -> bytes:
        head = get(f"http://{HOST}:{port}/v1/x", "Content-Length: 4", "Expect: 100-continue", method="POST")
        ends[1].write(head.encode())
        assert b" 100 " in await ends[0].readuntil(b"\r\n\r\n")
        ends[1].write(b"body")
        ends[1].write_eof()
        return await ends[0].read()

    assert b" 200 " in world.run(talk)
    assert world.server.bodies == [b"body"]
    assert b"expect" not in world.server.heads[0].lower()


def test_a_tunnel_to_another_port_is_refused_with_the_one_that_is_open(world: World) -> None:
    _, said = world.ask(get("tunnel.example.org:22", method="CONNECT", host="tunnel.example.org:22"))
    assert b"Rules open tunnels to tunnel.example.org on port" in said
    assert b"HTTP alone" not in said
    _, said = world.ask(get(f"{HOST}:443", method="CONNECT", host=f"{HOST}:443"))
    assert b"may be asked by rules of HTTP alone" in said
