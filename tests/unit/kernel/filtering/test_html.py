"""HTML of outputs: what passes as it is, what is cleaned, what goes into a frame, and how long that takes."""

from __future__ import annotations

import html as entities
import re
import time
from collections import Counter

import nh3
import pytest
import tinycss2
from hypothesis import example, given
from hypothesis import strategies as st

from sentinel_kernel.kernel.filtering import css, held, html, markdown, plain_html
from sentinel_kernel.kernel.filtering.frame import framed, height
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.kernel.filtering.plain_html import is_plain
from sentinel_kernel.policy.profile import Outputs

FRAME, CLEAN, PLAIN = Outputs(), Outputs(html="sanitize"), Outputs(html="plain")

TABLE = (
    "<div>\n<style scoped>\n    .dataframe tbody tr th:only-of-type {\n        vertical-align: middle;\n    }\n\n"
    "    .dataframe tbody tr th {\n        vertical-align: top;\n    }\n\n    .dataframe thead th {\n"
    '        text-align: right;\n    }\n</style>\n<table border="1" class="dataframe">\n  <thead>\n'
    '    <tr style="text-align: right;">\n      <th></th>\n      <th>a &amp; b</th>\n    </tr>\n  </thead>\n'
    "  <tbody>\n    <tr>\n      <th>0</th>\n      <td>1 &lt; 2</td>\n    </tr>\n  </tbody>\n</table>\n</div>"
)

PIECES = st.sampled_from(
    [
        "<script>",
        "</script>",
        "<img src=x onerror=alert(1)>",
        "<svg>",
        "</svg>",
        "<math>",
        "<mtext>",
        "<mglyph>",
        "<style>",
        "</style>",
        "<!--",
        "-->",
        "<a href=javascript:1>",
        "<table>",
        "<td>",
        "</table>",
        "<template>",
        "</template>",
        "<noscript>",
        "<iframe srcdoc=x>",
        "<title>",
        "</title>",
        "<textarea>",
        "<xmp>",
        "<plaintext>",
        "<select>",
        "<option>",
        "<p>",
        "</p>",
        "<form>",
        "<b id=x>",
        "<div class=jp-Cell>",
        "<annotation-xml>",
        "<![CDATA[",
        "]]>",
        "&lt;",
        "&#60;",
        "'",
        "=",
        "/",
        ">",
        "<",
        "a=b",
        "onload=",
        "<foreignObject>",
        "<desc>",
        "<br/>",
        '"',
        "\0",
    ]
)
ACTIVE = re.compile(
    r"<\s*(?:script|iframe|object|embed|link|meta|base|form|frame|template|noscript)\b|<[^>]*\son[a-z]+=|javascript:",
    re.IGNORECASE,
)


def test_a_table_of_pandas_passes_byte_for_byte() -> None:
    assert html.filtered(TABLE, FRAME) == (TABLE, set())
    assert html.filtered(TABLE, CLEAN) == (TABLE, set())


@pytest.mark.parametrize(
    "text",
    [
        "<p>1 < 2</p><script>x</script>",
        "<p onclick=x>a</p>",
        '<p class="jp-Dialog">a</p>',
        '<p style="position: fixed">a</p>',
        '<p style="background: url(x)">a</p>',
        '<p title="a&#58;">a</p>',
        "<img src=x>",
        "<p title='a'>b</p>",
        "<p",
        "<p\u2028>a</p>",
        '<p\u00a0class="x">a</p>',
        "<!--x--><p>a</p>",
        '<a href="https://example.org">a</a>',
        TABLE.replace("text-align: right;\n    }\n</style>", "display: none;\n    }\n</style>"),
        "<di<style scoped>.dataframe a {text-align: left;}</style>v>a</div>",
    ],
)
def test_what_is_not_spelled_out_is_not_plain(text: str) -> None:
    assert not is_plain(text)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_what_is_plain_has_nothing_active(text: str) -> None:
    assert not (is_plain(text) and ACTIVE.search(text))


