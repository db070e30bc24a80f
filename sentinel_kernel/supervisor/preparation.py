"""From a start request to what one boot needs: profile and plan, then policy and filter."""

from __future__ import annotations

import contextlib
import os

from sentinel_kernel.errors import ProtocolError, SentinelError
from sentinel_kernel.policy.compiled import compile_policy
from sentinel_kernel.policy.own_limits import parse_limits, raise_ceiling, with_own
from sentinel_kernel.policy.plan import Sizes, largest
from sentinel_kernel.policy.planning import cache_folder, make_plan
from sentinel_kernel.policy.profile import load_profile
from sentinel_kernel.record import Record, replace
from sentinel_kernel.supervisor.backend import VARIABLE
from sentinel_kernel.supervisor.facts import available_memory_bytes, gather_facts
from sentinel_kernel.supervisor.filter import build_filter
from sentinel_kernel.supervisor.hidden_places import hidden_places, saved_files
from sentinel_kernel.supervisor.home_entries import covered_at_start
from sentinel_kernel.supervisor.interpreter import python_paths
from sentinel_kernel.supervisor.meeting_place import base_directory
from sentinel_kernel.supervisor.worker_link import init_argv

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.floor import FixedRule
    from sentinel_kernel.policy.plan import BootPlan, Identity, PythonPaths
    from sentinel_kernel.policy.profile import Network, Profile
    from sentinel_kernel.supervisor.filter import RungRules

_DEFAULT_DISK_BYTES = 1 << 30
_DEFAULT_TMP_BYTES = 512 << 20
_DEFAULT_SHM_BYTES = 256 << 20
# Fresh memory of large arrays and messages in pages of 2 MiB (glibc 2.35; GNU C Library manual, 39.2): a third of what
# receiving 50 MB takes. Init's interpreter alone hears of it: workers take it out of the environment.
_HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
_THREAD_POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class StartRequest(Record):
    """What the host asks for; kept, so that a replacement can be made the same way."""

    profile: str
    profile_directories: tuple[str, ...]
    reachable: tuple[str, ...]
    """The profiles that the sandbox should be able to change to while its worker runs."""
    workspace: str
    python: str
    python_facts: Mapping[str, Any] | None
    argv: tuple[str, ...]
    argv_once: tuple[str, ...]
    """Arguments of the first worker alone; one that replaces it after a death starts without them."""
    environment: Mapping[str, str]
    hidden: tuple[str, ...]
    kernel: str
    """Stays the same when the server restarts this kernel: its connection file."""
    magics: tuple[str, ...]
    audit: Mapping[str, str]
    """What the host says of the audit beside the environment (audit/place.py)."""
    payload: tuple[str, ...]
    """Runs in place of init; used by doctor and the tests."""
    fault: tuple[str, int] | None
    limits: tuple[tuple[str, float | None], ...] = ()
    """Limits of the person's own (policy/own_limits.py), which go before the profile's."""
    granted_limits: tuple[str, ...] = ()
    """Those of them that the person was asked about, because they go beyond the ceiling."""
    limit_ceiling: tuple[str, ...] = ()
    """The profiles whose limits bound those."""
    limits_backend: str = ""
    """Which one has to enforce the limits (supervisor/backend.py); empty: the best that is to be had."""
    cached: bool = True
    """Whether the user's caches (filters, what interpreters said of themselves) are used."""
    hosts: tuple[str, ...] = ()
    """Rules of hosts (policy/network.py) that the person has allowed for the session: the sandbox has a way out."""
    words: tuple[str, ...] = ()
    """Files that the host takes its words from, now or later: they need not be there."""


class Preparation(Record):
    """Everything one boot needs."""

    profile: Profile
    plan: BootPlan
    reachable: tuple[Profile, ...]
    """Those that can be read; what else stands in a sandbox's way is told when it is asked to change."""
    ceiling: Sizes
    """How far a limit of the person's own may go."""
    module_directories: tuple[str, ...] = ()
    """Where the environment's packages are, on the host."""
    hidden: tuple[str, ...] = ()
    """What is covered wherever a folder of the user would show it (policy/planning.py, hidden_paths)."""
    hosts: tuple[str, ...] = ()
    """The request's."""
    of_rung: RungRules | None = None
    """What a lesser rung than the full one refuses and holds."""

    @property
    def refused(self) -> tuple[FixedRule, ...]:
        """What the rung refuses, whatever a profile says."""
        return self.of_rung.refused if self.of_rung is not None else ()


