"""Finds what truly helps against a violation, least privilege first; each is checked to change the outcome."""

from __future__ import annotations

import ast
import re

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.abi.socket import FAMILIES
from sentinel_kernel.policy.action import ActionKind
from sentinel_kernel.policy.cell_source import CellSource
from sentinel_kernel.policy.compare import compiled, lets_through
from sentinel_kernel.policy.destinations import CLIENT as LEADS_ANYWHERE
from sentinel_kernel.policy.destinations import INSIDE as LEADS_INSIDE
from sentinel_kernel.policy.destinations import OUTSIDE as LEADS_OUTSIDE
from sentinel_kernel.policy.destinations import destination_of, is_client
from sentinel_kernel.policy.endless import endless_loop
from sentinel_kernel.policy.host_commands import host_commands, installs_instead, is_secret
from sentinel_kernel.policy.host_remedy import allowing, allowing_afresh, allowing_elsewhere
from sentinel_kernel.policy.limit_remedy import TYPED, limit_of, raised_limit
from sentinel_kernel.policy.repair import code_changes
from sentinel_kernel.policy.resource import NETWORK, OUTSIDE_NETWORK
from sentinel_kernel.policy.showing_remedy import showing_remedies
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.policy.switch_order import CARRY, in_place_first, switch_line
from sentinel_kernel.policy.typed_hosts import with_typed_host
from sentinel_kernel.policy.violation import Remedy, Text
from sentinel_kernel.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.compiled import CompiledPolicy
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.profile import Profile
    from sentinel_kernel.policy.violation import Violation

_SOCK_STREAM = 1
_SOCK_TYPE = 0x0F
_NEEDS_RIGHTS = (3, 10)
"""SOCK_RAW and SOCK_PACKET: whatever a profile says, the Linux kernel wants a right that nobody inside has."""

_NOWHERE = (OUTSIDE_NETWORK, NAME_LOOKUP)
"""What no profile gives: the words of these say so themselves."""

_FRESH = Text(
    "It takes a fresh sandbox; variables that can be pickled come along.",
    "这需要新的沙箱；可序列化的变量会一并带入。",
)
_LOOPBACK = Text(
    "The profile opens the sandbox's own loopback (127.0.0.1): only servers that were started inside the sandbox "
    "answer there, nothing of this machine outside it.",
    "该配置会打开沙箱自身的回环接口（127.0.0.1）：那里只有在沙箱内启动的服务会应答，无法访问本机在沙箱外的服务。",
)
_SWITCH = Text("The profile allows it, and the variables stay.", "该配置允许此操作，变量会保留。")
SWITCH_LOOPBACK = Text(f"{_LOOPBACK.en} The variables stay.", f"{_LOOPBACK.zh}变量会保留。")
SWITCH_LIVES = Text(
    "Under this profile the call is refused with an error and not killed for: a program that can do without goes on.",
    "在该配置下，此调用只会返回错误，而不会被强制终止：不依赖它的程序可以继续运行。",
)
_SWITCH_LIMIT = Text(
    "The profile's own limit is higher; it also allows more calls than the present one.",
    "该配置的限制更高；它也比当前配置允许更多的调用。",
)
_SWITCH_SHOWN = Text(f"The profile shows the folder. {_FRESH.en}", f"该配置会显示此文件夹。{_FRESH.zh}")
_SWITCH_HELD = Text(
    f"The profile shows the folder, and cells can write in it; what they write is held in the sandbox. {_FRESH.en}",
    f"该配置会显示此文件夹，单元格可在其中写入；写入的内容保留在沙箱中。{_FRESH.zh}",
)
_SWITCH_ASKED = Text(
    f"The profile shows the folder, and you are asked whether cells may write in it. {_FRESH.en}",
    f"该配置会显示此文件夹，并会询问您是否允许单元格写入。{_FRESH.zh}",
)
SWITCH_LOOPBACK_FRESH = Text(f"{_LOOPBACK.en} {_FRESH.en}", f"{_LOOPBACK.zh}{_FRESH.zh}")
SWITCH_LIVES_FRESH = Text(f"{SWITCH_LIVES.en} {_FRESH.en}", f"{SWITCH_LIVES.zh}{_FRESH.zh}")
_AFRESH = {
    _SWITCH: Text(f"The profile allows it. {_FRESH.en}", f"该配置允许此操作。{_FRESH.zh}"),
    _SWITCH_LIMIT: Text(f"{_SWITCH_LIMIT.en} {_FRESH.en}", f"{_SWITCH_LIMIT.zh}{_FRESH.zh}"),
    SWITCH_LOOPBACK: SWITCH_LOOPBACK_FRESH,
    SWITCH_LIVES: SWITCH_LIVES_FRESH,
}
"""Why a profile helps -> the same, where the change to it takes a fresh sandbox."""

_FAILS = re.compile(r"\b(?:raise|assert|check_call|errcheck)\b|check=True")
"""What makes an error of a result, also in the source of a child."""