@given(st.lists(PIECES, max_size=12).map(" ".join))
@example("<p>  <table></table></p>")  # to a parser the table ends the paragraph, and </p> is one more
def test_cleaned_html_means_the_same_when_it_is_read_again(text: str) -> None:
    made, _ = html.cleaned(text)
    again, _ = html.cleaned(made)
    assert ACTIVE.search(re.sub(r"(?:^|>)[^<]*", ">", again)) is None  # what is between tags is text
    # Read again without any rule: a parser finds in it what was written, and no more.
    tags = {name.lower() for name in re.findall(r"<([a-zA-Z][a-zA-Z0-9-]*)", made)}
    assert tags <= {name.lower() for name in html.TAGS} | {"style"}
    read = nh3.clean(made, tags=set(html.TAGS) | {"style"}, clean_content_tags=set())
    assert _written(read) <= _written(made)


def _written(text: str) -> Counter[str]:
    """Return how often each tag begins, but for those that a parser adds by itself, as for an end tag alone."""
    names = (name.lower() for name in re.findall(r"<([a-zA-Z][a-zA-Z0-9-]*)", text))
    return Counter(name for name in names if name not in {"br", "colgroup", "p", "tbody", "tr"})


@pytest.mark.parametrize(
    ("text", "gone", "kind"),
    [
        ("<img src='http://192.0.2.1/a.png'>", "192.0.2.1", held.REMOTE),
        ("<img src='//192.0.2.1/a.png'>", "192.0.2.1", held.REMOTE),
        ("<img src='/api/kernels'>", "/api", held.REMOTE),
        ("<img src='api/kernels'>", "api", held.REMOTE),
        ("<img src='../a.png'>", "..", held.REMOTE),
        ("<div style='background:url(//a.b)'>x</div>", "url", held.REMOTE),
        ("<div style='position:fixed;color:red'>x</div>", "fixed", held.ACTIVE),
        ("<style>@import '//a.b'; p{color:red}</style><p>x</p>", "import", held.REMOTE),
        ("<style>p{background:u\\72l(//a.b)}</style><p>x</p>", "72l", held.REMOTE),
        ("<form action='https://a.b'><input name=a></form>", "form", held.ACTIVE),
        ("<button data-commandlinker-command='terminal:create-new'>x</button>", "commandlinker", held.ACTIVE),
        ("<div class='jp-Dialog x'>x</div>", "jp-Dialog", held.ACTIVE),
        ("<base href='//a.b'><p>x</p>", "base", held.ACTIVE),
        ("<link rel=stylesheet href='//a.b'><p>x</p>", "link", held.ACTIVE),
        ("<object data='//a.b'></object>", "object", held.ACTIVE),
        ("<a href='data:text/html,x'>x</a>", "data:", held.ACTIVE),
    ],
)
def test_what_loads_or_acts_is_left_out_and_told(text: str, gone: str, kind: str) -> None:
    made, kinds = html.filtered(text, CLEAN)
    assert gone not in made
    assert kind in kinds


@pytest.mark.parametrize(
    "text",
    [
        '<a href="https://example.org/a?b=c" rel="noopener noreferrer">a</a>',
        '<a href="made.csv" rel="noopener noreferrer">a</a>',
        '<img src="data:image/png;base64,AAAA" alt="x">',
        '<img src="figure.png">',
        '<details open=""><summary>a</summary>b</details>',
        '<audio controls=""><source src="data:audio/wav;base64,UklGRiQAAABXQVZFZm10IA==" type="audio/wav"></audio>',
        '<progress value="3" max="9"></progress>',
        '<div style="color: rgb(1, 2, 3); padding: 3px">a</div>',
    ],
)
def test_everyday_html_stays(text: str) -> None:
    assert html.filtered(text, CLEAN) == (text, set())


