"""Words for violations, from mapping files: message and hint in English and Chinese, by call, cause and error."""

from __future__ import annotations

import builtins
import contextlib
import errno as errno_numbers
import os
import re
import signal
import stat

from sentinel_kernel.abi.architecture import is_known_anywhere
from sentinel_kernel.errors import MappingError
from sentinel_kernel.policy.cause import CALL, CAUSES
from sentinel_kernel.policy.json_document import MAXIMUM_BYTES, Reader, parse
from sentinel_kernel.policy.resource import resources
from sentinel_kernel.policy.shipped import shipped_directory
from sentinel_kernel.policy.word_values import PLACEHOLDERS, cause_keys, is_variant, word_values
from sentinel_kernel.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sentinel_kernel.policy.violation import Violation

FILE_NAME = "syscall_feedback.json"
SCHEMA_VERSION = 1
PSEUDO_CALLS = ("foreign_architecture", "x32_call")
_NOTES = ("_",)
_ERRNOS = frozenset(errno_numbers.errorcode.values())
_SIGNALS = frozenset(number.name for number in signal.Signals)
_OTHER_ERRORS = ("OOM_KILL", "gaierror", "CalledProcessError", "TimeoutExpired")
"""Names that are known beside those of errno, signals and Python's own exceptions."""


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
    """The entries of one file, each group by its keys; ``default`` is None where it has none."""

    default: Entry | None
    calls: Mapping[str, Entry]
    """By ``call`` or ``call:resource``."""
    causes: Mapping[str, Entry]
    """By ``cause`` or ``cause:variant``."""
    errors: Mapping[str, Entry]
    """By the name of an errno, a signal or a class of exceptions."""


class Mappings(Record):
    """The files in use, the strongest first."""

    layers: tuple[Layer, ...]

    def words(self, violation: Violation) -> Words:
        """Return the words for ``violation``; a text that its entry lacks comes from the next one.

        Within a file the entry for this use of the call comes before the one for the call.
        """
        if violation.cause == CALL:
            keys: tuple[str, ...] = (f"{violation.syscall}:{violation.resource}", str(violation.syscall))
            chain = [layer.calls[key] for layer in self.layers for key in keys if key in layer.calls]
        else:
            keys = cause_keys(violation)
            chain = [layer.causes[key] for layer in self.layers for key in keys if key in layer.causes]
        return self._filled(
            chain, word_values(violation, chinese=False), word_values(violation, chinese=True)
        )

    def error_words(self, names: Iterable[str], profile: str = "") -> Words | None:
        """Return the words for an error of which no more is known than ``names`` (errno, signal, class), or None."""
        chain = [layer.errors[name] for name in names for layer in self.layers if name in layer.errors]
        values = {"profile": profile}
        return self._filled(chain, values, values) if chain else None

    def _filled(
        self, found: Sequence[Entry], values_en: Mapping[str, str], values_zh: Mapping[str, str]
    ) -> Words:
        chain = [*found, *(layer.default for layer in self.layers if layer.default is not None)]
        first = chain[0]
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
        return any(syscall in layer.calls for layer in self.layers)


def load_mappings(directories: Iterable[str] = ()) -> Mappings:
    """Return the shipped words with those of ``directories`` over them, the first directory strongest.

    Raises:
        MappingError: a file can't be read or used; the JSON path says where.

    """
    layers: list[Layer] = []
    for directory in (*directories, shipped_directory("mappings")):
        with contextlib.suppress(FileNotFoundError):
            layers += read_mapping(os.path.join(directory, FILE_NAME)).layers
    if not layers:
        raise MappingError(f"The shipped {FILE_NAME} is missing.", "$", "Install Sentinel Kernel again.")
    return Mappings(tuple(layers))


