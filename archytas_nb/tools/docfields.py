"""Cut a clean docstring into prose and fields, per style. Knows text only; parses no field itself.

What is cut out is rewritten to the one spelling that docstring_parser reads without loss. Notes, raises and
examples are prose for the model, so they are kept word for word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_ARGS = (
    r"args?|arguments?|params?|parameters?|keyword arg(?:ument)?s?|keyword param(?:eter)?s?|kwargs"
    r"|other (?:arg(?:ument)?s?|param(?:eter)?s?)"
)
_RETURNS = r"returns?|yields?"
_NOTES = (
    r"notes?|raises?|exceptions?|except|examples?|warnings?|warns?|see also|references?|todo|attributes?|tips?"
    r"|important|usage|receives?"
)
_GOOGLE = re.compile(
    rf"(?P<args>{_ARGS})|(?P<returns>{_RETURNS})|(?P<notes>{_NOTES})", re.IGNORECASE
)
_FIELD = re.compile(
    r"[:@](?P<key>[a-z]+)(?P<head>(?:[ \t][^\n]*?)?)[ \t]*:(?:[ \t]+(?P<text>.*))?$", re.IGNORECASE
)
_ITEM = re.compile(
    r"(?:[-*•]\s+)?`{0,2}\*{0,2}[^\W\d]\w*`{0,2}(?:\s*,\s*\*{0,2}[^\W\d]\w*)*\s*(?=[(:\[]|$|\s[-–—]\s)"
)
_FIELDS = re.compile(
    r"^[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises?)\b[^\n]*:",
    re.MULTILINE,
)
_NUMPY = re.compile(
    rf"^(?:{_ARGS}|{_RETURNS}|{_NOTES})[ ]*\n[-=]{{3,}}$", re.IGNORECASE | re.MULTILINE
)
_TITLES = re.compile(rf"^(?:{_ARGS}|{_RETURNS})[ ]*:$", re.IGNORECASE | re.MULTILINE)
_PLAIN_ITEM = re.compile(r"(\w+)(?: \(([^():]*)\))?: (?!\s)")
_ARG_KEYS = {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "kwparam"}
_RETURN_KEYS = {"return", "returns", "yield", "yields", "rtype", "returntype"}
_NOTE_KEYS = {"raise", "raises", "except", "exception", "throws"}
_MASKED = "\ue000"  # private use: stands for a colon inside a type while docstring_parser splits at colons


@dataclass(slots=True)
class Cut:
    """A docstring in pieces: prose, notes that follow it, the rewritten fields, and the examples' text."""

    prose: str = ""
    notes: list[str] = field(default_factory=list)
    fields: str = ""
    examples: str = ""


def unmask(text: str) -> str:
    """Put back the colons that were hidden from the parser."""
    return text.replace(_MASKED, ":") if _MASKED in text else text


def split_names(name: str) -> list[str]:
    """Return the argument names of one entry: ``"*a, b "`` names a and b."""
    return [part for each in name.split(",") if (part := each.strip().strip("`").lstrip("*\\ "))]


def styles(text: str) -> list[str]:
    """Name the styles that the docstring may be written in, the most telling first."""
    found = []
    if _FIELDS.search(text):
        found.append("fields")
    if "---" in text or "===" in text:
        found += ["numpy"] if _NUMPY.search(text) else []
    if not found or _TITLES.search(text):
        found.append("google")
    return found


def cut(style: str, text: str) -> Cut:
    """Cut a clean docstring (no tabs, no trailing spaces, dedented) into its pieces."""
    return {"google": _google, "numpy": _numpy, "fields": _fields}[style](text)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _sections(
    result: Cut, found: list[tuple[re.Match[str], str, list[str]]]
) -> tuple[list[str], list[str]]:
    """Sort sections into argument lines and return lines; notes go into the cut."""
    args: list[str] = []
    returns: list[str] = []
    for title, head, body in found:
        while body and not body[-1]:
            body.pop()
        if title["args"]:
            args += body
        elif title["returns"]:
            returns += body if not returns else []
        else:
            result.notes.append("\n".join([head, *body]))
            if title["notes"].lower().startswith(("example", "usage")):
                result.examples += "\n".join(body) + "\n"
    return args, returns


def _google(text: str) -> Cut:
    result = Cut()
    prose: list[str] = []
    found: list[tuple[re.Match[str], str, list[str]]] = []
    body: list[str] | None = None
    for line in text.split("\n"):
        title = (
            _GOOGLE.fullmatch(line.rstrip(": "))
            if line.endswith(":") and not line.startswith(" ")
            else None
        )
        if title:
            body = []
            found.append((title, line, body))
        elif body is None or (
            line and not line.startswith(" ") and not _continues(found[-1], line)
        ):
            if body is not None:
                prose.append("")
                body = None
            prose.append(line)
        else:
            body.append(line)
    result.prose = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip("\n")
    args, returns = _sections(result, found)
    if items := _items(args) if any(args) else []:
        result.fields += "Args:\n" + "\n".join(items) + "\n"
    if any(returns):
        result.fields += "Returns:\n" + "\n".join(_result(returns)) + "\n"
    return result


def _continues(section: tuple[re.Match[str], str, list[str]], line: str) -> bool:
    """Whether an unindented line still belongs to the section: arguments that were not indented at all."""
    title, _, body = section
    flat = not body or (bool(body[-1]) and _indent(body[0]) == 0)
    return bool(title["args"]) and flat and bool(re.match(r"\*{0,2}\w+\s*(\(.*\))?\s*:\s", line))


