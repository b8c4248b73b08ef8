"""Golden pages of what is not one function's description: names, faults, results, bad input."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd

from archytas_nb.errors import ToolError
from archytas_nb.tools.names import legal_name
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.tools.shapes import add_one, ask, choose, count_rows, order, ping, total, travel
from tests.tools.shapes_typed import Color, Point


def names() -> str:
    lines = []
    for name in (
        "f",
        "math.factorial",
        "a.b.c",
        "x-1",
        "",
        "final_answer",
        "fail.task",
        "<lambda>",
        "größe",
        "y" * 65,
    ):
        try:
            lines.append(f"{name!r} is {legal_name(name)}")
        except ToolError as error:
            lines.append(str(error))
    return "\n".join(lines) + "\n"


def undocumented(a: int) -> int: ...


def unannotated(a, b=1):
    """Add.

    Args:
        a (int): One.
        b: Two.
    """


def renamed(colour: str, width: int) -> None:
    """Paint.

    Args:
        color: Which.
        height: How high.
    """


def starred(*args: int, **kwargs: int) -> None:
    """Do."""


def undefined(a: Nowhere) -> None:  # noqa: F821
    """Do.

    Args:
        a: One.
    """


def faults() -> str:
    parts = []
    for f in (undocumented, unannotated, renamed, starred, undefined, lambda: None):
        try:
            Tool.from_function(f)
        except ToolError as error:
            head, *rest = str(error).split("\n")
            parts.append("\n".join([head.partition(" (defined")[0], *rest]))
    return "\n\n".join(parts) + "\n"


def results() -> str:
    frame = pd.DataFrame({"n": np.arange(100) / 4, "m": [1, None] * 50})
    values: list[Any] = [
        None, "", "text", True, 3, 2.5, float("nan"), [], [1, 2], [{"a": 1}, {"a": 2}], (1, "a"), {2, 1},
        {"a": None}, b"\x00\x01", dt.date(2024, 1, 2), decimal.Decimal("1.10"), Color.RED, Point(1, 2),
        np.float64(1.5), np.arange(6).reshape(2, 3), np.zeros((300, 300)), frame, frame.head(2), frame["n"],
        (n for n in range(3)), ValueError("no"), object(), "x" * 300,
    ]  # fmt: skip
    return (
        "\n\n".join(f"{type(value).__name__}:\n{render(value, 600).text}" for value in values)
        + "\n"
    )


F = '{future}def f(p: {kind}) -> {kind}:\n    """Do.\n\n    Args:\n        p: Where.\n    """\n    return p\n'


def annotations() -> str:
    parts = []
    for future in ("", "from __future__ import annotations\n"):
        for kind in ("'Point'", "list[int]", "int | None", "dict[str, 'Point']"):
            scope: dict[str, Any] = {"Point": Point}
            exec(F.format(future=future, kind=kind), scope)
            parts.append(Tool.from_function(scope["f"]).text)
    return "\n\n".join(parts) + "\n"


def replacing() -> str:
    box = Toolbox(ping, ask)
    for _ in range(2):
        box.add(order, name="ping")
    return "\n\n".join(tool.text for tool in box.values()) + "\n"


def bad_input() -> str:
    frame = {"df": pd.DataFrame({"a": [1]}), "n": 1}
    calls: list[tuple[Any, Any]] = [
        (ping, {"a": 1}), (ping, "hello"), (ask, None), (ask, 5), (ask, {"query": "x"}), (add_one, True),
        (add_one, 5.5), (add_one, "x"), (total, {"a": 1}), (total, "1, 2"), (total, [1, "x", None]), (order, {}),
        (order, [1, 2]), (order, "first"), (order, {"first": None, "secnd": 2, "third": 3}),
        (choose, {"level": "LOW", "color": 3}), (travel, {"start": {}, "legs": [{"km": "far"}], "tree": []}),
        (count_rows, "fd"), (count_rows, "n"), (count_rows, {"df": {"$var": "df.head()"}}),
    ]  # fmt: skip
    return (
        "\n\n".join(
            f"{sent!r}\n{Tool.from_function(f).call(sent, dict(frame)).text}" for f, sent in calls
        )
        + "\n"
    )


PAGES = {
    "01_names": names,
    "10_faults": faults,
    "12_results": results,
    "19_annotations": annotations,
    "21_replacing": replacing,
    "22_bad_input": bad_input,
}
