"""The sentence of a hint that says what helps, or why nothing can, in words of ours alone."""

from __future__ import annotations

from sentinel_kernel.abi.architecture import ARCHITECTURES
from sentinel_kernel.policy.compare import compiled
from sentinel_kernel.policy.destinations import OUTSIDE, destination_of
from sentinel_kernel.policy.endless import endless_loop, open_loop
from sentinel_kernel.policy.host_commands import INSTALL_FETCHED, INSTALL_TYPED, INSTALL_UNSURE, has_index
from sentinel_kernel.policy.host_remedy import ALLOW_AFRESH, DATAGRAM, LOST_PROXY, UNRESOLVED, asks_for_hosts
from sentinel_kernel.policy.in_words import reaches_itself
from sentinel_kernel.policy.limit_remedy import limit_of
from sentinel_kernel.policy.packages import meant_by
from sentinel_kernel.policy.remedy import (
    SWITCH_LIVES,
    SWITCH_LIVES_FRESH,
    SWITCH_LOOPBACK,
    SWITCH_LOOPBACK_FRESH,
    beyond_ceiling,
    switch_profile,
    takes_an_answer,
)
from sentinel_kernel.policy.resource import NETWORK, OUTSIDE_NETWORK
from sentinel_kernel.policy.showing_remedy import SHOW, SHOWN
from sentinel_kernel.policy.sockaddr import NAME_LOOKUP
from sentinel_kernel.policy.switch_order import CARRY, in_place_first, switch_line
from sentinel_kernel.policy.violation import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sentinel_kernel.policy.leeway import Leeway
    from sentinel_kernel.policy.violation import Remedy, Violation

