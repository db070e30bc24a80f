"""An AI assistant's client: the official one, kept open beside a test, with a person who answers as told."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from anyio.from_thread import BlockingPortal

CLIENT = types.Implementation(name="tester", version="7.1")
LEGACY, MODERN = "legacy", "2026-07-28"
"""The two ways of the protocol: a handshake and requests both ways, or a request with everything in it."""


class Person:
    """Who sits behind the client: what was asked, and the answer (None: the question is dismissed)."""

    def __init__(self) -> None:
        self.answer: str | None = None
        self.silent = False
        """Whether no answer comes at all."""

        self.asked: list[str] = []
        self.choices: list[list[str]] = []

    async def elicited(self, _context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        """Answer one question."""
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params.message)
        if self.silent:
            await anyio.sleep_forever()
        self.choices.append(params.requested_schema["properties"]["answer"]["enum"])
        if self.answer is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": self.answer})


class Assistant:
    """A client with an open connection."""

    def __init__(self, portal: BlockingPortal, client: Client, person: Person) -> None:
        self.portal = portal
        self.client = client
        self.person = person

    def call(self, tool: str, **arguments: Any) -> types.CallToolResult:
        """Call a tool and wait for its result."""
        return self.portal.call(self._call, tool, arguments)

    async def _call(
        self,
        tool: str,
        arguments: dict[str, Any],
        progress: Callable[[float, float | None, str | None], Awaitable[None]] | None = None,
    ) -> types.CallToolResult:
        return await self.client.call_tool(tool, arguments, progress_callback=progress)

    def data(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured content."""
        result = self.call(tool, **arguments)
        assert isinstance(result.structured_content, dict), result.content
        return result.structured_content

    def cell(self, code: str, **arguments: Any) -> dict[str, Any]:
        """Run a cell and return its structured content."""
        return self.data("run_cell", code=code, **arguments)

    def fault(self, tool: str, **arguments: Any) -> str:
        """Call a tool that has to fail; return the words for the model."""
        result = self.call(tool, **arguments)
        assert result.is_error
        assert result.structured_content is None
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        return block.text

    def follow(self, tool: str, **arguments: Any) -> tuple[types.CallToolResult, list[tuple[Any, ...]]]:
        """Call a tool; return its result and the progress that was told."""
        told: list[tuple[Any, ...]] = []

        async def progress(*step: Any) -> None:
            told.append(step)

        return self.portal.call(self._call, tool, arguments, progress), told


def server(*arguments: str, **environment: str) -> StdioServerParameters:
    """Return how the server is started."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "sentinel_kernel.cli", "mcp", *arguments],
        env={**os.environ, "SENTINEL_LANG": "en", **environment},
    )


@contextlib.contextmanager
def assistant(
    workspace: Path,
    *arguments: str,
    mode: str = LEGACY,
    asks: bool = True,
    log: Path | None = None,
    **environment: str,
) -> Iterator[Assistant]:
    """Connect an assistant to a server of its own; ``asks`` False: its program can't ask a person."""
    person = Person()
    parameters = server("--workspace", str(workspace), *arguments, **environment)
    with (log or workspace.parent / "server.log").open("w") as file, start_blocking_portal() as portal:
        client = Client(
            stdio_client(parameters, errlog=file),
            client_info=CLIENT,
            elicitation_callback=person.elicited if asks else None,
            mode=mode,  # type: ignore[arg-type]
        )
        with portal.wrap_async_context_manager(client):
            yield Assistant(portal, client, person)


def texts(result: types.CallToolResult) -> Sequence[str]:
    """Return the texts of a result."""
    return [block.text for block in result.content if isinstance(block, types.TextContent)]