_OWN_LIMITS = re.compile(r"(?m)^%sentinel_limit[^\n]*=[^\n]*$")
_RAISE = Text(
    "The limit may be set so far under this kernel's ceiling; the variables stay.",
    "此内核的上限允许这样设定；变量会保留。",
)


def remedies_for(violation: Violation, *, code: str | None, leeway: Leeway) -> tuple[Remedy, ...]:
    """Return what changes the outcome of ``violation``; the first asks for the least, and is the one to try.

    ``code`` is the cell's source, as far as it is known. Order: a change of the cell that needs no more rights, one
    limit, a profile, a command for the host.
    """
    if installs := installs_instead(violation, code, leeway):
        return tuple(installs)
    opens = violation.resource == NETWORK and violation.syscall == "socket"
    if opens or violation.resource == NAME_LOOKUP or violation.cause == "name_lookup":
        violation = with_typed_host(violation, code) or violation
    if violation.cause in ("name_lookup", "network_unreachable") or violation.resource == OUTSIDE_NETWORK:
        at = violation.architecture or ARCHITECTURES[0].machine
        return allowing_afresh(violation, leeway) or allowing_elsewhere(violation, code, leeway, at)
    if violation.outcome == "continued" or violation.resource in _NOWHERE:
        return ()
    if violation.cause == "host_refused":
        return allowing(violation, leeway)
    machine = violation.architecture if violation.cause == "call" else ARCHITECTURES[0].machine
    if machine not in [known.machine for known in ARCHITECTURES] or machine is None:
        return ()
    found = [
        Remedy("code", change.text, change.why, change.code)
        for change in (code_changes(violation, code, leeway, machine) if code else ())
    ]
    found += showing_remedies(violation, code, leeway)
    found += _limits(violation, code, leeway, machine)
    found += _profiles(violation, code, leeway, machine)
    found += host_commands(violation, code, leeway)
    return tuple(found)


def beyond_ceiling(violation: Violation, *, code: str | None, leeway: Leeway) -> bool:
    """Tell whether only something beyond the kernel's ceiling would help: a profile or a limit that it may not have."""
    if remedies_for(violation, code=code, leeway=leeway):
        return False
    freely = replace(leeway, ceiling=None, locked=False, lab=False, most=dict.fromkeys(leeway.most))
    return bool(remedies_for(violation, code=code, leeway=freely))


def takes_an_answer(violation: Violation, *, code: str | None, leeway: Leeway) -> bool:
    """Tell whether something would help that a person has to agree to, where nobody can be asked."""
    return not leeway.asks and bool(remedies_for(violation, code=code, leeway=replace(leeway, asks=True)))


def switch_profile(violation: Violation, leeway: Leeway, machine: str | None = None) -> Profile | None:
    """Return the profile that gives least among those that a cell may switch to and that let the call through."""
    machine = machine or violation.architecture or ""
    if machine not in [known.machine for known in ARCHITECTURES] or violation.number is None:
        return None
    if violation.outcome == "continued" or violation.resource in _NOWHERE:
        return None
    arguments = _registers(violation)
    for profile in in_place_first(violation, leeway, machine):
        if _would_help(compiled(profile, machine, leeway.rung), violation, arguments):
            return profile
    return None


# --- limits


def _limits(violation: Violation, code: str | None, leeway: Leeway, machine: str) -> list[Remedy]:
    raised = raised_limit(violation, code, leeway)
    if raised is None or endless_loop(code, violation.line) is not None:
        return []
    found = [_set_on_top(raised.line, code)]
    field = TYPED[limit_of(violation) or ""][1]
    allowed = violation.limit.allowed if violation.limit is not None else None
    for profile in in_place_first(violation, leeway, machine):
        size = getattr(profile.resources, field)
        own = violation.limit is not None and violation.limit.own
        if not own and allowed is not None and isinstance(size, int) and size >= raised.values[field]:
            found.append(_switch_to(profile, _SWITCH_LIMIT, violation, leeway))
            break
    return found


def _set_on_top(line: str, code: str | None) -> Remedy:
    """Return the remedy that sets limits; a cell that sets them itself has its own line changed."""
    if not code or not _OWN_LIMITS.search(code):
        return Remedy("magic", line, _RAISE)
    left = dict(word.split("=", 1) for word in line.split()[1:])
    changed = code
    for name, value in list(left.items()):
        changed, found = re.subn(
            rf"(?m)^(%sentinel_limit\b[^\n#]*?\s{name}=)[^\s#]*", rf"\g<1>{value}", changed
        )
        if found:
            del left[name]
    own = _OWN_LIMITS.search(changed)
    if left and own is not None:
        more = "".join(f" {name}={value}" for name, value in left.items())
        end = own.start() + len(own[0].partition("#")[0].rstrip())
        changed = changed[:end] + more + changed[end:]
    return Remedy("code", line, _RAISE, changed)


# --- profiles


