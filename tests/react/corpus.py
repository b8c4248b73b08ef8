"""Replies as models really write them, each with the calls that were meant: a generator of corruptions.

The calls come from a built-in set, and from the ground truth of ``bfcl-eval`` where that is installed.
"""

from __future__ import annotations

import importlib.util
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Call = tuple[str, Any]


@dataclass(frozen=True)
class Truth:
    """A call that a model means, and the schema of its tool."""

    name: str
    input: dict[str, Any]
    schema: dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A reply, and what running it rightly means.

    `meant` are the calls; empty where nothing can be run for certain. `or_told` allows to run nothing and to say so,
    which is never wrong but counts as right only where the reply leaves two readings.
    """

    kind: str
    text: str
    meant: tuple[Call, ...]
    or_told: bool = False


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def _typed(value: Any) -> dict[str, Any]:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return {"type": names[type(value)]} if value is not None else {}


_BUILT_IN: list[Call] = [
    ("add", {"a": 3, "b": 4}),
    ("get_weather", {"city": "Paris", "unit": "celsius", "days": 3}),
    ("send_mail", {"to": "ann@example.org", "subject": "Re: lunch?", "body": "See you at 12:30, {sharp}!"}),
    ("run_sql", {"query": "SELECT name, age FROM people WHERE age > 30 AND city = 'Rome';", "limit": 100}),
    ("plot", {"x": [1, 2.5, -3e-2], "y": [0, 1, 4], "title": "Growth [cm], 2020–2024", "grid": True}),
    ("book_flight", {"origin": "SFO", "destination": "JFK", "passengers": {"adults": 2, "children": 1}, "direct": False}),
    ("write_file", {"path": "notes/today.txt", "content": "# Title\n\n- one\n- two\n", "append": True}),
    ("search", {"text": "what's new, and why?", "filters": [{"field": "year", "op": ">=", "value": 2020}], "page": 1}),
    ("set_alarm", {"time": "07:00", "label": "Zähne putzen 🦷", "repeat": None}),
    ("calc", {"expression": "(1 + 2) * 3 / {4}", "digits": 6}),
    ("move", {"from": [0, 0], "to": [7, 7], "options": {"speed": 1.5, "path": {"avoid": ["water"], "max": 10}}}),
    ("translate", {"text": "Say: yes, no; or maybe...", "source": "en", "target": "de"}),
    ("fit", {"formula": "y ~ x + z:w", "data": "df_7", "weights": [0.1, 0.2], "robust": True}),
    ("describe", {"name": "df", "columns": ["a b", "c/d", "é"], "percentiles": [0.05, 0.95]}),
    ("render", {"template": "<b>{{ name }}</b>", "values": {"name": "O'Hara", "n": 0}}),
    ("tag", {"text": "a, b: c", "label": "x"}),
    ("create_user", {"name": "add", "tool": "hammer", "arguments": [1, 2]}),
    ("schedule", {"start": "2024-01-01T09:00:00Z", "every": "1 day", "args": {"id": 17, "dry": False}}),
]


def built_in() -> list[Truth]:
    """Calls that need no package."""
    found = []
    for name, given in _BUILT_IN:
        fields = {key: _typed(value) for key, value in given.items()}
        schema = {"type": "object", "properties": fields, "required": list(given)[:1], "additionalProperties": False}
        found.append(Truth(name, given, schema))
    return found


def bfcl() -> list[Truth]:
    """Ground-truth calls of the Berkeley function calling benchmark; empty where it is not installed."""
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
            given = {key: _first(value) for key, value in options.items() if _first(value) not in ("", None)}
            if schema is not None and set(schema.get("required", ())) <= set(given):
                fields = {"type": "object", "properties": schema["properties"], "required": schema.get("required", [])}
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


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


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
            return self._items("{}", [f"{self._key(k)}: {self.write(v, depth + 1)}" for k, v in value.items()], depth)
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


def _envelope(truth: Truth, rng: random.Random, given: Any = None) -> dict[str, Any]:
    thought = rng.choice(["I need this first.", "Let's see: the user wants it.", "", "Step 1, then step 2."])
    return {"thought": thought, "tool": truth.name, "tool_input": truth.input if given is None else given}


def _with_text(truth: Truth, rng: random.Random, make: Callable[[str], str]) -> dict[str, Any] | None:
    """The input with one of its strings changed; None where it has none."""
    keys = [key for key, value in truth.input.items() if isinstance(value, str)]
    if not keys:
        return None
    key = rng.choice(keys)
    return {**truth.input, key: make(truth.input[key])}


# ── corruptions ───────────────────────────────────────────────────────────────────────────────────

Made = tuple[str, tuple[Call, ...]] | tuple[str, tuple[Call, ...], bool] | None
Corruption = Callable[[Truth, Truth, random.Random], Made]
KINDS: dict[str, Corruption] = {}


def _kind(make: Corruption) -> Corruption:
    KINDS[make.__name__.strip("_")] = make
    return make


def _json(truth: Truth, rng: random.Random) -> str:
    return json.dumps(_envelope(truth, rng), ensure_ascii=rng.random() < 0.5)


def _meant(truth: Truth) -> tuple[Call, ...]:
    return ((truth.name, truth.input),)


@_kind
def exact(t: Truth, o: Truth, rng: random.Random) -> Made:
    return _json(t, rng), _meant(t)


@_kind
def fenced(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"```{rng.choice(['json', '', 'JSON', 'tool_call'])}\n{_json(t, rng)}\n```", _meant(t)


@_kind
def prose_around(t: Truth, o: Truth, rng: random.Random) -> Made:
    before = rng.choice(["Sure! Here is the call: ", "I'll use {braces} and \"quotes\" first.\n", "Thought: hm, [1] ok\n"])
    return before + _json(t, rng) + rng.choice(["\n\nI hope it helps!", "", " Let me know.", "\n{ok}"]), _meant(t)


@_kind
def prose_and_fence(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"Here it is:\n\n```json\n{Style(indent=True).write(_envelope(t, rng))}\n```\nDone.", _meant(t)


@_kind
def think_before(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<think>\nThe user wants {{this}}. It's \"easy\".\n</think>\n\n{_json(t, rng)}", _meant(t)


@_kind
def think_with_a_call(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<think>I could call {_json(o, rng)} but no.</think>{_json(t, rng)}", _meant(t)


@_kind
def think_never_opened(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"Maybe {_json(o, rng)}? No.\n</think>\n{_json(t, rng)}", _meant(t)


@_kind
def think_never_closed(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<think>Maybe {_json(t, rng)}? I do not", ()


@_kind
def trailing_commas(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(trailing=True, indent=rng.random() < 0.5).write(_envelope(t, rng)), _meant(t)


@_kind
def single_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(quote=("'", "'")).write(_envelope(t, rng)), _meant(t)


@_kind
def python_repr(t: Truth, o: Truth, rng: random.Random) -> Made:
    return repr(_envelope(t, rng)), _meant(t)


@_kind
def python_literals(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = {**t.input, "flag": rng.choice([True, False, None])} if "flag" not in t.input else t.input
    fields = {**t.schema["properties"], "flag": {}}
    changed = Truth(t.name, given, {**t.schema, "properties": fields})
    t.schema["properties"].setdefault("flag", {})
    return Style(python=True).write(_envelope(changed, rng)), _meant(changed)


@_kind
def single_quotes_with_apostrophes(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = _with_text(t, rng, lambda text: "it's what they're after " + text.replace("'", ""))
    if given is None or any("'" in each for each in given.values() if isinstance(each, str) and "it's" not in each):
        return None
    if '"' in str(given) or "\\" in json.dumps(given, ensure_ascii=False) or "O'" in str(given):
        return None
    return Style(quote=("'", "'"), escape=False).write(_envelope(t, rng, given)), ((t.name, given),)


@_kind
def comments(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(comments=True, indent=True).write(_envelope(t, rng)), _meant(t)


@_kind
def bare_keys(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(bare=True, indent=rng.random() < 0.5).write(_envelope(t, rng)), _meant(t)


@_kind
def smart_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    return Style(quote=rng.choice([("“", "”"), ("‘", "’"), ("”", "”")])).write(_envelope(t, rng)), _meant(t)


@_kind
def missing_last_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    return rng.choice(["{}", "```json\n{}\n```", "{}\nObservation: 3"]).format("\0").replace(
        "\0", _json(t, rng)[:-1]
    ), _meant(t), _last_is_object(t.input)  # fmt: skip


def _last_is_object(given: dict[str, Any]) -> bool:
    """Whether the missing brace may as well be that of an object inside."""
    last = next(reversed(given.values()), None)
    return isinstance(last, dict) and bool(last)


@_kind
def missing_inner_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = _json(t, rng)
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', lambda string: "-" * len(string[0]), text)
    places = [n for n, mark in enumerate(outside) if mark == "}" and n < len(text) - 2]
    if not places:
        return None
    n = rng.choice(places)
    return text[:n] + text[n + 1 :], _meant(t), True


@_kind
def extra_brace(t: Truth, o: Truth, rng: random.Random) -> Made:
    return _json(t, rng) + "}" * rng.randint(1, 3), _meant(t)


@_kind
def extra_keys(t: Truth, o: Truth, rng: random.Random) -> Made:
    extra = rng.choice([{"confidence": 0.9}, {"observation": "", "step": 1}, {"id": "call_1", "type": "function"}])
    items = [*_envelope(t, rng).items(), *extra.items()]
    rng.shuffle(items)
    return json.dumps(dict(items)), _meant(t)


@_kind
def keys_in_another_order(t: Truth, o: Truth, rng: random.Random) -> Made:
    items = list(_envelope(t, rng).items())
    rng.shuffle(items)
    return json.dumps(dict(items)), _meant(t)


@_kind
def encoded_input(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps(_envelope(t, rng, json.dumps(t.input))), _meant(t)


@_kind
def encoded_input_unescaped(t: Truth, o: Truth, rng: random.Random) -> Made:
    if '"' in json.dumps(t.input).replace('\\"', "\0") and "\\" in json.dumps(t.input, ensure_ascii=False):
        return None
    given = json.dumps(t.input, ensure_ascii=False)
    return f'{{"thought": "x", "tool": "{t.name}", "tool_input": "{given}"}}', _meant(t)


@_kind
def encoded_python_input(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps(_envelope(t, rng, repr(t.input))), _meant(t)


@_kind
def all_escaped(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = json.dumps(_json(t, rng))
    return text if rng.random() < 0.5 else text[1:-1], _meant(t)


@_kind
def written_twice(t: Truth, o: Truth, rng: random.Random) -> Made:
    return _json(t, rng) + rng.choice(["", "\n", "\n\n", " and again: "]) + _json(t, rng), _meant(t)


@_kind
def two_objects(t: Truth, o: Truth, rng: random.Random) -> Made:
    if (t.name, t.input) == (o.name, o.input):
        return None
    return _json(t, rng) + rng.choice(["", "\n", ",\n"]) + _json(o, rng), _meant(t), True


@_kind
def two_objects_with_words_between(t: Truth, o: Truth, rng: random.Random) -> Made:
    if (t.name, t.input) == (o.name, o.input):
        return None
    return f"{_json(t, rng)}\nNo wait, rather:\n{_json(o, rng)}", ()


@_kind
def invented_observation(t: Truth, o: Truth, rng: random.Random) -> Made:
    head = rng.choice(["Observation: ", "Observation\n", f"Outcome of {t.name} (done):\n", "User: "])
    return f"{_json(t, rng)}\n{head}It is 42.\n{_json(o, rng)}", _meant(t)


@_kind
def marks_inside_a_string(t: Truth, o: Truth, rng: random.Random) -> Made:
    mark = rng.choice(["<think>", "</think> ok", "\nObservation: 3\n", "```json\n{}\n```", "<tool_call>", "// no", "{", "}}"])
    given = _with_text(t, rng, lambda text: f"{text} {mark} end")
    return None if given is None else (json.dumps(_envelope(t, rng, given)), ((t.name, given),))


@_kind
def cut_in_a_string(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = _with_text(t, rng, lambda text: f"{text} and a good many words more")
    if given is None:
        return None
    text = json.dumps(_envelope(t, rng, given), ensure_ascii=False)
    return text[: text.index("many words") + rng.randint(-6, 6)] + rng.choice(["", "\n```", "\n"]), ()


@_kind
def cut_anywhere(t: Truth, o: Truth, rng: random.Random) -> Made:
    text = _json(t, rng)
    return text[: rng.randint(text.index("tool_input") + 12, len(text) - 2)], (), False


@_kind
def missing_closing_quote(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = _with_text(t, rng, lambda text: f"{text} here")
    if given is None:
        return None
    return json.dumps(_envelope(t, rng, given), ensure_ascii=False).replace(' here"', " here", 1), (), False


@_kind
def raw_line_breaks(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = _with_text(t, rng, lambda text: f"{text}\nsecond line\n\tthird line")
    if given is None or "\\" in (text := json.dumps(given, ensure_ascii=False)).replace("\\n", "").replace("\\t", ""):
        return None
    raw = json.dumps(_envelope(t, rng, given), ensure_ascii=False).replace("\\n", "\n").replace("\\t", "\t")
    return raw, ((t.name, given),)


@_kind
def unescaped_quotes(t: Truth, o: Truth, rng: random.Random) -> Made:
    word = rng.choice(['say "yes" to', '"first" word', 'print("a", "b")', 'the "end"', '<a href="x">y</a>', '""'])
    given = _with_text(t, rng, lambda text: f"{text.replace(chr(34), '')} {word} it" if word[0] != '"' else f"{word} x")
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace('\\"', ""):
        return None
    return json.dumps(_envelope(t, rng, given), ensure_ascii=False).replace('\\"', '"'), ((t.name, given),)


@_kind
def unescaped_backslashes(t: Truth, o: Truth, rng: random.Random) -> Made:
    word = rng.choice([r"\d+\s*", r"\[x\]", r"\(a\|b\)", r"C:\Work\Data"])
    given = _with_text(t, rng, lambda text: word)
    if given is None or "\\" in json.dumps(given, ensure_ascii=False).replace("\\\\", ""):
        return None
    return json.dumps(_envelope(t, rng, given), ensure_ascii=False).replace("\\\\", "\\"), ((t.name, given),)


@_kind
def missing_commas(t: Truth, o: Truth, rng: random.Random) -> Made:
    if any(isinstance(each, list) and len(each) > 1 for each in _all(t.input)):
        return None  # between the items of a list a missing comma has more than one meaning
    return Style(indent=True, commas=False).write(_envelope(t, rng)), _meant(t)


def _all(value: Any) -> Iterator[Any]:
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _all(each)


@_kind
def windows_line_ends(t: Truth, o: Truth, rng: random.Random) -> Made:
    return "\ufeff" + Style(indent=True, end="\r\n", trailing=True).write(_envelope(t, rng)), _meant(t)


@_kind
def aliases(t: Truth, o: Truth, rng: random.Random) -> Made:
    name, given = rng.choice(
        [("name", "arguments"), ("tool", "arguments"), ("action", "action_input"), ("name", "parameters"), ("tool", "input"),
         ("Tool", "Tool_Input"), ("toolName", "toolInput"), ("function", "args")]
    )  # fmt: skip
    return json.dumps({name: t.name, given: t.input}), _meant(t)


@_kind
def openai_wrapper(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = json.dumps(t.input) if rng.random() < 0.5 else t.input
    call = {"id": "call_1", "type": "function", "function": {"name": t.name, "arguments": given}}
    return json.dumps(rng.choice([call, {"tool_calls": [call]}, [call], {"function": call["function"]}])), _meant(t)


@_kind
def tool_call_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    body = json.dumps({"name": t.name, "arguments": t.input})
    return rng.choice(
        [f"<tool_call>\n{body}\n</tool_call>", f"Ok.\n<tool_call>{body}", f"[TOOL_CALLS] [{body}]", f"<|python_tag|>{body}"]
    ), _meant(t)


@_kind
def several_tool_call_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    bodies = [json.dumps({"name": each.name, "arguments": each.input}) for each in (t, o)]
    if bodies[0] == bodies[1]:
        return None
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies), (*_meant(t), *_meant(o))


@_kind
def function_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<function={t.name}>{json.dumps(t.input)}</function>", _meant(t)


@_kind
def call_with_an_object(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = json.dumps(t.input) if rng.random() < 0.6 else repr(t.input)
    return rng.choice(["{}({})", "```tool_code\n{}({})\n```", "Action: {}({})"]).format(t.name, given), _meant(t)


@_kind
def call_with_names(t: Truth, o: Truth, rng: random.Random) -> Made:
    if not all(key.isidentifier() and key not in ("from", "class", "import", "in") for key in t.input):
        return None
    given = ", ".join(f"{key}={value!r}" for key, value in t.input.items())
    return rng.choice(["{}({})", "[{}({})]", "```python\n{}({})\n```"]).format(t.name, given), _meant(t)


@_kind
def call_with_values(t: Truth, o: Truth, rng: random.Random) -> Made:
    if len(t.input) < 2 or list(t.schema["properties"])[: len(t.input)] != list(t.input):
        return None
    return f"{t.name}({', '.join(json.dumps(each) for each in t.input.values())})", _meant(t)


@_kind
def classic_react(t: Truth, o: Truth, rng: random.Random) -> Made:
    return (
        f"Thought: I need it.\nAction: {t.name}\nAction Input: {json.dumps(t.input)}"
        + rng.choice(["", "\nObservation: 7\nThought: done", "\n"])
    ), _meant(t)


@_kind
def input_beside_the_name(t: Truth, o: Truth, rng: random.Random) -> Made:
    if set(t.input) & {"tool", "name", "thought", "action", "type", "args", "arguments", "input", "id", "parameters",
                       "function", "params", "reasoning", "index"} or not t.input:  # fmt: skip
        return None
    return json.dumps({"thought": "x", "tool": t.name, **t.input}), _meant(t)


@_kind
def name_as_key(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps({t.name: t.input}), _meant(t)


@_kind
def key_twice(t: Truth, o: Truth, rng: random.Random) -> Made:
    if t.name == o.name or t.input == o.input:
        return None
    given = json.dumps(o.input)
    return _json(t, rng)[:-1] + f', "tool_input": {given}}}', ()


@_kind
def two_names(t: Truth, o: Truth, rng: random.Random) -> Made:
    return None if t.name == o.name else (json.dumps({"tool": t.name, "action": o.name, "tool_input": t.input}), ())


@_kind
def closed_too_early(t: Truth, o: Truth, rng: random.Random) -> Made:
    if len(t.input) < 2:
        return None
    first, *rest = t.input
    left = json.dumps({key: t.input[key] for key in rest})[1:]
    return f'{{"tool": "{t.name}", "tool_input": {json.dumps({first: t.input[first]})}}}, {left}}}', ()


@_kind
def many_faults(t: Truth, o: Truth, rng: random.Random) -> Made:
    style = Style(quote=("'", "'"), python=True, trailing=True, indent=True, comments=rng.random() < 0.5)
    return f"<think>hm</think>Sure:\n```json\n{style.write(_envelope(t, rng))}\n```\nObservation: 1", _meant(t)


def cases(truths: list[Truth], seeds: int = 1) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Every kind of corruption of every call, `seeds` times; each with the schemas of the tools that there are."""
    for seed in range(seeds):
        for n, truth in enumerate(truths):
            for kind, make in KINDS.items():
                rng = random.Random(f"{seed}/{n}/{kind}")
                other = rng.choice(truths)
                if other.name == truth.name:
                    other = truth
                schemas = {truth.name: dict(truth.schema), other.name: dict(other.schema)}
                schemas = {name: {**each, "properties": dict(each["properties"])} for name, each in schemas.items()}
                mine = Truth(truth.name, truth.input, schemas[truth.name])
                made = make(mine, Truth(other.name, other.input, schemas[other.name]), rng)
                if made is not None:
                    yield Case(kind, made[0], made[1], made[2] if len(made) == 3 else False), schemas