def read_mapping(path: str, *, whole: bool = True) -> Mappings:
    """Return the words of the file ``path``; one that is not ``whole`` may leave the default out.

    Raises:
        FileNotFoundError: there is none.
        MappingError: it can't be read or used.

    """
    try:
        # Whatever is no plain file could keep its reader waiting.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise MappingError(f"{path} is no plain file.")
            text = file.read(MAXIMUM_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise MappingError(f"{path} can't be read: {error.strerror}.") from None
    return parse_mapping(text, whole=whole)


def parse_mapping(text: bytes | str, *, whole: bool = True) -> Mappings:
    """Return the words of one file; one that is not ``whole`` may leave the default out.

    Raises:
        MappingError: it can't be used.

    """
    reader = Reader(parse(text, MappingError), "$", MappingError, free_prefixes=_NOTES)
    if reader.integer("$schema_version", 0, 1000, SCHEMA_VERSION) != SCHEMA_VERSION:
        raise MappingError(f"Only version {SCHEMA_VERSION} is known.", "$.$schema_version")
    default = None
    if whole or reader.has("default"):
        default = _entry(Reader(reader.take("default"), "$.default", MappingError, free_prefixes=_NOTES))
    layer = Layer(
        default,
        _groups(reader, "groups", "syscalls", _check_call),
        _groups(reader, "causes", "causes", _check_cause),
        _groups(reader, "errors", "errors", _check_error),
    )
    reader.finish()
    return Mappings((layer,))


def _groups(
    reader: Reader, name: str, keys_name: str, check: Callable[[str, str], None]
) -> Mapping[str, Entry]:
    """Return the entries of the list ``name``; of two groups for one key the last holds."""
    entries: dict[str, Entry] = {}
    for item, place in reader.objects(name):
        group = Reader(item, place, MappingError, free_prefixes=_NOTES)
        keys = group.list_of_texts(keys_name, 100)
        if not keys:
            raise MappingError("A group names what it is for.", place, f"Write {_EXAMPLES[keys_name]}.")
        for index, key in enumerate(keys):
            check(key, f"{place}.{keys_name}[{index}]")
        entry = _entry(group)
        entries.update(dict.fromkeys(keys, entry))
    return entries


_EXAMPLES = {
    "syscalls": '"syscalls": ["connect"]',
    "causes": '"causes": ["memory"]',
    "errors": '"errors": ["EROFS"]',
}


def _check_call(key: str, place: str) -> None:
    call, colon, resource = key.partition(":")
    if not is_known_anywhere(call) and call not in PSEUDO_CALLS:
        raise MappingError(f"{call[:60]!r} is no system call of Linux.", place)
    if colon and resource not in resources():
        raise MappingError(
            f"{resource[:60]!r} is no resource.", place, f"Known: {', '.join(sorted(resources()))}."
        )


def _check_cause(key: str, place: str) -> None:
    cause, colon, variant = key.partition(":")
    if cause not in CAUSES or cause == CALL:
        known = ", ".join(name for name in CAUSES if name != CALL)
        raise MappingError(f"{cause[:60]!r} is no cause.", place, f"Known: {known}.")
    if colon and not is_variant(cause, variant):
        known = ", ".join(CAUSES[cause].variants) or "none"
        raise MappingError(f"{variant[:60]!r} is no variant of {cause}.", place, f"Known: {known}.")


def _check_error(key: str, place: str) -> None:
    known = key in _ERRNOS or key in _SIGNALS or key in _OTHER_ERRORS
    found = getattr(builtins, key, None)
    if not known and not (isinstance(found, type) and issubclass(found, BaseException)):
        raise MappingError(
            f"{key[:60]!r} is no error.",
            place,
            "Write an errno (EROFS), a signal (SIGKILL) or MemoryError and such.",
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


_BETWEEN_CHINESE = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")
"""A blank beside a placeholder is for numbers and names; beside Chinese words (``5 秒``) it is one too many."""


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return ``template`` with its placeholders replaced; str.format would also look into attributes."""
    start, *pieces = template.split("{")
    filled = [start]
    for piece in pieces:
        name, _, rest = piece.partition("}")
        filled += [values.get(name, ""), rest]
    return _BETWEEN_CHINESE.sub("", "".join(filled))