def _profiles(violation: Violation, code: str | None, leeway: Leeway, machine: str) -> list[Remedy]:
    if violation.cause == "path_hidden" and violation.subject is not None:
        return _showing(violation, violation.subject.text, leeway, machine)
    if violation.cause != "call":
        return []
    profile, why = switch_profile(violation, leeway), _SWITCH
    if profile is not None and violation.resource == NETWORK and violation.syscall == "socket":
        # The socket would be allowed, but what many programs open it for lies outside, and fails all the same.
        destination = destination_of(code)
        calls = destination == LEADS_ANYWHERE or (
            destination != LEADS_INSIDE and is_client(violation.library)
        )
        if not code or calls or destination == LEADS_OUTSIDE:
            return []
        why = SWITCH_LOOPBACK
    elif profile is not None and violation.syscall == "connect" and _is_internet(violation):
        why = SWITCH_LOOPBACK
    elif (
        profile is None and violation.outcome == "killed" and code and _goes_on_refused(code, violation.line)
    ):
        profile, why = _refusing(violation, leeway, machine), SWITCH_LIVES
    return [] if profile is None else [_switch_to(profile, why, violation, leeway)]


def _switch_to(profile: Profile, why: Text, violation: Violation, leeway: Leeway) -> Remedy:
    line = switch_line(profile, violation, leeway)
    return Remedy("magic", line, _AFRESH[why] if line.endswith(CARRY) else why)


def _would_help(policy: CompiledPolicy, violation: Violation, arguments: tuple[int, ...]) -> bool:
    """Tell whether the call would take effect under ``policy``, with the socket that it is made on."""
    number = violation.number or 0
    tested = [test.index for rule in policy.rules.get(number, ()) for test in rule.tests]
    if max(tested, default=-1) >= len(violation.arguments):
        return False  # a register that the violation does not hold
    if not lets_through(policy, number, arguments):
        return False
    if violation.syscall == "socket":
        return arguments[1] & _SOCK_TYPE not in _NEEDS_RIGHTS
    if violation.syscall not in ("connect", "bind"):
        return True
    family = next(
        (number for number, name in FAMILIES.items() if name == violation.values.get("family")), None
    )
    number = policy.architecture.syscalls["socket"]
    return family is not None and lets_through(policy, number, (family, _SOCK_STREAM, 0, 0, 0, 0))


def _is_internet(violation: Violation) -> bool:
    return str(violation.values.get("family")).startswith("AF_INET")


def _registers(violation: Violation) -> tuple[int, ...]:
    """Return the call's registers, 0 for those that its signature leaves out."""
    values = [argument.value & (1 << 64) - 1 for argument in violation.arguments][:6]
    return (*values, *(0,) * (6 - len(values)))


def _refusing(violation: Violation, leeway: Leeway, machine: str) -> Profile | None:
    """Return the profile that refuses with an error what the present one kills for."""
    for profile in in_place_first(violation, leeway, machine):
        policy = compiled(profile, machine, leeway.rung)
        decided = policy.decide(policy.architecture.audit_arch, violation.number or 0, _registers(violation))
        if decided.action.kind in (ActionKind.NOTIFY, ActionKind.ERRNO):
            return profile
    return None


def _goes_on_refused(code: str, line: int | None) -> bool:
    """Tell whether the cell can go on where the call fails: it catches the error, or makes none of a C function's -1.

    Where nothing is seen of either, the call is a library's, and those have other ways.
    """
    cell = CellSource(code)
    for node in cell.nodes():
        if isinstance(node, ast.Try) and (line is None or node.lineno <= line <= (node.end_lineno or 0)):
            for handler in node.handlers:
                names = "OSError" if handler.type is None else cell.segment(handler.type)
                raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(handler))
                if any(name in names for name in ("OSError", "PermissionError", "Exception")) and not raises:
                    return True
    return not _FAILS.search(code)


def _showing(violation: Violation, path: str, leeway: Leeway, machine: str) -> list[Remedy]:
    """Return the change to a profile that shows ``path`` and does not hide it again; for a write, with it writable.

    For a secret there is none: its words are to do without it.
    """
    if is_secret(path):
        return []
    writes = violation.values.get("does") == "write"
    for profile in leeway.reachable(violation.profile, machine):  # each takes a fresh sandbox
        files = profile.filesystem
        above = [mount for mount in files.mounts if _is_below(path, mount.path)]
        if not above or any(_is_below(path, place) for place in files.hidden if place.startswith("/")):
            continue
        innermost = max(above, key=lambda mount: len(mount.path))
        why = _writable(innermost.mode, leeway) if writes else _SWITCH_SHOWN
        if why is not None:
            return [Remedy("magic", f"%sentinel_profile {profile.name}{CARRY}", why)]
    return []


def _writable(mode: str, leeway: Leeway) -> Text | None:
    """Return why a mount of that mode helps what writes; None where it does not."""
    if leeway.rung != "full":
        return None  # whatever the mode, a lesser rung has folders of its own to write to, and no others
    if mode == "rw":
        return _SWITCH_ASKED if leeway.asks else None  # until the person agrees, it is read-only
    return _SWITCH_HELD if mode == "overlay" else None


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