def parse_start(message: Mapping[str, Any]) -> StartRequest:
    """Return the request of a ``start`` message.

    Raises:
        ProtocolError: a field is missing or has the wrong type.

    """
    try:
        fault = message.get("fault")
        return StartRequest(
            profile=str(message["profile"]),
            profile_directories=tuple(map(str, message.get("profile_directories", ()))),
            reachable=tuple(map(str, message.get("reachable", ()))),
            workspace=os.path.realpath(message["workspace"]),
            python=str(message["python"]),
            python_facts=message.get("python_facts"),
            argv=tuple(map(str, message.get("argv", ()))),
            argv_once=tuple(map(str, message.get("argv_once", ()))),
            environment={str(name): str(value) for name, value in message.get("environment", {}).items()},
            hidden=tuple(map(str, message.get("hidden", ()))),
            kernel=str(message.get("kernel", "")),
            magics=tuple(map(str, message.get("magics", ()))),
            audit={str(name): str(value) for name, value in (message.get("audit") or {}).items()},
            payload=tuple(map(str, message.get("payload", ()))),
            fault=(str(fault["step"]), int(fault["errno"])) if fault else None,
            cached=message.get("cached", True) is not False,
            limits=parse_limits(message.get("limits", {})),
            limits_backend=str(message.get("limits_backend") or os.environ.get(VARIABLE, "")),
            granted_limits=tuple(map(str, message.get("granted_limits", ()))),
            limit_ceiling=tuple(map(str, message.get("limit_ceiling", ()))),
            hosts=_hosts(message.get("hosts", ())),
            words=tuple(map(str, message.get("words", ()))),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"The start request is incomplete: {error!r}."
        raise ProtocolError(what) from None


def _hosts(texts: Sequence[Any]) -> tuple[str, ...]:
    """Return rules as they are kept. Raises ValueError for one that is none."""
    if not texts:
        return ()
    from sentinel_kernel.policy.network import parse_rule  # noqa: PLC0415 - few sandboxes have a way out

    return tuple(parse_rule(str(text)).text for text in texts)


def prepare(
    request: StartRequest, identity: Identity, package_directory: str, absent_inside: str
) -> Preparation:
    """Load the profile and plan the boot.

    Raises:
        ProfileError: the profile can't be used.
        UnsupportedHost: this machine lacks something.
        BootError: the interpreter can't be found.

    """
    profile = load_profile(request.profile, request.profile_directories)
    reachable = _readable(request.reachable, request.profile_directories, but=request.profile)
    processors = sorted(os.sched_getaffinity(0))
    profiles_sizes = resolve_sizes(profile, len(processors))
    ceiling = largest(
        [
            resolve_sizes(bound, len(processors))
            for bound in _readable(request.limit_ceiling, request.profile_directories) or (profile,)
        ]
    )
    ceiling = raise_ceiling(ceiling, request.limits, request.granted_limits)
    sizes = with_own(profiles_sizes, request.limits, ceiling)
    cpu_count = sizes.cpu_count
    cpus = chosen_processors(cpu_count, processors)
    home = os.path.realpath(os.environ.get("HOME") or "/")
    writable = [
        os.path.realpath(mount.path.replace("~", home, 1) if mount.path.startswith("~/") else mount.path)
        for mount in profile.filesystem.mounts
        if mount.mode == "rw"
    ]
    python = python_paths(
        request.python, request.python_facts, interpreter_cache() if request.cached else "", writable
    )
    # Ours too: what was saved from other sandboxes, the filters that the next one will trust, the doors of spares.
    ours = (saved_files(request.workspace), cache_directory(), interpreter_cache(), base_directory())
    hidden, named = hidden_places(request, home, (*profile.filesystem.hidden, *request.hidden, *ours))
    facts = gather_facts(request.workspace, python, package_directory, identity, hidden)
    if profile.filesystem.rootfs:
        from sentinel_kernel.supervisor.root_tree import read_root_tree  # noqa: PLC0415 - few profiles name one

        facts = replace(facts, image=read_root_tree(profile.filesystem.rootfs, home, python))
    wheels = wheel_folder() if request.cached and os.path.isdir(wheel_folder()) else ""
    network = profile.network
    if request.hosts and network.allow:
        network = replace(network, hosts=(*network.hosts, *request.hosts))
    variables, sockets = _way_out(network, wheels)
    environment = {
        "PATH": f"{os.path.dirname(python.executable)}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **_HUGE_PAGES,
        **({name: str(cpu_count) for name in _THREAD_POOLS} if cpus else {}),
        **variables,
        **request.environment,
    }
    if python.prefix != python.base_prefix:
        environment["VIRTUAL_ENV"] = python.prefix
    elif os.path.isdir(os.path.join(python.prefix, "conda-meta")):
        environment["CONDA_PREFIX"] = python.prefix
    data = [
        *_data_folders(profile, request.workspace, home, named, python),
        *([(os.path.realpath(wheels), "ro")] if wheels else []),
    ]
    kept = (
        request.workspace,
        *(path for path, _ in data),
        *(python.prefix, python.base_prefix, os.path.dirname(python.executable), *python.module_directories),
        *(package_directory, os.path.dirname(absent_inside)),
    )
    in_homes, homes_unseen = covered_at_start(request.workspace, [path for path, _ in data], kept)
    plan = make_plan(
        workspace=request.workspace,
        facts=facts,
        sizes=sizes,
        most=largest(
            [profiles_sizes, ceiling, *(resolve_sizes(other, len(processors)) for other in reachable)]
        ),
        hidden=hidden,
        in_homes=in_homes,
        homes_unseen=homes_unseen,
        data_mounts=data,
        overlay_writes=profile.filesystem.allow_write_overlay,
        environment=environment,
        argv=request.payload or init_argv(python.executable),
        absent_inside=absent_inside,
        cpus=cpus,
        sockets=sockets,
    )
    needed = network.leads_out
    if needed or request.hosts or any(one.network.leads_out for one in reachable):
        from sentinel_kernel.supervisor.network.fence import with_way_out  # noqa: PLC0415 - most have no way out

        plan = with_way_out(plan, profile.name, needed=needed)
        from sentinel_kernel.supervisor.certificates import with_certificates  # noqa: PLC0415 - as above

        plan = with_certificates(plan, os.environ)
    return Preparation(
        profile, plan, reachable, ceiling, python.module_directories, tuple(hidden), request.hosts
    )


def _way_out(network: Network, wheels: str) -> tuple[dict[str, str], tuple[tuple[str, str, str, int], ...]]:
    """Return the variables and the sockets inside that go with a way out, or with packages that are there already."""
    if not (network.leads_out or network.index or wheels):
        return {}, ()
    from sentinel_kernel.policy.installing import (  # noqa: PLC0415 - most sandboxes have no way out
        way_out_sockets,
        way_out_variables,
    )

    return way_out_variables(network, os.path.realpath(wheels) if wheels else ""), way_out_sockets(network)


def _data_folders(
    profile: Profile, workspace: str, home: str, hidden: list[str], python: PythonPaths
) -> list[tuple[str, str]]:
    """Return (path, mode) of the folders that the profile shows. Raises BootError for one that can't be."""
    if not profile.filesystem.mounts:
        return []
    from sentinel_kernel.supervisor.data_folders import data_folders  # noqa: PLC0415 - few profiles name any

    real = [os.path.realpath(path) for path in hidden]
    return data_folders(profile, workspace, home, (*hidden, *real), python)


def resolve_sizes(profile: Profile, processors: int) -> Sizes:
    """Return the limits of ``profile`` on this machine, of which the sandbox may use ``processors``."""
    resolved = profile.resources.resolve(available_memory_bytes(), processors)
    return Sizes(
        memory_bytes=resolved.memory_bytes,
        cpu_count=resolved.cpu_count,
        pids=resolved.pids,
        disk_bytes=resolved.disk_bytes or _DEFAULT_DISK_BYTES,
        tmp_bytes=resolved.tmp_bytes or _DEFAULT_TMP_BYTES,
        shm_bytes=resolved.shm_bytes or _DEFAULT_SHM_BYTES,
        open_files=resolved.open_files,
        file_size_bytes=resolved.file_size_bytes,
        io_read_bytes=resolved.io_read_bytes,
        io_write_bytes=resolved.io_write_bytes,
        cpu_quota=resolved.cpu_quota,
        output_bytes=resolved.output_bytes,
        wall_seconds=resolved.wall_seconds,
        cpu_seconds=resolved.cpu_seconds,
        grace_seconds=resolved.grace_seconds,
    )


def chosen_processors(cpu_count: int | None, processors: list[int]) -> list[int]:
    """Return which of the ``processors`` to use; none where all are.

    Several kernels with one processor each should not all sit on the first one.
    """
    if cpu_count is None or cpu_count >= len(processors):
        return []
    first = os.getpid() % len(processors)
    return [processors[(first + index) % len(processors)] for index in range(cpu_count)]


def _readable(names: tuple[str, ...], directories: tuple[str, ...], *, but: str = "") -> tuple[Profile, ...]:
    found = []
    for name in dict.fromkeys(names):
        if name != but:
            with contextlib.suppress(SentinelError, OSError):
                found.append(load_profile(name, directories))
    return tuple(found)


def compile_filter(preparation: Preparation, *, cached: bool = True) -> tuple[CompiledPolicy, bytes]:
    """Compile the profile's policy and the filter; done while the sandbox's child is busy mounting.

    The filter holds what the reachable profiles decide otherwise.

    Raises:
        ProfileError: the rules can't be told apart by a filter.
        UnsupportedHost: libseccomp or a system call table is missing.

    """
    of_rung = preparation.of_rung
    policy = compile_policy(preparation.profile, os.uname().machine, preparation.refused)
    directory, plan = cache_directory() if cached else None, preparation.plan
    program = build_filter(
        policy,
        directory,
        preparation.reachable,
        fenced=plan.fenced,
        of_rung=of_rung,
        threads=plan.counts_threads,
    )
    return policy, program


def cache_directory() -> str:
    """Return the folder for compiled filters (XDG base directory specification)."""
    return _cache("filters")


def interpreter_cache() -> str:
    """Return the folder for what other interpreters said of themselves."""
    return _cache("interpreters")


def wheel_folder() -> str:
    """Return the folder of wheels that `sentinel-kernel wheels` fills and every sandbox reads."""
    return _cache("wheels")


def _cache(name: str) -> str:
    return cache_folder(os.environ, name)
