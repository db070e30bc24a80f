"""The hostile outputs with characters strewn in that readers skip, replace or take for others: none gets past for it.

What comes out is read as a browser reads it, and read again by the filter, which finds nothing more in it.
"""

from __future__ import annotations

import copy
import html.parser
import io
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import plotly_texts
import pytest
import tinycss2
from hostile_outputs import ATTACKS, Attack, source
from hypothesis import given, settings
from hypothesis import strategies as st

from sentinel_kernel.kernel.filtering.html import TAGS
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.kernel.filtering.plain_html import is_page_class
from sentinel_kernel.policy.profile import Outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Message = tuple[str, dict[str, Any]]

RULES = Outputs(html="sanitize")
EVIL = "https://evil.example"
STREWN = (
    *(
        "\0",
        "\ufeff",
        "\u00ad",
        "\u200b",
        "\u2028",
        "\r",
        "\n",
        "\t",
        "\f",
        "\v",
        "\x01",
        "\x7f",
        "\u017f",
        " ",
    ),
    *("&#9;", "&Tab;", "&NewLine;", "&shy;", "<!-- -->", "<x>", "</b>", "/**/", "\\", "\\ ", "'", '"'),
)
_SKIPPED = re.compile(r"\A[\x00-\x20]+|[\t\n\r]")
_ELSEWHERE = re.compile(r"(?:https?:|//|javascript:|data:text|vbscript:)", re.IGNORECASE | re.ASCII)


_ARGUMENT = re.compile(r"\\[a-zA-Z]+[\s\ufeff]*[\[{]([^\[\]{}]*)")
"""Of a command of LaTeX, behind what JavaScript takes for spaces."""


class Recorder:
    """Runs an attack's source, and keeps what a kernel would have sent."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def run(self, attack: Attack) -> list[Message]:
        shown = {
            kind: (lambda text, kind=kind: {f"text/{kind}": text}) for kind in ("html", "markdown", "latex")
        }
        names: dict[str, Any] = {
            "display": lambda data, **_options: self.show(data),
            "show_data": self.show,
            "html": lambda text: self.show({"text/html": text}),
            "HTML": shown["html"],
            "Markdown": shown["markdown"],
            "Latex": shown["latex"],
            "Javascript": lambda text: {"application/javascript": text},
            "create_comm": self.open,
            "model": self.model,
            "play": lambda name, _data, view="", **state: self.model(name, view, **state),
            "PLAYLIST": lambda where: f"#EXTM3U\n{where}".encode(),
            "show": lambda _comm: None,
            "open": lambda *_file: io.BytesIO(),
        }
        exec(source(attack, EVIL, 1, 2), names)
        return self.messages

    def show(self, data: dict[str, Any], metadata: dict[str, Any] | None = None) -> SimpleNamespace:
        self.messages.append(("display_data", {"data": data, "metadata": metadata or {}}))
        return SimpleNamespace(update=self.show)

    def open(self, target_name: str, data: dict[str, Any], **_more: Any) -> SimpleNamespace:
        comm_id = f"c{len(self.messages)}"
        self.messages.append(("comm_open", {"comm_id": comm_id, "target_name": target_name, "data": data}))
        return SimpleNamespace(comm_id=comm_id, send=lambda data, **_more: self.say(comm_id, data))

    def say(self, comm_id: str, data: dict[str, Any]) -> None:
        self.messages.append(("comm_msg", {"comm_id": comm_id, "data": data}))

    def model(
        self, name: str, view: str = "", module: str = "@jupyter-widgets/controls", **state: Any
    ) -> SimpleNamespace:
        names = {"_model_module": module, "_model_name": name, "_view_module": module}
        names["_view_name"] = view or name.replace("Model", "View")
        return self.open("jupyter.widget", {"state": {**names, **state}, "buffer_paths": []})


PLOTLY = "application/vnd.plotly.v1+json"
CHARTS: dict[str, dict[str, Any]] = {
    "plotly-title": {"layout": {"title": {"text": f"<span style='cursor:u\\72l({EVIL}/x)'>x</span>"}}},
    "plotly-strings": {
        "data": [{"text": [f"""<span style='font:"/*";cursor:url({EVIL}/x);font:"*/"'>x</span>"""]}]
    },
    "plotly-references": {"data": [{"text": [f'<b style="a:/&#1;*;cursor:u&#114;l({EVIL}/x);b:*/0">x</b>']}]},
    "plotly-prefix": {
        "data": [{"x": [f"le='cursor:url({EVIL}/x)'>hi"]}],
        "layout": {"xaxis": {"tickprefix": "<span sty"}},
    },
    "plotly-template": {
        "data": [{"customdata": [[f"cursor:url({EVIL}/x)"]], "text": "<i style='%{customdata[0]}'>x</i>"}]
    },
    "plotly-link": {"data": [{"text": ["<a href='javascript:alert(1)'>x</a>"]}]},
}
SENT = {
    attack.name: Recorder().run(attack)
    for attack in ATTACKS
    if attack.name not in ("pager", "next-input")  # texts of cells
} | {name: [("display_data", {"data": {PLOTLY: chart}, "metadata": {}})] for name, chart in CHARTS.items()}


KNOWN = {one.lower() for one in TAGS} | {"style", "image"}
"""An image of a picture is told by its address."""


class Page(html.parser.HTMLParser):
    """Collects what in a page acts, loads or looks like a part of the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self._sheet = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._sheet = tag == "style"
        if tag not in KNOWN:
            self.found.append(tag)
        self.found += [name for name, value in attrs if acts(tag, name, value or "")]

    def handle_data(self, data: str) -> None:
        if self._sheet and loads(data):
            self.found.append(data)

    def handle_endtag(self, _tag: str) -> None:
        self._sheet = False


