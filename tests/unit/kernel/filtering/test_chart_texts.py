"""Texts of Plotly's charts: read as plotly.js reads them, joined and filled in, they load nothing; honest ones stay."""

from __future__ import annotations

import copy
import json
from typing import Any

import plotly_texts
import pytest
import tinycss2
from lacking import need_module

from sentinel_kernel.kernel.filtering import chart_texts, held
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.kernel.filtering.work import Work
from sentinel_kernel.policy.profile import Outputs

PLOTLY = "application/vnd.plotly.v1+json"
LINK = "<a href='https://en.wikipedia.org/wiki/Oslo_(city)?a=1&b=2'>Oslo</a>"


def shown(figure: Any) -> tuple[Any, set[str]]:
    content = {"data": {PLOTLY: figure}, "metadata": {}}
    told = Messages().filter("display_data", content, Outputs())
    return content["data"].get(PLOTLY), set(told.kinds)


def loads(style: str) -> bool:
    waiting = list(tinycss2.parse_component_value_list(style))
    while waiting:
        one = waiting.pop()
        if one.type == "url" or (one.type == "function" and one.lower_name in ("url", "image-set")):
            return True
        waiting.extend(getattr(one, "content", None) or getattr(one, "arguments", None) or ())
    return False


def acts(figure: Any) -> bool:
    """Tell whether any text that plotly.js may show has a style that loads, or leads to a script."""
    read = [plotly_texts.read(text) for text in plotly_texts.shown(figure)]
    return any(
        any(map(loads, styles)) or not all(one.lower().startswith(("https:", "http:")) for one in links)
        for styles, links in read
    )


@pytest.mark.parametrize(
    "text",
    [
        """<span style='font:"/*";cursor:u\\72l(//evil/x);font:"*/"'>x</span>""",
        '<span style="font:&quot; ;cursor:u&#114;l(//evil/x); &quot;">x</span>',
        '<span style="x:/&#1;*;cursor:u&#114;l(//evil/x);x:*/0">x</span>',
        "<span xstyle=\"/* style='cursor:u\\72l(//evil/x)' \">x</span>",
        "<span style\ufeff='cursor:u\\72l(//evil/x)'>x</span>",
        "<span style='cursor:url(//evil/x)'>x</span>",
        "<span\nSTYLE='cursor:url(//evil/x)'>x</span>",
        "<b class=\"a style='cursor:url(//evil/x)'\">x</b>",
        "<a href=\"https://a.b/ style='cursor:url(//evil/x)'\">x</a>",
        "<span style=\"cursor:image-set('//evil/x' 1x)\">x</span>",
        "<a href='javascript:void(0)'>x</a>",
        "<sub style='color:red;mask:url(//evil/x)'>x</sub>",
    ],
)
def test_a_style_that_loads_is_taken_out_and_the_rest_of_the_chart_is_shown(text: str) -> None:
    for figure in (
        {"data": [], "layout": {"title": {"text": text}}},
        {"data": [{"type": "scatter", "text": ["a", text]}]},
        {"data": [{"customdata": [[1, [text]]]}]},
        {"data": [], "frames": [{"layout": {"annotations": [{"text": text}]}}]},
    ):
        assert acts(figure)  # positive control
        made, kinds = shown(figure)
        assert not acts(made)
        assert kinds == {held.ACTIVE}


REST = "le='cursor:url(//evil/x)'>hi"


@pytest.mark.parametrize(
    "figure",
    [
        {"data": [{"customdata": [["<span sty"]], "hovertemplate": "%{customdata[0]}" + REST}]},
        {"data": [{"x": [REST]}], "layout": {"xaxis": {"tickprefix": "<span sty"}}},
        {"data": [{"cells": {"prefix": "<span sty", "values": [[REST]]}}]},
        {"data": [{"number": {"prefix": "<"}, "title": "span sty" + REST}]},
        {"data": [{"hovertemplate": "<sp<extra>a</extra>an sty" + REST}]},
        {"data": [{"hovertemplate": "<%{customdata}>", "customdata": ["span sty" + REST[:-3]]}]},
        {"data": [{"hovertemplate": "<b %{customdata}>", "customdata": ["style='cursor:url(//evil/x)'"]}]},
        {
            "data": [
                {"hovertemplate": "<b style='%{customdata}'>a</b>", "customdata": ["cursor:url(//evil/x)"]}
            ]
        },
    ],
)
def test_no_tag_comes_of_texts_that_are_joined_and_filled_in(figure: Any) -> None:
    assert acts(figure)  # positive control
    made, _ = shown(copy.deepcopy(figure))
    assert made is not None
    assert not acts(made)
    again, kinds = shown(copy.deepcopy(made))
    assert (again, kinds) == (made, set())


