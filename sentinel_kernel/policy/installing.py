"""What programs inside are told of their way out: the index of packages, folders of wheels, the proxy; pure."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from sentinel_kernel.policy.profile import Network

PROXY_ADDRESS: Final = "127.0.0.1"
PROXY_PORT: Final = 3128
"""Where the proxy is reached inside; it is no other port of a server of the cell's own by default."""

_TRIES: Final = {"PIP_RETRIES": "1", "UV_HTTP_RETRIES": "1"}
"""Five, as is usual, would make whoever asks for a host that is not allowed wait eight seconds."""

_USUAL: Final = {
    "UV_LINK_MODE": "copy",  # its cache and the environment are on different layers
    "UV_PYTHON_DOWNLOADS": "never",
}
_DIRECT: Final = "localhost,127.0.0.1,::1"


def way_out_variables(network: Network, wheels: str = "") -> dict[str, str]:
    """Return the environment variables for a profile's ``network``; ``wheels`` is a folder of wheels, or empty."""
    variables = dict(_USUAL)
    if network.leads_out:
        variables |= _TRIES
    if network.index:
        variables |= {"PIP_INDEX_URL": network.index, "UV_DEFAULT_INDEX": network.index}
        scheme, _, rest = network.index.partition("://")
        host = rest.partition("/")[0]
        if scheme == "http":  # the profile's author says so; both refuse it otherwise
            variables |= {"PIP_TRUSTED_HOST": host, "UV_INSECURE_HOST": host}
    if wheels:
        variables |= {"PIP_FIND_LINKS": wheels, "UV_FIND_LINKS": wheels}
    if network.allow and network.http:
        proxy = f"http://{PROXY_ADDRESS}:{PROXY_PORT}"
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            variables[name] = proxy
        variables |= {"no_proxy": _DIRECT, "NO_PROXY": _DIRECT}
    return variables


def way_out_sockets(network: Network) -> tuple[tuple[str, str, str, int], ...]:
    """Return what boot has to bind inside for ``network`` (policy/plan.py)."""
    return (("proxy", "tcp", PROXY_ADDRESS, PROXY_PORT),) if network.allow and network.http else ()
