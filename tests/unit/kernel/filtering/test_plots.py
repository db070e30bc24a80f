"""Plots as their libraries give them to a page, and what is told of those that would load from elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sentinel_kernel.kernel.filtering import specs
from sentinel_kernel.kernel.filtering.messages import Filtered, Messages
from sentinel_kernel.policy.profile import Outputs

PLOTLY = "application/vnd.plotly.v1+json"
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
    express = pytest.importorskip("plotly.express")
    graph = pytest.importorskip("plotly.graph_objects")
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
