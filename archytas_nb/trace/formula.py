"""Formulas in a model's Markdown: where they are, and which of them a page may typeset.

MathJax, which JupyterLab and converted pages bring along, reads TeX that can make links, styles and classes. So a
formula is typeset only where every command in it is known to draw and do nothing else; any other stays text. This
file knows text and the parser's state, and makes no HTML.
"""

from __future__ import annotations

import re
from typing import Any

_LONGEST = 2_000
_FARTHEST = 4 * _LONGEST
"""Characters after which the end of a formula is not looked for any more: many may begin, and none end."""

_COMMAND = re.compile(r"\\([A-Za-z]+\*?|.)", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{([^{}]*)\}")
_LIKE_A_FORMULA = re.compile(r"[A-Za-z\\^_=<>]")
_PAIRS = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}

_COMMANDS = """
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi pi varpi rho varrho
sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega
ell hbar imath jmath Re Im aleph nabla partial infty emptyset varnothing
le leq leqslant ge geq geqslant ne neq approx sim simeq cong equiv propto ll gg prec succ perp parallel mid nmid
in notin ni subset subseteq supset supseteq cup cap setminus land lor lnot neg forall exists nexists
pm mp times div cdot ast star circ bullet oplus ominus otimes odot wedge vee bmod pmod mod
to gets mapsto leftarrow rightarrow leftrightarrow Leftarrow Rightarrow Leftrightarrow longrightarrow implies iff
uparrow downarrow nearrow searrow therefore because

sum prod coprod int iint iiint oint bigcup bigcap lim limsup liminf sup inf max min arg det dim limits nolimits
exp ln log lg sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan gcd deg ker hom Pr

frac dfrac tfrac cfrac binom dbinom tbinom sqrt over bar overline underline hat widehat tilde widetilde vec dot
ddot overrightarrow overbrace underbrace overset underset stackrel prime left right big Big bigg Bigg bigl bigr
Bigl Bigr langle rangle lfloor rfloor lceil rceil lvert rvert lVert rVert vert Vert lbrace rbrace lbrack rbrack

mathbb mathbf mathcal mathfrak mathit mathrm mathsf mathtt boldsymbol text textbf textit textrm textsf texttt
operatorname operatorname* displaystyle textstyle scriptstyle quad qquad dots ldots cdots vdots ddots colon
hline begin end boxed
"""
_PLACES = (
    "matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix cases array aligned align align* "
    "gathered split"
)
_DRAWS, _ENVIRONMENTS = frozenset(_COMMANDS.split()), frozenset(_PLACES.split())
_SIGNS = frozenset("\\{}|,;:!%_#& ")


def is_harmless(tex: str) -> bool:
    """Whether all that a formula does is to be drawn."""
    if len(tex) > _LONGEST:
        return False
    names = _COMMAND.findall(tex)
    return (
        all(name in _DRAWS or name in _SIGNS for name in names)
        and all(name in _ENVIRONMENTS for name in _ENVIRONMENT.findall(tex))
        and sum(name in ("begin", "end") for name in names) == len(_ENVIRONMENT.findall(tex))
        and "$" not in tex
        and not tex.endswith("\\")
    )


def formula(state: Any, silent: bool) -> bool:  # noqa: FBT001 (the parser's way to call a rule)
    r"""Take a formula in; a rule of markdown-it for what stands within a paragraph.

    ``\(…\)``, ``\[…\]`` and ``$$…$$`` are formulas whatever is in them; ``$…$`` only where the signs stand as
    brackets do, so that amounts of money, tickers and shell variables are none. The token's type is ``"formula"``
    where it may be typeset and ``"code_inline"`` where it may not.
    """
    text, at = state.src, state.pos
    opening = text[at : at + 2]
    if opening in _PAIRS:
        end = text.find(_PAIRS[opening], at + 2, min(state.posMax, at + _FARTHEST))
        inner = text[at + 2 : end]
        past = end + 2
        drawn = end >= 0 and is_harmless(inner)
    elif text[at] == "$":
        end = _dollar(text, at, state.posMax)
        inner = text[at + 1 : end]
        past = end + 1
        drawn = True
    else:
        return False
    if end < 0 or not inner.strip():
        return False
    if not silent:
        token = state.push("formula" if drawn else "code_inline", "" if drawn else "code", 0)
        token.content = text[at:past]
    state.pos = past
    return True


def _dollar(text: str, at: int, most: int) -> int:
    """Where the formula ends that a single dollar sign begins; -1 where it begins none."""
    end = text.find("$", at + 1, most)
    inner = text[at + 1 : end]
    if (
        end < 0
        or not inner
        or inner[0].isspace()
        or inner[-1].isspace()
        or not _LIKE_A_FORMULA.search(inner)
    ):
        return -1
    beside = text[at - 1 : at] + text[end + 1 : end + 2]
    return end if not re.search(r"\w|\$", beside) and is_harmless(inner) else -1
