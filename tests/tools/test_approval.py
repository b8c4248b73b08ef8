"""A tool's own word on approval is checked when it is defined and given the arguments that it names."""

from typing import Any

import pytest

from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import BoundCall, Tool


def move(table: str, rows: list[int], /, to: str = "archive", *, force: bool = False) -> str:
    """Move rows.

    Args:
        table: Where they are
        rows: Which ones
        to: Where to
        force: Whether to overwrite
    """
    return to


def wants(approve: Any, given: object) -> Any:
    tool = Tool.from_function(move, approve=approve)
    bound = tool.bind(given)
    assert isinstance(bound, BoundCall)
    return tool.wants_approval(bound)


GIVEN = {"table": "t", "rows": ["1", 2]}


def test_it_is_given_the_validated_arguments_that_it_names_defaults_included() -> None:
    seen: list[Any] = []
    wants(lambda rows, to: seen.append((rows, to)), GIVEN)
    wants(lambda **everything: seen.append(everything), {**GIVEN, "force": True})
    assert seen == [
        ([1, 2], "archive"),
        {"table": "t", "rows": [1, 2], "to": "archive", "force": True},
    ]


def test_it_may_answer_with_words_or_with_anything_true_or_false() -> None:
    assert wants(lambda rows: len(rows) > 1, GIVEN) is True
    assert wants(lambda force: force, GIVEN) is False
    assert wants(lambda rows: f"{len(rows)} rows", GIVEN) == "2 rows"
    assert wants(lambda: 1, GIVEN) is True
    assert wants(None, GIVEN) is False


def test_what_it_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        wants(lambda rows: 1 / 0, GIVEN)


def test_the_namespace_is_not_among_the_arguments() -> None:
    from archytas_nb.tools.signature import Namespace

    def look(name: str, names: Namespace) -> str:
        """Look.

        Args:
            name: A name
        """
        return name

    seen: list[Any] = []
    tool = Tool.from_function(look, approve=lambda **given: seen.append(given))
    bound = tool.bind("x", {})
    assert isinstance(bound, BoundCall)
    tool.wants_approval(bound)
    assert seen == [{"name": "x"}]


@pytest.mark.parametrize(
    ("approve", "said"),
    [
        ("yes", "expected True, False or a callable"),
        (1, "expected True, False or a callable"),
        (lambda row: True, "'row', which is no argument of the tool, did you mean 'rows'"),
        (lambda rows, /: True, "by position only"),
    ],
)
def test_one_that_could_not_be_asked_is_refused_when_the_tool_is_defined(
    approve: Any, said: str
) -> None:
    with pytest.raises(ToolError, match=said):
        Tool.from_function(move, approve=approve)


def test_an_async_one_is_refused_too() -> None:
    async def later(rows: list[int]) -> bool:
        return True

    with pytest.raises(ToolError, match="async"):
        Tool.from_function(move, approve=later)