_NOTHING = Text("", "")
_SWITCH = Text(
    "The profile {0} allows it: start a cell with `%sentinel_profile {0}` (variables stay).",
    "配置 {0} 允许此操作：在单元格首行写 `%sentinel_profile {0}`（变量会保留）。",
)
_REFUSES = Text(
    "The profile {0} refuses it too, with an error that ends nothing: start a cell with `{1}`.",
    "配置 {0} 同样会拒绝此操作，但只返回错误，不会终止沙箱：在单元格首行写 `{1}`。",
)
_STAY = Text("(variables stay)", "（变量会保留）")
_COME_ALONG = Text(
    "(it takes a fresh sandbox; variables that can be pickled come along)",
    "（这需要新的沙箱；可序列化的变量会一并带入）",
)
_OPENS = Text(
    "Only servers that were started inside the sandbox answer there, nothing of this machine outside it; for those "
    "start a cell with `{0}` {1}.",
    "那里只有在沙箱内启动的服务会应答，本机在沙箱外的服务无法访问；若要访问沙箱内的服务，请在单元格首行写 "
    "`{0}`{1}。",
)
_MAGIC = Text(
    "Put `{0}` at the top of the cell and run it again (variables stay).",
    "在单元格首行写 `{0}`，然后重新运行（变量会保留）。",
)
_CARRY = Text(
    "Put `{0}` at the top of the cell and run it again: it takes a fresh sandbox, and variables that can be pickled "
    "come along.",
    "在单元格首行写 `{0}`，然后重新运行：这需要全新的沙箱，可序列化的变量会一并带入。",
)
_MAGIC_ANEW = Text(
    "Put `{0}` at the top of the cell and run it again, after the cells that define your variables.",
    "在单元格首行写 `{0}`；先重新运行定义变量的单元格，再运行此单元格。",
)
_ALLOW_AFRESH = Text(
    "Put `{0}` at the top of the cell and run it again: you are asked whether it may be reached, and what becomes of "
    "the variables, as it takes a fresh sandbox.",
    "在单元格首行写 `{0}`，然后重新运行：系统会询问您是否允许访问，以及如何处理变量，因为这需要全新的沙箱。",
)
_ALLOW_WHICH = Text(
    "`%sentinel_allow HOST` (HOST: the host's name, e.g. github.com) at the top of a cell asks you whether it may be "
    "reached.",
    "在单元格首行写 `%sentinel_allow HOST`（HOST 为主机名，例如 github.com），系统会询问您是否允许访问。",
)
_CHANGED = Text(
    "%sentinel_explain shows the whole cell with that change.",
    "%sentinel_explain 可显示按此修改后的完整单元格。",
)
_CHANGED_HERE = Text("The whole cell with that change is below.", "按此修改后的完整单元格见下方。")
_CODE = Text(f"{{0}}. {_CHANGED.en}", f"{{0}}{_CHANGED.zh}")
_OWN_LIMIT = Text(
    f"Write `{{0}}` in the line in which the cell sets limits itself. {_CHANGED.en}",
    f"在单元格自行设定限制的那一行写 `{{0}}`。{_CHANGED.zh}",
)
_TWO_LINES = Text(
    "Put two lines on top of the cell: `{0}` and below it `{1}`. You are asked whether it may be reached. "
    f"{_CHANGED.en}",
    f"在单元格开头写两行：先写 `{{0}}`，下一行写 `{{1}}`。系统会询问您是否允许访问。{_CHANGED.zh}",
)
_FETCHED = Text(
    "The host has fetched the package, and pip finds it here all the same: `%pip install --no-index ...` asks nobody "
    "outside.",
    "宿主已预先下载该软件包，pip 仍可在本地找到它：用 `%pip install --no-index ...` 就不会再询问外部。",
)
_ENDLESS = Text(
    "The loop that it stands in has no end, so that no limit is enough: give it one (`break`, or `for ... in "
    "range(...)`).",
    "它所在的循环没有终点，任何限制都不够：请为循环加上结束条件（`break` 或 `for ... in range(...)`）。",
)
_MAY_BE_ENDLESS = Text(
    "That helps if the loop in line {0} ends by itself: if nothing in it ever ends it, no limit is enough, and it "
    "needs an end (`break`, or `for ... in range(...)`).",
    "前提是第 {0} 行的循环会自行结束：如果其中没有任何语句能结束它，任何限制都不够，"
    "需要加上结束条件（`break` 或 `for ... in range(...)`）。",
)
_COMMAND = Text(
    "The command that helps is given here, for a terminal of the host.",
    "下面给出了需要在主机终端中运行的命令。",
)
_COMMAND_UNSURE = Text(
    "A command for a terminal of the host is given here, with the name as it was imported: look that name up before "
    "you run it, as installing runs the package's code outside the sandbox.",
    "下面给出了需要在主机终端中运行的命令，其中的名称取自 import 语句：运行前请先核实该名称，"
    "因为安装会在沙箱外运行软件包的代码。",
)
_COMMAND_TYPED = Text(
    "A command for a terminal of the host is given here, with the name that the cell has pip install: look that name "
    "up before you run it, as installing runs the package's code outside the sandbox. A kernel that is started under "
    "the profile web installs inside the sandbox by itself, and so does any from wheels that `sentinel-kernel wheels "
    "add` has fetched.",
    "下面给出了需要在主机终端中运行的命令，其中的名称取自单元格中的 pip install：运行前请先核实该名称，"
    "因为安装会在沙箱外运行软件包的代码。以配置 web 启动的内核可直接在沙箱内安装；"
    "用 `sentinel-kernel wheels add` 预先下载后，任何内核也都可以。",
)
_INSTALLS_INSIDE = Text(
    "Inside the sandbox `%pip install` works under a profile with an index of packages{0}, and under any profile, as "
    "`%pip install --no-index`, from wheels that `sentinel-kernel wheels add` has fetched in a terminal before the "
    "kernel started.",
    "在沙箱内，`%pip install` 可在带软件包索引的配置{0}下使用；若在内核启动前已在终端用 `sentinel-kernel wheels add` "
    "下载，则在任何配置下都可用 `%pip install --no-index` 安装。",
)
_MEANT = Text("Did you mean `{0}`?", "您是否想写 `{0}`？")
_NONE = Text(
    "No profile that this kernel may switch to allows it.",
    "此内核可切换的配置都不允许此操作。",
)
_BEYOND = Text(
    "Allowing it is not possible under this kernel's ceiling ({0}).",
    "在此内核的上限（{0}）下无法允许此操作。",
)
_BEYOND_LAB = Text(
    "Allowing it is not possible under this lab's ceiling ({0}): ask who runs it.",
    "在此实验室的上限（{0}）下无法允许此操作：请联系管理员。",
)
_TOO_LITTLE = Text(
    "A limit that would be enough is not possible under this kernel's ceiling ({0}).",
    "在此内核的上限（{0}）下无法设定足够的限制。",
)
_TOO_LITTLE_LAB = Text(
    "A limit that would be enough is not possible under this lab's ceiling ({0}): ask who runs it.",
    "在此实验室的上限（{0}）下无法设定足够的限制：请联系管理员。",
)
_LOCKED = Text(
    "This lab keeps every kernel under one profile.",
    "此实验室的所有内核都使用同一个配置。",
)
_LOOPBACK = Text(
    "Hosts outside are reached where the profile lists them. For a server that runs inside the sandbox itself alone, "
    "not for one of this machine outside it: `{0}` at the top of a cell opens the sandbox's own loopback {1}.",
    "只能访问配置所列出的外部主机。仅当服务运行在沙箱内部（而非本机沙箱之外）时：在单元格首行写 `{0}` "
    "可打开沙箱自身的回环接口{1}。",
)
_INSIDE = Text(
    "A server inside the sandbox is reached as 127.0.0.1.",
    "沙箱内的服务可通过 127.0.0.1 访问。",
)
_INSIDE_AFTER = Text(
    "A server inside the sandbox is reached as 127.0.0.1 under another profile: `{0}` {1}.",
    "在另一配置下，可通过 127.0.0.1 访问沙箱内的服务：`{0}`{1}。",
)
_PERSONS = Text(
    "Allowing it is the person's to decide, and nobody can be asked here; they can list it in a profile of their own.",
    "是否允许须由用户本人决定，而这里无法询问任何人；用户可在自己的配置中列出它。",
)
_DATAGRAMS = Text(
    "Datagrams (UDP) reach no host outside, whatever is allowed: hosts are reached by TCP.",
    "无论允许什么，数据报（UDP）都无法到达外部主机：外部主机通过 TCP 访问。",
)
_OUTSIDE = Text(
    "Hosts outside are reached where the profile lists them.",
    "只能访问配置所列出的外部主机。",
)


