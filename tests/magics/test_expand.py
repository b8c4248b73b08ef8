"""`{expr}` in a question: values are written, JSON and code stay, nothing private is read."""

import contextlib
import datetime as dt
import fractions
import functools
import json
import math
import os
import sys
import time
from collections import ChainMap, UserDict, deque
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from archytas_nb.magics.expand import expand
from archytas_nb.magics.options import picture
from archytas_nb.template import LookupFault, look
from tests.growth import assert_linear

KEY = "canary-7f3a9c51d2e8"


class Box:
    module = os
    _private = KEY
    public = 5

    @property
    def broken(self) -> int:
        raise RuntimeError("no\nlonger")


NAMES: dict[str, Any] = {
    "name": "Gentoo", "n": 3, "price": 2.5, "d": {"}": 1, "a": {"b": 2}}, "x": [1, 2, 3, 4],
    "df": pd.DataFrame({"year": [2007, 2008, 2009], "mass": [1.5, 2.5, 3.5]}),
    "at": dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.UTC),
    "empty": "", "nothing": None, "array": np.array([1, 2]), "box": Box(), "_": "last",
}  # fmt: skip


def asked(question: str) -> str:
    return expand(question, NAMES).text


@pytest.mark.parametrize(
    ("question", "sent"),
    [
        ("How many {name} are there?", "How many Gentoo are there?"),
        ("{ name }{n} {box.public} {_}", "Gentoo3 5 last"),
        ("{d['a']['b']} {x[:2]} {x[-1]} {n > 1}", "2 [1, 2] 4 true"),
        ("{price:.2f}|{n:>3}|{price:%}|{at:%H:%M}", "2.50|  3|250.000000%|03:04"),
        ("{name!r} {name!r:>9}", "'Gentoo'  'Gentoo'"),
        ("[{empty}] {nothing}", "[] None"),
        ("it's {name}, isn't it?", "it's Gentoo, isn't it?"),
        ("{see {name}}", "{see Gentoo}"),
        (r"\text{of {name}}", r"\text{of Gentoo}"),
        (r"a\n{name} file_{n} \{name}", r"a\nGentoo file_3 \Gentoo"),
        ("{{name}} {name}}}", "{name} Gentoo}"),
        ('{{"a": {n}}} {{{name}}}', '{"a": 3} {Gentoo}'),
        (r"\frac{{n}}{{2}}", r"\frac{n}{2}"),
    ],
)
def test_a_lookup_is_replaced_by_its_value(question: str, sent: str) -> None:
    assert asked(question) == sent


@pytest.mark.parametrize(
    "text",
    [
        '{"a": {"b": [{}, true, null, "}"]}}',
        "{'a': name} {a: 1} {1, 2} {name, n} {*x} {} { }",
        "{see above} {see {that one}} {see above}} {n: see below}",
        "function f() { return n; } p {color:red; margin:0}",
        "{it's a note} {\n  n\n} What's \"{up? a } b",
        "$name %s",
        r"\frac{n}{n + 1} and \bar{x}_{n}^{n}, e^{n} \sqrt[3]{n} \operatorname*{n}{name}",
        *("{ " * 2000 + "}" * 2000, "{'" * 3000, "{" + "(" * 5000 + "}"),
    ],
)
def test_json_dicts_sets_code_formulas_and_stray_braces_are_left_alone(text: str) -> None:
    assert asked(text) == text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("{nmae}", "'nmae', did you mean 'name'?"),
        ("{open}", "no variable is named 'open'"),
        ("file_{b}", "no variable is named 'b'"),
        ("{x.foo}", "AttributeError"),
        ("{d['k']}", "KeyError: 'k'"),
        ("{box.broken}", "RuntimeError: no longer"),
        ("{len(x)}", "more than a variable"),
        ("{df['mass'].mean():,.1f}", "more than a variable"),
        ("{x.clear()}", "more than a variable"),
        ("{n - 1}", "more than a variable"),
        ("{name:.2f}", "cannot be formatted: ValueError"),
        ("{price:.2ff}", "cannot be formatted: ValueError"),
        ("{n:999999999d}", "a width below"),
    ],
)
def test_a_lookup_that_fails_is_an_error_with_the_ways_out(question: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        asked(question)
    assert said in str(error.value)
    assert "write {{name}}" in str(error.value)
    assert "\n" not in str(error.value)
    assert NAMES["x"] == [1, 2, 3, 4]


def test_a_value_is_written_as_a_tool_would_write_it() -> None:
    assert "DataFrame 1 × 2 (" in asked("Look at {df[df.year > 2008]}")
    assert "ndarray 2 " in asked("{array}")
    generator = iter(each for each in "ab")
    with pytest.raises(UsageError, match="convert it to a list"):
        expand("{g}", {"g": generator})
    assert list(generator) == ["a", "b"]
    text = expand("{x}", {"x": "y" * 100_000}).text
    assert len(text) <= 8_000
    assert set(text) != {"y"}


def test_a_picture_among_the_values_is_sent_with_the_question() -> None:
    class Chart:
        def _repr_png_(self) -> bytes:
            return b"\x89PNG\r\n\x1a\n"

    sent = expand("What does {chart} show?", {"chart": Chart()})
    assert sent.text == "What does [image: Chart] show?"
    assert len(sent.images) == 1


@given(st.text(alphabet=st.sampled_from("{}{}ab n\"':!.[]()\\\n"), max_size=60))
def test_any_text_with_its_braces_doubled_is_sent_as_it_was(text: str) -> None:
    assert asked(text.replace("{", "{{").replace("}", "}}")) == text


@given(st.text(alphabet=st.sampled_from("{}{}an x\"':!.,[]()=\\\n"), max_size=60))
def test_any_text_is_expanded_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        asked(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 2]), st.booleans())
def test_any_json_object_is_left_alone(
    value: dict[str, object], indent: int | None, ascii: bool
) -> None:
    text = f"Look: {json.dumps(value, indent=indent, ensure_ascii=ascii)} and {{name}}"
    assert asked(text) == text.removesuffix("{name}") + "Gentoo"


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(str.strip))
def test_a_plain_value_is_written_as_it_is(value: object) -> None:
    assert expand("<{v}>", {"v": value}).text == f"<{value}>"


