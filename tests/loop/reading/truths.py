"""Intended calls, and styles of writing a reply: a built-in set, and that of ``bfcl-eval``."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Call = tuple[str, Any]


@dataclass(frozen=True)
class Truth:
    """An intended call, and the schema of its tool."""

    name: str
    input: dict[str, Any]
    schema: dict[str, Any]


def _typed(value: Any) -> dict[str, Any]:
    names = {
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "array",
        dict: "object",
    }
    return {"type": names[type(value)]} if value is not None else {}


_BUILT_IN: list[Call] = [
    ("add", {"a": 3, "b": 4}),
    ("get_weather", {"city": "Paris", "unit": "celsius", "days": 3}),
    (
        "send_mail",
        {"to": "ann@example.org", "subject": "Re: lunch?", "body": "See you at 12:30, {sharp}!"},
    ),
    (
        "run_sql",
        {"query": "SELECT name, age FROM people WHERE age > 30 AND city = 'Rome';", "limit": 100},
    ),
    (
        "plot",
        {"x": [1, 2.5, -3e-2], "y": [0, 1, 4], "title": "Growth [cm], 2020–2024", "grid": True},
    ),
    (
        "book_flight",
        {
            "origin": "SFO",
            "destination": "JFK",
            "passengers": {"adults": 2, "children": 1},
            "direct": False,
        },
    ),
    (
        "write_file",
        {"path": "notes/today.txt", "content": "# Title\n\n- one\n- two\n", "append": True},
    ),
    (
        "search",
        {
            "text": "what's new, and why?",
            "filters": [{"field": "year", "op": ">=", "value": 2020}],
            "page": 1,
        },
    ),
    ("set_alarm", {"time": "07:00", "label": "Zähne putzen 🦷", "repeat": None}),
    ("calc", {"expression": "(1 + 2) * 3 / {4}", "digits": 6}),
    (
        "move",
        {
            "from": [0, 0],
            "to": [7, 7],
            "options": {"speed": 1.5, "path": {"avoid": ["water"], "max": 10}},
        },
    ),
    ("translate", {"text": "Say: yes, no; or maybe...", "source": "en", "target": "de"}),
    ("fit", {"formula": "y ~ x + z:w", "data": "df_7", "weights": [0.1, 0.2], "robust": True}),
    ("describe", {"name": "df", "columns": ["a b", "c/d", "é"], "percentiles": [0.05, 0.95]}),
    ("render", {"template": "<b>{{ name }}</b>", "values": {"name": "O'Hara", "n": 0}}),
    ("tag", {"text": "a, b: c", "label": "x"}),
    ("create_user", {"name": "add", "tool": "hammer", "arguments": [1, 2]}),
    (
        "schedule",
        {"start": "2024-01-01T09:00:00Z", "every": "1 day", "args": {"id": 17, "dry": False}},
    ),
]


def built_in() -> list[Truth]:
    """Calls that need no package."""
    found = []
    for name, given in _BUILT_IN:
        fields = {key: _typed(value) for key, value in given.items()}
        schema = {
            "type": "object",
            "properties": fields,
            "required": list(given)[:1],
            "additionalProperties": False,
        }
        found.append(Truth(name, given, schema))
    return found


def bfcl() -> list[Truth]:
    """Ground-truth calls of the Berkeley function calling benchmark; empty if it is not installed."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        return []
    data = Path(spec.origin).parent / "data"
    found = []
    for kind in ("simple_python", "multiple", "live_simple", "live_multiple", "parallel"):
        for asked in data.glob(f"BFCL_v*_{kind}.json"):
            found += list(_of_file(asked, data / "possible_answer" / asked.name))
    return found