def remedy_hint(
    violation: Violation, remedies: tuple[Remedy, ...], *, code: str | None, leeway: Leeway
) -> Text:
    """Return what is added to the hint of ``violation``, whose ``remedies`` are remedies_for()'s; may be empty."""
    if remedies:
        said = _with_the_loop(_of_first(remedies[0], violation), violation, code)
        installs = violation.cause == "package_absent" and remedies[0].kind == "command"
        return _with_ways_inside(said, leeway) if installs else said
    # Of a hidden path the words themselves say so.
    unasked = violation.cause != "path_hidden" and takes_an_answer(violation, code=code, leeway=leeway)
    persons = _PERSONS if unasked else _NOTHING
    says_all = violation.values.get("does") in (UNRESOLVED, LOST_PROXY)
    if not says_all and (violation.cause == "name_lookup" or violation.resource == NAME_LOOKUP):
        inside = _way_inside(violation, leeway)
        first = _ALLOW_WHICH if asks_for_hosts(violation.profile, leeway) else persons
        return Text(f"{first.en} {inside.en}".strip(), f"{first.zh}{inside.zh}")
    if persons.en:
        return persons
    if violation.values.get("socket") == DATAGRAM:
        return _DATAGRAMS
    if says_all or violation.outcome == "continued" or violation.resource == OUTSIDE_NETWORK:
        return _NOTHING
    return _why_none(violation, code, leeway)


def _with_the_loop(said: Text, violation: Violation, code: str | None) -> Text:
    """Return ``said`` with what it rests on, where seconds ran out in a loop that may never end."""
    seconds = violation.limit is not None and violation.limit.unit == "seconds"
    loop = open_loop(code, violation.line) if seconds else None
    if loop is None:
        return said
    more = _filled(_MAY_BE_ENDLESS, str(loop))
    return Text(f"{said.en} {more.en}", said.zh + more.zh)


def on_its_page(hint: str) -> str:
    """Return a hint as `%sentinel_explain` itself shows it, which has the changed cell on the same page."""
    return hint.replace(_CHANGED.en, _CHANGED_HERE.en).replace(_CHANGED.zh, _CHANGED_HERE.zh)


