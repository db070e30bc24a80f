"""One client's connection to the proxy: its requests checked and passed on one by one, or one tunnel."""

from __future__ import annotations

import asyncio
import contextlib
import time

import h11

from sentinel_kernel.policy.http_rules import PORTS
from sentinel_kernel.proxy.wanted import HEAD_BYTES, Refused, names_another, passed_on, read_request
from sentinel_kernel.proxy.way_out import BUFFER_BYTES, connect
from sentinel_kernel.record import MutableRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from sentinel_kernel.policy.http_rules import HttpPolicy, HttpRule
    from sentinel_kernel.proxy.secret_values import SecretValues
    from sentinel_kernel.proxy.wanted import Wanted
    from sentinel_kernel.proxy.way_out import Ends

HEAD_SECONDS = 20.0
"""A request's head must be whole by then, a first one and each that follows on the same connection."""
SILENT_SECONDS = 120.0
"""A body may pause so long, and an answer may take so long to begin or go on."""
TUNNEL_SECONDS = 900.0
"""A tunnel in which nothing moves in either direction is closed after this time."""
_ANSWER_BYTES = 64 * 1024


class Passed(MutableRecord):
    """What is reported of one request or tunnel: never its query, its headers or its body."""

    host: str = ""
    port: int = 0
    method: str = ""
    path: str = ""
    address: str = ""
    verdict: str = "allowed"
    reason: str = ""
    sent: int = 0
    received: int = 0
    began: float = 0.0