def test_a_style_sheet_holds_within_its_output_alone() -> None:
    made, kinds = html.filtered("<style>.a, body .b > c, #x{color:red}</style><p id='x'>a</p>", CLEAN)
    scope = re.search(r'id="(so-[0-9a-f]{16})"', made)
    assert scope is not None
    assert f"#{scope[1]} .a, body #{scope[1]} .b > c, #{scope[1]} #o-x {{ color: red }}" in made
    assert '<p id="o-x">' in made
    assert kinds == set()


def test_what_moves_is_cut_off_at_the_outputs_edge() -> None:
    made, _ = html.filtered("<div style='margin-top:-400px;position:absolute'>x</div>", CLEAN)
    assert made.startswith("<div id=")
    assert "contain:layout paint" in made


def test_a_script_runs_in_two_frames_without_an_origin() -> None:
    made, kinds = html.filtered("<p>a</p><script>draw()</script>", FRAME)
    outer = entities.unescape(re.findall(r'srcdoc="([^"]*)"', made)[0])
    inner = entities.unescape(re.findall(r'srcdoc="([^"]*)"', outer)[0])
    assert re.findall(r'sandbox="([^"]*)"', made + outer) == ["allow-scripts", "allow-scripts"]
    for document in (outer, inner):
        policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', document)[0]
        assert policy.startswith("default-src 'none'")
        assert "frame-src 'none'" in policy
        assert "https:" not in policy
    assert document.index("Content-Security-Policy") < document.index("<script")
    assert "draw()" not in made + outer + inner  # within the text that the frame reads
    assert kinds == set()


def test_without_frames_a_script_is_left_out_and_told() -> None:
    assert html.filtered("<p>a</p><script>draw()</script>", CLEAN) == ("<p>a</p>", {held.HTML_SCRIPT})
    assert html.filtered("<p>a</p><script>draw()</script>", PLAIN) == ("", {held.ACTIVE})


def test_listed_hosts_are_loaded_from() -> None:
    rules = Outputs(hosts=("www.youtube.com", "*.tile.openstreetmap.org"))
    video = '<iframe width="400" src="https://www.youtube.com/embed/x"></iframe>'
    assert 'src="https://www.youtube.com/embed/x"' in html.filtered(video, rules)[0]
    assert "iframe" not in html.filtered(video, FRAME)[0]
    assert "https://*.tile.openstreetmap.org" in html.filtered("<script>a</script>", rules)[0]
    tile = '<img src="https://a.tile.openstreetmap.org/1.png">'
    assert html.filtered(tile, rules) == (tile, set())
    assert html.filtered(tile.replace(".org", ".org.evil.net"), rules)[1] == held.named(
        held.REMOTE, "a.tile.openstreetmap.org.evil.net"
    )


def test_letters_of_other_alphabets_make_no_scheme() -> None:
    rules = Outputs(html="sanitize", hosts=("a.b",))
    for scheme, loads in (("https", True), ("HTTPS", True), ("http\u017f", False)):
        address = f"{scheme}://a.b/../../api"
        shown = html.filtered(f"<img src='{address}'><a href='{address}'>x</a>", rules)[0]
        assert ("src=" in shown, "href=" in shown) == (loads, loads)
        assert (markdown.filtered(f"![x]({address})", rules.hosts)[0] == f"![x]({address})") is loads
        names = {"_model_module": "jupyter-leaflet", "_model_name": "LeafletTileLayerModel"}
        state = {**names, "url": f"{address}//"}
        Messages().filter(
            "comm_open", {"target_name": "jupyter.widget", "comm_id": "a", "data": {"state": state}}, rules
        )
        assert (state["url"] != "") is loads


@pytest.mark.parametrize(
    ("text", "pixels"),
    [
        ("<div style='height: 300px'>", 324),
        ("<p>x</p>", 450),
        ('{"height": 5000}', 450),
        ("height:100%", 450),
    ],
)
def test_a_frame_is_as_high_as_its_content_says(text: str, pixels: int) -> None:
    assert height(text) == pixels
    assert f"height:{pixels}px" in framed(text, ())


