"""LaTeX of outputs: no formula makes a link, a style or a name, however a page comes to read it."""

from __future__ import annotations

from html import unescape

import nh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_kernel.kernel.filtering import html, markdown
from sentinel_kernel.kernel.filtering.messages import Messages
from sentinel_kernel.kernel.filtering.work import MOST_CLEANED
from sentinel_kernel.policy.profile import Outputs


@pytest.mark.parametrize(
    "command",
    [
        "href",
        "bbox",
        "style",
        "class",
        "cssId",
        "require",
        "unicode",
        "htmlStyle",
        "htmlData",
        "csname",
        "data",
    ],
)
def test_commands_of_mathjax_that_take_more_than_mathematics_are_texts(command: str) -> None:
    assert markdown.latex(f"$\\{command}[background:url(//a.b)]{{x}}$").startswith("$\\text[")
    assert markdown.latex(f"$\\{command}s{{x}}$") == (
        "$\\text{x}$" if command in ("htmlStyle", "htmlData", "cssId") else f"$\\{command}s{{x}}$"
    )


@pytest.mark.parametrize(
    "formula",
    [
        r"\fcolorbox{red;position:fixed;inset:0}{white}{x}",
        r"\fcolorbox {red;position:fixed}{white}{x}",
        r"\fcolorbox[named]{red;position:fixed}{white}{x}",
        r"\fcolorbox{{red;position:fixed}}{white}{x}",
        r"\fcolorbox{\mine}{white}{x}",
        r"\definecolor{a}{named}{red;position:fixed}\fcolorbox{a}{white}{x}",
        r"\let\box=\fcolorbox \box{red;position:fixed}{white}{x}",
        r"\def\box{\fcolorbox}\box{red;position:fixed}{white}{x}",
    ],
)
def test_a_colour_brings_no_other_style_with_it(formula: str) -> None:
    for made in (
        markdown.latex(f"${formula}$"),
        markdown.latex_in_html(f"<p>${formula}$</p>"),
        markdown.filtered(f"${formula}$")[0],
    ):
        assert "\\text" in made
        assert "\\fcolorbox{red;" not in made.replace(" ", "")
    for spelled in (formula.replace("box", "b<wbr>ox"), formula.replace(";", "&#59;")):
        made = markdown.latex_in_html(f"<p>${spelled}$</p>")
        assert "\\text" in made or "\\\u200b" in made


@pytest.mark.parametrize(
    "formula",
    [
        r"\fcolorbox{red}{#ffeeaa}{x; y: z}",
        r"\fcolorbox[rgb]{1,0,.5}{0.9, 0.9, 1}{x}",
        r"\definecolor{mine}{HTML}{FFAA00}\color{mine}x",
        r"\textcolor{red!50}{x}, \colorbox{yellow}{y}",
    ],
)
def test_colours_stay(formula: str) -> None:
    assert markdown.latex(f"${formula}$") == f"${formula}$"
    assert markdown.latex_in_html(f"<p>${formula}$</p>") == f"<p>${formula}$</p>"


def test_an_argument_of_an_unknown_command_loads_nothing() -> None:
    assert markdown.latex("\\box[background:url(//a.b)]{x}") == "\\box[background:url\u200b(//a.b)]{x}"
    for space in (" " * 9, "\ufeff", "\u3000"):
        text = f"\\box{space}[background:url(//a.b)]{{x}}"
        assert markdown.latex(text) == text.replace("url", "url\u200b")
    assert markdown.latex("\\sqrt[3]{x}, \\frac{f(x)}{2}") == "\\sqrt[3]{x}, \\frac{f(x)}{2}"


