"""Words for violations, from mapping files: message and hint in English and Chinese, by call and resource."""

from __future__ import annotations

import os

from sentinel_kernel.abi.architecture import is_known_anywhere
from sentinel_kernel.errors import MappingError
from sentinel_kernel.policy.json_document import MAXIMUM_BYTES, Reader, parse
from sentinel_kernel.policy.resource import resources
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sentinel_kernel.policy.violation import Violation

FILE_NAME = "syscall_feedback.json"
SCHEMA_VERSION = 1
PLACEHOLDERS = frozenset(
    ("name", "profile", "arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "address", "family", "path", "flags")
) | {"errno", "resource"}
PSEUDO_CALLS = ("foreign_architecture", "x32_call")
_NOTES = ("_",)
# What {path} and a missing {address} say: the untrusted text itself stays in the violation's own fields.
_PATH_WORDS = ("the path shown below", "下方所示的路径")
_ADDRESS_WORDS = ("the address shown below", "下方所示的地址")


class Entry(Record):
    """The templates of one group; None where the file has no text in that language."""

    message_en: str
    message_zh: str
    hint_en: str | None
    hint_zh: str | None


class Words(Record):
    """Message and hint of one violation in both languages, filled in."""

    message_en: str
    message_zh: str
    hint_en: str
    hint_zh: str


class Layer(Record):
    """The entries of one file, by ``call`` or ``call:resource``."""

    default: Entry
    entries: Mapping[str, Entry]


class Mappings(Record):
    """The files in use, the strongest first."""

    layers: tuple[Layer, ...]

    def words(self, violation: Violation) -> Words:
        """Return the words for ``violation``; a text that its entry lacks comes from the next one.

        Within a file the entry for this use of the call comes before the one for the call.
        """
        keys = (f"{violation.syscall}:{violation.resource}", str(violation.syscall))
        chain = [layer.entries[key] for layer in self.layers for key in keys if key in layer.entries]
        chain += [layer.default for layer in self.layers]
        first = chain[0]
        values_en, values_zh = _values(violation, chinese=False), _values(violation, chinese=True)
        hint_en = next((entry.hint_en for entry in chain if entry.hint_en is not None), "")
        hint_zh = next((entry.hint_zh for entry in chain if entry.hint_zh is not None), "")
        return Words(
            message_en=fill(first.message_en, values_en),
            message_zh=fill(first.message_zh, values_zh),
            hint_en=fill(hint_en, values_en),
            hint_zh=fill(hint_zh, values_zh),
        )

    def has(self, syscall: str) -> bool:
        """Tell whether ``syscall`` has words of its own."""
        return any(syscall in layer.entries for layer in self.layers)


def load_mappings(directories: Iterable[str] = ()) -> Mappings:
    """Return the shipped words with those of ``directories`` over them, the first directory strongest.

    Raises:
        MappingError: a file can't be read or used; the JSON path says where.

    """
    layers: list[Layer] = []
    for directory in (*directories, shipped_directory("mappings")):
        path = os.path.join(directory, FILE_NAME)
        try:
            with open(path, "rb") as file:
                text = file.read(MAXIMUM_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise MappingError(f"{path} can't be read: {error.strerror}.") from None
        layers += parse_mapping(text).layers
    if not layers:
        raise MappingError(f"The shipped {FILE_NAME} is missing.", "$", "Install Sentinel Kernel again.")
    return Mappings(tuple(layers))


def parse_mapping(text: bytes | str) -> Mappings:
    """Return the words of one file.

    Raises:
        MappingError: it can't be used.

    """
    reader = Reader(parse(text, MappingError), "$", MappingError, free_prefixes=_NOTES)
    if reader.integer("$schema_version", 0, 1000, SCHEMA_VERSION) != SCHEMA_VERSION:
        raise MappingError(f"Only version {SCHEMA_VERSION} is known.", "$.$schema_version")
    default = _entry(Reader(reader.take("default"), "$.default", MappingError, free_prefixes=_NOTES))
    entries: dict[str, Entry] = {}
    for item, place in reader.objects("groups"):
        group = Reader(item, place, MappingError, free_prefixes=_NOTES)
        keys = group.list_of_texts("syscalls", 100)
        if not keys:
            raise MappingError("A group names its calls.", place, 'Write "syscalls": ["connect"].')
        for index, key in enumerate(keys):
            _check_key(key, f"{place}.syscalls[{index}]")
        entry = _entry(group)
        entries.update(dict.fromkeys(keys, entry))  # of two groups for one call the last holds
    reader.finish()
    return Mappings((Layer(default, entries),))


def _check_key(key: str, place: str) -> None:
    call, colon, resource = key.partition(":")
    if not is_known_anywhere(call) and call not in PSEUDO_CALLS:
        raise MappingError(f"{call[:60]!r} is no system call of Linux.", place)
    if colon and resource not in resources():
        raise MappingError(
            f"{resource[:60]!r} is no resource.", place, f"Known: {', '.join(sorted(resources()))}."
        )


def _entry(reader: Reader) -> Entry:
    messages = [reader.text(language) for language in ("en", "zh")]
    hint = reader.take("hint")
    hint_en = reader.text("hint_en") if reader.has("hint_en") else None
    hint_zh = reader.text("hint_zh") if reader.has("hint_zh") else None
    if isinstance(hint, dict):
        both = Reader(hint, reader.place("hint"), MappingError)
        hint_en, hint_zh = both.text("en"), both.text("zh")
        both.finish()
    elif isinstance(hint, str):
        hint_zh = hint if hint_zh is None else hint_zh  # SentinelBox writes its one hint in Chinese
    elif reader.has("hint"):
        raise MappingError("A hint is a text, or an object with 'en' and 'zh'.", reader.place("hint"))
    reader.finish()
    for key, template in (
        ("en", messages[0]), ("zh", messages[1]), ("hint_en", hint_en), ("hint_zh", hint_zh),
    ):  # fmt: skip
        _check_template(template or "", reader.place(key))
    return Entry(messages[0], messages[1], hint_en, hint_zh)


def _check_template(template: str, place: str) -> None:
    for piece in template.split("{")[1:]:
        name, brace, _ = piece.partition("}")
        if not brace or name not in PLACEHOLDERS:
            raise MappingError(
                f"{{{name[:40]}}} is no placeholder.", place, f"Known: {', '.join(sorted(PLACEHOLDERS))}."
            )


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return ``template`` with its placeholders replaced; str.format would also look into attributes."""
    start, *pieces = template.split("{")
    filled = [start]
    for piece in pieces:
        name, _, rest = piece.partition("}")
        filled += [values.get(name, ""), rest]
    return "".join(filled)


def _values(violation: Violation, *, chinese: bool) -> dict[str, str]:
    values = {"family": "", "flags": "", "errno": violation.errno_name or "", **violation.values}
    values.update(name=violation.syscall or "", profile=violation.profile, resource=violation.resource)
    values["path"] = _PATH_WORDS[chinese]
    values.setdefault("address", _ADDRESS_WORDS[chinese])
    arguments = violation.arguments
    for index in range(6):
        values[f"arg{index}"] = str(arguments[index].value) if index < len(arguments) else "0"
    return values