@pytest.mark.parametrize(
    "text",
    [
        "<div>" * 200_000,
        "<b><p>" * 150_000,
        "<table><td><b>" * 70_000,
        "<" * 1_000_000,
        "<style>" * 140_000,
        "<style>" + "/*" * 480_000 + "</style>",
        '<style>a{b:"' + "\\41" * 300_000 + "</style>",
        "<iframe srcdoc='" * 60_000,
        "<a " + " ".join(f"a{number}=1" for number in range(100_000)) + ">",
        "<x " + "on" * 500_000,
        '<p style="' + "a:b;" * 250_000 + '">',
        "<div><x>" * 900 + "</y>" * 900,
        "<iframe src=https://" + "a" * 1_000_000,
        "<iframe" + " src=https://a" * 70_000,
        "<iframe" + " src" + " " * 1_000_000,
        "<b><i x='</b>'>" * 19_000,
        "<b/>" * 59_000,
        "<a " + "/".join(f"a{number}" for number in range(140_000)) + ">",
        "<a x='>' " + " ".join(f"a{number}" for number in range(140_000)) + ">",
        "<a " + "".join(f'a{number}=""' for number in range(90_000)) + ">",
        "<a <" + " ".join(f"a{number}" for number in range(140_000)) + ">",
        "<" * 2001 + "a" * 1_000_000,
        "<style>" + "html " * 100_000 + "{a:b}</style>",
        "<style>a{b:c}</style>" * 50_000,
        "<style>" + "a{b:c}" * 80_000 + "</style>",
        "<style>@" + "a" * 500_000 + "!{}</style>",
        "<p style='a:(" + "a" * 99_000 + ")'>",
    ],
    ids=lambda text: text[:12],
)
def test_a_mebibyte_of_anything_takes_bounded_time(text: str) -> None:
    before = time.process_time()
    for rules in (FRAME, CLEAN):
        html.filtered(text[: 1 << 20], rules)
    assert time.process_time() - before < 5  # of processor time: a square of the length would be minutes


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("<p>a</p>" * 2000, True),
        ('<svg><path d="M 0 0"/></svg><img src="a.png"/><!-- rows -->' * 800, True),
        ("<g/>" * 3000, False),
        ("<svg><b/></svg>" * 2000, False),
        ("<b><i x='</b>'>" * 2000, False),
        ('<path d="' + "1 2 " * 3000 + '">', True),
        ("<a " + " ".join(f"a{number}" for number in range(9000)) + ">", False),
        ("<a " + "/".join(f"a{number}" for number in range(9000)) + ">", False),
        ("<a x='>'" + " ".join(f"a{number}" for number in range(9000)) + ">", False),
    ],
    ids=lambda text: str(text)[:12],
)
def test_what_readers_take_long_for_is_told_from_everyday_reports(text: str, quick: bool) -> None:
    assert html.is_quickly_read(text) is quick


def test_a_reference_to_a_number_of_thousands_of_digits_is_read() -> None:
    number = "&#" + "1" * 5000 + ";"
    assert html.filtered(f"<script src='{number}'></script>", FRAME)[0].startswith("<div")
    assert html.filtered(f"<iframe srcdoc='{number}'></iframe>", FRAME)[0].startswith("<div")


@pytest.mark.parametrize(
    "name", ["fill", "stroke", "mask", "clip-path", "font-family", "stop-color", "transform", "width"]
)
@pytest.mark.parametrize(
    "value", ["u\\72l(//a.b)", "url(//a.b)", "u\\72 l(//a.b)", "image-set('//a.b' 1x)", "red;a:\\75rl(//a.b)"]
)
def test_an_attribute_of_a_picture_is_held_to_the_rules_of_styles(name: str, value: str) -> None:
    made, kinds = html.filtered(f"<svg><rect {name}=\"{value}\" x='1'/></svg>", CLEAN)
    assert made == '<svg><rect x="1"></rect></svg>'
    assert kinds == {held.REMOTE}


LOADING = "url(//a.b)"


