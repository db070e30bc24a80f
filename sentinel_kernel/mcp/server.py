"""The MCP server on standard input and output: hands each call to its tool, and ends every kernel at its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from sentinel_kernel import __version__
from sentinel_kernel.errors import SentinelError
from sentinel_kernel.kernel.setting_values import Chosen
from sentinel_kernel.kernel.settings import language
from sentinel_kernel.mcp.argument_check import by_one_name, check_arguments
from sentinel_kernel.mcp.asking import Job, Jobs
from sentinel_kernel.mcp.code_check import CodeCheck
from sentinel_kernel.mcp.kernel_pool import KernelPool
from sentinel_kernel.mcp.lookup_tools import LookupTools
from sentinel_kernel.mcp.plain_text import cleaned
from sentinel_kernel.mcp.profile_tools import ProfileTools
from sentinel_kernel.mcp.recent import Recent
from sentinel_kernel.mcp.repair_tools import RepairTools
from sentinel_kernel.mcp.running_tools import Answer, RunningTools
from sentinel_kernel.mcp.tool_list import INSTRUCTIONS, TOOLS
from sentinel_kernel.mcp.tool_schemas import ALIASES, VIOLATION_SCHEMA_URI
from sentinel_kernel.policy import violation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.server.context import ServerRequestContext

    from sentinel_kernel.mcp.kernel_pool import PoolOptions

    Context = ServerRequestContext[Any, Any]
    Tool = Callable[[Job, dict[str, Any]], Awaitable[Answer]]

_NAME_CHARACTERS = 100


class McpServer:
    """Serves one client."""

    def __init__(self, options: PoolOptions) -> None:
        self.pool = KernelPool(options)
        environment = dict(os.environ)
        self._ask_seconds = Chosen((), environment).ask_seconds()
        speech = language(environment)
        check = CodeCheck(options.workspace, environment, speech)
        recent = Recent()
        lookup = LookupTools(self.pool, recent, environment)
        profiles = ProfileTools(options, environment)
        repair = RepairTools(self.pool, profiles, check, recent, speech)
        running = RunningTools(self.pool, check, recent, speech)
        self._tools: dict[str, Tool] = {
            "run_cell": running.run_cell,
            "run_notebook": running.run_notebook,
            "restart_kernel": running.restart_kernel,
            "close_kernel": running.close_kernel,
            "recent_violations": lookup.recent_violations,
            "resource_usage": lookup.resource_usage,
            "translate_error": repair.translate_error,
            "suggest_repair": repair.suggest_repair,
            "scan": repair.scan,
            "list_profiles": profiles.list_profiles,
            "explain_profile": profiles.explain_profile,
        }
        self._schemas = {tool.name: tool.input_schema for tool in TOOLS}
        self._jobs = Jobs()
        self._working: set[Job] = set()

    def server(self) -> Server[Any]:
        """Return the protocol's side."""
        return Server(
            "sentinel-kernel",
            version=__version__,
            title="Sentinel Kernel",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def _list_resources(self, _context: Context, _params: object) -> types.ListResourcesResult:
        resource = types.Resource(
            uri=VIOLATION_SCHEMA_URI,
            name="violation-schema",
            title="JSON Schema of a violation",
            mime_type="application/schema+json",
        )
        return types.ListResourcesResult(resources=[resource])

    async def _read_resource(
        self, _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if str(params.uri) != VIOLATION_SCHEMA_URI:
            raise MCPError(code=types.INVALID_PARAMS, message="There is no such resource.")
        path = os.path.join(os.path.dirname(violation.__file__), "violation.schema.json")
        with open(path, encoding="utf-8") as file:  # noqa: ASYNC230 - some kB of this package's own
            text = file.read()
        contents = types.TextResourceContents(
            uri=VIOLATION_SCHEMA_URI, mime_type="application/schema+json", text=text
        )
        return types.ReadResourceResult(contents=[contents])

    # --- calls

    async def _call_tool(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise MCPError(
                code=types.INVALID_PARAMS, message=f"There is no tool {params.name[:60]!r}. Known: {known}."
            )
        try:
            job = self._job(context, params, tool)
        except SentinelError as error:
            return _failed(error)
        try:
            result = await job.go_on()
        except asyncio.CancelledError:
            job.cancel()
            raise
        if isinstance(result, types.InputRequiredResult):
            result.request_state = self._jobs.leave(job)
        return result

    def _job(self, context: Context, params: types.CallToolRequestParams, tool: Tool) -> Job:
        """Return the work that the call is about: one that its client comes back to, or a new one."""
        if params.request_state is not None:
            job = self._jobs.take(params.request_state, params.name)
            job.answered(context, params.input_responses)
            return job
        arguments = params.arguments or {}
        check_arguments(self._schemas[params.name], arguments)
        arguments = by_one_name(arguments, ALIASES.get(params.name, {}))
        self.pool.client_name = self.pool.client_name or _client_name(context)
        job = Job(params.name, context, self._ask_seconds, lambda job: self._work(tool, job, arguments))
        self.pool.asks = job.can_ask
        self._working.add(job)
        job.when_done(lambda: self._working.discard(job))
        return job

    async def _work(self, tool: Tool, job: Job, arguments: dict[str, Any]) -> types.CallToolResult:
        try:
            answer = await tool(job, arguments)
        except SentinelError as error:
            return _failed(error)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - what was given to a tool may end no more than this call
            return _failed(SentinelError(f"{job.tool} failed on what it was given: {type(error).__name__}."))
        # A client that knows no structured content reads the same as text; JSON keeps its fields apart.
        content: list[types.ContentBlock] = [
            types.TextContent(type="text", text=json.dumps(answer.content, ensure_ascii=False))
        ]
        content += [
            types.ImageContent(type="image", data=image.data, mime_type=image.mime_type)
            for image in answer.images
        ]
        return types.CallToolResult(
            content=content, structured_content=answer.content, is_error=answer.is_error
        )

    async def close(self) -> None:
        """End everything."""
        for job in list(self._working):
            job.cancel()
        await self.pool.close()


def _failed(error: SentinelError) -> types.CallToolResult:
    """Return a tool's failure: an error of the tool, so that the model reads it and does better."""
    text = error.message + (f" HINT: {error.remedy}" if error.remedy else "")
    return types.CallToolResult(content=[types.TextContent(type="text", text=cleaned(text))], is_error=True)


def _client_name(context: Context) -> str:
    """Return what the client calls itself, for the audit."""
    params = context.session.client_params
    if params is None:
        return "client"
    name = f"{params.client_info.name} {params.client_info.version}".strip()
    return cleaned(name)[:_NAME_CHARACTERS]


def serve(options: PoolOptions) -> int:
    """Serve until the client closes the connection, or a signal ends the server; return the exit status."""
    return asyncio.run(_serve(options))


async def _serve(options: PoolOptions) -> int:
    server = McpServer(options)
    server.pool.check()
    loop = asyncio.get_running_loop()
    ending: set[asyncio.Task[None]] = set()

    async def end(number: int) -> None:
        with contextlib.suppress(Exception):
            await server.close()
        # The thread that reads standard input can't be called back: the process ends as the signal means it to.
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def ended(number: int) -> None:
        if not ending:
            ending.add(loop.create_task(end(number)))

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended, number)
    try:
        async with stdio_server() as (reading, writing):
            protocol = server.server()
            await protocol.run(reading, writing, protocol.create_initialization_options())
    except* BrokenPipeError:
        pass  # the client has gone without reading the last answer
    finally:
        await server.close()
    return 0
