"""Calls in another format than the one required, in vendors' tags, or with text around them."""

from __future__ import annotations

import json
import random

from tests.loop.reading.truths import Made, Style, Truth, as_json, envelope, kind, meant, with_text


@kind
def exact(t: Truth, o: Truth, rng: random.Random) -> Made:
    return as_json(t, rng), meant(t)


@kind
def fenced(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"```{rng.choice(['json', '', 'JSON', 'tool_call'])}\n{as_json(t, rng)}\n```", meant(t)


@kind
def prose_around(t: Truth, o: Truth, rng: random.Random) -> Made:
    before = rng.choice(
        [
            "Sure! Here is the call: ",
            'I\'ll use {braces} and "quotes" first.\n',
            "Thought: hm, [1] ok\n",
        ]
    )
    return before + as_json(t, rng) + rng.choice(
        ["\n\nI hope it helps!", "", " Let me know.", "\n{ok}"]
    ), meant(t)


@kind
def prose_and_fence(t: Truth, o: Truth, rng: random.Random) -> Made:
    return (
        f"Here it is:\n\n```json\n{Style(indent=True).write(envelope(t, rng))}\n```\nDone.",
        meant(t),
    )


@kind
def think_before(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f'<think>\nThe user wants {{this}}. It\'s "easy".\n</think>\n\n{as_json(t, rng)}', meant(
        t
    )


@kind
def think_with_a_call(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<think>I could call {as_json(o, rng)} but no.</think>{as_json(t, rng)}", meant(t)


@kind
def think_never_opened(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"Maybe {as_json(o, rng)}? No.\n</think>\n{as_json(t, rng)}", meant(t)


@kind
def think_never_closed(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<think>Maybe {as_json(t, rng)}? I do not", ()


@kind
def encoded_input(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps(envelope(t, rng, json.dumps(t.input))), meant(t)


@kind
def encoded_input_unescaped(t: Truth, o: Truth, rng: random.Random) -> Made:
    if '"' in json.dumps(t.input).replace('\\"', "\0") and "\\" in json.dumps(
        t.input, ensure_ascii=False
    ):
        return None
    given = json.dumps(t.input, ensure_ascii=False)
    return f'{{"thought": "x", "tool": "{t.name}", "tool_input": "{given}"}}', meant(t)


@kind
def encoded_python_input(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps(envelope(t, rng, repr(t.input))), meant(t)


@kind
def written_twice(t: Truth, o: Truth, rng: random.Random) -> Made:
    return as_json(t, rng) + rng.choice(["", "\n", "\n\n", " and again: "]) + as_json(
        t, rng
    ), meant(t)


@kind
def two_objects(t: Truth, o: Truth, rng: random.Random) -> Made:
    if (t.name, t.input) == (o.name, o.input):
        return None
    return as_json(t, rng) + rng.choice(["", "\n", ",\n"]) + as_json(o, rng), meant(t), True


@kind
def two_objects_with_words_between(t: Truth, o: Truth, rng: random.Random) -> Made:
    if (t.name, t.input) == (o.name, o.input):
        return None
    return f"{as_json(t, rng)}\nNo wait, rather:\n{as_json(o, rng)}", ()


@kind
def invented_observation(t: Truth, o: Truth, rng: random.Random) -> Made:
    head = rng.choice(
        ["Observation: ", "Observation\n", f"Outcome of {t.name} (done):\n", "User: "]
    )
    return f"{as_json(t, rng)}\n{head}It is 42.\n{as_json(o, rng)}", meant(t)


@kind
def marks_inside_a_string(t: Truth, o: Truth, rng: random.Random) -> Made:
    mark = rng.choice(
        [
            "<think>",
            "</think> ok",
            "\nObservation: 3\n",
            "```json\n{}\n```",
            "<tool_call>",
            "// no",
            "{",
            "}}",
            "[THINK]",
            "[/THINK]",
            "<|end|>",
            "<|channel|>final<|message|>",
            "<function=add><parameter=a>",
        ]
    )
    given = with_text(t, rng, lambda text: f"{text} {mark} end")
    return None if given is None else (json.dumps(envelope(t, rng, given)), ((t.name, given),))


@kind
def aliases(t: Truth, o: Truth, rng: random.Random) -> Made:
    name, given = rng.choice(
        [("name", "arguments"), ("tool", "arguments"), ("action", "action_input"),
         ("name", "parameters"), ("tool", "input"),
         ("Tool", "Tool_Input"), ("toolName", "toolInput"), ("function", "args")]
    )  # fmt: skip
    return json.dumps({name: t.name, given: t.input}), meant(t)


@kind
def openai_wrapper(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = json.dumps(t.input) if rng.random() < 0.5 else t.input
    call = {"id": "call_1", "type": "function", "function": {"name": t.name, "arguments": given}}
    return json.dumps(
        rng.choice([call, {"tool_calls": [call]}, [call], {"function": call["function"]}])
    ), meant(t)


@kind
def tool_call_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    body = json.dumps({"name": t.name, "arguments": t.input})
    return rng.choice(
        [
            f"<tool_call>\n{body}\n</tool_call>",
            f"Ok.\n<tool_call>{body}",
            f"[TOOL_CALLS] [{body}]",
            f"<|python_tag|>{body}",
        ]
    ), meant(t)


@kind
def several_tool_call_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    bodies = [json.dumps({"name": each.name, "arguments": each.input}) for each in (t, o)]
    if bodies[0] == bodies[1]:
        return None
    return "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in bodies), (
        *meant(t),
        *meant(o),
    )


@kind
def function_tags(t: Truth, o: Truth, rng: random.Random) -> Made:
    return f"<function={t.name}>{json.dumps(t.input)}</function>", meant(t)


@kind
def call_with_an_object(t: Truth, o: Truth, rng: random.Random) -> Made:
    given = json.dumps(t.input) if rng.random() < 0.6 else repr(t.input)
    return rng.choice(["{}({})", "```tool_code\n{}({})\n```", "Action: {}({})"]).format(
        t.name, given
    ), meant(t)


@kind
def call_with_names(t: Truth, o: Truth, rng: random.Random) -> Made:
    if not all(
        key.isidentifier() and key not in ("from", "class", "import", "in") for key in t.input
    ):
        return None
    given = ", ".join(f"{key}={value!r}" for key, value in t.input.items())
    return rng.choice(["{}({})", "[{}({})]", "```python\n{}({})\n```"]).format(
        t.name, given
    ), meant(t)


@kind
def call_with_values(t: Truth, o: Truth, rng: random.Random) -> Made:
    if len(t.input) < 2 or list(t.schema["properties"])[: len(t.input)] != list(t.input):
        return None
    return f"{t.name}({', '.join(json.dumps(each) for each in t.input.values())})", meant(t)


@kind
def classic_react(t: Truth, o: Truth, rng: random.Random) -> Made:
    return (
        f"Thought: I need it.\nAction: {t.name}\nAction Input: {json.dumps(t.input)}"
        + rng.choice(["", "\nObservation: 7\nThought: done", "\n"])
    ), meant(t)


@kind
def input_beside_the_name(t: Truth, o: Truth, rng: random.Random) -> Made:
    if set(t.input) & {"tool", "name", "thought", "action", "type", "args", "arguments", "input", "id",
                       "parameters",
                       "function", "params", "reasoning", "index"} or not t.input:  # fmt: skip
        return None
    return json.dumps({"thought": "x", "tool": t.name, **t.input}), meant(t)


@kind
def name_as_key(t: Truth, o: Truth, rng: random.Random) -> Made:
    return json.dumps({t.name: t.input}), meant(t)


@kind
def key_twice(t: Truth, o: Truth, rng: random.Random) -> Made:
    if t.name == o.name or t.input == o.input:
        return None
    given = json.dumps(o.input)
    return as_json(t, rng)[:-1] + f', "tool_input": {given}}}', ()


@kind
def two_names(t: Truth, o: Truth, rng: random.Random) -> Made:
    return (
        None
        if t.name == o.name
        else (json.dumps({"tool": t.name, "action": o.name, "tool_input": t.input}), ())
    )


@kind
def closed_too_early(t: Truth, o: Truth, rng: random.Random) -> Made:
    if len(t.input) < 2:
        return None
    first, *rest = t.input
    left = json.dumps({key: t.input[key] for key in rest})[1:]
    return (
        f'{{"tool": "{t.name}", "tool_input": {json.dumps({first: t.input[first]})}}}, {left}}}',
        (),
    )


@kind
def many_faults(t: Truth, o: Truth, rng: random.Random) -> Made:
    style = Style(
        quote=("'", "'"), python=True, trailing=True, indent=True, comments=rng.random() < 0.5
    )
    return (
        f"<think>hm</think>Sure:\n```json\n{style.write(envelope(t, rng))}\n```\nObservation: 1",
        meant(t),
    )


# ── the marks that models are trained on, where no server has read them ───────────────────────────

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
def marks_of_other_models(t: Truth, o: Truth, rng: random.Random) -> Made:
    """DeepSeek and Kimi: their servers parse these tags, so here they are just not run."""
    return rng.choice(
        [
            f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{t.name}\n```json\n{_given(t, rng)}\n```",
            f"<｜tool▁call▁begin｜>{t.name}<｜tool▁sep｜>{_given(t, rng)}<｜tool▁call▁end｜>",
            f"<|tool_call_begin|>functions.{t.name}:0<|tool_call_argument_begin|>{_given(t, rng)}",
        ]
    ), ()


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


# ── arguments in tags, one for each ───────────────────────────────────────────────────────────────


def _in_tags(t: Truth, pattern: str, gap: str) -> tuple[str, bool] | None:
    """The arguments in tags, and whether one of them may be read as text or as another value.

    None if the schema contradicts a value, or if a value contains tags itself.
    """
    lines = []
    is_ambiguous = False
    for key, value in t.input.items():
        kind_of_value = t.schema["properties"].get(key, {}).get("type")
        if "</" in str(value):
            return None
        if kind_of_value is None and not isinstance(value, str):
            is_ambiguous = True
        elif isinstance(value, str) is not (kind_of_value == "string"):
            return None
        text = value if isinstance(value, str) else json.dumps(value)
        lines.append(pattern.format(key=key, value=f"{gap}{text}{gap}"))
    return "\n".join(lines), is_ambiguous


@kind
def qwen(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _in_tags(t, "<parameter={key}>{value}</parameter>", "\n")
    if fields is None:
        return None
    call = f"<function={t.name}>\n{fields[0]}\n</function>"
    texts = [
        call,
        f"<tool_call>\n{call}\n</tool_call>",
        f"I look.\n\n<tool_call>\n{call}\n</tool_call>",
    ]
    return rng.choice(texts), meant(t), fields[1]


@kind
def qwen_on_one_line(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _in_tags(t, "<parameter={key}>{value}</parameter>", "")
    if fields is None:
        return None
    has_line_breaks = any(str(each).strip("\n") != str(each) for each in t.input.values())
    text = f"<tool_call><function={t.name}>{fields[0]}</function></tool_call>"
    return text, meant(t), fields[1] or has_line_breaks


@kind
def two_calls_of_qwen(t: Truth, o: Truth, rng: random.Random) -> Made:
    first = _in_tags(t, "<parameter={key}>{value}</parameter>", "\n")
    second = _in_tags(o, "<parameter={key}>{value}</parameter>", "\n")
    if first is None or second is None or (t.name, t.input) == (o.name, o.input):
        return None
    calls = [
        f"<tool_call>\n<function={each.name}>\n{fields[0]}\n</function>\n</tool_call>"
        for each, fields in ((t, first), (o, second))
    ]
    text = rng.choice(["", "\n"]).join(calls)
    return text, (*meant(t), *meant(o)), first[1] or second[1]


@kind
def claude(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _in_tags(t, '<parameter name="{key}">{value}</parameter>', "")
    if fields is None:
        return None
    tag = rng.choice(["function_calls", "minimax:tool_call"])
    text = f'<{tag}>\n<invoke name="{t.name}">\n{fields[0]}\n</invoke>\n</{tag}>'
    return text, meant(t), fields[1]


@kind
def glm(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _in_tags(t, "<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>", "")
    if fields is None:
        return None
    return f"<tool_call>{t.name}\n{fields[0]}\n</tool_call>", meant(t), fields[1]


@kind
def tags_cut_off(t: Truth, o: Truth, rng: random.Random) -> Made:
    fields = _in_tags(t, "<parameter={key}>{value}</parameter>", rng.choice(["", "\n"]))
    if fields is None:
        return None
    text = f"<tool_call>\n<function={t.name}>\n{fields[0]}\n</function>"
    first = len("<tool_call>\n<function=")
    return text[: rng.randrange(first, len(text) - len("</function>"))], ()