LINK = "{javascript:alert(1)}{x}$"
SPELLINGS = [
    "$\\href",
    "&dollar;&#92;href",
    "$&#x005C;href",
    "$&#000000000000000092;href",
    "$&bsol;href",
    "$\\&#104;r&#101f",
    "$\\&#0000000000000000000104;ref",
    "$\\hr<wbr>ef",
    "$\\hr<!-- -->ef",
    "$\\hr</b>ef",  # an end of nothing, which a page leaves out
    "$\\hr</td>ef",
    "$\\hr<td>ef",  # a cell without a table
    "$\\hr<foo>ef",
    "$\\hr<style></style>ef",
    "$\\hr<script>1</script>ef",
    "$\\href{a}{b} \\hr<w<wbr>br>ef",
    "$\\href{a}{b} &bs&#111;l;href",
    "\\(\\href{a}{b} &#9&#50;;href",
    "$\\hr&#x65</b>f",  # a reference that a tag ends
    "$\\h&#114</b>&#x65</b>&#102<br>x",
    "$&#x5c</b>class",
    "$&#92</b>bbox",
    "$\\hre&#102\u0661",  # no digit of a reference
    "<table>$\\hr<tr><td>X</td></tr>ef",  # a page puts both before the table, as one text
    "<table><tr>$\\cl<td>X</td>as<td>Y</td>s",
    "<table><tr><td>X</td>$\\h&#x72;ef<td>Y</td>",
    "<table><tr><td>X</td>\\<td>Y</td>(\\hr<td>Y</td>ef",
    "<table><tr><td>X</td>$\\box[u<td>Y</td>rl(//a.b)]\\hr<td>Y</td>ef",
    "$\\hr\0ef",
    "$\\\0href",
    "$&#9\x002;href",
    "$\\hr<\0/b>ef",
    '$\\hr<wbr title="a>b">ef',
    '$\\hr<wbr title="<br title=">ef',
    "$\\hr<wbr>ef<br>x",
    "1 < 2 &dollar;\\hr</b>ef",
    "1 <2 &dollar;\\hr</b>ef",
]


def as_read(made: str) -> str:
    """Return what MathJax may read in a page, by a browser's parser: texts across all tags but <br>."""
    return unescape(nh3.clean(made, tags={"br"}, attributes={}).replace("<br>", "\n"))


def acts(made: str) -> bool:
    read = as_read(made)
    return markdown.latex(read) != read


def shown_by_a_widget(text: str) -> str:
    names = {"_model_module": "@jupyter-widgets/controls", "_model_name": "HTMLMathModel"}
    state = {**names, "_view_module": names["_model_module"], "_view_name": "HTMLMathView", "value": text}
    content = {"target_name": "jupyter.widget", "comm_id": "a", "data": {"state": state}}
    assert not Messages().filter("comm_open", content, Outputs()).drop
    return state["value"]


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_no_spelling_of_html_makes_a_formula_a_link(spelled: str) -> None:
    made, _ = html.filtered(f"<div>{spelled}{LINK}</div>", Outputs(html="clean"))
    assert "{javascript" in made
    assert not acts(made)


@pytest.mark.parametrize("spelled", SPELLINGS)
def test_nor_does_one_of_a_widgets_or_of_markdown(spelled: str) -> None:
    assert not acts(shown_by_a_widget(spelled + LINK))
    made, _ = markdown.filtered(f"a {spelled}{LINK}")
    assert not acts(made)


GAPS = (
    "",
    "</b>",
    "<wbr>",
    '<wbr title="a>b">',
    "<b></b>",
    "\0",
    "<tr>",
    "<tr><td>X</td></tr>",
    "<td>X</td>",
    "</td>",
    "</table>",
    "<table></table>",
    "<i><p>X</i></p>",
)


@given(
    st.sampled_from(("", "1 < 2 ", "<table>", "<table><tr>", "<table><tr><td>", "<b><table><p>")),
    st.lists(
        st.tuples(st.sampled_from(("", "&#{}", "&#{};", "&#x{:x}")), st.sampled_from(GAPS)),
        min_size=7,
        max_size=7,
    ),
)
def test_no_letter_of_a_command_gets_past_a_page(before: str, spelled: list[tuple[str, str]]) -> None:
    letters = zip("$\\class", spelled, strict=True)
    text = before + "".join((how.format(ord(one)) or one) + gap for one, (how, gap) in letters) + LINK
    assert not acts(html.filtered(text, Outputs(html="sanitize"))[0])
    assert not acts(shown_by_a_widget(text))
    assert not acts(markdown.filtered(text)[0])


@pytest.mark.parametrize(
    "text", ["<b>$\\hr&#x65</b></b>f", "<table>$\\hr<tr>ef", "$\\hr\0ef", "<p>$\\h<i></p>ref"]
)
def test_what_a_page_reads_is_told_by_a_parser(text: str) -> None:
    assert acts(text + LINK)