class Exchange:
    """The connection of one client inside the sandbox."""

    def __init__(
        self,
        ends: Ends,
        policy: HttpPolicy,
        secrets: SecretValues,
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        """Serve the client at ``ends``; ``report`` is told of each request when it is over."""
        self._reader, self._writer = ends
        self._policy = policy
        self._secrets = secrets
        self._report = report
        self._client = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    async def run(self) -> None:
        """Serve the client until it has nothing more to ask, or asked for what is not passed on."""
        try:
            while await self._request():
                self._client.start_next_cycle()
        except (h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            await self._answer(
                Refused(getattr(error, "error_status_hint", 400), "malformed", "This is no request.")
            )
        except (OSError, TimeoutError):
            pass  # the client went, or stopped in the middle
        finally:
            self._writer.close()

    async def _request(self) -> bool:
        """Serve one request; True where another one may follow."""
        async with asyncio.timeout(HEAD_SECONDS):
            event = await _next(self._client, self._reader)
        if not isinstance(event, h11.Request):
            return False
        passed = Passed(began=time.monotonic())
        try:
            wanted = read_request(event.method, event.target, list(event.headers))
            passed.host, passed.port, passed.method = wanted.host, wanted.port, wanted.method
            passed.path = (wanted.path or "")[:200]
            if wanted.method == "CONNECT":
                await self._tunnel(wanted, passed)
            else:
                await self._pass_on(event, wanted, passed)
        except Refused as refused:
            passed.verdict = "refused" if refused.status < 500 else "failed"
            passed.reason = refused.code
            passed.address = passed.address or refused.address
            self._tell(passed)  # first: who is answered may end the cell that it is shown in
            await self._answer(refused)
            return False
        except BaseException:
            self._tell(passed)
            raise
        self._tell(passed)
        return self._client.our_state is h11.DONE and self._client.their_state is h11.DONE

    def _tell(self, passed: Passed) -> None:
        self._report(
            {
                **{name: getattr(passed, name) for name in ("host", "port", "method", "path", "address")},
                **{name: getattr(passed, name) for name in ("verdict", "reason", "sent", "received")},
                "milliseconds": int((time.monotonic() - passed.began) * 1000),
            }
        )

    async def _answer(self, refused: Refused) -> None:
        """Say why a request is not passed on, as far as the client can still be told."""
        if self._client.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        body = f"Sentinel Kernel: {refused.message}\n".encode()
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(body))),
            ("X-Sentinel-Refusal", refused.code),
            ("Connection", "close"),
        ]
        reason = b"Refused by Sentinel Kernel" if refused.status == 403 else b"Sentinel Kernel"
        with contextlib.suppress(OSError, h11.LocalProtocolError):
            self._send(h11.Response(status_code=refused.status, headers=headers, reason=reason))
            self._send(h11.Data(data=body))
            self._send(h11.EndOfMessage())
            await self._writer.drain()

    def _send(self, event: h11.Event) -> None:
        data = self._client.send(event)
        if data:
            self._writer.write(data)

    # --- tunnels

    async def _tunnel(self, wanted: Wanted, passed: Passed) -> None:
        rule = self._policy.rule_for_tunnel(wanted.host, wanted.port)
        if (
            rule is None
            and self._policy.names(wanted.host)
            and not self._policy.network.resolves(wanted.host)
        ):
            raise Refused(403, "rule", _no_tunnel(wanted.host, self._policy.tunnel_ports(wanted.host)))
        ends, passed.address = await connect(
            wanted.host, wanted.port, self._policy.reach(rule), encrypted=False
        )
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                while not isinstance(await _next(self._client, self._reader), h11.EndOfMessage):
                    pass
            self._send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
        except BaseException:
            ends[1].close()
            raise
        early, _ = self._client.trailing_data
        await _both_ways((self._reader, self._writer), ends, early, passed)

    # --- requests

    async def _pass_on(self, request: h11.Request, wanted: Wanted, passed: Passed) -> None:
        rule = self._policy.rule_for_request(wanted.method, wanted.host, wanted.port, wanted.path)
        if (
            rule is None
            and self._policy.names(wanted.host)
            and not self._policy.network.resolves(wanted.host)
        ):
            raise Refused(
                403,
                "rule",
                f"No rule passes {wanted.method} {(wanted.path or '')[:200]} on to {wanted.host}.",
            )
        if rule is not None and names_another(request.headers):
            raise Refused(
                403,
                "rule",
                "A header of the request names another method, path or host than its first line; where requests are "
                "passed on by rules, none may.",
            )
        port = rule.port if rule is not None else wanted.port
        headers = await self._headers(request, wanted, rule)
        encrypted = rule is not None and rule.scheme == "https"
        ends, passed.address = await connect(wanted.host, port, self._policy.reach(rule), encrypted=encrypted)
        server = h11.Connection(h11.CLIENT, max_incomplete_event_size=_ANSWER_BYTES)
        sending = None
        try:
            head = server.send(h11.Request(method=request.method, target=wanted.target, headers=headers))
            ends[1].write(head or b"")
            passed.sent += len(head or b"")
            sending = asyncio.create_task(self._send_body(server, ends[1], passed))
            await self._take_answer(server, ends, wanted, passed, encrypted=encrypted)
            if self._client.their_state is not h11.DONE:
                sending.cancel()  # answered before the body was there: nobody waits for the rest
            await asyncio.wait([sending])
        except h11.RemoteProtocolError:
            raise Refused(502, "answer", f"{wanted.host} did not answer as HTTP says.") from None
        except TimeoutError:
            raise Refused(504, "answer", f"{wanted.host} did not answer in time.") from None
        except OSError as error:
            raise Refused(502, "answer", f"{wanted.host} broke off: {error.strerror or 'closed'}.") from None
        finally:
            if sending is not None:
                sending.cancel()
            ends[1].close()

    async def _headers(
        self, request: h11.Request, wanted: Wanted, rule: HttpRule | None
    ) -> list[tuple[bytes, bytes]]:
        """Return what is sent on: the host as it was checked, the secrets, and never a cell's own in their place."""
        port = rule.port if rule is not None else wanted.port
        scheme = rule.scheme if rule is not None else "http"
        host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
        authority = host if port == PORTS[scheme] else f"{host}:{port}"
        secrets = self._policy.secrets_for(wanted.host, port) if rule is not None else []
        added = [await self._secrets.header(secret) for secret in secrets]
        theirs = passed_on(request.headers, but=[b"host", *(name.lower() for name, _ in added)])
        if any(name == b"transfer-encoding" for name, _ in request.headers):
            theirs.append((b"Transfer-Encoding", b"chunked"))
        return [(b"Host", authority.encode("ascii")), *theirs, *added, (b"Connection", b"close")]

    async def _send_body(self, server: h11.Connection, writer: asyncio.StreamWriter, passed: Passed) -> None:
        """Pass the request's body on as it comes."""
        if self._client.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
            await self._writer.drain()
        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                event = await _next(self._client, self._reader)
            if isinstance(event, h11.Data):
                data = server.send(h11.Data(data=event.data))
            elif isinstance(event, h11.EndOfMessage):
                data = server.send(h11.EndOfMessage())
            else:
                return
            if data:
                passed.sent += len(data)
                writer.write(data)
                await writer.drain()
            if isinstance(event, h11.EndOfMessage):
                return

    async def _take_answer(
        self, server: h11.Connection, ends: Ends, wanted: Wanted, passed: Passed, *, encrypted: bool
    ) -> None:
        """Pass the answer back as it comes."""
        while True:
            async with asyncio.timeout(SILENT_SECONDS):
                event = await _next(server, ends[0])
            if isinstance(event, h11.InformationalResponse):
                continue
            if isinstance(event, h11.Response):
                headers = passed_on(event.headers)
                if encrypted:
                    headers = [_as_asked(name, value, wanted.host) for name, value in headers]
                self._send(h11.Response(status_code=event.status_code, headers=headers, reason=event.reason))
            elif isinstance(event, h11.Data):
                passed.received += len(event.data)
                self._send(h11.Data(data=event.data))
                await self._writer.drain()
            elif isinstance(event, h11.EndOfMessage):
                self._send(h11.EndOfMessage())
                await self._writer.drain()
                return
            else:
                raise ConnectionResetError(104, "closed")