def _items(lines: list[str]) -> list[str]:
    """Rewrite argument entries as ``    name (type): text``, continuation lines two levels deep."""
    base = min(_indent(line) for line in lines if line)
    items: list[str] = []
    for line in lines:
        bare = line.strip()
        if bare.lower().strip(".") in {"none", "n/a"} and not items:
            continue  # "Args: None" says that there are none
        if line and _indent(line) == base and _ITEM.match(bare):
            items.append("    " + _item(bare))
        elif items:
            # Relative depth inside a description is kept; eight is where a continuation begins.
            deeper = max(_indent(line) - base - 4, 0)
            items.append(" " * (8 + deeper) + bare if bare else "")
    return items


def _item(bare: str) -> str:
    if _PLAIN_ITEM.match(bare):  # the usual spelling is docstring_parser's own
        return bare
    bare = re.sub(r"^[-*•]\s+", "", bare)
    match = re.match(r"(`{0,2}\*{0,2}\w+`{0,2}(?:\s*,\s*\*{0,2}\w+)*)\s*", bare)
    assert match is not None  # noqa: S101  (_ITEM has matched already)
    names, rest = match.group(1).strip("`"), bare[match.end() :]
    kind = ""
    if rest[:1] in {"(", "["}:
        end = _closing(rest)
        kind, rest = rest[1 : end - 1].strip(), rest[end:].lstrip()
    rest = re.sub(r"^(?::|[-–—]\s)\s*", "", rest)
    head = f"{names} ({kind.replace(':', _MASKED)})" if kind else names
    return f"{head}: {rest}".rstrip()


def _closing(text: str) -> int:
    """Return the position after the bracket that closes the first one, or the end of the text."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return position + 1
    return len(text)


_TYPED = re.compile(r"([\w.]+(?:\[.*?\])?(?:\s*\|\s*[\w.]+(?:\[.*?\])?)*)\s*:(?:\s|$)")


def _result(lines: list[str]) -> list[str]:
    """Rewrite the result as ``    type: text``; named entries (``total (int): text``) are words, not a type."""
    base = min(_indent(line) for line in lines if line)
    first, *rest = [line[base:] for line in lines]
    typed = _TYPED.match(first)
    if typed and not any(line and not line.startswith(" ") and _TYPED.match(line) for line in rest):
        kind = typed.group(1).replace(" ", "").replace(":", _MASKED)
        return [f"    {kind}: {first[typed.end() :].strip()}", *("    " + line for line in rest)]
    return ["    " + line.replace(":", _MASKED) for line in (first, *rest)]


def _numpy(text: str) -> Cut:
    result = Cut()
    prose: list[str] = []
    found: list[tuple[re.Match[str], str, list[str]]] = []
    lines = text.split("\n")
    target, skip = prose, False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        title = (
            _GOOGLE.fullmatch(line.strip().rstrip(":"))
            if re.fullmatch(r"[-=]{3,}", below)
            else None
        )
        if title:
            target, skip = [], True
            found.append((title, line.strip().rstrip(":") + ":", target))
        elif skip:
            skip = False
        else:
            target.append(line)
    for _, _, body in found:
        while body and not body[0]:
            body.pop(0)
    notes = [
        (t, h, b if t["args"] or t["returns"] else ["    " + r if r else r for r in b])
        for t, h, b in found
    ]
    result.prose = "\n".join(prose).strip("\n")
    args, returns = _sections(result, notes)
    if args:
        result.fields += "Parameters\n----------\n" + "\n".join(_spaced(args)) + "\n\n"
    if returns:
        result.fields += "Returns\n-------\n" + "\n".join(returns) + "\n"
    return result


def _spaced(lines: list[str]) -> list[str]:
    """Spell ``name: type`` as ``name : type``, and drop the markup around names."""
    return [re.sub(r"^`{0,2}(?=\S)([\w*\\, ]+?)`{0,2}\s*:\s*", r"\1 : ", line) for line in lines]


def _fields(text: str) -> Cut:
    result = Cut()
    prose: list[str] = []
    entries: list[list[str]] = []
    target = prose
    after_blank = False
    for line in text.split("\n"):
        entry = _FIELD.match(line)
        if entry:
            target = [line]
            entries.append(target)
        elif line and not line.startswith(" ") and after_blank and target is not prose:
            prose.append("")
            target = prose
            prose.append(line)
        else:
            target.append(line)
        after_blank = not line
    result.prose = re.sub(r"\n{3,}", "\n\n", "\n".join(prose)).strip("\n")
    raised = []
    for entry_lines in entries:
        match = _FIELD.match(entry_lines[0])
        assert match is not None  # noqa: S101  (it began the entry)
        key, head = match["key"].lower(), match["head"].strip()
        body = "\n".join([match["text"] or "", *entry_lines[1:]]).rstrip()
        if key in _NOTE_KEYS:
            raised.append(f"    {head}: {body}".rstrip())
        else:
            result.fields += _field_lines(key, head, body)
    if raised:
        result.notes.append("\n".join(["Raises:", *raised]))
    return result


def _field_lines(key: str, head: str, body: str) -> str:
    if key in _ARG_KEYS and head:
        *kind, name = head.split()
        lines = f":param {name.lstrip('*')}: {body}\n"
        return lines + (f":type {name.lstrip('*')}: {' '.join(kind)}\n" if kind else "")
    if key == "type" and head:
        return f":type {head.lstrip('*')}: {body}\n"
    if key in {"rtype", "returntype"}:
        return f":rtype: {body}\n"
    if key in _RETURN_KEYS:
        return f":returns: {body}\n" + (f":rtype: {head}\n" if head else "")
    return ""
