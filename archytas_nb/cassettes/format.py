"""What stands in a cassette file: lines to values and back.

It may know the values of a run; it may not open a file, nor compare one request with another. A cassette is JSON
Lines of four kinds:

    {"cassette": 2, "models": {"default": {"name": …, …}}}      the header, once, on top
    {"ref": "3f…", "message": {…}}                              a part of requests, before the first that has it:
                                                                a message, a tool or a schema, each kept once
    {"exchange": "8a…", "messages": ["3f…", …], "reply": {…}}   one exchange with the model
    {"asked": "Run it?", "answered": "y"}                       one with the person; null: nobody was there
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast, get_args

from archytas_nb.cassettes.values import (
    DEFAULT,
    Asked,
    Entry,
    Exchanged,
    Header,
    Part,
    PartKind,
    Request,
    Speaker,
)
from archytas_nb.errors import ConfigurationError, ModelErrorKind
from archytas_nb.loop.events import Json, ModelReply, Usage, WireCall

VERSION = 2
_PLAIN = ModelReply()
_CONFLICT = ("<<<<<<< ", "=======", ">>>>>>> ")


def written(header: Header, entries: Iterable[Entry]) -> Iterator[str]:
    """The lines of a file, without their ends; each part stands before the first exchange that has it."""
    yield _header_line(header)
    known: set[str] = set()
    for entry in entries:
        yield from lines_of(entry, known)


def lines_of(entry: Entry, known: set[str]) -> Iterator[str]:
    """The lines of one exchange, those of its parts first, but for the known ones; all are known then."""
    for part in parts_of(entry):
        if part.ref not in known:
            known.add(part.ref)
            yield _dump({"ref": part.ref, part.kind: part.content})
    yield line_of(entry)


def parts_of(entry: Entry) -> Iterator[Part]:
    """The parts of an exchange with the model; one with the person has none."""
    return entry.request.parts if isinstance(entry, Exchanged) else iter(())


def line_of(entry: Entry) -> str:
    """The line of one exchange, without its end."""
    if isinstance(entry, Asked):
        return _dump({"asked": entry.prompt, "answered": entry.answer})
    request = entry.request
    line: dict[str, Json] = {"exchange": request.key, "step": request.step}
    line["messages"] = [part.ref for part in request.messages]
    if request.tools:
        line["tools"] = [part.ref for part in request.tools]
    if request.schema is not None:
        line["schema"] = request.schema.ref
    if request.max_tokens is not None:
        line["max_tokens"] = request.max_tokens
    if request.model != DEFAULT:
        line["model"] = request.model
    line |= {"error": entry.fault} if entry.reply is None else {"reply": _reply_line(entry.reply)}
    line |= {"learned": entry.learned} if entry.learned else {}
    return _dump(line)


def _header_line(header: Header) -> str:
    line: dict[str, Json] = {"cassette": VERSION}
    if header.models:
        line["models"] = {
            called: {"name": each.name, **each.facts} for called, each in header.models.items()
        }
    line |= {"volatile": header.volatile} if header.volatile else {}
    return _dump(line)


def read(name: str, text: str) -> tuple[Header, list[Entry], str]:
    """Read a cassette.

    Args:
        name: The file's name, for errors.
        text: The whole file.

    Returns:
        The header, the exchanges in their order, and what is wrong with the last line: a line that was not
        written to its end is left out. Empty where nothing is wrong.

    Raises:
        ConfigurationError: It is no cassette, or one of another version, or a line of it is broken.
    """
    lines = text.split("\n")
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise ConfigurationError(
            f"{name!r} is empty and not a cassette; delete it, or record it again"
        )
    _check_merged(name, numbered)
    header = _header(name, numbered[0][1])
    entries: list[Entry] = []
    parts: dict[str, Part] = {}
    for number, line in numbered[1:]:
        try:
            entry = _entry(line, parts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines):  # no line end: whoever wrote it was killed
                return (
                    header,
                    entries,
                    f"the last line of {name!r} was not written to its end and is left out",
                )
            raise ConfigurationError(
                f"line {number} of the cassette {name!r} is broken ({error}); restore it, or record it again"
            ) from error
        if entry is not None:
            entries.append(entry)
    return header, entries, ""


def _check_merged(name: str, numbered: Iterable[tuple[int, str]]) -> None:
    """No line of a cassette begins like the marks that a merge leaves where both sides have changed."""
    for number, line in numbered:
        if line.startswith(_CONFLICT):
            raise ConfigurationError(
                f"the cassette {name!r} holds both sides of a merge (line {number} is {line[:40]!r}); keep one "
                "side, as by git checkout --ours, and record then what is missing from it"
            )


def _header(name: str, line: str) -> Header:
    try:
        said = json.loads(line)
        version = said.pop("cassette")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"{name!r} is not a cassette: its first line is {line[:60]!r}; name another file, or delete this one"
        ) from error
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        move = (
            "update archytas_nb"
            if newer
            else "record it again with ARCHYTAS_NB_CASSETTE_MODE=record"
        )
        raise ConfigurationError(
            f"the cassette {name!r} is of version {version!r}; expected version {VERSION}: {move}"
        )
    try:
        models = {called: _speaker(dict(each)) for called, each in said.get("models", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigurationError(
            f"the first line of the cassette {name!r} is broken ({error}); restore it, or record it again"
        ) from error
    return Header(models, said.get("volatile"))


def _speaker(said: dict[str, Json]) -> Speaker:
    return Speaker(str(said.pop("name")), said)


def _entry(line: str, parts: dict[str, Part]) -> Entry | None:
    """Read one line; a part goes to `parts` and is no entry."""
    said = json.loads(line)
    if "ref" in said:
        for kind in get_args(PartKind):
            if kind in said:
                parts[said["ref"]] = Part(kind, said[kind], said["ref"])
                return None
        raise ValueError(f"expected one of {get_args(PartKind)}")
    if "asked" in said:
        answer = said["answered"]
        return Asked(str(said["asked"]), None if answer is None else str(answer))
    schema = said.get("schema")
    request = Request(
        int(said["step"]),
        tuple(_part(ref, parts) for ref in said["messages"]),
        tuple(_part(ref, parts) for ref in said.get("tools", ())),
        None if schema is None else _part(schema, parts),
        said.get("max_tokens"),
        str(said.get("model", DEFAULT)),
    )
    learned = dict(said.get("learned", {}))
    if "error" in said:
        return Exchanged(request, None, cast(ModelErrorKind, str(said["error"])), learned)
    return Exchanged(request, _read_reply(said["reply"]), learned=learned)


def _part(ref: str, parts: dict[str, Part]) -> Part:
    try:
        return parts[ref]
    except KeyError:
        raise ValueError(f"no line before it has the ref {ref!r}") from None


def _reply_line(reply: ModelReply) -> Json:
    """A reply without what is as usual."""
    line: dict[str, Json] = {}
    for each in dataclasses.fields(ModelReply):
        value = getattr(reply, each.name)
        if value != getattr(_PLAIN, each.name):
            line[each.name] = _plain(value)
    return line


def _plain(value: Any) -> Json:
    if isinstance(value, Usage):
        return {name: count for name, count in dataclasses.asdict(value).items() if count}
    if isinstance(value, tuple):
        # What else came with a call is the live endpoint's business.
        return [
            {"name": call.name, "arguments": call.arguments}
            for call in cast(Sequence[WireCall], value)
        ]
    return value


def _read_reply(said: dict[str, Json]) -> ModelReply:
    calls = tuple(WireCall(**call) for call in said.get("calls", ()))
    return ModelReply(**{**said, "calls": calls, "usage": Usage(**said.get("usage", {}))})


def _dump(line: Json) -> str:
    text = json.dumps(line, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, as some models write
        return json.dumps(line)
    return text
