r"""A formula is typeset where all that it does is to be drawn; money and shell variables are no formulas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.trace.safe import markdown
from tests.growth import assert_linear

OPEN = '<span class="tex2jax_process mathjax_process">'


@pytest.mark.parametrize(
    "tex",
    [
        r"$\bar{x}_i = 3.5$",
        r"\(a^2 * b_1 * c_2\)",
        "$$\n\\frac{1}{n} \\sum_{i=1}^{n} x_i\n$$",
        r"\[\begin{pmatrix} a & b \\ c & d \end{pmatrix}\]",
        r"$p < 0.05$",
        "$x$",
    ],
)
def test_a_formula_is_left_as_it_is_for_the_page_to_typeset(tex: str) -> None:
    """Nothing in it is Markdown, and nothing around it is a formula."""
    escaped = tex.replace("&", "&amp;").replace("<", "&lt;")
    assert (
        markdown(f"It is {tex}, at *most*.")
        == f"<p>It is {OPEN}{escaped}</span>, at <em>most</em>.</p>"
    )


@pytest.mark.parametrize(
    "text",
    [
        "costs $5 and $10, US$5 or CA$7, $5k",
        "from $5-$10",
        "$HOME/$USER and ($AAPL/$MSFT)",
        "a $ b $ c",
        "$5/$",
        "`$x$`",
        "$$",
        "$x",
        r"\$x\$",
    ],
)
def test_dollars_that_are_no_brackets_are_dollars(text: str) -> None:
    assert OPEN not in markdown(text)


@pytest.mark.parametrize(
    "tex",
    [
        r"\href{javascript:x}{y}",
        r"\style{color:red}{y}",
        r"\class{c}{y}",
        r"\require{html}",
        r"\unicode{x41}",
        r"\def\a{b}",
        r"\begin{html}x\end{html}",
        r"\begin x",
        "x" * 5_000,
    ],
)
def test_a_formula_that_may_do_more_is_code(tex: str) -> None:
    """It is shown as it was written; a single dollar sign is then a dollar sign."""
    assert markdown(f"\\({tex}\\)").startswith("<p><code>\\(")
    assert markdown(f"\\[{tex}\\]").startswith("<p><code>\\[")
    assert OPEN not in markdown(f"${tex}$")


@given(st.lists(st.sampled_from([*"$\\()[]{}xy1 *_`<\n", "\\href", "\\frac", "$$"]), max_size=30))
def test_no_text_makes_a_formula_of_what_may_do_more(pieces: list[str]) -> None:
    for typeset in markdown("".join(pieces)).split(OPEN)[1:]:
        assert "href" not in typeset.partition("</span>")[0]


@pytest.mark.parametrize("piece", ["\\(", "\\[", "$$", "\\(a", "\\(a\\)", "$", "$a$"])
def test_an_answer_of_many_beginnings_of_formulas_is_rendered_in_linear_time(piece: str) -> None:
    assert_linear(lambda n: markdown(piece * n), 4000)
