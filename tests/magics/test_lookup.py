"""A look at a variable reads what the user may see, and calls nothing."""

import pytest

from archytas_nb.magics.expand import LookupFault, look
from archytas_nb.tools.names import visible


class Box:
    size = 4

    @property
    def broken(self) -> int:
        raise RuntimeError("no\nlonger")


NAMES = {"box": Box(), "items": [1, 2, 3], "table": {"a": {"b": 5}}, "n": 2, "_": 9}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("n", 2),
        (" n ", 2),
        ("box.size", 4),
        ("items[-1]", 3),
        ("items[:n]", [1, 2]),
        ("table['a']['b']", 5),
        ("n > 1", True),
        ("_", 9),
    ],
)
def test_names_attributes_items_slices_and_operators_are_looked_up(
    source: str, value: object
) -> None:
    assert look(source, NAMES) == value


def test_the_object_itself_is_returned_and_not_a_copy() -> None:
    assert look("box", NAMES) is NAMES["box"]


@pytest.mark.parametrize(
    "source",
    [
        "len(items)",
        "items.pop()",
        "[i for i in items]",
        "(lambda: n)()",
        "(n := 3)",
        "f'{n}'",
        "n n",
        "[n]",
        "1",
    ],
)
def test_what_calls_or_makes_something_is_refused_before_it_is_evaluated(source: str) -> None:
    with pytest.raises(LookupFault, match="give it a name"):
        look(source, NAMES)
    assert NAMES["items"] == [1, 2, 3]


def test_a_missing_variable_is_named_with_the_one_that_was_meant() -> None:
    with pytest.raises(LookupFault, match=r"no variable is named 'itmes', did you mean 'items'\?"):
        look("itmes[0]", NAMES)


def test_builtins_are_no_variables() -> None:
    with pytest.raises(LookupFault, match="no variable is named 'open'"):
        look("open", NAMES)


def test_what_looking_raises_is_told_in_one_line() -> None:
    with pytest.raises(LookupFault, match="RuntimeError: no longer") as fault:
        look("box.broken", NAMES)
    assert "\n" not in str(fault.value)


def test_names_of_the_shell_and_private_ones_are_not_offered() -> None:
    assert visible({"_i1": "", "In": [], "exit": 0, "df": 1}) == ["df"]