@pytest.mark.parametrize(
    "style",
    [
        f"color: '/*'; background: {LOADING}; color: '*/'",
        f"color: /*'*/red; background: {LOADING}; color: /*'*/red",
        *(f"color: 'a{end}; background: {LOADING}; '" for end in "\n\r\f"),
    ],
)
def test_strings_and_comments_of_styles_end_where_browsers_end_them(style: str) -> None:
    assert not is_plain(f'<p style="{style}">x</p>')
    for text in (f'<p style="{style}">x</p>', f'<img><p style="{style}">x</p>'):
        shown = html.filtered(text, CLEAN)[0]
        value = re.findall(r'style="([^"]*)"', shown)
        assert not loads("".join(value))
    assert loads(style)  # positive control
    inside = style.replace("'", '"').replace("; background: url(", "} body{background: url(")
    shown = html.filtered(f"<style>p{{{inside}}}</style><p>x</p>", CLEAN)[0]
    assert not loads("".join(re.findall(r"<style>(.*?)</style>", shown, re.DOTALL)))
    assert not css.is_value(f"/*'*/{LOADING}/*'*/")
    drawn = html.filtered(f"<svg><rect mask=\"/*'*/{LOADING}/*'*/\"/></svg>", CLEAN)
    assert drawn == ("<svg><rect></rect></svg>", {held.REMOTE})


def loads(style: str) -> bool:
    """Tell whether a browser's reading of a style, or of a style sheet, finds an address in it."""
    waiting = tinycss2.parse_component_value_list(style)
    while waiting:
        one = waiting.pop()
        if one.type == "url" or (one.type == "function" and one.lower_name == "url"):
            return True
        waiting.extend(getattr(one, "content", None) or getattr(one, "arguments", None) or ())
    return False


def test_a_picture_keeps_its_own_references_and_words() -> None:
    text = (
        '<svg><rect id="a" fill="url(#a)" transform="rotate(3 1 2)"></rect></svg><p title="C:\\a (b)">x</p>'
    )
    made, kinds = html.filtered(text, CLEAN)
    assert made == text.replace("#a", "#o-a").replace('id="a"', 'id="o-a"')
    assert kinds == set()


@pytest.mark.parametrize(
    "style",
    [
        "transform: scale(9)",
        "-webkit-transform: scale(9)",
        "-webkit-margin-before: -99px",
        "margin-inline-start: -99px",
        "box-shadow: 0 -99px red",
        "outline: 99px solid red",
        "vertical-align: 99px",
        "text-shadow: 0 -99px red",
        "text-indent: -99px",
        "position: relative",
        "filter: drop-shadow(0 -99px red)",
        "zoom: 9",
        "border-image-outset: 99px",
    ],
)
def test_what_may_paint_elsewhere_is_cut_off_at_the_outputs_edge(style: str) -> None:
    assert "contain:layout paint" in html.filtered(f'<p style="{style}">a</p>', CLEAN)[0]
    assert "contain:layout paint" in html.filtered(f"<style>p{{{style}}}</style><p>a</p>", CLEAN)[0]


@pytest.mark.parametrize(
    "style",
    [
        "text-align: right; background-color: #eee; color: rgb(1, 2, 3)",
        "padding: 3px; margin: 0 3px; border: 1px solid; border-radius: 3px; width: 50%",
        "display: flex; flex-wrap: wrap; gap: 3px; justify-content: center",
        "vertical-align: top; font-weight: bold; white-space: pre-wrap; box-shadow: none",
    ],
)
def test_everyday_styles_stay_where_they_are(style: str) -> None:
    text = f'<p style="{style}">a</p>'
    assert html.filtered(text, CLEAN) == (text, set())


def test_caches_keep_brief_texts_alone() -> None:
    css._brief_declarations.cache_clear()
    plain_html._is_brief_plain_tag.cache_clear()
    for length in (10, 1000, 100_000):
        html.filtered(f'<p title="{"a" * length}" style="color: #{"a" * length}">x</p>', CLEAN)
    assert css._brief_declarations.cache_info().currsize == 1
    assert plain_html._is_brief_plain_tag.cache_info().currsize == 2
