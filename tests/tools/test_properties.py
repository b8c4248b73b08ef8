"""Properties of tools, checked over generated signatures, docstrings and values."""

from __future__ import annotations

import enum
import json
import math
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from archytas_nb.loop.events import CallOutcome
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Place(BaseModel):
    name: str
    floor: int = 0
    near: list[Place] = []


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)
PLACES = st.recursive(
    st.fixed_dictionaries({"name": WORDS}, optional={"floor": st.integers(-9, 9)}),
    lambda inner: st.fixed_dictionaries({"name": WORDS, "near": st.lists(inner, max_size=2)}),
    max_leaves=3,
)

# Each type as source, with the JSON values that a model may send for it.
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "str": WORDS,
    "int": st.integers(),
    "float": FLOATS,
    "bool": st.booleans(),
    "list[int]": st.lists(st.integers(), max_size=3),
    "list[str]": st.lists(WORDS, max_size=3),
    "dict[str, int]": st.dictionaries(WORDS, st.integers(), max_size=3),
    "dict": st.dictionaries(WORDS, st.integers() | WORDS | st.none(), max_size=3),
    "int | None": st.integers() | st.none(),
    "int | str": st.integers() | WORDS,
    "str | list[int] | None": WORDS | st.lists(st.integers(), max_size=3) | st.none(),
    "Literal['a', 'b', 3]": st.sampled_from(["a", "b", 3]),
    "Color": st.sampled_from(["r", "b"]),
    "Place": PLACES,
    "list[Place]": st.lists(PLACES, max_size=2),
    "tuple[int, str]": st.tuples(st.integers(), WORDS).map(list),
    "Any": st.integers() | WORDS | st.booleans(),
}
DEFAULTS = {
    "str": "''", "int": "0", "float": "1.5", "bool": "False", "list[int]": "[]", "dict": "None",
    "int | None": "None", "int | str": "'x'", "Color": "Color.RED", "Any": "None", "dict[str, int]": "{}",
}  # fmt: skip
NAMES = [
    "a",
    "b",
    "value",
    "self",
    "tool",
    "thought",
    "schema",
    "copy",
    "json",
    "from_",
    "model_config",
    "x_1",
]
STYLES = ("google", "numpy", "sphinx")


def docstring(style: str, fields: list[tuple[str, str]]) -> str:
    if style == "google":
        args = "".join(f"    {name} ({kind}): About {name}.\n" for name, kind in fields)
        return f"Do it.\n\nArgs:\n{args}" if fields else "Do it."
    if style == "numpy":
        args = "".join(f"{name} : {kind}\n    About {name}.\n" for name, kind in fields)
        return f"Do it.\n\nParameters\n----------\n{args}" if fields else "Do it."
    args = "".join(f":param {name}: About {name}.\n:type {name}: {kind}\n" for name, kind in fields)
    return f"Do it.\n\n{args}"


@st.composite
def functions(draw):
    """Draw a function that records what it is called with, its types by name, and its required arguments."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4))
    fields = [(name, draw(st.sampled_from(sorted(TYPES)))) for name in names]
    optional = {name for name, kind in fields if kind in DEFAULTS and draw(st.booleans())}
    keyword_only = draw(st.integers(0, len(fields)))
    ordered = [f for f in fields[:keyword_only] if f[0] not in optional]
    ordered += [f for f in fields[:keyword_only] if f[0] in optional]
    parts = [f"{n}: {k}" + (f" = {DEFAULTS[k]}" if n in optional else "") for n, k in ordered]
    rest = [
        f"{n}: {k}" + (f" = {DEFAULTS[k]}" if n in optional else "")
        for n, k in fields[keyword_only:]
    ]
    if ordered and draw(st.booleans()):
        parts.append("/")
    head = ", ".join([*parts, *(["*", *rest] if rest else [])])
    body = "{" + ", ".join(f"{n!r}: {n}" for n, _ in fields) + "}"
    scope = {"Any": Any, "Literal": Literal, "Color": Color, "Place": Place, "seen": []}
    exec(f"def f({head}) -> None:\n    seen.append({body})", scope)
    f = scope["f"]
    f.__doc__ = docstring(draw(st.sampled_from(STYLES)), draw(st.permutations(fields)))
    return f, dict(fields), optional, scope["seen"]


def plain(value: Any) -> Any:
    """Turn what the body saw back into what JSON said."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


@given(functions(), st.data())
@settings(max_examples=60)
def test_the_body_sees_the_values_that_were_sent(made, data):
    f, kinds, optional, seen = made
    tool = Tool.from_function(f)
    assert tool.issues == ()
    assert set(tool.schema().get("required", [])) == set(kinds) - optional
    sent = {
        name: data.draw(TYPES[kind], label=name)
        for name, kind in kinds.items()
        if name not in optional or data.draw(st.booleans())
    }
    outcome = tool.call(json.loads(json.dumps(sent)))
    assert outcome.status == "done", outcome.text
    got = {name: plain(value) for name, value in seen[-1].items() if name in sent}
    assert got == {name: plain(value) for name, value in sent.items()}
    for level in ("full", "simple"):
        jsonschema.validate(sent, tool.schema(level))