def _of_file(asked: Path, answers: Path) -> Iterator[Truth]:
    tools = {}
    for line in asked.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        tools[task["id"]] = {each["name"]: each["parameters"] for each in task["function"]}
    for line in answers.read_text(encoding="utf-8").splitlines():
        task = json.loads(line)
        for name, options in task["ground_truth"][0].items():
            schema = tools[task["id"]].get(name)
            given = {
                key: _first(value)
                for key, value in options.items()
                if _first(value) not in ("", None)
            }
            if schema is not None and set(schema.get("required", ())) <= set(given):
                fields = {
                    "type": "object",
                    "properties": schema["properties"],
                    "required": schema.get("required", []),
                }
                yield Truth(name.replace(".", "_"), given, fields)


def _first(options: Any) -> Any:
    value = options[0] if isinstance(options, list) and options else options
    if value == "" and len(options) > 1:
        value = options[1]
    if isinstance(value, dict):
        return {key: _first(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [{key: _first(each) for key, each in item.items()} for item in value]
    return value


# ── kinds of replies ──────────────────────────────────────────────────────────────────────────────

Made = tuple[str, tuple[Call, ...]] | tuple[str, tuple[Call, ...], bool] | None
Corruption = Callable[[Truth, Truth, random.Random], Made]
KINDS: dict[str, Corruption] = {}


def kind(make: Corruption) -> Corruption:
    KINDS[make.__name__.strip("_")] = make
    return make


def envelope(truth: Truth, rng: random.Random, given: Any = None) -> dict[str, Any]:
    thought = rng.choice(
        ["I need this first.", "Let's see: the user wants it.", "", "Step 1, then step 2."]
    )
    return {
        "thought": thought,
        "tool": truth.name,
        "tool_input": truth.input if given is None else given,
    }


def with_text(
    truth: Truth, rng: random.Random, make: Callable[[str], str]
) -> dict[str, Any] | None:
    """The input with one of its strings changed; None if it has none."""
    keys = [key for key, value in truth.input.items() if isinstance(value, str)]
    if not keys:
        return None
    key = rng.choice(keys)
    return {**truth.input, key: make(truth.input[key])}


def as_json(truth: Truth, rng: random.Random) -> str:
    return json.dumps(envelope(truth, rng), ensure_ascii=rng.random() < 0.5)


def meant(truth: Truth) -> tuple[Call, ...]:
    return ((truth.name, truth.input),)


@dataclass
class Style:
    """How a value is written."""

    quote: tuple[str, str] = ('"', '"')
    python: bool = False
    trailing: bool = False
    comments: bool = False
    bare: bool = False
    indent: bool = False
    commas: bool = True
    escape: bool = True  # quotes and line breaks in strings
    end: str = "\n"

    def write(self, value: Any, depth: int = 0) -> str:
        if isinstance(value, dict):
            return self._items(
                "{}",
                [f"{self._key(k)}: {self.write(v, depth + 1)}" for k, v in value.items()],
                depth,
            )
        if isinstance(value, list):
            return self._items("[]", [self.write(each, depth + 1) for each in value], depth)
        if isinstance(value, str):
            return self._text(value)
        return repr(value) if self.python else json.dumps(value)

    def _items(self, marks: str, items: list[str], depth: int) -> str:
        if not items:
            return marks
        gap = self.end + "  " * (depth + 1) if self.indent else " "
        comment = " // as asked" + self.end if self.comments else ""
        comma = "," if self.commas else ""
        last = "," if self.trailing else ""
        return marks[0] + gap.strip(" ") + f"{comma}{comment}{gap}".join(items) + last + comment + (
            self.end + "  " * depth if self.indent else ""
        ) + marks[1]  # fmt: skip

    def _key(self, key: str) -> str:
        return key if self.bare and key.isidentifier() else f"{self.quote[0]}{key}{self.quote[1]}"

    def _text(self, text: str) -> str:
        opening, closing = self.quote
        if not self.escape:
            return f"{opening}{text}{closing}"
        inner = json.dumps(text, ensure_ascii=False)[1:-1]
        if opening != '"':
            inner = inner.replace('\\"', '"')
            for mark in {opening, closing}:
                inner = inner.replace(mark, "\\" + mark)
        return f"{opening}{inner}{closing}"
