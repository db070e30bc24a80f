"""Connections to the outside: a name is resolved once, each address judged, and that very address connected to."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl

from sentinel_kernel.linux.network import local_among
from sentinel_kernel.policy.network import LOOPBACK, kind_of, parse_address, show_address
from sentinel_kernel.proxy.names import Names, TooMany
from sentinel_kernel.proxy.wanted import Refused
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.network import NetworkPolicy

_RESOLVE_SECONDS = 10.0
_CONNECT_SECONDS = 15.0
BUFFER_BYTES = 65536

_names = Names()

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(host: str, port: int, policy: NetworkPolicy, *, encrypted: bool) -> tuple[Ends, str]:
    """Return the ends of a connection to ``host``, and the address that it leads to.

    Raises:
        Refused: the policy allows none of its addresses, or none answers.

    """
    context = ssl.create_default_context() if encrypted else None
    failure = "no address"
    for address in await _allowed(host, port, policy):
        family = socket.AF_INET if len(address) == 4 else socket.AF_INET6
        shown = socket.inet_ntop(family, address)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                ends = await asyncio.open_connection(
                    shown,
                    port,
                    ssl=context,
                    server_hostname=host if encrypted else None,
                    limit=BUFFER_BYTES,
                )
        except ssl.SSLError as error:
            failure = f"it can't be trusted ({error.reason or 'TLS'})"
        except TimeoutError:
            failure = "it does not answer"
        except OSError as error:
            failure = error.strerror or errno.errorcode.get(error.errno or 0, "no connection")
        else:
            return ends, shown
    raise Refused(502, "unreachable", f"{host}:{port} can't be reached: {failure}.")


async def _allowed(host: str, port: int, policy: NetworkPolicy) -> list[bytes]:
    """Return the addresses of ``host`` that may be reached.

    Raises:
        Refused: there is none.

    """
    literal = parse_address(host)
    if literal is None and not policy.resolves(host):
        # Not even looked up: a name can carry what a cell wants to tell its owner's name server.
        raise Refused(403, "not-listed", _why(host, port, "not-listed"))
    addresses = [literal] if literal is not None else await _resolve(host)
    name = "" if literal is not None else host
    # Asked anew each time: this process lives long, and the machine may have got other addresses since it began.
    others = [one for one in addresses if kind_of(one) != LOOPBACK]
    policy = replace(policy, own=policy.own | local_among(others))
    decisions = [policy.decide(name, address, port) for address in addresses]
    allowed = [address for address, one in zip(addresses, decisions, strict=True) if one.allowed]
    if not allowed:
        reason = decisions[0].reason
        raise Refused(403, reason, _why(host, port, reason), show_address(addresses[0]))
    return allowed


def _why(host: str, port: int, reason: str) -> str:
    if reason in ("not-listed", "no-network", "port"):
        return f"{host}:{port} is not among the hosts that this sandbox may reach."
    return f"{host} leads to an address that is not public ({reason}), and no rule lists it."


async def _resolve(host: str) -> list[bytes]:
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await _names.look_up(host)
    except TooMany:
        raise Refused(503, "name", f"Too many names were asked for: {host} is not looked up now.") from None
    except TimeoutError:
        raise Refused(504, "name", f"The name {host} could not be looked up in time.") from None
    except (OSError, UnicodeError):
        raise Refused(502, "name", f"The name {host} could not be looked up.") from None
    if not found:
        raise Refused(502, "name", f"The name {host} is not known.")
    return found
