"""Vendors: calls in the marks that models are trained on, where no server has read them."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.loop.kinds import Made, kind, meant
from tests.loop.truths import Truth

THOUGHTS = ("<think>Hm, {maybe}.</think>", "[THINK]Hm, {maybe}.[/THINK]", "")
HARMONY = "<|channel|>analysis<|message|>Hm, {maybe}.<|end|><|start|>assistant"


def _given(t: Truth, rng: random.Random) -> str:
    return json.dumps(t.input, ensure_ascii=rng.random() < 0.5)


@kind
def mistral(t: Truth, o: Truth, rng: random.Random) -> Made:
    middle = rng.choice(["", "[ARGS]", "[CALL_ID]a1B2c3D4e[ARGS]"])
    return f"{rng.choice(THOUGHTS)}[TOOL_CALLS]{t.name}{middle}{_given(t, rng)}", meant(t)


@kind
def mistral_list(t: Truth, o: Truth, rng: random.Random) -> Made:
    return "[TOOL_CALLS]" + json.dumps([{"name": t.name, "arguments": t.input}]), meant(t)


@kind
def deepseek(t: Truth, o: Truth, rng: random.Random) -> Made:
    older = f"function<｜tool▁sep｜>{t.name}\n```json\n{_given(t, rng)}\n```"
    newer = f"{t.name}<｜tool▁sep｜>{_given(t, rng)}"
    call = f"<｜tool▁call▁begin｜>{rng.choice([older, newer])}<｜tool▁call▁end｜>"
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>", meant(t)


@kind
def kimi(t: Truth, o: Truth, rng: random.Random) -> Made:
    call = f"functions.{t.name}:0<|tool_call_argument_begin|>{_given(t, rng)}"
    call = f"<|tool_call_begin|>{call}<|tool_call_end|>"
    return f"I look.<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>", meant(t)


@kind
def gpt_oss(t: Truth, o: Truth, rng: random.Random) -> Made:
    thought = rng.choice([HARMONY, ""])
    middle = rng.choice([" <|constrain|>json", "", " json"])
    call = f"<|channel|>commentary to=functions.{t.name}{middle}<|message|>{_given(t, rng)}"
    return thought + call + rng.choice(["<|call|>", ""]), meant(t)


@kind
def lfm(t: Truth, o: Truth, rng: random.Random) -> Made:
    if not all(key.isidentifier() for key in t.input):
        return None
    given = ", ".join(f"{key}={value!r}" for key, value in t.input.items())
    return f"<|tool_call_start|>[{t.name}({given})]<|tool_call_end|>", meant(t)


def _in_tags(t: Truth) -> dict[str, str] | None:
    """The arguments as text; None where the text would not say what they are."""
    found = {}
    for key, value in t.input.items():
        kinds = t.schema["properties"].get(key, {}).get("type")
        if isinstance(value, str) is not (kinds == "string") or "</" in str(value):
            return None
        found[key] = value if isinstance(value, str) else json.dumps(value)
    return found


def _fields(t: Truth, pattern: str, rng: random.Random) -> str | None:
    given: Any = _in_tags(t)
    if not given:
        return None
    gap = rng.choice(["", "\n"])
    if not gap and any(value[:1] == "\n" or value[-1:] == "\n" for value in given.values()):
        return None
    return "\n".join(
        pattern.format(key=key, value=f"{gap}{value}{gap}") for key, value in given.items()
    )


@kind
def qwen(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _fields(t, "<parameter={key}>{value}</parameter>", rng)
    call = f"<function={t.name}>\n{fields}\n</function>"
    texts = [
        call,
        f"<tool_call>\n{call}\n</tool_call>",
        f"I look.\n\n<tool_call>\n{call}\n</tool_call>",
    ]
    return None if fields is None else (rng.choice(texts), meant(t))


@kind
def claude(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _fields(t, '<parameter name="{key}">{value}</parameter>', rng)
    mark = rng.choice(["function_calls", "minimax:tool_call"])
    text = f'<{mark}>\n<invoke name="{t.name}">\n{fields}\n</invoke>\n</{mark}>'
    return None if fields is None else (text, meant(t))


@kind
def glm(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _fields(t, "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>", rng)
    return None if fields is None else (f"<tool_call>{t.name}\n{fields}\n</tool_call>", meant(t))


@kind
def tags_cut_off(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _fields(t, "<parameter={key}>{value}</parameter>", rng)
    if fields is None:
        return None
    text = f"<tool_call>\n<function={t.name}>\n{fields}\n</function>"
    return text[: rng.randrange(len("<tool_call>\n<function="), len(text) - len("</function>"))], ()
