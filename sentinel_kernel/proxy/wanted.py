"""What a request to the proxy asks for: read strictly, so that what is checked is what is sent; pure."""

from __future__ import annotations

from sentinel_kernel.policy.http_rules import plain_host
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Headers = list[tuple[bytes, bytes]]

_HOP = frozenset(
    {
        *(
            b"connection",
            b"keep-alive",
            b"proxy-connection",
            b"proxy-authorization",
            b"proxy-authenticate",
            b"te",
        ),
        *(b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    }
)
"""What is between two neighbours, and is not passed on (RFC 9110, 7.6.1); framing is made anew by h11."""

_OTHER_REQUEST = frozenset(
    {
        *(b"x-http-method-override", b"x-http-method", b"x-method-override"),
        *(b"x-original-url", b"x-original-uri", b"x-rewrite-url", b"x-forwarded-uri", b"x-original-method"),
        *(b"x-forwarded-host", b"x-original-host", b"x-host", b"x-forwarded-server", b"forwarded"),
        *(b"x-forwarded-prefix", b"x-forwarded-method", b"x-forwarded-path", b"x-accel-redirect"),
        *(b"x-original-path", b"x-envoy-original-path", b"x-envoy-original-method", b"x-envoy-original-host"),
        *(
            b"script-name",
            b"x-script-name",
            b"path-info",
            b"request-uri",
            b"x-request-uri",
            b"request-method",
        ),
        *(b"http-host", b"server-name"),
    }
)
"""Headers by which servers take a request for another method, path or host than the rules were held against."""

HEAD_BYTES = 32 * 1024
_MOST_HEADERS = 128
_HEXADECIMAL = frozenset(b"0123456789abcdefABCDEF")
_NEVER = frozenset({"TRACE", "TRACK"})


class Refused(Exception):
    """A request is not passed on; ``code`` is the reason as data, the message is for the person.

    ``address`` is where the host's name leads, if it was that which was refused.
    """

    def __init__(self, status: int, code: str, message: str, address: str = "") -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.address = status, code, message, address


class Wanted(Record):
    """One request, or one tunnel (``method`` CONNECT)."""

    method: str
    host: str
    """A name in small letters, or an address as it is usually written."""
    port: int
    path: str | None
    """Decoded, without the query: what rules are held against. None where servers could read it in different ways."""
    target: bytes
    """Path and query, as they are sent on."""


def read_request(method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Wanted:
    """Return what the request asks for; ``headers`` have names in small letters.

    Raises:
        Refused: it is none for a proxy, or can be read in two ways.

    """
    headers = list(headers)
    if len(headers) > _MOST_HEADERS:
        raise Refused(431, "headers", f"The request has more than {_MOST_HEADERS} headers.")
    # h11 counts what it still waits for: a head that came at once is whole before that.
    if len(target) + sum(len(header) + len(value) for header, value in headers) > HEAD_BYTES:
        raise Refused(431, "headers", f"The request's head is longer than {HEAD_BYTES >> 10} KiB.")
    name = method.decode("ascii")
    if name in _NEVER or name != name.upper():
        raise Refused(405, "method", f"{name[:20]} is not passed on.")
    names = [header for header, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        # Two lengths: who takes the other one sees another request (RFC 9112, 6.3 and 11.2).
        raise Refused(400, "framing", "The request has a Content-Length and a Transfer-Encoding.")
    if name == "CONNECT":
        host, port = _authority(target, 0)
        _same_host(headers, host, port)
        return Wanted(name, host, port, None, b"")
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() not in (b"http", b"https"):
        raise Refused(400, "target", "A proxy is asked for http://HOST/PATH.")
    if scheme.lower() == b"https":
        raise Refused(
            400, "target", "Ask for http://HOST/PATH: the proxy encrypts it, where the rule says so."
        )
    authority, slash, path = rest.partition(b"/")
    if b"?" in authority:
        authority, _, query = rest.partition(b"?")
        slash, path = b"/", b"?" + query
    host, port = _authority(authority, 80)
    _same_host(headers, host, port)
    sent = (slash + path) or b"/"
    return Wanted(name, host, port, _path(sent.partition(b"?")[0]), sent)


def names_another(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a header, by its name in small letters, has servers see another request than its first line."""
    return not _OTHER_REQUEST.isdisjoint(name.replace(b"_", b"-") for name, _ in headers)


def _same_host(headers: Iterable[tuple[bytes, bytes]], host: str, port: int) -> None:
    """Check that the header says the same as the target: servers may heed either. It may leave the port out."""
    for name, value in headers:
        if name == b"host" and _authority(value, port) != (host, port):
            raise Refused(400, "host", "The header Host names another host than the request.")


def _authority(text: bytes, usual_port: int) -> tuple[str, int]:
    """Return host and port.

    Raises:
        Refused: it is none, or has a user's name in it.

    """
    if not text.isascii():
        raise Refused(400, "host", "The request's host is not ASCII.")
    host, colon, digits = text.decode("ascii").rpartition(":")
    if not colon or digits.endswith("]"):
        host, digits = text.decode("ascii"), ""
    port = int(digits) if digits.isdigit() and len(digits) <= 5 else 0
    bracketed = host.startswith("[") and host.endswith("]")
    name = plain_host(host) if bracketed or ":" not in host else ""
    port = port or (usual_port if not digits else 0)
    if not name or not 0 < port < 65536:
        raise Refused(400, "host", "The request names no host, or in a form that can be read in two ways.")
    return name, port


def _path(raw: bytes) -> str | None:
    """Return the decoded path that rules are held against.

    None where servers read it in different ways: dots, slashes that are encoded or double, what is no UTF-8.
    """
    decoded = bytearray()
    at = 0
    while at < len(raw):
        byte = raw[at]
        if byte == ord("%"):
            pair = raw[at + 1 : at + 3]
            if len(pair) < 2 or not _HEXADECIMAL.issuperset(pair):
                return None
            byte = int(pair, 16)
            at += 2
            if byte in b"/\\%":
                return None
        decoded.append(byte)
        at += 1
    try:
        path = decoded.decode()
    except UnicodeDecodeError:
        return None
    parts = path.split("/")[1:]
    if not path.isprintable() or any(character in path for character in "\\;#?"):
        return None
    return None if "." in parts or ".." in parts or "" in parts[:-1] else path


def passed_on(headers: Iterable[tuple[bytes, bytes]], *, but: Iterable[bytes] = ()) -> Headers:
    """Return the headers of a request or response that go on, without those named in ``but`` (small letters)."""
    headers = list(headers)
    left_out = set(_HOP) | set(but)
    for name, value in headers:
        if name == b"connection":
            left_out |= {token.strip().lower() for token in value.split(b",")}
    # A message's length is no neighbour's business: Connection can't take it away, or the framing would be another.
    left_out -= {b"content-length", b"host"} - set(but)
    # Servers that hand headers on as variables (CGI, WSGI) read ``-`` and ``_`` as one: so a cell's own header could
    # stand for a secret's, or for the length.
    again = left_out | {b"content-length", b"host"}
    return [
        (name, value)
        for name, value in headers
        if name not in left_out and (b"_" not in name or name.replace(b"_", b"-") not in again)
    ]
