"""What was held back from an output, by kind, and the words for it.

A kind is one word; what it is of is named behind it (``remote cdn.plot.ly``), by names that are letters, digits, dots
and the like: hosts, MIME types, and libraries that there is something to say of (``type :bokeh``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.words import Words
from sentinel_kernel.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SCRIPT = "script"
HTML_SCRIPT = "html-script"
ACTIVE = "active"
REMOTE = "remote"
TYPE = "type"
WIDGET = "widget"
COMM = "comm"
SHARED = "shared"
PAYLOAD = "payload"
RECORDING = "recording"
TOO_LONG = "too-long"

MOST_NAMED = 3
"""So many hosts or types are named in one notice."""

_HOST = re.compile(r"(?=.{4,100}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{1,63}")
_MIME = re.compile(r"(?=.{3,80}\Z)[a-z0-9.+-]+/[a-z0-9._+-]+")
_ADDRESS = re.compile(
    r"(?:(?:https?|wss?):|(?<=[\s\"'(=])|^)//([a-z0-9.-]{4,100})(?=[:/?#\s\"'()<>\\]|$)", re.IGNORECASE
)

_EMBED_EN = (
    "Embed the data instead: Image(filename=...), Audio(..., embed=True), include_plotlyjs=True, "
    "INLINE resources."
)
_EMBED_ZH = (
    "请改为嵌入数据：Image(filename=...)、Audio(..., embed=True)、include_plotlyjs=True、INLINE 资源。"
)
_HOSTS_EN = f"{_EMBED_EN} Or let outputs load from the host: %sentinel_trust_output HOST"
_HOSTS_ZH = f"{_EMBED_ZH}或允许输出从该主机加载：%sentinel_trust_output 主机名"

_LIBRARIES = {
    ":altair": (
        'Altair draws without loading anything after alt.renderers.enable("mimetype").',
        'Altair 在执行 alt.renderers.enable("mimetype") 之后无需加载任何内容即可绘图。',
    ),
    ":bokeh": (
        (
            "Bokeh's output_notebook() shares its library between outputs, and each output is alone here: show a "
            "plot with HTML(file_html(plot, INLINE)), from bokeh.embed and bokeh.resources."
        ),
        (
            "Bokeh 的 output_notebook() 在多个输出之间共享库，而此处每个输出都是独立的："
            "请用 bokeh.embed 和 bokeh.resources 中的 HTML(file_html(plot, INLINE)) 显示图形。"
        ),
    ),
    ":plotly": (
        (
            'Plotly\'s own default works: plotly.io.renderers.default = "plotly_mimetype"; or '
            "HTML(figure.to_html(include_plotlyjs=True))."
        ),
        (
            'Plotly 的默认方式可用：plotly.io.renderers.default = "plotly_mimetype"；'
            "或 HTML(figure.to_html(include_plotlyjs=True))。"
        ),
    ),
}
"""What works instead, by library: its words stand before the others of a hint."""

WORDS = {
    HTML_SCRIPT: Words(
        "Scripts in this output were left out: the profile shows HTML without them.",
        "此输出中的脚本已被去除：当前配置只显示不含脚本的 HTML。",
        "Show a picture (PNG, SVG) instead, or let scripts run in a frame of their own: %sentinel_trust_output scripts",
        "请改为显示图片（PNG、SVG），或允许脚本在独立框架中运行：%sentinel_trust_output scripts",
    ),
    ACTIVE: Words(
        "Parts of this output were left out: they could act in the page (forms, frames, handlers, styles of the "
        "page, commands).",
        "此输出的一部分已被去除：它们可能在页面中执行操作（表单、框架、事件处理、页面样式、命令）。",
        "Text, tables, pictures, links, and plots of the usual libraries are shown; input() and "
        "widgets ask the person.",
        "文本、表格、图片、链接以及常用绘图库的图形都可以显示；请用 input() 或控件询问用户。",
    ),
    REMOTE: Words(
        "This output would load something from another host, which tells that host what is in it; it was left out.",
        "此输出会从其他主机加载内容，并由此泄露其中的数据；相关部分已被去除。",
        _HOSTS_EN,
        _HOSTS_ZH,
    ),
    SHARED: Words(
        "This output draws with a library that another output loaded; here each output has a frame of its own, so it "
        "stays empty.",
        "此输出使用另一个输出加载的库绘图；而此处每个输出都有独立的框架，因此它显示为空。",
        "Give the library with the plot: include_plotlyjs=True, INLINE resources.",
        "请随图形一起提供库：include_plotlyjs=True、INLINE 资源。",
    ),
    TYPE: Words(
        "This output has a MIME type that pages may act on, and the profile does not list it; it was left out.",
        "此输出的 MIME 类型可能被页面执行，且未在配置中列出；已被去除。",
        'Show it as text, HTML or a picture, or list the type in a profile of your own: "outputs": {"types": [...]}',
        '请以文本、HTML 或图片显示，或在自己的配置中列出该类型："outputs": {"types": [...]}',
    ),
    WIDGET: Words(
        "A widget was held back: it brings code of its own (anywidget), or a module that the profile does not list.",
        "一个控件已被拦截：它自带代码（anywidget），或其模块未在配置中列出。",
        "ipywidgets, ipympl, ipyleaflet and k3d work. List a module that your server has in a profile of your own: "
        '"outputs": {"widget_modules": [...]}',
        "ipywidgets、ipympl、ipyleaflet 和 k3d 可以使用。请在自己的配置中列出服务器已安装的模块："
        '"outputs": {"widget_modules": [...]}',
    ),
    COMM: Words(
        "A comm was held back: its target is not one of widgets, and the profile does not list it.",
        "一个 comm 已被拦截：其目标不属于控件，且未在配置中列出。",
        'List the target in a profile of your own: "outputs": {"comm_targets": [...]}',
        '请在自己的配置中列出该目标："outputs": {"comm_targets": [...]}',
    ),
    PAYLOAD: Words(
        "A cell wanted to change another cell's text, or to open an editor, in a way that was held back.",
        "单元格试图更改其他单元格的文本或打开编辑器，已被拦截。",
        "Print the text, and copy what you want to run.",
        "请打印该文本，并自行复制要运行的内容。",
    ),
    RECORDING: Words(
        "A recording in this output was left out: it is a file's, or begins as none does, and may name other hosts to "
        "load from.",
        "此输出中的音频或视频已被去除：它来自文件，或其数据并非音视频，可能会从其他主机加载内容。",
        "Embed the data of an MP4, WebM, Ogg, WAV, MP3 or FLAC file: Video('x.mp4', embed=True), Audio('x.wav').",
        "请嵌入 MP4、WebM、Ogg、WAV、MP3 或 FLAC 文件的数据：Video('x.mp4', embed=True)、Audio('x.wav')。",
    ),
    TOO_LONG: Words(
        "A part of this output is a picture that is none, or more than can be looked through; it was left out.",
        "此输出的一部分是无效的图片，或内容过多，无法检查；已被去除。",
        "Show less of it, or write it to a file; a plot as PNG: plt.savefig('x.png', dpi=150), Image('x.png').",
        "请减少显示的内容，或将其写入文件；图形请以 PNG 显示：plt.savefig('x.png', dpi=150)、Image('x.png')。",
    ),
}


def named(kind: str, *names: str) -> set[str]:
    """Return a kind and what it is of; a name that is no host, MIME type or library's is left out."""
    fit = [one for one in names if one in _LIBRARIES or _HOST.fullmatch(one) or _MIME.fullmatch(one)]
    return {kind, *(f"{kind} {one}" for one in fit[: MOST_NAMED + 1])}


