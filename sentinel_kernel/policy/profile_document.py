"""The grammar of a profile file: JSON values to a :class:`Profile`, its parents merged in."""

from __future__ import annotations

from sentinel_kernel.abi.architecture import is_known_anywhere
from sentinel_kernel.errors import ProfileError
from sentinel_kernel.policy.action import ActionKind, parse_action
from sentinel_kernel.policy.asking import is_askable
from sentinel_kernel.policy.floor import NAMESPACE_FLAGS, is_never_held
from sentinel_kernel.policy.json_document import MAXIMUM_BYTES, Reader, parse
from sentinel_kernel.policy.profile import (
    COMMITS,
    Filesystem,
    MountRule,
    Network,
    Outputs,
    Profile,
    SyscallRule,
    find_files,
    find_profile,
)
from sentinel_kernel.policy.regions import LOW_32_BITS, ArgumentTest, intersection
from sentinel_kernel.policy.resources import read_resources
from sentinel_kernel.record import Record, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from sentinel_kernel.policy.regions import Region

_NOTES = ("_", "comment", "$")
_LONGEST_CHAIN = 8
_MOST_KNOWN = 64
_HIGHEST = (1 << 64) - 1


class _Known(Record):
    """What a file said, and the profile that it made together with what it extends."""

    text: bytes | str
    parent: str
    base: Profile | None
    profile: Profile


_known: dict[tuple[str, str], _Known] = {}
"""Name and path -> what was read there last: making a profile of it takes 2 ms, and a change of profile reads five."""


def read_profile(name: str, directories: Sequence[str]) -> Profile:
    """Return the profile ``name`` from the first of ``directories`` that has it.

    Raises:
        ProfileError: it does not exist or can't be used.

    """
    return _read(name, directories, ())


def parse_profile(name: str, text: bytes | str) -> Profile:
    """Return the profile in ``text``, which may extend the shipped ones; for tools and tests.

    Raises:
        ProfileError: it can't be used.

    """
    from sentinel_kernel.policy.shipped import shipped_directory  # noqa: PLC0415 - touches the disk

    return _document(name, text, "", [shipped_directory("profiles")], (name,))


def _read(name: str, directories: Sequence[str], chain: tuple[str, ...]) -> Profile:
    if name in chain or len(chain) >= _LONGEST_CHAIN:
        round_and_round = f"'extends' goes round or on too long: {' > '.join((*chain, name))}."
        hiding = next((one for one in chain[::-1] if len(find_files(one, directories)) > 1), "")
        if hiding:
            path = find_files(hiding, directories)[0]
            raise ProfileError(
                f"{round_and_round} {path} hides another profile of the name '{hiding}'.",
                "$.extends",
                f"Give that file another name, as my-{hiding.rpartition('/')[2]}.json: then it can extend '{hiding}'.",
            )
        raise ProfileError(round_and_round, "$.extends")
    path = find_profile(name, directories)
    try:
        with open(path, "rb") as file:
            text = file.read(MAXIMUM_BYTES + 1)
    except OSError as error:
        raise ProfileError(f"{path} can't be read: {error.strerror}.", "$") from None
    try:
        known = _known.get((name, path))
        if known is not None and known.text == text:
            base = _read(known.parent, directories, (*chain, name)) if known.parent else None
            if base is known.base:
                return known.profile
        return _document(name, text, path, directories, (*chain, name))
    except ProfileError as error:
        if error.message.startswith("In "):
            raise
        raise ProfileError(f"In {path}: {error.message}", error.json_path, error.remedy) from None