def keywords(schema: Any) -> set[str]:
    """Collect the keywords of a schema, but not the names of properties."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for key, value in schema.items():
        if key in {"properties", "$defs"}:
            found |= keywords(list(value.values()))
        elif key not in {"default", "enum", "const"}:
            found |= keywords(value)
        if key == "type" and isinstance(value, list):
            found.add("a list of types")
    return found


@given(functions())
@settings(max_examples=40)
def test_each_level_uses_only_its_keywords(made):
    tool = Tool.from_function(made[0])
    assert not keywords(tool.schema("simple")) & {"$ref", "$defs", "anyOf", "a list of types"}
    for level in ("full", "simple"):
        jsonschema.Draft202012Validator.check_schema(tool.schema(level))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(functions(), JSON)
@settings(max_examples=80)
def test_a_call_never_raises_and_never_runs_the_body_on_bad_input(made, sent):
    f, _, _, seen = made
    tool = Tool.from_function(f)
    faults = tool.check(sent)
    outcome = tool.call(sent)
    assert isinstance(outcome, CallOutcome)
    assert (outcome.status == "error") == bool(faults) == (not seen)
    assert all(faults)
    assert all(fault in outcome.text for fault in faults)


@given(functions(), st.data())
@settings(max_examples=40)
def test_the_input_schema_accepts_what_the_text_describes(made, data):
    f, kinds, optional, seen = made
    tool = Tool.from_function(f)
    schema = tool.input_schema()
    if not kinds:
        assert schema == {"type": "null"}
        assert tool.check(None) == ()
        return
    sent: Any = {name: data.draw(TYPES[kind], label=name) for name, kind in kinds.items()}
    (name, kind), *more = kinds.items()
    bare = not more and kind in {"str", "int", "float", "bool"}
    if bare:
        sent = sent[name]
        assert f"_input_: ({kind}" in tool.text
    jsonschema.validate(sent, schema)
    assert tool.check(sent) == ()
    assert tool.call(sent).status == "done"
    if bare:
        assert plain(seen[-1][name]) == sent
    if bare and optional:
        jsonschema.validate(None, schema)
        assert tool.check(None) == ()


class Evil:
    """Fails at whatever it is asked."""

    def __getattribute__(self, name):
        raise RuntimeError(name)

    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __len__ = __iter__ = __eq__ = __bool__ = __repr__
    __hash__ = object.__hash__


class LyingLength(list):
    def __len__(self):
        return 10**9


class BadDict(dict):
    def items(self):
        raise ValueError("no items")


class Speaks:
    def _ai_repr_(self):
        raise OSError("mute")


class Named(str):
    """Stands for the odd value of that name until the test has begun."""

    __slots__ = ()


def unnamed(value: Any) -> Any:
    if isinstance(value, Named):
        return ODD[value]
    if type(value) in (list, tuple):
        return type(value)(unnamed(each) for each in value)
    return value


ODD: dict[str, Any] = {  # by name, because hypothesis itself asks its samples for their repr
    "evil": Evil(), "inside": [Evil(), {"a": Evil()}], "lying": LyingLength([1]), "items": BadDict(a=1),
    "mute": Speaks(), "object": object(), "class": Evil, "module": math, "builtin": len, "huge": 10**5000,
    "nan": math.nan, "inf": -math.inf, "bytes": b"\x00\xff" * 99, "surrogate": "\ud800", "long": "x" * 100_000,
    "range": range(9), "dots": ..., "mixed": {1, "a", None}, "tuples": frozenset({(1, 2)}), "keys": {(1, 2): 3},
    "error": ValueError("x"), "same": [[]] * 3, "complex": 1j, "bytearray": bytearray(b"x"), "empty": "",
    "view": memoryview(b"x"), "white": "  ", "million": list(range(100_000)),
}  # fmt: skip
VALUES = st.recursive(
    JSON | st.sampled_from(sorted(ODD)).map(Named),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=6,
)


@given(VALUES, st.integers(1, 300))
@settings(max_examples=120)
def test_a_rendering_never_fails_is_never_empty_and_never_exceeds_its_limit(value, cap):
    value = unnamed(value)
    shown = render(value, cap)
    assert 0 < len(shown.text) <= cap
    shown.text.encode("utf-8")
    assert render(value, cap) == shown


def test_an_interrupt_ends_a_rendering():
    class Slow:
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render(Slow())


def test_an_object_whose_repr_exits_is_rendered():
    class Exits:
        def __repr__(self):
            raise SystemExit(3)

    assert render(Exits()).text == "<Exits object, its repr raised SystemExit>"
    assert "its repr raised SystemExit" in render([Exits()]).text