@pytest.mark.parametrize(
    "text",
    [
        "<https://a/$\\href{b}{c}$>",
        "<https://a/&dollar;\\href{b}{c}&dollar;>",
        '`<b title="` $\\href{b}{c}$ `">`',
        '\\<b title="$\\href{b}{c}$">',
    ],
)
def test_what_looks_like_a_tag_of_markdown_may_be_text(text: str) -> None:
    assert markdown.filtered(text) == (text.replace("href", "text"), set())


def test_what_no_page_shows_parts_a_command_for_good() -> None:
    assert markdown.latex("$\\hr\0ef{a}{b}$") == "$\\hr\ufffdef{a}{b}$"


def test_an_argument_that_loads_is_found_across_tags_and_references() -> None:
    spaces = ("", "&Tab;", "&nbsp;", "&#x00A0;", "&emsp;", "&#8195;", "&#x2003", "&ThinSpace;", "&#65279;")
    for space in (*spaces, "&emsp14;" * 9, " " * 9, "\ufeff"):
        for text in (f"$\\box{space}[ur</b>l(//a.b)]$", f"$\\box{space}[url&lpar;//a.b)]$"):
            made, _ = html.filtered(text, Outputs())
            assert made == text.replace("\\", "\\\u200b")


def test_a_reference_of_thousands_of_digits_is_no_fault() -> None:
    text = f"$\\frac&#{'9' * 5000};$"
    assert html.filtered(text, Outputs()) == (text, set())


def test_references_and_formulas_that_make_no_link_stay_as_they_are() -> None:
    for text in (
        "<p>a &amp; b &#92; c $\\frac{1}{2}$ &lt;b&gt; x&nbsp;&#160;y&#39;</p>",
        "<td>C:\\hrefs &#60;</td>",
        "<td>C:\\data\\url</td>",
        "<td>C:\\data&#10;x</td>",
        "<td>C:\\data&#32;&Tab;\\&#117;rl</td>",
        "<table>C:\\data<tr>\\url</tr></table>",
        "<table>a<tr><td>$\\frac{1}{2}$</td></tr></table>",
        "<p>$\\alpha$&#10;&#97;&lpar;</p>",
    ):
        assert html.filtered(text, Outputs()) == (text, set())
        assert shown_by_a_widget(text) == text
    changed = markdown.latex_in_html("$\\href{a}{&#60;script&#62;}$")
    assert changed == "$\\text{a}{&#60;script&#62;}$"  # no markup comes of it


@pytest.mark.parametrize(
    "mark", ["\\&#98;egin{a}", "&bsol;be<wbr>gin{a}", "\\&lpar;", "&#92;&#91;", "&#36;", "&dollar;"]
)
def test_a_formula_is_one_however_its_mark_is_spelled(mark: str) -> None:
    for text in (f"{mark}\\href{{b}}{{c}}", f"{mark}\\hr&#101;f{{b}}{{c}}"):
        assert acts(text)  # positive control
        assert not acts(html.filtered(text, Outputs())[0])


def test_a_formula_whose_mark_a_page_puts_together_is_one() -> None:
    for text in (
        "<table>\\<tr><td>X</td></tr>(\\href{b}{c}\\)",
        "<table>\\be<tr><td>X</td></tr>gin{a}\\h&#114;ef{b}{c}",
    ):
        assert acts(text)  # positive control
        assert not acts(html.filtered(text, Outputs())[0])


def test_a_large_table_with_formulas_passes_byte_for_byte() -> None:
    row = (
        "    <tr>\n      <th>1</th>\n      <td>$\\frac{1}{2}$ &lt;</td>\n      <td>C:\\a\\b</td>\n    </tr>\n"
    )
    table = f'<table border="1" class="dataframe">\n  <tbody>\n{row * 30_000}  </tbody>\n</table>'
    assert len(table) > MOST_CLEANED
    assert html.filtered(table, Outputs()) == (table, set())


def test_a_tag_ends_behind_its_attributes() -> None:
    for title in ("a>b", "a<b", "<br title="):  # as older sanitizers write what browsers read
        text = f'$\\hr<wbr title="{title}">ef{{a}}{{b}}$'
        assert markdown.latex_in_html(text) == text.replace("\\", "\\\u200b")