def _document(
    name: str, text: bytes | str, path: str, directories: Sequence[str], chain: tuple[str, ...]
) -> Profile:
    reader = Reader(parse(text), "$", free_prefixes=_NOTES)
    written = reader.text("name", name)
    if written not in (name, name.rpartition("/")[2]):
        raise ProfileError(f"The file says its name is {written[:60]!r}.", "$.name", "Name both alike.")
    parent = reader.text("extends", "")
    extended = _read(parent, directories, chain) if parent else None
    base = extended or Profile(name)
    default = base.default_action
    if reader.has("default_action"):
        default = parse_action(reader.take("default_action"), "$.default_action")
    elif not parent:
        raise ProfileError(
            "The key 'default_action' is missing.", "$", 'Write "NOTIFY" to refuse what no rule names.'
        )
    if default.kind is ActionKind.ERRNO and not base.syscall_rules and not reader.has("syscall_rules"):
        raise ProfileError("A profile without rules would refuse everything.", "$.default_action")
    rules = tuple(_rule(item, place, name) for item, place in reader.objects("syscall_rules"))
    profile = replace(
        base,
        name=name,
        description=reader.text("description", base.description),
        default_action=default,
        syscall_rules=rules + base.syscall_rules,
        resources=(
            read_resources(
                Reader(reader.take("resources"), "$.resources", free_prefixes=_NOTES), base.resources
            )
            if reader.has("resources")
            else base.resources
        ),
        network=_network(reader, base.network),
        filesystem=_filesystem(reader, base.filesystem),
        outputs=_outputs(reader, base.outputs),
        preflight=_one_choice(reader, "preflight", "mode", ("off",), base.preflight),
        minimum_isolation=reader.choice("minimum_isolation", ("full", "landlock"), base.minimum_isolation),
        preload=_preload(reader) or base.preload,
        path=path,
    )
    reader.finish()
    if path:
        _known[name, path] = _Known(text, parent, extended, profile)
        if len(_known) > _MOST_KNOWN:
            del _known[next(iter(_known))]
    return profile


def _rule(item: object, place: str, profile: str) -> SyscallRule:
    reader = Reader(item, place, free_prefixes=("_", "$"))
    comment = reader.text("comment", "")
    names = (reader.text("name"),) if reader.has("name") else reader.list_of_texts("names", 64)
    if not names:
        raise ProfileError(
            "A rule names its calls.", place, 'Write "name": "socket" or "names": ["bind", "listen"].'
        )
    for index, name in enumerate(names):
        if not is_known_anywhere(name):
            at = f"{place}.name" if reader.has("name") else f"{place}.names[{index}]"
            raise ProfileError(
                f"{name[:60]!r} is no system call of Linux.",
                at,
                "syscalls(2) lists them; they are not always named like the C functions.",
            )
    if not reader.has("action"):
        raise ProfileError("The key 'action' is missing.", place, 'Write "action": "NOTIFY".')
    action = parse_action(reader.take("action"), f"{place}.action", reader.take("errno"), f"{place}.errno")
    region = _region(reader)
    reader.finish()
    if action.kind not in (ActionKind.ALLOW, ActionKind.ERRNO):
        for name in names:
            if is_never_held(name) and not _is_namespace_clone(name, region):
                raise ProfileError(
                    f"{name} can't be {action.kind.value}: a signal could tear the call while it is held.",
                    f"{place}.action",
                    "Use ALLOW, or ERRNO(1) to refuse it at once.",
                )
            if action.kind is ActionKind.ASK and not is_askable(name):
                raise ProfileError(
                    f"{name} can't be ASK: what its pointers lead to can change while the person decides.",
                    f"{place}.action",
                    "Use NOTIFY; or ask earlier, about a call that is decided by numbers alone: socket, not connect.",
                )
    return SyscallRule(names, region, action, comment, f"{profile}: {place}")


def _is_namespace_clone(name: str, region: Region) -> bool:
    return name == "clone" and any(test.index == 0 and test.value & NAMESPACE_FLAGS for test in region)


def _region(reader: Reader) -> Region:
    region: Region = ()
    for item, place in reader.objects("arguments"):
        test = Reader(item, place, free_prefixes=("_", "comment", "$"))
        index = test.integer("index", 0, 5)
        mask = test.integer("mask", 1, _HIGHEST, LOW_32_BITS)
        value = test.integer("value", 0, _HIGHEST)
        test.finish()
        if index is None or value is None or mask is None:
            raise ProfileError("A test has an index (0 to 5) and a value.", place)
        if value & ~mask:
            raise ProfileError(
                "The value has bits that the mask leaves out: it never matches.", f"{place}.value"
            )
        joined = intersection(region, (ArgumentTest(index, mask, value),))
        if joined is None:
            raise ProfileError("The tests contradict each other: the rule never matches.", place)
        region = joined
    return region