@pytest.mark.parametrize(
    "text", ["%{y:<^20}span", "%{y:<<20}", "%{x|%Y<}span", "<=20c", "a < ", "<\ufeff", "<'"]
)
def test_a_format_that_could_write_what_begins_a_tag_is_none(text: str) -> None:
    made, kinds = shown({"data": [{"hovertemplate": text}]})
    assert made["data"][0]["hovertemplate"].startswith(text.partition("<")[0] + "<\u200b")
    assert kinds == set()


@pytest.mark.parametrize(
    "text",
    [
        "<b>a</b> < %{x} <extra></extra>",
        "<span style='color:red; font-size: 12px'>a</span><br>%{y}<extra>%{fullData.name}</extra>",
        '<SPAN style="color: rgba(1, 2, 3, .5);font-weight:bold">a</SPAN><br />b<br/>',
        "a &lt; b <5 %{y:<8.2f}",
        "<i>a</i><em>b</em><u>c</u><s>d</s><sup>e</sup><sub>f</sub>",
        LINK,
        LINK.replace("'>", '\' target="_blank" rel="noopener" title="A city">'),
        "<a href='mailto:a@b.org'>a</a>",
    ],
)
def test_everyday_texts_of_a_chart_stay_as_they_are(text: str) -> None:
    figure = {"data": [{"text": [text], "hovertemplate": text}], "layout": {"title": {"text": text}}}
    before = json.dumps(figure)
    made, kinds = shown(figure)
    assert (json.dumps(made), kinds) == (before, set())


def test_a_text_that_is_no_tag_looks_the_same() -> None:
    for text in ("P<%{y:.3f}<extra></extra>", "<module>", "a <= b", "<", "x <- y", "<div class='a'>b</div>"):
        made, kinds = shown({"data": [{"text": [text]}]})
        assert made["data"][0]["text"][0].replace("\u200b", "") == text
        assert kinds == set()


def test_a_style_that_a_template_fills_is_left_out_of_its_tag() -> None:
    template = '<span style="color:%{customdata}">%{y}</span><extra></extra>'
    made, kinds = shown({"data": [{"hovertemplate": template, "customdata": ["red"]}]})
    assert made["data"][0]["hovertemplate"] == "<span>%{y}</span><extra></extra>"
    assert kinds == {held.ACTIVE}


def test_snippets_of_pages_among_the_data_are_shown() -> None:
    express = need_module("plotly.express")
    snippets = ["<div><a href='/wiki/Oslo' onclick='a()'>Oslo</a></div>", LINK]
    figure = json.loads(express.scatter(x=[1, 2], y=[1, 2], hover_data={"html": snippets}).to_json())
    made, kinds = shown(figure)
    assert LINK in json.dumps(made)
    assert kinds == {held.ACTIVE}
    ((_, words, _),) = held.notices(kinds)
    assert "act in the page" in words.message_en


def test_a_contours_constraint_means_the_same() -> None:
    figure = {
        "data": [
            {"contours": {"type": "constraint", "operation": "<", "value": 1}},
            {"contours": {"type": "constraint", "operation": "<=", "value": 1}},
            {"contours.operation": "<"},
            {"operation": "<"},
        ]
    }
    assert chart_texts.clean(figure, Work()) == (True, set())
    first, second, third, other = figure["data"]
    assert first == second == {"contours": {"type": "constraint", "operation": "<=", "value": 1}}
    assert (third, other) == ({"contours.operation": "<="}, {"operation": "<\u200b"})
