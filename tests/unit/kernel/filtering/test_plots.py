"""Plots as their libraries give them to a page, and what is told of those that would load from elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lacking import need_module

from sentinel_kernel.kernel.filtering import held, html, loads, specs
from sentinel_kernel.kernel.filtering.messages import Filtered, Messages
from sentinel_kernel.policy.profile import Outputs

PLOTLY = "application/vnd.plotly.v1+json"
ALTAIR = """<div id="altair-viz-7a"></div><script type="text/javascript">
  (function(spec, embedOpt){ const paths = {
      "vega": "https://cdn.jsdelivr.net/npm/vega@6?noext",
      "vega-lite": "https://cdn.jsdelivr.net/npm/vega-lite@6.4.1?noext",
      "vega-embed": "https://cdn.jsdelivr.net/npm/vega-embed@7?noext",
  }; })({"$schema": "https://vega.github.io/schema/vega-lite/v6.4.1.json"}, {"mode": "vega-lite"});
</script>"""
"""What Altair 6 shows by itself, cut."""

STYLES = {
    "choropleth": [{"type": "choropleth", "colorbar": {"ticks": ""}}],
    "scattermap": [{"type": "scattermap", "marker": {}}],
    "bar": [{"type": "bar"}],
}


def shown(kind: str, value: Any) -> Filtered:
    content = {"data": {kind: value, "text/plain": "x"}, "metadata": {}}
    told = Messages().filter("display_data", content, Outputs())
    assert (kind in content["data"]) == (not told.kinds)
    return told


def plotly_figures() -> dict[str, Any]:
    express = need_module("plotly.express")
    graph = need_module("plotly.graph_objects")
    links = graph.Sankey(node={"label": ["a", "b"]}, link={"source": [0], "target": [1], "value": [3]})
    figures = {
        "line": express.line(x=[1, 2], y=[3, 4]),
        "scatter": express.scatter(x=[1, 2], y=[3, 4]),
        "bar": express.bar(x=["a"], y=[3]),
        "imshow": express.imshow([[1, 2], [3, 4]]),
        "picture": express.imshow([[[1, 2, 3]]], binary_string=True),
        "histogram": express.histogram(x=[1, 1, 2]),
        "animated": express.scatter(x=[1, 2], y=[3, 4], animation_frame=["a", "b"]),
        "links": graph.Figure(links),
    }
    maps = {"Choropleth", "Choroplethmap", "Densitymap", "Scattergeo", "Scattermap"}
    names = {one.__name__ for one in graph.Figure().add_bar().data[0].__class__.__base__.__subclasses__()}
    for name in sorted(name for name in names - maps if hasattr(graph, name) and "mapbox" not in name):
        figures[name] = graph.Figure(getattr(graph, name)(), layout={"template": "plotly"})
    return figures


def test_plots_pass_as_plotly_gives_them_to_a_page() -> None:
    figures = plotly_figures()
    assert len(figures) >= 40
    told = {name: shown(PLOTLY, json.loads(figure.to_json())) for name, figure in figures.items()}
    assert {name: one for name, one in told.items() if one.kinds} == {}


def test_styles_of_a_template_are_no_traces() -> None:
    layout = {"template": {"data": STYLES, "layout": {"geo": {"bgcolor": "white"}}}}
    assert specs.clean_plotly({"data": [{"type": "bar"}], "layout": layout})
    assert layout["template"]["data"] == STYLES
    assert not specs.clean_plotly({"data": [{"type": "choropleth"}], "layout": layout})
    assert not specs.clean_plotly(
        {"data": [], "layout": layout, "frames": [{"data": [{"type": "scattergeo"}]}]}
    )


@pytest.mark.parametrize(
    "layout",
    [
        {"template": {"data": {"scatter": [{"type": "choropleth"}]}}},
        {"template": {"data": {"bar": [{"type": "bar", "source": "https://a.b/c.png"}]}}},
        {"template": {"layout": {"images": [{"source": "https://a.b/c.png"}]}}},
        {"updatemenus": [{"buttons": [{"method": "restyle", "args": ["type", ["scattergeo"]]}]}]},
        {"updatemenus": [{"buttons": [{"method": "relayout", "args": [{"images[0].source": "//a.b"}]}]}]},
        {"sliders": [{"steps": [{"method": "relayout", "args": ["images[0].source", "//a.b"]}]}]},
    ],
)
def test_what_loads_is_found_wherever_a_layout_may_say_it(layout: Any) -> None:
    assert not specs.clean_plotly({"data": [{"y": [1]}], "layout": layout})


def test_altairs_own_type_is_one_that_pages_draw() -> None:
    spec = {"data": {"values": [{"a": 1}]}, "mark": "bar"}
    for kind in ("vegalite.v6.json", "vegalite.v6+json", "vegalite.v5.json"):
        content = {"data": {f"application/vnd.{kind}": dict(spec), "text/plain": "x"}, "metadata": {}}
        assert not Messages().filter("display_data", content, Outputs()).kinds
        assert content["data"] == {"application/vnd.vegalite.v5+json": spec, "text/plain": "x"}


def test_rows_and_outlines_may_come_from_a_listed_host() -> None:
    rows = {"data": {"url": "https://data.example.org/cars.json"}, "mark": "bar"}
    assert not specs.clean_vega(rows, ("example.org",))
    assert specs.clean_vega(rows, ("*.example.org",))
    assert not specs.clean_vega({"data": {"url": "https://data.example.org:1/c"}}, ("*.example.org",))
    assert specs.clean_plotly({"data": [{"type": "scattergeo"}]}, ("cdn.plot.ly",))
    assert not specs.clean_plotly({"data": [{"type": "scattermap"}]}, ("cdn.plot.ly",))


def said(kinds: frozenset[str] | set[str]) -> tuple[str, str, dict[str, Any]]:
    ((_, words, data),) = held.notices(kinds)
    assert (words.message_zh, words.hint_zh) != ("", "")
    without_names = {key: data.pop(key) for key in ("message", "hint")}
    for name in (*data.get("hosts", ()), *data.get("types", ())):
        assert name in words.message_zh
        assert name not in str(without_names)
    if not data:
        assert without_names["message"] == {"en": words.message_en, "zh": words.message_zh}
        assert without_names["hint"] == {"en": words.hint_en, "zh": words.hint_zh}
    return words.message_en, words.hint_en, data


def test_a_notice_names_hosts_and_type_of_a_chart() -> None:
    told = shown(PLOTLY, {"data": [{"type": "choropleth", "x": ["//no.example.org"]}], "layout": {}})
    message, hint, data = said(told.kinds)
    assert f"from another host (cdn.plot.ly; {PLOTLY})" in message
    assert "%sentinel_trust_output cdn.plot.ly" in hint
    assert data == {"hosts": ["cdn.plot.ly"], "types": [PLOTLY]}
    kind = "application/vnd.vegalite.v5+json"
    message, hint, data = said(shown(kind, {"data": {"url": "https://a.example.org/b.json"}}).kinds)
    assert data == {"hosts": ["a.example.org"], "types": [kind]}


def test_a_frame_that_would_stay_empty_names_the_hosts_it_lacks() -> None:
    message, hint, data = said(html.filtered(ALTAIR, Outputs(html="frame"))[1])
    assert "(cdn.jsdelivr.net)" in message
    assert "%sentinel_trust_output cdn.jsdelivr.net" in hint
    assert 'alt.renderers.enable("mimetype")' in hint
    assert data == {"hosts": ["cdn.jsdelivr.net"]}
    assert html.filtered(ALTAIR, Outputs(html="frame", hosts=("cdn.jsdelivr.net",)))[1] == set()


def test_a_plot_with_its_library_is_told_nothing_of() -> None:
    graph = need_module("plotly.graph_objects")
    figure = graph.Figure(graph.Scatter(y=[1, 3]))
    rules = Outputs(html="frame")
    assert html.filtered(figure.to_html(full_html=False, include_plotlyjs=True), rules)[1] == set()
    _, hint, data = said(html.filtered(figure.to_html(include_plotlyjs="cdn"), rules)[1])
    assert data == {"hosts": ["cdn.plot.ly"]}
    _, hint, _ = said(html.filtered(figure.to_html(include_plotlyjs=False), rules)[1])
    assert "plotly_mimetype" in hint


def test_bokehs_shared_library_has_a_hint_of_its_own() -> None:
    _, hint, data = said(shown("application/vnd.bokehjs_exec.v0+json", "").kinds)
    assert "file_html(plot, INLINE)" in hint
    assert data == {"types": ["application/vnd.bokehjs_exec.v0+json"]}


def test_names_in_a_notice_are_few_and_harmless() -> None:
    many = "".join(f"<script src='https://h{number}.example.org/a.js'></script>" for number in range(9))
    message, hint, data = said(html.filtered(many, Outputs(html="frame"))[1])
    assert data == {"hosts": [f"h{number}.example.org" for number in range(3)]}
    assert "h2.example.org and others" in message
    assert "h3" not in message + hint
    for name in ("localhost", "a b.org", "<b>.org", "x" * 200 + ".org", "a.org\n", "A.ORG"):
        assert held.named(held.REMOTE, name) == {held.REMOTE}
    _, hint, data = said(held.remote("http://192.0.2.1/a.png"))
    assert data == {"hosts": ["192.0.2.1"]}
    assert "sentinel_trust_output" not in hint


def test_a_frame_is_looked_through_in_time_that_grows_with_its_length() -> None:
    for part in ("<script>", "<script src= ", "'//a/", "@import url( ", "import 'plotly", "from 'a", " src="):
        loads.lacking("<script>Plotly.newPlot(" + part * (500_000 // len(part)), bool)


def test_pictures_of_markdown_and_tiles_of_widgets_name_their_host() -> None:
    told = shown_anyway("text/markdown", "![a](https://a.example.org/b.png)")
    assert said(told)[2] == {"hosts": ["a.example.org"]}
    tiles = {"url": "https://tile.example.org/{z}.png", "_model_module": "jupyter-leaflet"}
    names = {"_model_name": "LeafletTileLayerModel", "_view_module": "jupyter-leaflet"}
    state = {**tiles, **names, "_view_name": "LeafletTileLayerView"}
    data = {"state": state, "buffer_paths": []}
    opened = {"comm_id": "one", "target_name": "jupyter.widget", "data": data}
    assert said(Messages().filter("comm_open", opened, Outputs()).kinds)[2] == {"hosts": ["tile.example.org"]}


def shown_anyway(kind: str, value: str) -> frozenset[str]:
    content = {"data": {kind: value}, "metadata": {}}
    return Messages().filter("display_data", content, Outputs()).kinds
