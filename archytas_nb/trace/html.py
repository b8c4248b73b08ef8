"""A run as a static page fragment: folded steps and the answer, with no script, no file and nothing to load.

It reads well where styles are stripped (GitHub): marks are characters, structure is structure. Pure: a view
in, HTML out; the same in every run; bounded, whatever a run held. All HTML is made by `safe`.
"""

from __future__ import annotations

from archytas_nb.trace import style
from archytas_nb.trace.clean import clip
from archytas_nb.trace.html_step import LARGEST_TEXT, Room, details, step_html, table_html
from archytas_nb.trace.safe import Html, element, join, markdown, stylesheet, text
from archytas_nb.trace.values import RunView, StepView
from archytas_nb.trace.words import (
    answer_markdown,
    ending_text,
    ending_title,
    is_answer,
    who_answers,
)

_OPEN_STEPS = 12
"""Steps that are listed; of a longer run the earlier ones are folded into one line."""
_MAX_STEPS = 500
# MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
CLASSES = f"{style.CLASS} tex2jax_ignore mathjax_ignore"


def html(view: RunView) -> Html:
    """Write a run as HTML.

    Args:
        view: The run, finished or not.

    Returns:
        One ``<div>``. Errors and pictures are unfolded, everything else is folded; the answer stands last.
    """
    steps = [step for step in view.steps if not step.empty]
    parts = [stylesheet(), question_html(view), *_steps(steps, Room.of(steps)), _ending(view)]
    return element("div", *parts, **{"class": CLASSES, "style": style.ROOT})


def value_html(view: RunView, *, with_steps: bool) -> Html:
    """Write a run as the value that it came to: how it ended, and folded behind it how it came there.

    Args:
        view: The run, finished.
        with_steps: Whether the steps are there to be unfolded.

    Returns:
        One ``<div>``.
    """
    steps = [step for step in view.steps if not step.empty] if with_steps else []
    parts = [stylesheet(), _ending(view)]
    if steps:
        title = element(
            "em", text(f"in {len(steps):,} step{'s' if len(steps) > 1 else ''}"), style=style.DIM
        )
        parts.append(details(title, join([question_html(view), *_steps(steps, Room.of(steps))])))
    return element("div", *parts, **{"class": CLASSES, "style": style.ROOT})


def question_html(view: RunView) -> Html:
    """The question, and who answers it."""
    name = who_answers(view)
    parts = [element("strong", text(clip(view.question, LARGEST_TEXT)), style=style.QUESTION)]
    if name:
        parts += [text(" "), element("span", text(name), style=style.MODEL)]
    return element("p", *parts, style=style.HEAD)


def answer_html(words: str) -> Html:
    """An answer in the model's Markdown."""
    return element("div", markdown(words), style=style.ANSWER)


def _steps(steps: list[StepView], room: Room) -> list[Html]:
    if not steps:
        return []
    early, late = (
        ([], steps) if len(steps) <= _OPEN_STEPS else (steps[:-_OPEN_STEPS], steps[-_OPEN_STEPS:])
    )
    parts = []
    if early:
        drawn = early[: _MAX_STEPS - _OPEN_STEPS]
        inner = [step_html(step, room) for step in drawn]
        if len(drawn) < len(early):
            inner.append(
                element("p", text(f"… {len(early) - len(drawn):,} more steps …"), style=style.DIM)
            )
        failed = sum(step.failed for step in early)
        title = f"{len(early):,} earlier step{'s' if len(early) > 1 else ''}"
        title += f", {failed:,} with an error" if failed else ""
        parts.append(details(element("em", text(title), style=style.DIM), join(inner)))
    parts += [step_html(step, room) for step in late]
    return [element("div", *parts, style=style.STEPS)]


def _ending(view: RunView) -> Html:
    title, said = ending_title(view.ending), ending_text(view.ending)
    parts = []
    if title:
        colour = style.BAD if title.startswith("✗") else style.WARN
        parts.append(
            element("p", element("strong", text(title)), style=f"margin:.5em 0 .3em;color:{colour}")
        )
    if said and view.typed:
        parts.append(element("pre", text(clip(said, LARGEST_TEXT)), style=style.PRE))
    elif said and is_answer(view.ending):
        parts.append(answer_html(answer_markdown(view.ending)))
    elif said:
        parts.append(element("p", text(said), style=style.PROSE))
    if view.table:
        parts.append(table_html(view.table))
    return join(parts)
