"""How a trace looks: every colour, size and distance, and no content.

Colours are shades that are seen on dark and on light. All that a trace needs stands in ``style`` attributes; the
short style sheet adds only what they cannot say (hovering, what is shown while folded, printing), because some
places take it away. JupyterLab takes it from an untrusted notebook, and each declaration with a variable, too.
"""

from __future__ import annotations

CLASS = "archytas-nb-trace"
FOLDED_ONLY = "archytas-nb-folded"
"""The class of what a summary need not say while what it sums up is unfolded below it."""

SHEET = (
    f".{CLASS} summary::marker{{color:rgba(128,128,128,.9)}}"
    f".{CLASS} summary:hover{{background:rgba(128,128,128,.08)}}"
    f".{CLASS} details[open]>summary{{white-space:normal!important}}"
    f".{CLASS} details[open]>summary .{FOLDED_ONLY}{{display:none}}"
    f".{CLASS} details:not([open])>summary .{FOLDED_ONLY}{{display:inline!important}}"
    # On paper nothing can be unfolded or scrolled.
    "@media print{"
    f".{CLASS} details::details-content{{content-visibility:visible!important;block-size:auto!important}}"
    f".{CLASS} pre,.{CLASS} div{{max-height:none!important;overflow:visible!important}}"
    "}"
)

KEPT = "archytas-nb-kept-"
"""With a number behind it the class of the static copy of a run that goes on."""

HIDE_KEPT = "{0}{{display:none}}.jp-OutputArea-child:has({0}){{display:none}}"
HIDE_ORPHAN = (
    ""
    ".jp-OutputArea-child:has({0})+.jp-OutputArea-child:not(:has(.archytas-nb-trace)){{display:none}}"
)
"""The live widgets hide the copy; where they are gone, the copy hides the message that stands in their place."""

WIDTH = "56rem"
MONO = (
    ""
    "font-family:var(--jp-code-font-family,ui-monospace,SFMono-Regular,Menlo,Consolas,monospace);font-size:.93em"
)
LINE = "1px solid rgba(128,128,128,.28)"
DIM = "opacity:.65"
SMALL = f"{DIM};font-size:.85em"
GOOD = "#2e9e5b"
BAD = "#d64545"
WARN = "#c9851b"
ROOT = (
    f"max-width:{WIDTH};margin:.2em 0;line-height:1.55;overflow-wrap:anywhere;"
    "font-size:var(--jp-content-font-size1,14px);"
    "font-family:var(--jp-content-font-family,system-ui,-apple-system,'Segoe UI',sans-serif)"
)
HEAD = (
    "margin:0 0 .5em;display:flex;flex-wrap:wrap;justify-content:space-between;"
    "align-items:baseline;gap:0 1.5em"
)
QUESTION = "white-space:pre-wrap;font-weight:600;flex:0 1 auto"
MODEL = f"{DIM};font-size:.82em"
STATUS = f"{DIM};font-size:.9em;font-variant-numeric:tabular-nums;margin:.35em 0"
STEPS = f"border-top:{LINE};border-bottom:{LINE};padding:.25em 0;margin:.3em 0"
SUMMARY = (
    "cursor:pointer;padding:.22em 0;border-radius:4px;white-space:nowrap;overflow:hidden;"
    "text-overflow:ellipsis"
)
BODY = f"margin:.1em 0 .5em .33em;padding:0 0 0 1em;border-left:{LINE}"
MARK = "display:inline-block;min-width:1.05em;font-weight:600;color:"
NUMBER = f"{DIM};display:inline-block;min-width:1.35em;text-align:right;font-variant-numeric:tabular-nums"
PRE = (
    f"{MONO};margin:.35em 0;padding:.55em .8em;border:0;border-radius:6px;background:rgba(128,128,128,.1);"
    "color:inherit;white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;max-height:24em;overflow:auto;line-height:1.45"
)
PRINTED = f"{PRE};max-height:9em"
GIVEN = f"{PRE};background:none;border:{LINE}"
CODE = f"{MONO};background:none;color:inherit;padding:0;border:0;white-space:inherit"
CALL = "margin:.35em 0"
THOUGHT = "margin:.3em 0;opacity:.8"
NOTE = "margin:.3em 0"
PROSE = "white-space:pre-wrap;margin:.3em 0"
SHOWN_PROSE = "margin:.35em 0"
ANSWER = "margin:.6em 0 .3em;font-size:1.03em"
TABLE_BOX = "overflow:auto;max-height:28em"
TABLE = "border-collapse:collapse;border:0;margin:.3em 0;font-size:.92em"
CELL = f"padding:.22em .75em;border:0;border-bottom:{LINE};white-space:nowrap"
HEAD_CELL = ";font-weight:600"
PICTURE = "max-width:100%;height:auto;border-radius:4px;margin:.35em 0;background:#fff"


def edge(colour: str) -> str:
    """A coloured edge to the left of a block."""
    return f";border-left:3px solid {colour}"
