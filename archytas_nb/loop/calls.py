"""Finds the tool calls in a reply's text: in JSON, in tags, as Python code, after ``Action:``.

Thoughts in ``<think>`` blocks, and all that follows an outcome which the model invented, are no
part of the text; but inside of a value every mark is just text. It takes linear time.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace

from archytas_nb.loop.events import Json
from archytas_nb.loop.lenient import (
    STRICT,
    Reading,
    UnreadableError,
    canonical,
    read_json,
    replace_surrogates,
    unique,
)

Schemas = Mapping[str, Json]
"""The known tools: name → JSON schema of the input, or None where it is not known."""

_NAME = ("tool", "toolname", "name", "functionname", "function", "action")
_INPUT = ("toolinput", "arguments", "parameters", "args", "input", "actioninput", "toolarguments",
          "params", "kwargs")  # fmt: skip
_THOUGHT = ("thought", "thoughts", "reasoning", "rationale")
_BESIDE_INPUT = {*_NAME, *_INPUT, *_THOUGHT, "type", "id", "index", "toolcalls"}
_BESIDE_NAME = "arguments beside the tool's name"

_THINK = r"<think(?:ing)?>|\[THINK\]|<\|channel\|>analysis<\|message\|>"
_UNTHINK = r"</think(?:ing)?>|\[/THINK\]"
_THOUGHT_ENDS = re.compile(rf"{_UNTHINK}|<\|end\|>(?:<\|start\|>assistant)?|(?=<\|channel\|>)")
_THINK_MARK = re.compile(rf"{_THINK}|{_UNTHINK}|<\|end\|>(?:<\|start\|>assistant)?")
_VALUE = re.compile(r"""(?:\[\s*)?\{\s*(?:["'“”‘’}]|//|/\*|\#|[A-Za-z_][\w-]*\s*:)""")
_PART_BEFORE = re.compile(  # a key, or a mark of DeepSeek's and Kimi's models
    r"""(?:["'“”‘’]\s*:\s*|(?:<｜tool▁sep|<\|tool_call_arg)[^{}]*)\Z"""
)
_DEBRIS = re.compile(r"""["'“”‘’]\s*\}|,\s*["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_LOOKS_LIKE_CALL = re.compile(
    r"""\b(?:tool|tool_input|arguments|action|function|name|final_answer|fail_task)["'”’]?\s*:"""
)
_LINE_BEFORE = re.compile(r"[\s\"'`>(]*(?:```\w*|<[^<>]*>|\[[A-Z_]+\]|\w+(?: \w+)?:)*[\s\"'`]*\Z")
_LINE_AFTER = re.compile(r"(?:[ \t\r\"'`\])};,.]|<[^<>\n]*>)*+(?=\n|\Z)")
_NOTHING_AFTER = re.compile(r"[\s\"'`\])};,.]*\Z")
_INPUT_ENDS = re.compile(
    r"\n\s*(?:Observation|Outcome|Thought|Action|Final Answer)\b|\n\s*\n|```|\Z"
)
_BRACKET = re.compile(  # or a string, in which there may be some
    r"'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\""
    r"|\\.|[(\[{}\])]",
    re.DOTALL,
)
_ARGUMENT = re.compile(r"\s*<parameter=([\w.-]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_ARGUMENTS_END = re.compile(r"\s*</(?:function|tool_call)>")
_BEFORE_NAME = r"<function=|\[TOOL_CALLS\]\s*|\bto=(?:functions\.)?"  # Llama, Mistral, gpt-oss
_AFTER_NAME = r">|\[CALL_ID\]\w+|\[ARGS\]|<\|message\|>|<\|(?:channel|constrain)\|>\s*\w+|json\b|\s"


@functools.lru_cache(maxsize=64)
def _marks(names: tuple[str, ...]) -> re.Pattern[str]:
    """Where a thought, an invented outcome or a call may begin; the group's name says which."""
    known = "|".join(re.escape(name).replace("_", "[._]") for name in names) or r"(?!)"
    head = r"^[ \t`>*]*(?:(?:Action|Call|Tool|Tool call|Function call)\s*:\s*)?(?:print\()?"
    over = r"Observation\b|Outcome of \w+|<\|im_start\|>|<\|eot_id\|>|(?:User|Human)\s*:"
    return re.compile(
        rf"(?P<think>{_THINK})|(?P<unthink>{_UNTHINK})"
        r"|(?P<blank><\|channel\|>final<\|message\|>|<\|return\|>)"
        rf"|(?P<over>^[ \t]*(?:{over}))"
        rf"|(?:{head}|(?<=<tool_call>)|(?<=\|>))"
        rf"(?P<code>\[?(?:functions\.|tools\.)?(?:{known})(?:\.call)?\s*\()"
        rf"|^[ \t]*(?:Action|Tool)\s*:\s*`?(?P<headed>{known})`?[ \t]*\n"
        r"\s*(?:Action|Tool)[ _]Input\s*:[ \t]*"
        rf"|(?:{_BEFORE_NAME})(?P<named>{known})(?:{_AFTER_NAME})*(?=\{{)"
        rf"|<function=(?P<tags>{known})>\s*(?=<(?:parameter|/))"
        r"|(?P<value>[{\[])",
        re.MULTILINE,
    )


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a reply may mean; `fault` says why it cannot be run, and is mostly empty."""

    name: str
    input: Json = None
    thought: str = ""
    known: bool = True  # there is such a tool
    repairs: tuple[str, ...] = ()  # in words
    fault: str = ""

    @property
    def key(self) -> str:
        """Equal for two calls that are the same."""
        return f"{self.name}:{canonical(self.input)}"


@dataclass(frozen=True, slots=True)
class Place:
    """A part of the text that holds calls; or none, and `why` says how it is broken."""

    start: int
    end: int
    calls: tuple[Call, ...] = ()
    why: str = ""
    marked: bool = False  # as a call, by what stands around it

    @property
    def known(self) -> bool:
        """Whether there is a tool for one of its calls."""
        return any(call.known for call in self.calls)


class Scan:
    """What a text holds.

    Attributes:
        text: The text with thoughts blanked out, and cut where the model invented an outcome.
        places: What may be calls, in order.
        was_cut: Whether it was cut.
        thoughts: What stood in ``<think>`` blocks.
    """

    def __init__(self, text: str, tools: Schemas) -> None:
        self.text: str = replace_surrogates(text)
        self.places: list[Place] = []
        self.was_cut = False
        self._tools = tools
        self._budget = 30 * len(text) + 10_000  # characters which broken places may cost
        self._shown = 0  # what stands before is a thought
        self._visible = list(self.text) if _THINK_MARK.search(self.text) else []
        self._thoughts: list[str] = []
        end = self._scan()
        self.text = "".join(self._visible[:end]) if self._visible else self.text[:end]
        self.thoughts = "\n".join(each for each in self._thoughts if each)

    def _scan(self) -> int:
        """Find all; return where the text ends."""
        text, at = self.text, 0
        marks = _marks(tuple(sorted(self._tools, key=len, reverse=True)))
        while mark := marks.search(text, at):
            start, at = mark.span()
            kind = str(mark.lastgroup)
            if kind in ("think", "unthink", "blank"):
                at = self._hide(kind, start, at)
            elif kind == "over":
                if self.places:
                    self.was_cut = True
                    return start
            elif self._budget < 0:
                if _LOOKS_LIKE_CALL.search(text, start):
                    why = "it is too long or too broken to be read"
                    self.places.append(Place(start, len(text), why=why))
                break
            elif place := self._place(kind, mark):
                at = max(at, place.end)
                if place.calls or place.why:
                    self.places.append(place)
        return len(text)

    def _hide(self, kind: str, start: int, end: int) -> int:
        """Blank out a thought, or a mark of the model's template; return where the text goes on."""
        self._visible = self._visible or list(self.text)
        if kind == "think":
            ends = _THOUGHT_ENDS.search(self.text, end)
            end = ends.end() if ends else len(self.text)
        elif kind == "unthink":  # some servers swallow the opening mark
            start, self._shown = self._shown, end
            self.places.clear()
        if kind != "blank":
            thought = "".join(self._visible[start:end])
            self._thoughts.append(_THINK_MARK.sub("", thought).strip())
        self._visible[start:end] = " " * (end - start)
        return end

    def is_alone(self, place: Place) -> bool:
        """Whether a place is marked, or fills its line or the end of the text: no sentence."""
        text, start = self.text, place.start
        if place.marked:
            return True
        if not _LINE_AFTER.match(text, place.end):
            return False
        line = max(text.rfind("\n", max(0, start - 200), start) + 1, start - 200)
        before = _LINE_BEFORE.match(text[line:start])
        return before is not None or _NOTHING_AFTER.match(text, place.end) is not None

    def _place(self, kind: str, mark: re.Match[str]) -> Place | None:
        """What begins at a mark; None where it is just text."""
        text, start, tools = self.text, mark.start("code" if kind == "code" else 0), self._tools
        marked = kind in ("named", "tags")
        end = 0
        if kind == "code":
            end = _balanced(text, start)
            if not self.is_alone(Place(start, end)):  # a sentence that mentions a call
                self._budget -= end - start
                return None
        elif kind == "value":
            if not _VALUE.match(text, start):
                return None
            marked = _PART_BEFORE.search(text, max(0, start - 80), start) is not None
        try:
            if kind == "code":
                return Place(start, end, _read_code(text[start:end], tools))
            if kind != "value":
                read = _read_tags if kind == "tags" else _read_headed
                name = resolve_name(mark[kind], tools)
                reading = read(text, mark.end(), tools.get(name))
                return Place(start, reading.end, (_decoded(name, reading, tools),), marked=marked)
            if marked:
                raise UnreadableError(start, "a name or a brace is missing before it")
            reading = read_json(text, start, may_be_open=True)
            following = text.find("{", reading.end)
            if _DEBRIS.search(text, reading.end, len(text) if following == -1 else following):
                raise UnreadableError(reading.end, "a brace closes it before its end")
            return Place(start, reading.end, _calls_in(reading, tools))
        except UnreadableError as error:
            end = end or _balanced(text, start if kind == "value" else mark.end())
            self._budget -= len(text)
            at = max(error.at, start)
            near = repr(text[max(0, at - 20) : at + 20]) if at < len(text) else "its end"
            is_call = kind != "value" or marked or _LOOKS_LIKE_CALL.search(text, start, end)
            why = f"{error.why}, at {near}" if is_call else ""
            return Place(start, end, why=why, marked=marked)


def resolve_name(name: str, tools: Schemas) -> str:
    """The known tool that a spelling names, or the spelling itself."""
    name = name.strip().removesuffix("()")
    short = name.removeprefix("functions.").removeprefix("tools.")
    dotless = name.replace(".", "_"), short.replace(".", "_")
    spellings = (name, short, *dotless, short.removesuffix(".call"))
    return next((each for each in spellings if each in tools), name)


def decoded(given: Json, schema: Json) -> tuple[Json, tuple[str, ...], str]:
    """Decode an input sent as JSON inside a string; return it, the repairs, and what is wrong."""
    takes_object = isinstance(schema, Mapping) and schema.get("type") == "object"
    if not (takes_object and isinstance(given, str) and given.lstrip()[:1] == "{"):
        return given, (), ""
    try:
        inner = read_json(given, len(given) - len(given.lstrip()))
    except UnreadableError as error:
        return given, (), f"the input is JSON inside a string, and cannot be read: {error.why}"
    if given[inner.end :].strip():
        return given, (), "the input is a string with an object and something after it"
    return inner.value, ("JSON inside a string", *inner.repairs), ""


def _balanced(text: str, start: int) -> int:
    """The index after the bracket that closes the first one from an index on, or the text's end."""
    depth = 0
    for each in _BRACKET.finditer(text, start):
        if each[0] in "{[(":
            depth += 1
        elif each[0] in "}])":
            depth -= 1
            if depth <= 0:
                return each.end()
    return len(text)


# ── forms of calls ────────────────────────────────────────────────────────────────────────────────


def _decoded(name: str, reading: Reading, tools: Schemas) -> Call:
    given, repairs, fault = decoded(reading.value, tools.get(name))
    return Call(name, given, repairs=(*reading.repairs, *repairs), fault=fault)


def _read_headed(text: str, at: int, _: Json) -> Reading:
    """The input after ``Action Input:`` or a tool's name: a value, or the bare text."""
    if text[at : at + 1] in ("{", "[", '"', "'"):
        return read_json(text, at)
    ends = _INPUT_ENDS.search(text, at)
    bare = text[at : ends.start() if ends else len(text)].strip()
    try:
        reading = read_json(bare)
        value = reading.value if reading.end == len(bare) else bare
    except UnreadableError:
        value = bare or None
    return Reading(value, at + len(bare))


def _read_tags(text: str, at: int, schema: Json) -> Reading:
    """The arguments in tags, one each, as Qwen's models write them."""
    pairs: list[tuple[str, Json]] = []
    while argument := _ARGUMENT.match(text, at):
        key, value = argument.groups()
        if not _is_text(_fields(schema).get(key)):
            with contextlib.suppress(ValueError, RecursionError):
                value = replace_surrogates(STRICT.decode(value.strip()))
        pairs.append((key, value))
        at = argument.end()
    end = _ARGUMENTS_END.match(text, at)
    if end is None:
        raise UnreadableError(at, "a tag is not closed")
    return Reading(unique(pairs) or None, end.end())


def _is_text(schema: Json) -> bool:
    """Whether a schema takes text only, or null: what looks like a number is then text too."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    if kinds is None:
        return "enum" in schema and all(isinstance(each, str) for each in schema["enum"])
    return {"string"} <= {*([kinds] if isinstance(kinds, str) else kinds)} <= {"string", "null"}


def _read_code(code: str, tools: Schemas) -> tuple[Call, ...]:
    """The calls of a piece of Python: a call, or a list of calls."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # backslashes that are no escapes
            tree = ast.parse(code, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List) else [tree]
        return tuple(_code_call(node, tools) for node in nodes)
    except UnreadableError:
        raise
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnreadableError(0, "it is no call that Python can read") from None


def _code_call(node: ast.expr, tools: Schemas) -> Call:
    """A call with its arguments; those without names get them from the tool's schema."""
    if not isinstance(node, ast.Call) or any(each.arg is None for each in node.keywords):
        raise UnreadableError(0, "a call's values must be literals")
    name = resolve_name(ast.unparse(node.func), tools)
    given = [_literal(each) for each in node.args]
    named = unique([(str(each.arg), _literal(each.value)) for each in node.keywords])
    fields = list(_fields(tools.get(name)))
    if len(given) == 1 and not named and (len(fields) < 2 or isinstance(given[0], dict)):
        value: Json = given[0]
    elif len(given) > len(fields) or {*fields[: len(given)]} & {*named}:
        raise UnreadableError(0, "it has values without names")
    else:
        value = {**dict(zip(fields, given, strict=False)), **named} or None
    value = replace_surrogates(value)  # which also bounds its depth
    return Call(name, value, known=name in tools, repairs=("a call written as code",))


def _literal(node: ast.expr) -> Json:
    """The value of a literal of Python, or of JSON."""
    match node:
        case ast.Constant(value=str(text)):  # JSON writes one character as two surrogates
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case ast.Constant(value=(bool() | None) as value):
            return value
        case ast.Constant(value=(int() | float()) as value) if abs(value) < 10**308:
            return value
        case ast.Name(id=("true" | "false" | "null") as name):
            return json.loads(name)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=(int() | float())) as number):
            return -_literal(number)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(each) for each in items]
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            members: list[tuple[Json, Json]]
            members = [(_literal(key) if key else None, _literal(value)) for key, value in pairs]
            if all(isinstance(key, str) for key, _ in members):
                return unique(members)
    raise UnreadableError(0, "a call's values must be literals")


# ── a decoded value → the calls that it means ─────────────────────────────────────────────────────


def _calls_in(reading: Reading, tools: Schemas) -> tuple[Call, ...]:
    """The calls that a value means; none where it is only data."""
    calls = [_checked(each, reading, tools) for each in _meant(reading.value, tools)]
    return tuple(replace(each, repairs=(*reading.repairs, *each.repairs)) for each in calls)


def _meant(value: Json, tools: Schemas) -> list[Call]:
    if isinstance(value, list):
        return [each for item in value for each in _meant(item, tools)]
    if not isinstance(value, dict):
        return []
    if isinstance(value.get("tool_calls"), list):
        return _meant(value["tool_calls"], tools)
    parts = {_folded(key): each for key, each in value.items()}
    thought = next((parts[key] for key in _THOUGHT if isinstance(parts.get(key), str)), "")
    inputs = {key: parts[key] for key in _INPUT if key in parts}
    for key in _NAME:
        if isinstance(parts.get(key), dict):
            inner = _meant({**inputs, **parts[key]}, tools)
            return [replace(each, thought=each.thought or thought) for each in inner]
    names = {
        key: resolve_name(parts[key], tools)
        for key in _NAME
        if isinstance(parts.get(key), str) and parts[key].strip()
    }
    known = list(dict.fromkeys(name for name in names.values() if name in tools))
    if len(known) > 1:
        fault = f"it names both {known[0]!r} and {known[1]!r}"
        return [Call(known[0], thought=thought, fault=fault)]
    if known or (names and (inputs or {"tool", "action"} & {*names})):
        name = known[0] if known else next(iter(names.values()))
        beside = {key: each for key, each in value.items() if _folded(key) not in _BESIDE_INPUT}
        call = Call(name, thought=thought, known=bool(known))
        given = [each for key, each in value.items() if _folded(key) in _INPUT]
        return [_with_input(call, given, beside, tools.get(name))]
    heads = [key for key in value if key in tools]
    if len(heads) == 1 and all(_folded(key) in _THOUGHT for key in value if key != heads[0]):
        repairs = ("the tool's name in place of a key",)
        return [Call(heads[0], value[heads[0]], thought, repairs=repairs)]
    return []


def _folded(key: str) -> str:
    return re.sub("[-_ ]", "", key.casefold())


def _with_input(call: Call, given: list[Json], beside: dict[str, Json], schema: Json) -> Call:
    """Give a call its input, which stands under a key of its own or beside the tool's name."""
    fields, kind = _fields(schema), schema.get("type") if isinstance(schema, Mapping) else None
    if given:
        some = [each for each in given if each not in (None, {}, "")] or given[:1]
        if len(some) > 1 and len({canonical(each) for each in some}) > 1:
            return replace(call, fault="it gives two different inputs")
        for key in beside if isinstance(some[0], dict) else ():
            if key in fields and key not in some[0]:
                return replace(call, fault=f"{key!r} stands beside the tool_input, not in it")
        return replace(call, input=some[0])
    if not beside or kind == "null":
        return call
    if kind == "string" and len(beside) == 1:
        value = next(iter(beside.values()))
        return replace(call, input=value, repairs=("an input under a key of its own",))
    if fields and set(schema.get("required", ())) <= set(beside) <= set(fields):
        return replace(call, input=beside, repairs=(_BESIDE_NAME,))
    return replace(call, fault="it has no tool_input")


def _checked(call: Call, reading: Reading, tools: Schemas) -> Call:
    """Check a call against its schema: where something was repaired, it must make sense."""
    schema = tools.get(call.name)
    given, repairs, fault = decoded(call.input, schema)
    call = replace(call, input=given, repairs=(*call.repairs, *repairs), fault=call.fault or fault)
    if call.fault or not (reading.repairs or call.repairs):
        return call
    if not call.known:
        return replace(call, fault=f"there is no tool named {call.name!r}")
    if reading.open and (given is None or _BESIDE_NAME in call.repairs):
        return replace(call, fault="it is cut off")
    fields = _fields(schema)
    for key in given if isinstance(given, dict) else ():
        if key not in fields and (fields or key in ("thought", "tool", "tool_input")):
            return replace(call, fault=f"{key!r} is no argument of {call.name!r}")
    last = next(reversed(given.values()), None) if isinstance(given, dict) and given else None
    if reading.open and last and isinstance(last, dict):
        return replace(call, fault="a brace is missing, and there is more than one place for it")
    return call


def _fields(schema: Json) -> Mapping[str, Json]:
    return schema.get("properties", {}) if isinstance(schema, Mapping) else {}
