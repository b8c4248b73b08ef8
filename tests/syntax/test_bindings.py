"""The names that code binds and reads: those that it really binds and reads when it runs."""

from __future__ import annotations

import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.syntax.bindings import Bindings

NAMES = "abcd"
GLOBALS = "gh"
"""What functions declare global, and ``:=`` binds: the namespace is not asked then, so this stays."""

# ── what code really does ─────────────────────────────────────────────────────────────────────────


class Thing:
    """A value with which code can do anything that the generated programs do."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __setattr__(self, name: str, value: Any) -> None: ...

    def __delattr__(self, name: str) -> None: ...

    def __getitem__(self, key: Any) -> Any:
        return self

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def __delitem__(self, key: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter([1])

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __add__(self, other: Any) -> Any:
        return self

    __radd__ = __add__


class Namespace(dict[str, Any]):
    """Notes which names are looked up, bound and unbound; each of ours has a value."""

    def __init__(self) -> None:
        super().__init__(keep=lambda value: value, noting=noting(self))
        self.read: set[str] = set()
        self.bound: set[str] = set()
        self.unbound: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        if name in NAMES + GLOBALS and name not in self:
            return Thing()
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.bound.add(name)
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.unbound.add(name)
        super().__delitem__(name)


def noting(names: Namespace) -> type:
    """A metaclass: what its classes do not have themselves, they look up in the namespace."""

    class InClass(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            is_of_function = name in sys._getframe(1).f_code.co_freevars
            if name in self or is_of_function:
                return super().__getitem__(name)
            return names[name]

    class Noting(type):
        @classmethod
        def __prepare__(cls, name: str, bases: Any) -> Any:
            return InClass()

    return Noting


def ran(text: str) -> tuple[Namespace, bool]:
    """The namespace in which a text was run, and whether it got to its end."""
    names = Namespace()
    before = set(names)
    has_ended = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        code = compile(text, "<text>", "exec")
    try:
        exec(code, names)
    except Exception:
        has_ended = False
    names.bound |= set(names) - before
    for found in (names.bound, names.read, names.unbound):  # without the names of the compiler
        found -= {each for each in found if each.startswith("__") or not each.isidentifier()}
    return names, has_ended


# ── programs ──────────────────────────────────────────────────────────────────────────────────────

name = st.sampled_from(NAMES)


def indented(*lines: str) -> str:
    return textwrap.indent("\n".join(lines), "    ")


def expressions(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("{}.x".format, name),
        st.builds("{}[{}]".format, name, inner),
        st.builds("({} := {})".format, st.sampled_from(GLOBALS), inner),
        st.builds("[{1} for {0} in [{2}]]".format, name, inner, inner),
        st.builds("{{{1}: 1 for {0} in [{2}] for {3} in [{0}]}}".format, name, inner, inner, name),
        st.builds("list({1} for {0} in [{2}] if [{1}])".format, name, inner, inner),
        st.builds("(lambda {0}={2}: {1})()".format, name, inner, inner),
        st.builds("(lambda *{0}, **{2}: {1})()".format, name, inner, name),
        st.builds("(lambda: {0})()".format, inner),
        st.builds("f'{{{0}}}'".format, name),
        st.builds("{{{0}: {1}}}".format, inner, inner),
    )


expression = st.recursive(st.sampled_from([*NAMES, *GLOBALS, "1"]), expressions, max_leaves=4)


def simple() -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("{} = {}".format, name, expression),
        st.builds("{} = [*{}] = [{}]".format, name, name, expression),
        st.builds("{}, {} = [1, {}]".format, name, name, expression),
        st.builds("{}: 'int' = {}".format, name, expression),
        st.builds("{}: 'int'".format, name),
        st.builds("{} += {}".format, name, expression),
        st.builds("{}.x = {}".format, name, expression),
        st.builds("{}[{}] += {}".format, name, expression, expression),
        st.builds("del {}.x".format, name),
        st.builds("del {}".format, name),
        st.builds("import math as {}".format, name),
        st.builds("import os.path as {}, math".format, name),
        st.builds("from math import pi as {}, e".format, name),
        expression,
    )


def compound(block: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    body = block.map(indented)
    forms = [
        st.builds("if True:\n{}".format, body),
        st.builds("for {} in [{}]:\n{}".format, name, expression, body),
        st.builds("with keep(a) as {}:\n{}".format, name, body),
        st.builds("with a as ({}, *{}), b as {}.x:\n{}".format, name, name, name, body),
        st.builds(
            "try:\n    raise ValueError({})\nexcept ValueError as {}:\n{}".format,
            expression,
            name,
            body,
        ),
        st.builds("try:\n{}\nfinally:\n{}".format, body, body),
        st.builds("match [1, {}]:\n    case [1, {}]:\n{}".format, expression, name, body.map(indented)),
        st.builds("match [1, 2]:\n    case [*{}] as {}:\n{}".format, name, name, body.map(indented)),
        st.builds(
            "match {{'k': 1, 'l': {}}}:\n    case {{'k': {}, **{}}}:\n{}".format,
            expression,
            name,
            name,
            body.map(indented),
        ),
        st.builds("class {}(metaclass=noting):\n{}".format, name, body),
        st.builds("@keep\nclass {}(keep(object), metaclass=noting):\n{}".format, name, body),
        st.builds(
            "@keep\ndef {0}({1}={2}, *, {1}2={3}):\n{4}\n{0}()".format,
            name, name, expression, expression, body,
        ),
        st.builds(
            "def {0}():\n    global {1}\n{2}\n    {1} = 1\n{0}()".format,
            name, st.sampled_from(GLOBALS), body,
        ),
        st.builds(
            "def {0}():\n    {1} = 1\n    def {2}():\n        nonlocal {1}\n{3}\n    {2}()\n{0}()".format,
            name, name, name, body.map(indented),
        ),
    ]  # fmt: skip
    if sys.version_info >= (3, 12):
        forms += [
            st.builds("type {0} = {1}\n{0}.__value__".format, name, expression),
            st.builds("type {0}[{1}] = {2}\n{0}.__value__".format, name, name, expression),
            st.builds("def {0}[{1}]({1}=1):\n{2}\n{0}()".format, name, name, body),
            st.builds(
                "class {0}[{1}](keep(object), metaclass=noting):\n{2}".format, name, name, body
            ),
        ]
    return st.one_of(st.lists(st.one_of(*forms, block), min_size=1, max_size=3).map("\n".join))


programs = st.recursive(simple(), compound, max_leaves=5)


def is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<text>", "exec")
    except SyntaxError:  # such as a name that is an argument and global
        return False
    return True


@given(programs.filter(is_python))
def test_the_names_are_those_that_code_binds_and_reads_when_it_runs(text: str) -> None:
    names, has_ended = ran(text)
    found = Bindings.of(text)
    unbound = {each.name for each in found.uses if each.act == "unbind" and not each.is_local}
    assert names.bound <= found.bound
    assert names.read <= found.read
    assert names.unbound <= unbound
    if has_ended:
        assert names.bound == found.bound
        # Whether a class has a name yet may depend on a condition; then it may be read outside.
        maybe = {each.name for each in found.uses if each.act == "bind" and each.is_local}
        assert found.read - names.read <= (maybe if "class" in text else set())


@pytest.mark.parametrize(
    ("lines", "bound"),
    [
        (["for each in rows:"], ["each"]),
        (["for a, b in rows:", "    c = a"], ["a", "b", "c"]),
        (["for a in rows:", "    if a:"], ["a"]),
        (["if x == 2:", "    y = [", "        1,"], []),
        (["if x == 2:"], []),
        (["    with f() as y:", "        pass"], ["y"]),
        ([], []),
    ],
)
def test_the_lines_of_a_statement_that_goes_on_bind_names(
    lines: list[str], bound: list[str]
) -> None:
    assert list(Bindings.of_begun(lines).bound_in_order) == bound


def test_a_name_says_where_it_stands_also_in_a_cell_that_awaits() -> None:
    uses = Bindings.of("x = await f(lambda x: x, lambda: x)\ndf['a'] = x").uses
    assert [(each.name, each.act, each.line, each.is_local) for each in uses] == [
        ("f", "read", 1, False),
        ("x", "bind", 1, True),
        ("x", "read", 1, True),
        ("x", "read", 1, False),
        ("x", "bind", 1, False),
        ("x", "read", 2, False),
        ("df", "read", 2, False),
        ("df", "change", 2, False),
    ]


def test_no_tree_is_too_deep() -> None:
    text = "x" + ".y" * 2_500
    assert Bindings.of(text).read == {"x"}


def test_the_variables_of_a_class_are_its_own_where_it_has_bound_them() -> None:
    seen_in_function = "class C:\n    a = 1\n    def b(self): return a"
    assert "a" in Bindings.of(seen_in_function).read
    assert "a" not in Bindings.of("class C:\n    a = 1\n    b = a").read
    assert "a" in Bindings.of("class C:\n    a = 1\n    del a\n    b = a").read
