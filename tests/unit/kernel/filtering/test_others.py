"""Markdown, SVG, style sheets, charts, texts for terminals: what is left of each."""

from __future__ import annotations

from xml.dom import minidom

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.kernel.filtering import css, markdown, specs, svg, terminal


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a\x1b[1;31mb\x1b[0m", "a\x1b[1;31mb\x1b[0m"),
        ("50%\r100%\b\n\t", "50%\r100%\b\n\t"),
        ("\x1b]8;;http://a.b\x1b\\text\x1b]8;;\x1b\\", "text"),
        ("\x1b]52;c;aGk=\x07x", "x"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b[2J\x1b[1;1H\x1b[Ax\x1b[K", "x"),
        ("\x9b2Jx\x9d0;a\x9cy", "xy"),
        ("\x1bcx\x1b(0y\x07", "xy"),
        ("\x1bPdcs\x1b\\x", "x"),
        ("\x1b[31", ""),
    ],
)
def test_colours_stay_and_other_escapes_go(text: str, left: str) -> None:
    assert terminal.plain(text) == left


@given(st.text(st.sampled_from("\x1b\x9b\x9d\x07[]m;0123\\ab\r\n\b")))
def test_nothing_but_colours_begins_with_an_escape(text: str) -> None:
    made = terminal.plain(text)
    assert terminal.plain(made) == made
    assert not set(made) & set("\x9b\x9d\x07")


def test_a_prompt_is_one_line_in_one_direction() -> None:
    assert terminal.line("a\u202eb\u2066c" + "e" + "\u0301" * 50) == "abce" + "\u0301" * 3


@pytest.mark.parametrize(
    "text",
    [
        "<script>x</script>",
        "<img src=x onerror=x>",
        "![a](http://a.b/c.png)",
        "![a][r]\n\n[r]: http://a.b",
        "[a](javascript:x)",
        "[a](<java\tscript:x>)",
        "[a](javascript&colon;x)",
        "[a](&#106;avascript:x)",
        "[a](javascript\\:x)",
        "[a](data:text/html,x)",
        "```mermaid\nflowchart\nA@{ img: 'http://a.b' }\n```",
        *(
            f"{fence}{space}mermaid\nflowchart\nA@{{ img: 'http://a.b' }}\n"
            for fence in ("```", "~~~", "`````")
            for space in ("\u00a0", "\u3000", "\v", "\f", "\ufeff", "\u2028", "\\", "{.", "x ", "\u200b")
        ),
        "```\u24dcermaid\nA@{ img: 'https:a.b' }",
        "```mer\u200bmaid\nA@{ img: 'https:a.b' }",
        "$\\href{javascript:x}{y}$",
        "!![a](http://a.b)",
        "<details ontoggle=x open>",
    ],
)
def test_markdown_keeps_nothing_that_acts(text: str) -> None:
    made, _ = markdown.filtered(text)
    assert made != text
    assert "<script" not in made
    assert "<img" not in made
    assert "![" not in made
    assert "javascript:" not in made.replace("\\", "").replace("\t", "")
    assert "data:text" not in made
    assert "mermaid" not in made
    assert "\\href" not in made
    assert "&#" not in made.replace("&amp;#", "")


@pytest.mark.parametrize(
    "text",
    [
        "# A\n\n- b **c** `d < e` <https://example.org> [f](https://example.org/g?h=1&i=2)",
        "a <b>b</b><br>c<sub>2</sub>",
        "![a](data:image/png;base64,AAAA)",
        "![a](figure.png) ![b](attachment:c.png)",
        "$\\frac{a}{b}$ & more; AT&T &amp; &copy;",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "```python\nx: int = 1\n```",
        "```mermaid\nflowchart TD\nA-->B\n```",
    ],
)
def test_everyday_markdown_stays(text: str) -> None:
    assert markdown.filtered(text) == (text, set())


@pytest.mark.parametrize(
    "inside",
    [
        "<script>x</script>",
        "<a xlink:href='javascript:x'><rect/></a>",
        "<image href='http://a.b/c.png'/>",
        "<use href='http://a.b/c.svg#d'/>",
        "<foreignObject><body xmlns='http://www.w3.org/1999/xhtml'><img src='x' onerror='x'/></body></foreignObject>",
        "<style>@import 'http://a.b'; a{fill:url(http://a.b)}</style>",
        "<rect style='fill:url(http://a.b)' onload='x'/>",
        "<rect fill='url(http://a.b)'/>",
        "<rect fill='u\\72l(http://a.b)'/>",
        "<rect mask='u\\72 l(a.b)'/>",
        "<rect clip-path='image-set(\"a.b\" 1x)'/>",
        "<animate attributeName='href' to='javascript:x'/>",
        "<set attributeName='onload' to='x'/>",
    ],
)
def test_a_picture_is_a_picture(inside: str) -> None:
    names = "xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink'"
    text = f"<svg {names}>{inside}<path d='M0 0'/></svg>"
    made, dropped = svg.clean(text)
    assert dropped or "<a " in inside
    assert "a.b" not in made
    assert "script" not in made
    assert "onload" not in made
    assert '<path d="M0 0">' in made
    minidom.parseString(made)


def test_a_picture_with_entities_or_without_end_is_none() -> None:
    bomb = '<!DOCTYPE svg [<!ENTITY a "b">]><svg xmlns="http://www.w3.org/2000/svg"><text>&a;</text></svg>'
    assert svg.clean(bomb) == ("", True)
    assert svg.clean("<svg><g>") == ("", True)
    assert svg.clean("<p>no picture</p>") == ("", True)
    assert svg.clean("<svg>" + "<g>" * 300 + "</g>" * 300 + "</svg>") == ("", True)


@given(st.text(st.sampled_from("abc{}();:,#.@/*\"'\\<>-! \nurl0"), max_size=60))
def test_a_style_sheet_never_leaves_its_output(text: str) -> None:
    made, _, _ = css.scoped(text, "so")
    assert "<" not in made
    assert "url" not in made or "url(" not in made
    assert "@import" not in made
    assert made.count("{") == made.count("}")
    for line in made.splitlines():
        if line.endswith("}") and "{" in line:
            assert all("#so" in one for one in line.partition("{")[0].split(",") if "(" not in line)


def test_rows_of_a_chart_are_data_whatever_their_names() -> None:
    assert specs.clean_vega({"data": {"values": [{"url": "http://a.b", "href": 1}]}, "mark": "bar"})
    assert not specs.clean_vega({"data": {"url": "data/cars.json"}, "mark": "bar"})
    assert not specs.clean_vega({"data": {"values": []}, "mark": {"type": "image"}})
    assert not specs.clean_vega({"layer": [{"encoding": {"href": {"field": "a"}}}]})
    spec = {"mark": "bar", "usermeta": {"embedOptions": {"sourceHeader": "<script>"}}}
    assert specs.clean_vega(spec)
    assert "usermeta" not in spec
    assert specs.clean_plotly(
        {"data": [{"type": "heatmap", "z": [[1]]}], "layout": {"title": {"text": "<b>a</b>"}}}
    )
    assert not specs.clean_plotly({"data": [{"type": "scattermapbox"}]})
    assert not specs.clean_plotly({"layout": {"images": [{"source": "http://a.b/c.png"}]}})


@pytest.mark.parametrize(
    "inside",
    [
        "<g/>" * 60_000,
        "<style>" + "html " * 50_000 + "{a:b}</style><style>" + "html " * 60_000 + "{a:b}</style>",
        "<g " + " ".join(f"a{number}='1'" for number in range(300_001)) + "/>",
    ],
    ids=["elements", "sheets", "attributes"],
)
def test_a_picture_that_takes_long_is_none(inside: str) -> None:
    assert svg.clean(f"<svg>{inside}</svg>") == ("", True)


def test_a_pictures_style_sheet_holds_within_it_alone() -> None:
    one, _ = svg.clean("<svg id='a'><style>rect, #b{fill:red}</style><rect/></svg>")
    scope = one.partition('data-scope="')[2].partition('"')[0]
    assert f"svg[data-scope='{scope}'] rect, svg[data-scope='{scope}'] #b {{ fill: red }}" in one
    assert 'id="a"' in one
    other, _ = svg.clean("<svg><rect/></svg>")
    assert scope not in other


@pytest.mark.parametrize(
    "layout",
    [
        {"mapbox": {"style": "https://a.b/style.json"}},
        {"map2": {"style": "mapbox://styles/a"}},
        {"map": {"style": {"version": 8, "sources": {}, "layers": []}}},
        {"updatemenus": [{"buttons": [{"method": "restyle", "args": ["geojson", "https://a.b/x.json"]}]}]},
        {"mapbox": {"layers": [{"sourcetype": "raster", "source": ["https://a.b/{z}"]}]}},
        {"template": {"layout": {"mapbox": {"style": "\\\\a.b\\style"}}}},
        {"updatemenus": [{"buttons": [{"method": "relayout", "args": [{"mapbox.style": "https://a.b"}]}]}]},
        {"updatemenus": [{"buttons": [{"method": "relayout", "args": ["map.style", "https://a.b"]}]}]},
        {"updatemenus": [{"buttons": [{"method": "restyle", "args": [{"type": "scattermapbox"}]}]}]},
        {"updatemenus": [{"buttons": [{"method": "restyle", "args": ["type", ["choropleth"]]}]}]},
        {"sliders": [{"steps": [{"method": "restyle", "args": ["type", "scattergeo"]}]}]},
    ],
)
def test_a_layout_makes_no_map(layout: dict[str, object]) -> None:
    assert not specs.clean_plotly({"data": [{"y": [1]}], "layout": layout})


def test_styles_of_maps_that_nobody_draws_stay() -> None:
    layout = {"template": {"layout": {"mapbox": {"style": "light"}, "geo": {"showland": True}}}}
    buttons = [
        {"method": "restyle", "args": [{"type": "heatmap"}]},
        {"method": "relayout", "args": ["title", "a/b"]},
    ]
    assert specs.clean_plotly({"data": [], "layout": {**layout, "updatemenus": [{"buttons": buttons}]}})


def test_inputs_of_a_chart_stay_with_it() -> None:
    assert specs.clean_vega({"signals": [{"name": "a", "bind": {"input": "range", "max": 3}}]})
    assert not specs.clean_vega({"signals": [{"name": "a", "bind": {"input": "range", "element": "body"}}]})
    assert not specs.clean_vega({"signals": [{"name": "a", "bind": {"element": "input", "event": "input"}}]})
    assert not specs.clean_vega(
        {"params": [{"name": "a", "bind": {"x": {"input": "text", "element": "#b"}}}]}
    )