# ── what a question that others wrote may not reach ───────────────────────────────────────────────


def generator() -> Any:
    yield 1


HOSTILE: dict[str, Any] = {
    "f": generator, "os": os, "np": np, "environ": os.environ, "environb": os.environb,
    "box": Box(), "g": generator(), "modules": {"os": os, "list": [os]}, "_secret": KEY,
    "_i1": KEY, "_oh": {1: KEY}, "In": [KEY], "Out": {1: KEY}, "__builtins__": __builtins__,
    "sys": sys, "x": 10, "n": 10**6, "s": "ab", "items": [1, 2], "q": deque([1]),
    "half": fractions.Fraction(3, 2), "column": np.arange(100_000),
    "objects": pd.Series(["ab"] * 10), "df": pd.DataFrame({"a": [1.0, 2.0]}),
}  # fmt: skip


def test_nothing_private_and_nothing_of_a_module_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in [
        *('f.__globals__["os"].environ["CANARY_KEY"]', "os.environ", "os", "np.pi", "environ"),
        *("environb", 'environ["CANARY_KEY"]', "box.module", "box.module.environ", "box._private"),
        *("box.__class__", 'modules["os"]', 'modules["list"][0].environ', "_secret", "_i1"),
        *("_oh", "In[0]", "Out", "__builtins__", "sys.modules", "g.gi_frame.f_globals"),
        *("f.__code__.co_consts", "x & os.environ", "[os][0].environ", "x == os.environ"),
    ]:
        monkeypatch.setenv("CANARY_KEY", KEY)
        for form in ("{%s}", "{%s!r}", "{%s:>5}"):
            with pytest.raises(UsageError) as error:
                expand(form % source, HOSTILE)
            assert KEY not in str(error.value)
        with pytest.raises(UsageError):
            picture(source, HOSTILE)


@dataclass
class Settings:
    env: Any


class Long:
    def __init__(self, env: Any) -> None:
        self.env = env

    def __repr__(self) -> str:
        return f"Long({'x' * 20_000}, {self.env!r})"


def nested(value: Any) -> Any:
    for _ in range(30):
        value = [{"in": (value,)}]
    return value


