"""Reads calls from replies that are nothing but markup, whatever names its parts have.

Such a reply is JSON, elements in tags, or special tokens around a name and an object. It is a call
if it names a tool as the value of a key, an attribute or a tag: then it has a mapping of arguments
somewhere, or the model is asked again. It is never an answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import Json
from archytas_nb.loop.reading.lenient import UnreadableError, read_json
from archytas_nb.loop.reading.tags import value_in_tags
from archytas_nb.loop.reading.thoughts import HTML_ELEMENTS

Named = tuple[str, Json]
"""The name of a tool, and its input."""

_FENCED = re.compile(r"\A\s*```[^\n`]*\n((?:(?!```).)*?)\n?\s*`{0,3}\s*\Z", re.DOTALL)
_ATTRIBUTE = r"""([\w:.-]+)\s*=\s*(?:"([^"]*)(?:"|\Z)|'([^']*)(?:'|\Z)|([^\s<>"'/]+))"""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*)(?:\s*=\s*[\"']?(?P<value>[^<>\s\"'/]+)[\"']?)?"
    rf"(?P<attributes>(?:\s+{_ATTRIBUTE})*)\s*(?P<empty>/?)(?:>|\Z)"
)
_TOKEN = re.compile(r"<[|｜][^<>]*>|<[^<>\s]*[|｜]>|\[/?[A-Z][A-Z_]+\]|◁[^◁▷\n]*▷")
"""A special token of a model that its server did not read."""
_SPOKEN = re.compile(r"""=\s*["']?([\w.:-]+)|([\w.:-]+)(?=[|｜]?>\Z)""")
"""The name in a special token."""
_VALUES = re.compile(r""":\s*["']([^"'\n]{1,200})(?:["']|\Z)""")
"""The texts that are values of keys."""
_MOST_WORDS = 4
"""Between special tokens: more of them are a sentence."""
_MAX_DEPTH = 50


@dataclass(slots=True)
class _Element:
    """An element: its name without a prefix, and what its tag names."""

    name: str
    values: list[str]  # of its attributes, and after ``=`` in the tag
    attributes: dict[str, str]
    start: int
    inner: int  # where its content begins
    end: int = -1  # where it ends; -1 if it is not closed
    after: int = -1
    children: list[_Element] = field(default_factory=list)


class _Resolver:
    """Finds the offered tools in what a text names."""

    def __init__(self, tools: Mapping[str, Json], resolve: Any) -> None:
        self.tools = tools
        self._resolve = resolve

    def tool(self, name: object) -> str:
        """The tool that a value names; empty if it names none."""
        if not isinstance(name, str) or len(name) > 200 or not name.strip():
            return ""
        found = str(self._resolve(name, self.tools))
        return found if found in self.tools else ""

    def fields(self, tool: str) -> Mapping[str, Json]:
        schema = self.tools[tool]
        fields: Mapping[str, Json] = schema.get("properties", {}) if _is_object(schema) else {}
        return fields


def read_markup(text: str, tools: Mapping[str, Json], resolve: Any) -> tuple[Named, ...]:
    """The calls of a text that is nothing but markup; none if it is not, or names no tool.

    Args:
        text: The reply, without thoughts.
        tools: The known tools: name → JSON schema of the input, or None if it is not known.
        resolve: Returns the tool that a name refers to, or the name itself.

    Raises:
        UnreadableError: It names a tool, and has no arguments that can be read.
    """
    fenced = _FENCED.match(text)
    body = (fenced[1] if fenced else text).strip()
    found = _Resolver(tools, resolve)
    if body.startswith(("{", "[")) and not _TOKEN.match(body):
        return tuple(_in_json(body, found))
    if body.startswith("<") or _TOKEN.match(body):
        elements = _elements(body)
        elements = [each for each in elements if not _is_html(each)]
        if any(_is_named(each, body, found) for each in elements):
            return tuple(_in_elements(body, elements, found))
        if _TOKEN.match(body):
            _check_tokens(body, found)
    return ()


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────


def _in_json(body: str, found: _Resolver) -> list[Named]:
    """The calls of a text that consists of JSON values."""
    values = []
    at = 0
    while at < len(body):
        try:
            reading = read_json(body, at)
        except UnreadableError as error:
            if any(found.tool(each) for each in _VALUES.findall(body)):
                raise UnreadableError(0, f"it names a tool, and {error.why}") from None
            return []
        values.append(reading.value)
        at = len(body) - len(body[reading.end :].lstrip(" \t\r\n,;"))
        if body[at : at + 1] not in ("{", "[", ""):
            return []
    return _calls_of(values, found)


def _calls_of(value: Json, found: _Resolver, depth: int = 0) -> list[Named]:
    calls: list[Named] = []
    if depth > _MAX_DEPTH:
        return calls
    if isinstance(value, list):
        for each in value:
            calls += _calls_of(each, found, depth + 1)
        return calls
    if not isinstance(value, dict):
        return calls
    named = {key: tool for key, each in value.items() if (tool := found.tool(each))}
    if not named:
        return _calls_of(list(value.values()), found, depth + 1)
    tools = set(named.values())
    if len(tools) > 1:
        raise UnreadableError(0, f"it names {' and '.join(map(repr, sorted(tools)))}")
    tool = tools.pop()
    others = {key: each for key, each in value.items() if key not in named}
    return [(tool, _input_among(others, tool, found))]


def _input_among(others: Mapping[str, Json], tool: str, found: _Resolver) -> Json:
    """The arguments next to the name of a tool: the only object, or the arguments themselves."""
    fields = found.fields(tool)
    objects = [each for each in map(_decoded, others.values()) if isinstance(each, dict)]
    if len(objects) > 1:
        objects = [each for each in objects if set(each) <= set(fields)]
    if len(objects) == 1:
        return _checked(objects[0], tool, found)
    beside = {key: each for key, each in others.items() if key in fields}
    if objects or not (beside or _needs_nothing(found.tools[tool])):
        raise UnreadableError(0, f"the arguments of {tool!r} are not to be found in it")
    return _checked(beside, tool, found) if beside else None


def _decoded(value: Json) -> Json:
    """A value, or the one that a text contains as JSON."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        reading = read_json(value.strip())
        if reading.end == len(value.strip()):
            return reading.value
    return value


def _needs_nothing(schema: Json) -> bool:
    return not isinstance(schema, Mapping) or (_is_object(schema) and not schema.get("required"))


def _is_object(schema: Json) -> bool:
    return isinstance(schema, Mapping) and schema.get("type") == "object"


def _checked(given: dict[str, Json], tool: str, found: _Resolver) -> Json:
    """Arguments, if the tool has all of them."""
    fields = found.fields(tool)
    for key in given:
        if key not in fields and _is_object(found.tools[tool]):
            raise UnreadableError(0, f"{key!r} is no argument of {tool!r}")
    return given


# ── elements ──────────────────────────────────────────────────────────────────────────────────────


def _elements(text: str) -> list[_Element]:
    """The outermost elements of a text; a tag that is never closed holds all that follows."""
    top: list[_Element] = []
    open_: list[_Element] = []
    for tag in _TAG.finditer(text):
        name = tag["name"].rpartition(":")[2]
        if tag["end"]:
            at = next((n for n in range(len(open_) - 1, -1, -1) if open_[n].name == name), None)
            if at is not None:
                open_[at].end, open_[at].after = tag.start(), tag.end()
                del open_[at:]
            continue
        attributes = {
            key: one or two or three
            for key, one, two, three in _ATTRIBUTES.findall(tag["attributes"] or "")
        }
        values = [*([tag["value"]] if tag["value"] else ()), *attributes.values()]
        made = _Element(name, values, attributes, tag.start(), tag.end())
        (open_[-1].children if open_ else top).append(made)
        if tag["empty"]:
            made.end = made.after = tag.end()
        elif len(open_) < _MAX_DEPTH:
            open_.append(made)
    return top


def _inside(element: _Element, text: str) -> str:
    """The content of an element."""
    return text[element.inner : element.end if element.end != -1 else len(text)]


def _leading(element: _Element, text: str) -> str:
    """The text in an element before its first child."""
    end = element.children[0].start if element.children else None
    inside = _inside(element, text)
    return inside if end is None else inside[: end - element.inner]


def _is_html(element: _Element) -> bool:
    """Whether an element and all inside it are of HTML, so that it is an answer."""
    return element.name.casefold() in HTML_ELEMENTS and all(map(_is_html, element.children))


def _own_tool(element: _Element, text: str, found: _Resolver) -> str:
    """The tool that an element names itself: in its tag, or as the text before its children."""
    spoken = [*element.values, element.name, _leading(element, text)]
    tools = dict.fromkeys(tool for each in spoken if (tool := found.tool(each)))
    return next(iter(tools), "")


def _is_named(element: _Element, text: str, found: _Resolver) -> bool:
    """Whether an element or one inside it names a tool."""
    if _own_tool(element, text, found):
        return True
    return any(_is_named(each, text, found) for each in element.children)


def _in_elements(text: str, elements: Sequence[_Element], found: _Resolver) -> Iterator[Named]:
    """The calls of a text that consists of elements."""
    outside = _outside(text, elements)
    if len(outside.split()) > _MOST_WORDS or "`" in outside:
        return
    for element in elements:
        yield from _calls_in_element(element, text, found)


def _outside(text: str, elements: Sequence[_Element]) -> str:
    """The text outside of the elements, apart from special tokens and stray tags."""
    rest = []
    at = 0
    for element in elements:
        rest.append(text[at : element.start])
        at = element.after if element.after != -1 else len(text)
    rest.append(text[at:])
    return _TAG.sub(" ", _TOKEN.sub(" ", " ".join(rest)))


def _calls_in_element(element: _Element, text: str, found: _Resolver) -> Iterator[Named]:
    if tool := _own_tool(element, text, found):
        yield tool, _arguments(element, None, tool, text, found)
        return
    for child in element.children:
        tool = found.tool(_inside(child, text)) if not child.children else ""
        if tool:  # <name>add</name>
            yield tool, _arguments(element, child, tool, text, found)
            return
    for child in element.children:
        yield from _calls_in_element(child, text, found)


def _arguments(
    element: _Element, name: _Element | None, tool: str, text: str, found: _Resolver
) -> Json:
    """The arguments in an element that is a call; `name` is the one inside it with the name."""
    if element.end == -1:
        raise UnreadableError(0, f"the end of the call of {tool!r} is missing")
    fields = found.fields(tool)
    given = {key: value for key, value in element.attributes.items() if key in fields}
    _collect(element, name, tool, text, found, given)
    if not given and not _needs_nothing(found.tools[tool]):
        raise UnreadableError(0, f"the arguments of {tool!r} are not to be found in it")
    return _checked(given, tool, found) if given else None


def _collect(
    element: _Element,
    name: _Element | None,
    tool: str,
    text: str,
    found: _Resolver,
    given: dict[str, Json],
) -> None:
    """Add the arguments in an element: an object, or one element for each of them."""
    own = _leading(element, text).strip()
    if own.startswith("{"):
        given |= _object_in(own)
        return
    fields = found.fields(tool)
    children = [each for each in element.children if each is not name]
    at = 0
    while at < len(children):
        child = children[at]
        at += 1
        inside = _inside(child, text)
        key = next((each for each in [*child.values, child.name] if each in fields), "")
        value_of = child
        if not key and not child.children and inside.strip() in fields and at < len(children):
            key = inside.strip()  # the name and the value of an argument are elements of their own
            value_of = children[at]
            at += 1
        if not key and (child.children or inside.strip().startswith("{")):
            _collect(child, None, tool, text, found, given)
            continue
        if not key:
            raise UnreadableError(
                0, f"{text[child.start : child.inner]!r} is no argument of {tool!r}"
            )
        if value_of.end == -1:
            raise UnreadableError(0, f"the end of {key!r} is missing")
        if key in given:
            raise UnreadableError(0, f"{key!r} is there twice")
        given[key] = value_in_tags(key, _inside(value_of, text), found.tools[tool])


def _object_in(text: str) -> dict[str, Json]:
    """The object that a text is."""
    reading = read_json(text)
    if text[reading.end :].strip() or not isinstance(reading.value, dict):
        raise UnreadableError(
            reading.end, f"the object is followed by {text[reading.end :][:40]!r}"
        )
    return reading.value


# ── special tokens ────────────────────────────────────────────────────────────────────────────────


def _check_tokens(body: str, found: _Resolver) -> None:
    """Raise UnreadableError if special tokens surround a tool: a server has to read those."""
    before = body.partition("{")[0]
    names = [
        name or value for token in _TOKEN.findall(before) for name, value in _SPOKEN.findall(token)
    ]
    names += re.findall(r"[\w.:/-]+", _TOKEN.sub(" ", before))[:_MOST_WORDS]
    tool = next(filter(None, map(found.tool, names)), "")
    if tool:
        raise UnreadableError(0, f"the special tokens around {tool!r} could not be read")