def hosts_in(text: str) -> list[str]:
    """Return the first hosts that addresses in ``text`` name, each once, in small letters."""
    found: dict[str, None] = {}
    for one in _ADDRESS.finditer(text):
        found[one[1].lower()] = None
        if len(found) > MOST_NAMED:
            break
    return list(found)


def remote(text: str) -> set[str]:
    """Return that ``text`` would load something from the hosts that it names."""
    return named(REMOTE, *hosts_in(text))


def notices(kinds: Iterable[str]) -> Iterator[tuple[str, Words, dict[str, Any]]]:
    """Yield for each kind what tells its notice from others, its words, and what it names, as data.

    Where the words hold names, which the sandbox's code has chosen, the data has those without: programs that read the
    record, an assistant's among them, take its message and hint for the host's own.
    """
    names: dict[str, list[str]] = {}
    for one in sorted(kinds):
        kind, _, name = one.partition(" ")
        names.setdefault(kind, []).extend([name] if name else [])
    for kind, some in names.items():
        if kind in WORDS:
            hosts = [one for one in some if "/" not in one and one not in _LIBRARIES]
            types = [one for one in some if "/" in one]
            words = WORDS[kind]
            for library in (one for one in some if one in _LIBRARIES):
                said_en, said_zh = _LIBRARIES[library]
                words = replace(words, hint_en=f"{said_en} {words.hint_en}", hint_zh=said_zh + words.hint_zh)
            data = {"hosts": hosts[:MOST_NAMED], "types": types[:MOST_NAMED]}
            named = {key: value for key, value in data.items() if value}
            yield " ".join([kind, *some]), _with_names(words, kind, hosts, types), named | _of_record(words)


def _of_record(words: Words) -> dict[str, Any]:
    return {
        "message": {"en": words.message_en, "zh": words.message_zh},
        "hint": {"en": words.hint_en, "zh": words.hint_zh},
    }


def _with_names(words: Words, kind: str, hosts: list[str], types: list[str]) -> Words:
    if kind == REMOTE and (hosts or types):
        from sentinel_kernel.policy.outputs_document import host_problem  # noqa: PLC0415 - where one was named

        can_be_trusted = " ".join(one for one in hosts[:MOST_NAMED] if not host_problem(one))
        if can_be_trusted:
            words = replace(
                words,
                hint_en=words.hint_en.replace("HOST", can_be_trusted),
                hint_zh=words.hint_zh.replace("主机名", can_be_trusted),
            )
        elif hosts:
            words = replace(
                words,
                hint_en=words.hint_en.replace(_HOSTS_EN, _EMBED_EN),
                hint_zh=words.hint_zh.replace(_HOSTS_ZH, _EMBED_ZH),
            )
    listed_en, listed_zh = _listed(hosts, types, ", ", " and others"), _listed(hosts, types, "、", "等")
    for before_en, before_zh in (("from another host", "从其他主机"), ("a MIME type", "的 MIME 类型")):
        if listed_en:
            words = replace(
                words,
                message_en=words.message_en.replace(before_en, f"{before_en} ({listed_en})"),
                message_zh=words.message_zh.replace(before_zh, f"{before_zh}（{listed_zh}）"),
            )
    return words


def _listed(hosts: list[str], types: list[str], comma: str, more: str) -> str:
    parts = [
        comma.join(some[:MOST_NAMED]) + (more if len(some) > MOST_NAMED else "")
        for some in (hosts, types)
        if some
    ]
    return "; ".join(parts)