def test_a_value_that_holds_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for hold in [
        lambda env: {"a": [env]},
        MappingProxyType,
        lambda env: {"a": ChainMap({}, env)},
        lambda env: UserDict(a=env),
        lambda env: env.items(),
        lambda env: [env.keys(), env.values()],
        lambda env: {"a": {"b": env}.items()},
        nested,
        Settings,
        lambda env: SimpleNamespace(env=env),
        lambda env: functools.partial(print, env),
        Long,
        lambda env: {"a": np.array(["x" * 450, env], dtype=object)},
        lambda env: [pd.Series(["x" * 450, env])],
        lambda env: [np.array([[["x" * 450]], [[env]]], dtype=object)],
        lambda env: KeyError(env),
        lambda env: [0] * 500_000 + [env],
        lambda env: np.array([None, env], dtype=object),
        lambda env: pd.Series([env, None]),
    ]:
        monkeypatch.setenv("CANARY_KEY", KEY)
        for env in (os.environ, os.environb):
            for form in ("{d}", "{d!r}", "{d!s:>5}"):
                value, refused = hold(env), "contains the environment"
                if isinstance(value, (pd.Series, np.ndarray)):  # of which only names may be shown
                    refused = "environment|cannot be written"
                    with contextlib.suppress(UsageError):
                        assert KEY not in expand(form, {"d": value}).text
                        continue
                with pytest.raises(UsageError, match=refused):
                    expand(form, {"d": value})


def test_no_item_of_the_environment_is_read_through_what_wraps_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CANARY_KEY", KEY)
    for wrap in (MappingProxyType, ChainMap, lambda env: ChainMap({}, env)):
        with pytest.raises(UsageError, match="environment"):
            expand("{d['CANARY_KEY']}", {"d": wrap(os.environ)})
    assert expand("{d['a']}", {"d": ChainMap({"a": 1})}).text == "1"


def test_arrays_are_selected_and_compared_within_bounds() -> None:
    assert list(look("df[(df.a > 1) & ~(df.a > 5)].a", HOSTILE)) == [2.0]
    assert look("column[:3, None] == column[:3]", HOSTILE).sum() == 3
    assert look("items", HOSTILE) is HOSTILE["items"]
    began = time.monotonic()
    for source in (
        *("x**n**n", "x << n * n", "s * n * n", "items * (n * n)", "q * (n * n)", "half**n"),
        *("objects * (n * n)", "'%999999999d' % x", "column[:, None] * column"),
        *("column[:, None] == column", "column[:, None] @ column[None, :]"),
    ):
        with pytest.raises(LookupFault):
            look(source, HOSTILE)
    text = "{see " + "a:b " * 50_000 + "}"
    assert asked(text) == text
    assert len(asked("{" * 5000)) >= math.floor(2500)
    assert time.monotonic() - began < 10


def test_an_at_sign_describes_a_variable_and_shows_no_value() -> None:
    names = {"frame": pd.DataFrame({"city": ["Lima"]}), "token": "abc", "name": "Lima"}
    text = expand("What is {@frame}, {@ name}, @x, {{@frame}}?", names).text
    assert text.startswith("What is frame (DataFrame 1 × 1; city: ")
    assert text.endswith("), name (str), @x, {@frame}?")
    assert "Lima" not in text
    for missing, says in (("fame", "'frame'"), ("token", "secret"), ("_x", "private")):
        with pytest.raises(UsageError, match=says):
            expand(f"What is {{@{missing}}}?", names | {"_x": 1})


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{x}", 10_000), ("{x!r} ", 10_000), ('{"a": x}', 10_000), (r"\frac{x} {x}", 10_000),
        ("{", 10_000), ("}", 10_000), ("{{", 10_000), ("{{x}}", 10_000), ("{x", 10_000),
        ('{"a": 1}', 10_000), ('{"', 10_000), ('{"a": "b', 10_000), (r"\frac{x}", 10_000),
        ('{"a":', 2_000), ('{"a": [1, 2, ', 2_000),
    ],
)  # fmt: skip
def test_the_time_for_a_question_grows_with_its_length(text: str, size: int) -> None:
    assert_linear(lambda n: expand(f"^{{x}} {text * n}", {"x": 1}), size)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=40,
)


@given(st.dictionaries(st.text(), JSON_VALUES), st.booleans(), st.text(), st.data())
def test_an_object_of_json_of_any_length_is_kept(
    value: dict[str, Any],
    ascii_only: bool,
    after: str,
    data: st.DataObject,
) -> None:
    written = json.dumps(
        value, ensure_ascii=ascii_only, indent=data.draw(st.sampled_from([None, 1]))
    )
    sent = f"Read {written}{after.translate({123: 40, 125: 41})} {{x}}"
    assert expand(sent, {"x": 1}).text == sent.removesuffix("{x}") + "1"


def test_a_lookup_that_stands_twice_is_read_once() -> None:
    class Counter:
        count = 0

        @property
        def next(self) -> int:
            self.count += 1
            return self.count

    assert expand("{c.next} and {c.next}", {"c": Counter()}).text == "1 and 1"
