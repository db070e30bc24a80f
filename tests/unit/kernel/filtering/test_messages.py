"""Whole messages: bundles, widgets' state, comms, payloads and answers, as the output filter leaves them."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sentinel_kernel.kernel.filtering import held, markdown, plain_html, widgets
from sentinel_kernel.kernel.filtering.messages import Filtered, Messages
from sentinel_kernel.kernel.output_filter import OutputFilter
from sentinel_kernel.policy.profile import Outputs

RULES = Outputs()
CORE = "@jupyter-widgets/controls"
EVIL = "<img src=x onerror=alert(1)>"


def bundle(**metadata: Any) -> Any:
    return lambda kind, value: {"data": {kind: value, "text/plain": "x"}, "metadata": metadata}


def opened(name: str, module: str = CORE, comm_id: str = "one", **state: Any) -> dict[str, Any]:
    names = {"_model_module": module, "_model_name": name, "_view_module": module}
    view = name.replace("Model", "View")
    return {
        "comm_id": comm_id,
        "target_name": "jupyter.widget",
        "data": {"state": {**names, "_view_name": view, **state}, "buffer_paths": []},
    }


def update(comm_id: str = "one", **state: Any) -> dict[str, Any]:
    return {"comm_id": comm_id, "data": {"method": "update", "state": state, "buffer_paths": []}}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("text/plain", "x"),
        ("image/png", "AAAA"),
        ("image/png", ["AA\n", "AA"]),
        ("application/json", {"text": "<script>"}),
        ("application/vnd.jupyter.widget-view+json", {"model_id": "a"}),
        ("application/papermill.record+json", {"a": 1}),
        ("application/vnd.plotly.v1+json", {"data": [{"type": "bar", "y": [1]}], "layout": {}}),
    ],
)
def test_everyday_bundles_pass_as_they_are(kind: str, value: Any) -> None:
    content = bundle()(kind, value)
    told = Messages().filter("display_data", content, RULES)
    assert told.kinds == frozenset()
    assert kind in content["data"]


@pytest.mark.parametrize(
    "kind",
    [
        "application/pdf",
        "application/vnd.bokehjs_load.v0+json",
        "application/vnd.unknown+json",
        "application/xhtml+xml",
        "text/xml",
        "image/svg",
        "application/geo+json",
    ],
)
def test_types_that_pages_may_act_on_are_listed_or_left_out(kind: str) -> None:
    content = bundle()(kind, "<x/>")
    told = Messages().filter("display_data", content, RULES)
    assert told.changed
    assert held.named(held.TYPE, kind) <= told.kinds
    assert content["data"] == {"text/plain": "x"}
    content = bundle()(kind, "<x/>")
    assert Messages().filter("display_data", content, Outputs(types=(kind,))) == Filtered()


def test_types_are_read_however_they_are_spelled() -> None:
    content = bundle()(" TEXT/HTML ", EVIL)
    Messages().filter("display_data", content, Outputs(html="sanitize"))
    assert content["data"]["text/html"] == "<img>"
    answer: dict[str, Any] = {"data": {" TEXT/HTML\n": EVIL}}
    Messages().filter("inspect_reply", answer, Outputs(html="sanitize"))
    assert answer["data"] == {"text/html": "<img>"}


def test_metadata_of_pictures_are_sizes() -> None:
    made = bundle(**{"image/png": {"width": '"><script>', "height": 3}, "isolated": True, "filenames": {}})(
        "image/png", "AAAA"
    )
    Messages().filter("display_data", made, RULES)
    assert made["metadata"] == {"image/png": {"height": 3}}
    quoted = bundle()("image/png", 'AA" onerror="x')
    assert Messages().filter("display_data", quoted, RULES).kinds == {held.TYPE}


VEGA = "application/vnd.vegalite.v5+json"


@pytest.mark.parametrize(
    "options",
    [
        {"patch": "http://a.b/p"},
        {"patch": [{"op": "add", "path": "/data/0", "value": {"url": "http://a.b"}}]},
        {"config": "http://a.b/c"},
        {"defaultStyle": "body{display:none}"},
        {"sourceHeader": "<script>"},
        {"editorUrl": "http://a.b"},
        {"loader": {"baseURL": "http://a.b"}},
        {"actions": {"export": "x"}},
        {"theme": "__proto__"},
        {"bind": "body"},
    ],
)
@pytest.mark.parametrize("msg_type", ["display_data", "execute_result", "update_display_data"])
def test_options_of_the_page_that_draws_a_chart_are_taken_out(msg_type: str, options: dict[str, Any]) -> None:
    harmless = {
        "actions": False,
        "renderer": "svg",
        "scaleFactor": 2,
        "theme": "dark",
        "downloadFileName": "a b",
    }
    content = bundle(**{VEGA: {"embed_options": {**harmless, **options}}})(VEGA, {"mark": "bar"})
    told = Messages().filter(msg_type, content, Outputs(types=(VEGA,)))
    kept = {key: value for key, value in harmless.items() if key not in options}
    assert content["metadata"] == {VEGA: {"embed_options": kept}}
    assert told == Filtered(changed=True, kinds=frozenset({held.ACTIVE}))
    spec = {"mark": "bar", "usermeta": {"embedOptions": {**harmless, **options}}}
    within = bundle()(VEGA, spec)
    Messages().filter(msg_type, within, RULES)
    assert within["data"][VEGA] == {"mark": "bar", "usermeta": {"embedOptions": kept}}
    output = {
        "output_type": "display_data",
        "data": {VEGA: {"mark": "bar"}},
        "metadata": {VEGA: {"embed_options": options}},
    }
    widget = opened("OutputModel", "@jupyter-widgets/output", outputs=[output])
    Messages().filter("comm_open", widget, RULES)
    assert output["metadata"] == {VEGA: {"embed_options": {}}}


def test_metadata_that_lay_out_stay_and_no_others() -> None:
    fine = {
        "image/png": {
            "width": 640,
            "height": "4.5em",
            "needs_background": "light",
            "unconfined": True,
            "alt": "a b",
        },
        "application/json": {"expanded": True, "root": "all"},
        "scrapbook": {
            "name": "_größe 1",
            "data": True,
            "display": False,
            "mime_prefix": "application/x/",
        },
        "papermill": {"name": "a chart"},
        "width": 5,
    }
    content = bundle(**fine)("image/png", "AAAA")
    assert Messages().filter("display_data", content, RULES) == Filtered()
    odd = {
        "image/png": {"needs_background": "x", "onload": "x", "alt": '"'},
        "text/html": {"isolated": True},
        "trusted": True,
    }
    content = bundle(**odd, **{" Image/PNG": "x", "width": True})("image/png", "AAAA")
    assert Messages().filter("display_data", content, RULES).changed
    assert content["metadata"] == {"image/png": {}, "text/html": {}}
    listed = bundle(**{"application/x.y": {"id": "1"}})("application/x.y", "x")
    assert Messages().filter("display_data", listed, Outputs(types=("application/x.y",))) == Filtered()


def test_a_streams_name_keeps_no_escapes() -> None:
    stream = {"name": "std\x1b[2Jout", "text": "a"}
    assert Messages().filter("stream", stream, RULES).changed
    assert stream == {"name": "stdout", "text": "a"}


def test_texts_of_an_output_widget_keep_no_escapes() -> None:
    stream = {"output_type": "stream", "name": "stdout", "text": "a\x1b]52;c;x\x07b"}
    Messages().filter("comm_open", opened("OutputModel", "@jupyter-widgets/output", outputs=[stream]), RULES)
    assert stream["text"] == "ab"
    nested = bundle()("application/vnd.jupyter.stdout", [["\x1b]0;x\x07"]])
    assert Messages().filter("display_data", nested, RULES).kinds == {held.TYPE}


def test_html_of_widgets_is_cleaned_when_it_comes_and_when_it_changes() -> None:
    messages = Messages()
    content = opened("HTMLModel", value=EVIL)
    assert messages.filter("comm_open", content, RULES).changed
    assert content["data"]["state"]["value"] == "<img>"
    content = update(value=EVIL)
    messages.filter("comm_msg", content, RULES)
    assert content["data"]["state"]["value"] == "<img>"
    state = opened("HTMLModel", value=EVIL)["data"]["state"]
    told = {"model_module": CORE, "model_name": "HTMLModel", "state": state}
    content = {"comm_id": "c", "data": {"method": "update_states", "states": {"one": told}}}
    messages.filter("comm_msg", content, RULES)
    assert content["data"]["states"]["one"]["state"]["value"] == "<img>"


def test_texts_of_other_widgets_stay() -> None:
    messages = Messages()
    for content in (
        opened("TextModel", value="a < b <c>"),
        opened("TextareaModel", comm_id="two", value=EVIL),
    ):
        before = content["data"]["state"]["value"]
        assert not messages.filter("comm_open", content, RULES).drop
        assert content["data"]["state"]["value"] == before
    content = update(value="<b>")
    assert messages.filter("comm_msg", content, RULES) == Filtered()


def test_latex_of_labels_makes_no_links_and_what_is_typed_stays() -> None:
    link = r"$\href{http://evil.example/}{x}$"
    plain = r"$\alpha$ \beta"
    for name, key, value in (
        ("LabelModel", "value", link),
        ("IntSliderModel", "description", link),
        ("TextModel", "description", link),
        ("RadioButtonsModel", "_options_labels", [plain, link]),
        ("AccordionModel", "titles", [link]),
    ):
        content = opened(name, **{key: value})
        assert Messages().filter("comm_open", content, RULES).changed, name
        state = content["data"]["state"][key]
        assert "href" not in str(state), name
        assert plain in state or value != [plain, link]
    for name, key, value in (
        ("TextareaModel", "value", link),
        ("LabelModel", "value", plain),
        ("LabelModel", "value", r"C:\data"),
    ):
        content = opened(name, **{key: value})
        assert not Messages().filter("comm_open", content, RULES).changed, name


@pytest.mark.parametrize("held_in", [list, lambda parts: [[*parts]], lambda parts: {"a": [*parts]}])
def test_a_list_in_the_place_of_a_text_is_none(held_in: Any) -> None:
    loading = "url(//a.b)"
    for name, key, text in (
        ("HTMLModel", "value", EVIL),
        ("HTMLMathModel", "value", EVIL),
        ("LabelStyleModel", "background", loading),
        ("LayoutModel", "border", "image-set('//a.b' 1x)"),
    ):
        content = opened(name, **{key: held_in([text])})
        told = Messages().filter("comm_open", content, RULES)
        assert (content["data"]["state"][key], told.kinds) == ("", {held.ACTIVE}), name
    unknown = update("nobody", value=held_in([EVIL]), background=held_in(["image-set('//a.b' 1x)", loading]))
    Messages().filter("comm_msg", unknown, RULES)
    assert "onerror" not in str(unknown)
    assert "//a.b" not in str(unknown)


def test_lists_of_other_modules_models_with_such_names_stay() -> None:
    rules = Outputs(widget_modules=("ipyflex",))
    kept: dict[str, Any] = {"children": ["IPY_MODEL_a"], "template": {"rows": ["1fr 2fr"]}, "border": ["1px"]}
    for name, module in (("FlexLayoutModel", "ipyflex"), ("LeafletMapStyleModel", "jupyter-leaflet")):
        content = opened(name, module, **kept)
        assert Messages().filter("comm_open", content, rules) == Filtered(), name
        content = opened(name, module, border=["url(//a.b)", {"a": "u\\72l(//a.b)"}])
        assert Messages().filter("comm_open", content, rules).kinds, name
        assert content["data"]["state"]["border"] == ["", {"a": ""}]
    for names in (
        {"_view_module": "@jupyter-widgets/base", "_view_name": "LayoutView"},
        {"_model_module": CORE, "_model_name": "LabelStyleModel"},
    ):
        content = opened("FlexModel", "ipyflex", border=["url(//a.b)"], **names)
        Messages().filter("comm_open", content, rules)
        assert content["data"]["state"]["border"] == "", names


@pytest.mark.parametrize(
    "parts",
    [
        ["a $", "\\href{https://a.b}{log in}", "$"],
        ["\\begin{a}", ["\\href{x}{y}"], "\\end{a}"],
        [["$"], [[["\\cssId{x}{y}"]]], "$"],
        ["$\\box{a", " url(//a.b)}{x}$"],
    ],
)
@pytest.mark.parametrize(
    ("name", "module", "key"),
    [
        ("LabelModel", CORE, "value"),
        ("IntSliderModel", CORE, "description"),
        ("LeafletMarkerModel", "jupyter-leaflet", "title"),
    ],
)
def test_no_command_comes_of_a_list_that_a_page_makes_one_text_of(
    parts: list[Any], name: str, module: str, key: str
) -> None:
    def shown(value: Any) -> str:
        return ",".join(map(shown, value)) if isinstance(value, list) else value

    content = opened(name, module, **{key: copy.deepcopy(parts)})
    assert markdown.latex(shown(parts)) != shown(parts)  # positive control
    assert Messages().filter("comm_open", content, RULES).changed
    made = shown(content["data"]["state"][key])
    assert markdown.latex(made) == made
    for kept in (["C:\\data", "D:\\x"], ["$\\alpha$", "$\\frac{a}{b}$"], [1, ["$5", "a"], None]):
        content = opened(name, module, **{key: kept})
        assert Messages().filter("comm_open", content, RULES) == Filtered()


def test_labels_within_lists_of_lists_make_no_links() -> None:
    for value in ([r"$\href{a}{x}$"], [["b", [r"$\href{a}{x}$"]]]):
        content = opened("LabelModel", value=value)
        assert Messages().filter("comm_open", content, RULES).changed
        assert "href" not in str(content["data"]["state"]["value"])
    outputs = [{"output_type": "stream", "name": "stdout", "text": r"C:\data costs $5"}]
    shown = opened("OutputModel", "@jupyter-widgets/output", outputs=outputs)
    assert Messages().filter("comm_open", shown, RULES) == Filtered()


def test_a_model_stays_what_it_is() -> None:
    messages = Messages()
    messages.filter("comm_open", opened("TextModel", value=EVIL), RULES)
    assert messages.filter("comm_open", opened("HTMLModel"), RULES).drop
    content = update(_view_name="HTMLView", value="x")
    messages.filter("comm_msg", content, RULES)
    assert content["data"]["state"] == {"value": "x"}
    shown = opened("LabelModel", comm_id="two", _view_name="HTMLView", value=EVIL)
    messages.filter("comm_open", shown, RULES)
    assert shown["data"]["state"]["value"] == "<img>"
    unknown = update("three", value=EVIL, background="url(//a.b)")
    messages.filter("comm_msg", unknown, RULES)
    assert "onerror" not in str(unknown)
    assert "url(" not in str(unknown)


@pytest.mark.parametrize(
    "content",
    [
        opened("AnyModel", "anywidget", _esm="export default {}"),
        opened("SliderModel", _esm="x"),
        opened("XModel", "https://a.b/c.js"),
        opened("XModel", "ipyvolume"),
        opened("TextModel", _view_module="https://a.b/c.js"),
    ],
)
def test_widgets_that_bring_code_are_held_back(content: dict[str, Any]) -> None:
    told = Messages().filter("comm_open", content, RULES)
    assert (told.drop, told.kinds) == (True, {held.WIDGET})


def test_modules_and_targets_that_are_listed_pass() -> None:
    rules = Outputs(widget_modules=("ipyvolume",), comm_targets=("hv-extension-comm",))
    assert not Messages().filter("comm_open", opened("XModel", "ipyvolume"), rules).drop
    assert not Messages().filter("comm_open", opened("XModel", "jupyter-matplotlib"), RULES).drop
    comm = {"comm_id": "a", "target_name": "hv-extension-comm", "data": {}}
    assert not Messages().filter("comm_open", dict(comm), rules).drop
    messages = Messages()
    assert messages.filter("comm_open", dict(comm), RULES).kinds == {held.COMM}
    assert messages.filter("comm_msg", {"comm_id": "a", "data": {}}, RULES).drop


def test_other_modules_load_from_listed_hosts_alone() -> None:
    messages, tiles = Messages(), "https://{s}.tile.openstreetmap.org/{z}/{x}/{y}.png"
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=tiles, options={"attribution": EVIL})
    assert held.REMOTE in messages.filter("comm_open", content, RULES).kinds
    assert content["data"]["state"]["url"] == ""
    assert content["data"]["state"]["options"]["attribution"] == "<img>"
    listed = opened("LeafletTileLayerModel", "jupyter-leaflet", url=tiles)
    Messages().filter("comm_open", listed, Outputs(hosts=("*.tile.openstreetmap.org",)))
    assert listed["data"]["state"]["url"] == tiles


@pytest.mark.parametrize("own", ["_model_module", "_view_module"])
def test_a_view_of_another_module_makes_a_model_another_modules(own: str) -> None:
    address = {"url": "https://a.b/{z}", "options": {"one": ["https://a.b/"]}}
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", **{own: CORE, **address})
    assert Messages().filter("comm_open", content, RULES).kinds == {held.REMOTE}
    assert content["data"]["state"]["url"] == ""
    assert content["data"]["state"]["options"] == {"one": [""]}
    without_view = opened("IntSliderModel", _view_module=None, _view_name=None, description="https://a.b/")
    assert Messages().filter("comm_open", without_view, RULES) == Filtered()


@pytest.mark.parametrize(
    "address",
    [
        "\\\\a.b\\x",
        "/\\a.b/x",
        "\\/a.b/x",
        "https:a.b/x",
        "ht\ttps://a.b/x",
        "h\nttps:\\a.b",
        "java\nscript:x",
        "java\tscript:x",
        "\x01//a.b/x",
        " \x00 https:a.b",
        "\t //a.b/x",
        "/\t/a.b/x",
        "blob:https://a.b",
        "data:text/html,x",
    ],
)
def test_addresses_are_read_as_browsers_read_them(address: str) -> None:
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=address, options={"one": [address]})
    assert held.REMOTE in {kind.split()[0] for kind in Messages().filter("comm_open", content, RULES).kinds}
    assert content["data"]["state"]["url"] == ""
    assert content["data"]["state"]["options"]["one"] == [""]


@pytest.mark.parametrize(
    "address",
    [
        "{p}://evil.example/x.png",
        "{s}s://evil.example/{z}",
        "{b}/evil.example/x.png",
        "{b}{c}evil.example/x.png",
        "{b}tt{c}",
        "{ b }:evil.example/x.png",
        "ht{a}//evil.example/x.png",
        "HTTPS{a}//evil.example",
        "h{a}",
        "\t w{a}",
        "/{b}/evil.example/x.png",
        "\\{b}/evil.example/x.png",
        "https://{s}/evil.example",
        "https://{a}.tile.example.org/{z}",
        "https://{a}{s}.tile.example.org/{z}",
        "https://x{s}.tile.example.org/{z}",
        "https://{s}.tile.example.org:{p}/{z}",
    ],
)
def test_no_address_is_put_together_of_parts_of_a_layers_state(address: str) -> None:
    rules = Outputs(hosts=("*.tile.example.org", "tile.example.org"))
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=address, more={"one": [address]})
    assert {kind.split()[0] for kind in Messages().filter("comm_open", content, rules).kinds} == {held.REMOTE}
    assert content["data"]["state"]["url"] == ""
    assert content["data"]["state"]["more"] == {"one": [""]}


@pytest.mark.parametrize("key", ["s", "S", "subdomains", "Subdomains"])
@pytest.mark.parametrize("made", [list, "".join, lambda parts: {"0": [*parts], "length": 1}])
def test_no_part_of_a_layers_host_ends_the_host(key: str, made: Any) -> None:
    rules = Outputs(hosts=("*.tile.example.org",))
    tiles = "https://{s}.tile.example.org/{z}/{x}/{y}.png"
    for part in ("evil.example/", "evil.example\\x", "evil.example?", "evil.example#"):
        for state in ({key: made([part])}, {"options": {key: made([part])}}):
            content = opened("LeafletVectorTileLayerModel", "jupyter-leaflet", url=tiles, **state)
            assert Messages().filter("comm_open", content, rules).kinds == {held.REMOTE}
            assert "evil" not in str(content)
    for plain in ("abc", ["a", "b-1"], ["mt0"]):
        content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=tiles, **{key: plain})
        assert Messages().filter("comm_open", content, rules) == Filtered()


@pytest.mark.parametrize(
    ("address", "hosts", "passes"),
    [
        ("https://{s}.tile.example.org/{z}/{x}/{y}{r}.png", ("*.tile.example.org",), True),
        ("https://{s}.example.org/{z}", ("a.example.org", "b.example.org", "c.example.org"), True),
        ("https://{s}.example.org/{z}", ("a.example.org",), False),
        ("https://{s}.example.org/{z}", ("example.org",), False),
        ("https://example.org/{z}/{x}/{y}?key={apiKey}", ("example.org",), True),
        ("https://example.org{z}/{x}", ("example.org",), False),
    ],
)
def test_tiles_come_from_hosts_that_are_all_listed(
    address: str, hosts: tuple[str, ...], passes: bool
) -> None:
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=address)
    filtered = Messages().filter("comm_open", content, Outputs(hosts=hosts))
    assert (filtered == Filtered(), content["data"]["state"]["url"] == address) == (passes, passes)


@pytest.mark.parametrize(
    "address",
    [
        "ht&#116;ps://a.b/?<img>",
        "ht<x>tps://a.b/",
        "ht<!-- -->tps://a.b/",
        "https&colon;//a.b/<img>",
        "<x>//a.b/",
        "java<x>script:x",
    ],
)
def test_what_cleaning_makes_of_a_text_is_no_address(address: str) -> None:
    content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=address, options={"one": [address]})
    assert held.REMOTE in Messages().filter("comm_open", content, RULES).kinds
    assert content["data"]["state"]["url"] == ""
    assert content["data"]["state"]["options"]["one"] == [""]


@pytest.mark.parametrize("gap", ["\0", "\0\0"])
def test_no_address_or_class_is_put_together_behind_its_judge(gap: str) -> None:
    for address in (f"ht{gap}tps://a.b/{{z}}?a&b", f"java{gap}script:a&b", f"/{gap}/a.b/\\"):
        content = opened("LeafletTileLayerModel", "jupyter-leaflet", url=address, options={"one": [address]})
        Messages().filter("comm_open", content, RULES)
        state = content["data"]["state"]
        for left in (state["url"], state["options"]["one"][0]):
            assert not left.startswith(("https:", "javascript:", "//"))
    classes = f'<div class="b{gap}p3-overlay j{gap}p-Button x{gap}jp-Cell">a</div>'
    shown = bundle()("text/html", classes)
    Messages().filter("display_data", shown, RULES)
    formula = opened("HTMLMathModel", value=classes)
    Messages().filter("comm_open", formula, RULES)
    for text in (shown["data"]["text/html"], formula["data"]["state"]["value"]):
        assert "overlay" in text
        assert not any(map(plain_html.is_page_class, text.split('"')[1].split()))
    assert plain_html.is_page_class("jp-Button")  # positive control


@pytest.mark.parametrize(
    "text",
    [
        *("$\\alpha$", "a: b", "https is a word", "1 // 2", "a\tb\n"),
        *(
            "tiles/{z}.png",
            "/files/{z}/{x}",
            "./{z}/{x}.png",
            "{name}",
            "{a}: {b}",
            "{x}, {y}",
            "{x}px",
            "{n} of {m}",
        ),
        *('{"a": {"b": 1}}', "x^{2}", "\\frac{a}{b}", "x_{i}/{j}", "Count{n}"),
    ],
)
def test_texts_that_are_no_addresses_stay(text: str) -> None:
    content = opened("LeafletMarkerModel", "jupyter-leaflet", title=text)
    assert Messages().filter("comm_open", content, RULES) == Filtered()
    assert content["data"]["state"]["title"] == text


def test_a_page_links_values_of_plain_widgets_alone() -> None:
    messages = Messages()
    for name, comm_id in (("IntSliderModel", "a"), ("IntTextModel", "b"), ("HTMLModel", "h")):
        messages.filter("comm_open", opened(name, comm_id=comm_id), RULES)
    ends = {"source": ["IPY_MODEL_a", "value"], "target": ["IPY_MODEL_b", "value"]}
    fine = opened("LinkModel", comm_id="l", **ends)
    assert messages.filter("comm_open", fine, RULES) == Filtered()
    for end in (["IPY_MODEL_h", "value"], ["IPY_MODEL_unknown", "value"], ["IPY_MODEL_b", "_view_name"]):
        content = opened("LinkModel", comm_id=f"l{end}", **(ends | {"target": end}))
        messages.filter("comm_open", content, RULES)
        assert content["data"]["state"]["target"] is None
    content = update("l", target=["IPY_MODEL_h", "value"])
    messages.filter("comm_msg", content, RULES)
    assert content["data"]["state"]["target"] is None


@pytest.mark.parametrize(
    "state",
    [
        {"_dom_classes": ["jp-Dialog", "mine"]},
        {"description_allow_html": True},
        {"outputs": [{"output_type": "display_data", "data": {"text/html": EVIL}, "metadata": {}}]},
    ],
)
def test_settings_of_widgets_that_act_are_taken_out(state: dict[str, Any]) -> None:
    content = opened("OutputModel", "@jupyter-widgets/output", **state)
    assert Messages().filter("comm_open", content, Outputs(html="sanitize")).changed
    assert "jp-Dialog" not in str(content)
    assert "onerror" not in str(content)
    assert "'description_allow_html': True" not in str(content)


def test_pictures_and_styles_of_widgets_load_nothing() -> None:
    address = opened("ImageModel", format="url")
    assert Messages().filter("comm_open", address, RULES).kinds == {held.REMOTE}
    style = opened("LabelStyleModel", background="url(//a.b)", text_color="rgb(1, 2, 3)")
    assert Messages().filter("comm_open", style, RULES).kinds == {held.REMOTE}
    assert style["data"]["state"]["background"] == ""
    assert style["data"]["state"]["text_color"] == "rgb(1, 2, 3)"


def test_payloads_that_trap_are_left_out() -> None:
    content: dict[str, Any] = {
        "status": "ok",
        "payload": [
            {"source": "page", "data": {"text/html": EVIL, "text/plain": "x"}, "start": 0},
            {"source": "set_next_input", "text": "print(1)", "replace": True},
            {"source": "set_next_input", "text": "%sentinel_trust_output scripts", "replace": True},
            {"source": "set_next_input", "text": "a\u202eb", "replace": False},
            {"source": "edit_magic", "filename": "/etc/passwd", "line_number": 1},
        ],
        "user_expressions": {"a": {"status": "ok", "data": {"text/html": EVIL}, "metadata": {}}},
    }
    told = Messages().filter("execute_reply", content, Outputs(html="sanitize"))
    assert held.PAYLOAD in told.kinds
    assert [one["source"] for one in content["payload"]] == ["page", "set_next_input"]
    assert content["payload"][0]["data"]["text/html"] == "<img>"
    assert content["user_expressions"]["a"]["data"]["text/html"] == "<img>"


def test_answers_of_other_kinds_are_looked_through() -> None:
    content: dict[str, Any] = {"body": {"data": {"text/html": EVIL}}}
    assert Messages().filter("debug_reply", content, Outputs(html="sanitize")).changed
    assert content["body"]["data"]["text/html"] == "<img>"
    links = {
        "help_links": [{"text": "a", "url": "javascript:x"}, {"text": "b", "url": "https://docs.python.org"}]
    }
    Messages().filter("kernel_info_reply", links, RULES)
    assert links["help_links"] == [{"text": "b", "url": "https://docs.python.org"}]


def test_escapes_go_from_streams_and_errors() -> None:
    stream = {"name": "stdout", "text": "a\x1b]52;c;x\x07b"}
    assert Messages().filter("stream", stream, RULES).changed
    assert stream["text"] == "ab"
    error = {"ename": "E\x1b[2J", "evalue": "v", "traceback": ["\x1b[31mred\x1b[0m", "\x1b[2Jx"]}
    Messages().filter("error", error, RULES)
    assert error == {"ename": "E", "evalue": "v", "traceback": ["\x1b[31mred\x1b[0m", "x"]}


def test_what_is_remembered_of_comms_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widgets, "_MOST", 3)
    messages = Messages()
    for number in range(10):
        assert not messages.filter("comm_open", opened("TextModel", comm_id=f"m{number}"), RULES).drop
        messages.filter("comm_open", {"comm_id": f"c{number}", "target_name": "x", "data": {}}, RULES)
    kept = messages._models
    assert list(kept._models) == ["m7", "m8", "m9"]
    assert list(kept._comms) == ["c7", "c8", "c9"]
    forgotten = update("m0", value=EVIL)
    messages.filter("comm_msg", forgotten, RULES)
    assert "onerror" not in str(forgotten)  # held to all rules again


@pytest.mark.parametrize(
    "content",
    [
        opened("X" * 101),
        opened("TextModel", _view_name="X" * 101),
        opened("Te\u0445tModel"),
        opened("TextModel", comm_id="x" * 129),
    ],
)
def test_models_with_long_names_are_held_back(content: dict[str, Any]) -> None:
    messages = Messages()
    assert messages.filter("comm_open", content, RULES).drop
    assert not messages._models._models
    comm = {"comm_id": "x" * 129, "target_name": "x", "data": {}}
    assert messages.filter("comm_open", comm, RULES).drop
    assert not messages._models._comms


def test_the_next_sandbox_has_no_model_of_the_last() -> None:
    lifecycle = SimpleNamespace(profile="datascience", generation=1)
    host: Any = SimpleNamespace(lifecycle=lifecycle, settings=SimpleNamespace(profile_directories=()))
    output_filter = OutputFilter(host)
    for generation, drop in ((1, False), (1, True), (2, False)):
        lifecycle.generation = generation
        content = opened("TextModel" if drop is False else "HTMLModel")
        told = output_filter.judge("comm_open", json.dumps(content).encode(), content)
        assert told is not None
        assert told.drop is drop


@pytest.mark.parametrize("raw", [b"a\\u001b[2J", b"a\\f", b"a\x7f", b"a\xc2\x9b2J"])
def test_no_control_is_passed_unlooked_at_however_json_spells_it(raw: bytes) -> None:
    lifecycle = SimpleNamespace(profile="datascience", generation=1)
    output_filter = OutputFilter(
        cast("Any", SimpleNamespace(lifecycle=lifecycle, settings=SimpleNamespace(profile_directories=())))
    )
    for text, looked_at in ((raw, True), (b"a\\n\\t\\b", False)):
        whole = b'{"name":"stdout","text":"%s"}' % text
        content = json.loads(whole)
        assert (output_filter.judge("stream", whole, content) is not None) is looked_at
        assert (content["text"] == "a") is looked_at


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "Application/x"])
def test_no_key_makes_a_bundle_of_what_widgets_say(kind: str) -> None:
    """Else all else in it was taken for odd types, and a client that relies on it ended with the run."""
    for place in ("data", "state"):
        content = opened("LayoutModel", "@jupyter-widgets/base")
        wanted = copy.deepcopy(content)
        (content["data"] if place == "data" else content["data"]["state"])[kind] = EVIL
        filtered = Messages().filter("comm_open", content, RULES)
        assert (content, filtered.changed, filtered.drop) == (wanted, True, False)
    told = {"model_name": "LayoutModel", "model_module": "@jupyter-widgets/base", "state": {"width": "1px"}}
    content = {"comm_id": "c", "data": {"method": "update_states", "states": {"one": told}}}
    wanted = copy.deepcopy(content)
    content["data"][kind] = told[kind] = EVIL
    Messages().filter("comm_msg", content, RULES)
    assert content == wanted


def test_a_bundle_that_an_own_comm_sends_is_made_harmless() -> None:
    content = {"comm_id": "c", "data": {"text/html": f"<b>level</b>{EVIL}"}}
    assert Messages().filter("comm_msg", content, Outputs(html="sanitize")).changed
    assert content["data"] == {"text/html": "<b>level</b><img>"}


@pytest.mark.parametrize("kind", ["text/plain", "text/markdown", "text/latex", "text/csv"])
def test_no_text_of_a_bundle_keeps_what_terminals_obey(kind: str) -> None:
    content = {"data": {kind: "level \x1b[2J\x1b]0;title\x07\x9b1A12"}, "metadata": {}}
    assert Messages().filter("display_data", content, RULES).changed
    assert content["data"][kind].split() == ["level", "12"]