def _network(reader: Reader, base: Network) -> Network:
    if not reader.has("network"):
        return base
    document = reader.take("network")
    network = Reader(document, "$.network", free_prefixes=_NOTES)
    lists = bool(document.get("hosts"))  # who lists hosts means them to be reached, and their names looked up
    result = replace(
        base,
        allow=network.flag("allow", default=base.allow or lists),
        allow_dns=network.flag("allow_dns", default=base.allow_dns or lists),
    )
    if base.hosts or network.has("hosts"):
        from sentinel_kernel.policy.network_document import read_hosts  # noqa: PLC0415 - few profiles have any

        result = read_hosts(network, result)
    if any(network.has(key) for key in ("http", "secrets", "index")):
        from sentinel_kernel.policy.http_rules import read_requests  # noqa: PLC0415 - few profiles have any

        result = read_requests(network, result)
    network.finish()
    return result


def _filesystem(reader: Reader, base: Filesystem) -> Filesystem:
    if not reader.has("filesystem"):
        return base
    filesystem = Reader(reader.take("filesystem"), "$.filesystem", free_prefixes=_NOTES)
    mounts = []
    for item, place in filesystem.objects("mounts"):
        mount = Reader(item, place, free_prefixes=_NOTES)
        path = mount.text("path")
        if not path.startswith(("/", "~/")) or "\0" in path or ".." in path.split("/"):
            raise ProfileError("A mount is an absolute path, or one from ~/, without '..'.", f"{place}.path")
        mounts.append(MountRule(path, mount.choice("mode", ("ro", "overlay", "rw"), "ro")))
        mount.finish()
    hidden = filesystem.list_of_texts("hidden")
    for index, path in enumerate(hidden):
        if "\0" in path or ".." in path.split("/"):
            raise ProfileError("A hidden path has no '..'.", f"$.filesystem.hidden[{index}]")
    rootfs = filesystem.text("rootfs", base.rootfs)
    if rootfs and (not rootfs.startswith(("/", "~/")) or "\0" in rootfs or ".." in rootfs.split("/")):
        raise ProfileError(
            "A root tree is an absolute path, or one from ~/, without '..'.", "$.filesystem.rootfs"
        )
    result = Filesystem(
        mounts=base.mounts + tuple(mounts),
        hidden=base.hidden + hidden,
        allow_write_overlay=filesystem.flag("allow_write_overlay", default=base.allow_write_overlay),
        commit=filesystem.choice("commit", COMMITS, base.commit),
        rootfs=rootfs,
    )
    filesystem.finish()
    return result


def _outputs(reader: Reader, base: Outputs) -> Outputs:
    if not reader.has("outputs"):
        return base
    document = reader.take("outputs")
    if document == {"javascript": "hold"}:
        return base  # as the shipped ones say: read without what the other keys take
    from sentinel_kernel.policy.outputs_document import read_outputs  # noqa: PLC0415 - few profiles say more

    return read_outputs(Reader(document, "$.outputs", free_prefixes=_NOTES), base)


def _one_choice(reader: Reader, key: str, inner: str, choices: tuple[str, ...], base: str) -> str:
    if not reader.has(key):
        return base
    section = Reader(reader.take(key), f"$.{key}", free_prefixes=_NOTES)
    value = section.choice(inner, choices, base)
    section.finish()
    return value


def _preload(reader: Reader) -> tuple[str, ...]:
    modules = reader.list_of_texts("preload", 200)
    for index, module in enumerate(modules):
        if not all(part.isidentifier() for part in module.split(".")):
            raise ProfileError(f"{module[:60]!r} is no module.", f"$.preload[{index}]", 'Write "numpy".')
    return modules