def _why_none(violation: Violation, code: str | None, leeway: Leeway) -> Text:
    """Return why nothing helps."""
    if limit_of(violation) is not None and endless_loop(code, violation.line) is not None:
        return _ENDLESS
    if violation.resource == NETWORK and violation.syscall == "socket":
        profile = switch_profile(violation, leeway)
        if profile is not None:
            opens = _with_line(_LOOPBACK, switch_line(profile, violation, leeway))
            return _OUTSIDE if destination_of(code) == OUTSIDE else opens
    if violation.cause == "package_absent" and violation.subject is not None:
        meant = meant_by(violation.subject.text)
        return _NOTHING if meant is None else _filled(_MEANT, meant)
    if beyond_ceiling(violation, code=code, leeway=leeway):
        if leeway.locked:
            return _LOCKED
        freely, lab = (
            (_BEYOND, _BEYOND_LAB) if limit_of(violation) is None else (_TOO_LITTLE, _TOO_LITTLE_LAB)
        )
        return _filled(lab if leeway.lab else freely, leeway.ceiling or "")
    return _NONE if violation.cause == "call" else _NOTHING


def _way_inside(violation: Violation, leeway: Leeway) -> Text:
    """Return how a server inside the sandbox is reached, which needs no name server; empty where it can't be."""
    machine = ARCHITECTURES[0].machine if violation.architecture is None else violation.architecture
    if machine not in [known.machine for known in ARCHITECTURES]:
        return _NOTHING
    current = leeway.profile(violation.profile)
    if current is not None and reaches_itself(compiled(current, machine, leeway.rung)):
        return _INSIDE
    for profile in in_place_first(violation, leeway, machine):
        if current is not None and reaches_itself(compiled(profile, machine, leeway.rung)):
            return _with_line(_INSIDE_AFTER, switch_line(profile, violation, leeway))
    return _NOTHING


def _of_magic(remedy: Remedy, violation: Violation) -> Text:
    switch = remedy.text.startswith("%sentinel_profile ")
    if remedy.why in (SWITCH_LOOPBACK, SWITCH_LOOPBACK_FRESH):
        return _with_line(_OPENS, remedy.text)
    if violation.outcome == "killed" and remedy.why in (SWITCH_LIVES, SWITCH_LIVES_FRESH):
        return _filled(_REFUSES, remedy.text.split()[1], remedy.text)
    if remedy.text.endswith(CARRY):
        return _filled(_MAGIC_ANEW if violation.loses_variables else _CARRY, remedy.text)
    lost = violation.loses_variables
    typed = _ALLOW_AFRESH if remedy.why == ALLOW_AFRESH else _MAGIC_ANEW if lost else _MAGIC
    return _filled(_SWITCH, remedy.text.split()[1]) if switch else _filled(typed, remedy.text)


def _of_first(remedy: Remedy, violation: Violation) -> Text:  # noqa: PLR0911 - one return a kind of remedy
    if remedy.kind == "magic":
        return _of_magic(remedy, violation)
    if remedy.why in (SHOW, SHOWN):
        return _CHANGED  # the hint itself names the line and the place
    if remedy.why == INSTALL_FETCHED:
        return _FETCHED
    if remedy.kind == "code" and remedy.why == ALLOW_AFRESH:
        lines = (remedy.code or "").split("\n")
        return _filled(_TWO_LINES, *lines[:2])
    if remedy.kind == "code" and remedy.text.startswith("%sentinel_limit "):
        return _filled(_OWN_LIMIT, remedy.text)
    if remedy.kind == "code":
        # What is changed is said in English alone; why that runs tells it in Chinese (as rendering.remedy_text does).
        why = remedy.why.zh if remedy.why is not None else remedy.text
        return Text(_CODE.en.format(remedy.text), _CODE.zh.format(why))
    if remedy.why == INSTALL_TYPED:
        return _COMMAND_TYPED
    return _COMMAND_UNSURE if remedy.why == INSTALL_UNSURE else _COMMAND


def _with_ways_inside(said: Text, leeway: Leeway) -> Text:
    """Return ``said`` with how a cell itself can install a package, where sandboxes of that rung can."""
    if leeway.rung != "full":
        return said
    index = next((profile.name for profile in leeway.profiles if has_index(profile.network)), "")
    inside = Text(
        _INSTALLS_INSIDE.en.format(f" ({index})" if index else ""),
        _INSTALLS_INSIDE.zh.format(f"（{index}）" if index else ""),
    )
    return Text(f"{said.en} {inside.en}", said.zh + inside.zh)


def _with_line(words: Text, line: str) -> Text:
    """Return ``words`` with the line that changes the profile, and what becomes of the variables."""
    becomes = _COME_ALONG if line.endswith(CARRY) else _STAY
    return Text(words.en.format(line, becomes.en), words.zh.format(line, becomes.zh))


def _filled(words: Text, *values: str) -> Text:
    return Text(words.en.format(*values), words.zh.format(*values))