def _as_asked(name: bytes, value: bytes, host: str) -> tuple[bytes, bytes]:
    """Return a header of the answer: a redirect to the same host leads through the proxy again."""
    prefix = f"https://{host}/".encode("ascii")
    if name == b"location" and value.lower().startswith(prefix):
        return name, b"http://" + value[len(b"https://") :]
    return name, value


async def _next(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Event | type:
    """Return the next event of one side, reading as much as that takes."""
    while True:
        event = connection.next_event()
        if event is not h11.NEED_DATA:
            return event
        connection.receive_data(await reader.read(BUFFER_BYTES))


async def _both_ways(inner: Ends, outer: Ends, early: bytes, passed: Passed) -> None:
    """Move bytes in both directions until both sides have said all; each may end before the other."""
    moved = asyncio.get_running_loop().time()

    async def move(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        nonlocal moved
        while data := await reader.read(BUFFER_BYTES):
            moved = asyncio.get_running_loop().time()
            setattr(passed, name, getattr(passed, name) + len(data))
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    if early:
        passed.sent += len(early)
        outer[1].write(early)
    tasks = {
        asyncio.create_task(move(inner[0], outer[1], "sent")),
        asyncio.create_task(move(outer[0], inner[1], "received")),
    }
    waiting = set(tasks)
    try:
        while waiting:
            left = moved + TUNNEL_SECONDS - asyncio.get_running_loop().time()
            if left <= 0:
                break
            done, waiting = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is not None for task in done):
                break  # one side is gone altogether
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        outer[1].close()


def _no_tunnel(host: str, ports: Sequence[int]) -> str:
    """Return why no rule opens a tunnel to a host that rules name; ``ports``: those to which some do."""
    if ports:
        return f"Rules open tunnels to {host} on port {', '.join(map(str, ports))} alone."
    return f"{host} may be asked by rules of HTTP alone: ask for http://{host}/... without 's', the proxy encrypts it."