def acts(tag: str, name: str, value: str) -> bool:
    """Tell whether an attribute acts, loads, or makes its element look like a part of the page."""
    if name.startswith(("on", "data-c", "srcset", "srcdoc", "form", "action", "background")):
        return True
    address = _SKIPPED.sub("", value).replace("\\", "/")
    if name in ("src", "poster", "xlink:href", "href") and _ELSEWHERE.match(address):
        return tag != "a" or not address.lower().startswith(("http:", "https:"))
    if name == "class":
        return any(map(is_page_class, value.split()))
    return name not in ("href", "src", "title", "alt", "value") and loads(value)


def loads(style: str) -> bool:
    """Tell whether a style or a style sheet has an address in it, or a rule that is known to load one."""
    waiting = tinycss2.parse_component_value_list(style)
    while waiting:
        one = waiting.pop()
        if one.type == "url" or (one.type == "at-keyword" and one.lower_value == "import"):
            return True
        if one.type == "function" and one.lower_name in ("url", "image-set", "-webkit-image-set", "src"):
            return True
        waiting.extend(getattr(one, "content", None) or getattr(one, "arguments", None) or ())
    return False


def as_javascript(value: Any) -> str:
    """Return the text that a page makes of a value."""
    return ",".join(map(as_javascript, value)) if isinstance(value, list) else str(value)


def chart_harm(figure: Any) -> list[str]:
    """Return the styles and the addresses in a chart's texts that would load, or lead to other than a page."""
    found = list[str]()
    for styles, links in map(plotly_texts.read, plotly_texts.shown(figure)):
        found += [style for style in styles if loads(style)]
        found += [link for link in links if not link.lower().startswith(("http:", "https:", "mailto:"))]
    return found


def harm(content: dict[str, Any]) -> list[str]:
    """Return what of a message that comes out would act or load."""
    found = chart_harm(content.get("data", {}).get(PLOTLY))
    for kind, value in content.get("data", {}).items():
        if kind in ("text/html", "text/markdown", "image/svg+xml"):
            found += Page(value).found
        if kind == "text/markdown":
            found += re.findall(r"!\[[^\]]*\]|(?:javascript|data)[\s\\]*:[^i]", value)
        if kind == "text/latex":
            found += re.findall(r"\\(?:href|style|class|cssId)(?![a-zA-Z])", value)
            found += [one[1] for one in _ARGUMENT.finditer(value) if loads(one[1])]
        if "javascript" in kind or kind in ("text/vnd.mermaid", "application/vnd.vegalite.v5+json"):
            found += [kind] if EVIL in str(value) or "javascript" in kind else []
    state = content.get("data", {}).get("state", {})
    for key, value in state.items():
        if state.get("_view_name", "HTMLView") in ("HTMLView", "HTMLMathView") and key in (
            "value",
            "description",
        ):
            found += Page(as_javascript(value)).found
        if re.fullmatch("[A-Za-z]*StyleModel", str(state.get("_model_name"))) and loads(as_javascript(value)):
            found.append(as_javascript(value))
        if key in ("_esm", "_css") or "evil" in state.get("_view_module", ""):
            found.append(key)
    return found


def texts(value: Any, put: Callable[[str], Any]) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Yield every text within a value, and how to put another in its place.

    Names of models stay: pages find them letter by letter, or show nothing.
    """
    if isinstance(value, str):
        yield value, put
    elif isinstance(value, dict | list):
        for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
            if not str(key).startswith(("_model", "_view")):
                yield from texts(inner, lambda made, where=value, key=key: where.__setitem__(key, made))


@pytest.mark.parametrize("name", SENT)
@settings(max_examples=10)
@given(st.data())
def test_no_character_gets_a_hostile_output_past(name: str, data: st.DataObject) -> None:
    messages = Messages()
    for msg_type, sent in copy.deepcopy(SENT[name]):
        for text, put in list(texts(sent["data"], lambda _made: None)):
            for _ in range(data.draw(st.integers(0, 3))):
                place = data.draw(st.integers(0, min(len(text), 300)))
                text = text[:place] + data.draw(st.sampled_from(STREWN)) + text[place:]  # noqa: PLW2901 - made longer
            put(text)
        if messages.filter(msg_type, sent, RULES).drop:
            continue
        assert harm(sent) == []
        again = copy.deepcopy(sent)
        Messages().filter(msg_type, again, RULES)
        for kind in ("text/markdown", "text/latex", "text/plain", PLOTLY):
            assert again["data"].get(kind) == sent["data"].get(kind)


@pytest.mark.parametrize("gap", ["", " ", "\ufeff", "\u2028"])
@pytest.mark.parametrize("style", ["url(//a.b)", "color:red;background:image-set('//a.b' 1x)"])
def test_a_style_of_latex_that_loads_is_told_and_kept_from_loading(gap: str, style: str) -> None:
    for around in ("[%s]", "{%s}"):
        shown = {"data": {"text/latex": rf"$\bbox{gap}{around % style}{{x}}$"}}
        assert harm(shown) != []
        Messages().filter("display_data", shown, RULES)
        assert harm(shown) == []


def test_what_is_harmful_is_told() -> None:
    told = {name for name, sent in SENT.items() if any(harm(content) for _, content in sent)}
    untold = ("frame-", "comm-", "vega", "widget-", "javascript-odd", "script-odd", "playlist-")
    assert not {name for name in set(SENT) - told if not name.startswith(untold)}
    assert {"widget-html", "widget-style", "widget-view", "anywidget"} <= told
