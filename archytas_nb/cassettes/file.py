"""Reads and writes a cassette's file, which several processes may record into at the same time.

A cassette is JSON Lines of four kinds:

    {"cassette": 2, "models": {"default": {"name": …, …}}}      the header, the first line
    {"ref": "3f…", "message": {…}}                              a message, tool or schema, before
                                                                the first exchange that uses it
    {"exchange": "8a…", "messages": ["3f…", …], "reply": {…}}   a request to the model and its reply
    {"asked": "Run it?", "answered": "y", "in": "8a…"}         a question to the user (null: there
                                                                was no user) about a call of the
                                                                reply of that exchange

An exchange is appended in one piece, and any other change replaces the file in one step. Whether a
file is a cassette is known from its lines, whoever wrote them: no other file is replaced.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, get_args

from archytas_nb.cassettes import DEFAULT
from archytas_nb.cassettes.match import Matcher, PartKind, Request, RequestPart
from archytas_nb.effects.ledger import own_file
from archytas_nb.errors import FileError, ModelErrorKind
from archytas_nb.files import FORCE, OutputFile
from archytas_nb.loop.events import Json, ModelReply, Token, Usage, WireCall

VERSION = 2


@dataclass(frozen=True)
class RecordedReply:
    """A request and its reply, or the kind of the endpoint's refusal, and what it taught."""

    request: Request
    reply: ModelReply | None
    refusal: ModelErrorKind | None = None
    learned: dict[str, Json] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of a lookup."""
        return self.request.key

    def fits(self, max_tokens: int | None) -> bool:
        """Whether it replies to a request with this limit; a complete reply does under any."""
        is_cut = self.reply is not None and self.reply.finish == "length"
        return not (is_cut and self.request.step and self.request.max_tokens != max_tokens)

    def line(self) -> str:
        """Its line in the file."""
        request = self.request
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
        if self.reply is not None:
            line["reply"] = _reply_to_json(self.reply)
        else:
            line["error"] = self.refusal
        if self.learned:
            line["learned"] = self.learned
        return _dump(line)


@dataclass(frozen=True)
class RecordedAnswer:
    """A question to the user and the answer; None where there was none.

    Attributes:
        seconds: How long the user took; without an answer, how long they were asked, and None where
            no user was there.
        exchange: The key of the exchange whose reply made the call about which the user was asked;
            None where there is none, and in files of earlier versions.
    """

    prompt: str
    answer: str | None
    seconds: float | None = field(default=None, compare=False)
    exchange: str | None = None

    @property
    def key(self) -> str:
        """The key of a lookup."""
        return f"person: {self.prompt}"

    def line(self) -> str:
        """Its line in the file."""
        line: dict[str, Json] = {"asked": self.prompt, "answered": self.answer}
        if self.exchange is not None:
            line["in"] = self.exchange
        if self.seconds is not None:
            line["seconds"] = self.seconds
        return _dump(line)


Entry: TypeAlias = RecordedReply | RecordedAnswer


class CassetteFile:
    """The file of one cassette, which need not exist.

    Attributes:
        models: The facts about the recorded models, by the names that the notebook gives them.
        warning: The fault of the last line when it was read; empty for none.
    """

    def __init__(self, path: Path, matcher: Matcher) -> None:
        self.path = path
        self.models: dict[str, dict[str, Json]] = {}
        self.warning = ""
        self._matcher = matcher
        self._output = OutputFile(
            path, "the cassette", "Use a different file, or use mode 'replay'"
        )
        self._seen: tuple[int, ...] | None = None
        self._header: Json = None  # as it is in the file; None where nothing can be appended
        self._refs: set[str] = set()  # of the parts in the file

    def read(self) -> list[Entry]:
        """Read all exchanges, and add the models of the header to those that are known."""
        self._seen = self._signature()
        target = self._output.target()
        try:
            text = target.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(
                f"the cassette {str(self.path)!r} cannot be read ({error}); use a different file"
            ) from error
        entries = self.parse(text)
        header = self._header or {}  # there is none in an empty file
        self.models = {**header.get("models", {}), **self.models}
        if not text.endswith("\n"):
            self._header = None
        return entries

    def parse(self, text: str) -> list[Entry]:
        """Read the text of a cassette, reducing its parts as those of requests are now.

        Raises:
            FileError: It is not a cassette, one of another version, or a line is broken.
        """
        lines = text.rstrip().split("\n")
        if not text:
            lines = []
        is_cut = not text.endswith("\n")
        entries: list[Entry] = []
        parts: dict[str, RequestPart] = {}
        keys: dict[str, str] = {}  # of the exchanges: as they are written, and as they are now
        self.warning = ""
        self._header = None
        for number, line in enumerate(lines, start=1):
            try:
                found = json.loads(line)
                if number == 1:
                    self._use_header(found)
                elif "ref" in found:
                    kind = next(kind for kind in get_args(PartKind) if kind in found)
                    parts[found["ref"]] = self._matcher.part(kind, found[kind])
                else:
                    entries.append(_entry(found, parts, keys, self._matcher))
            except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
                name = repr(str(self.path))
                is_last = 1 < number == len(lines)
                if is_last and is_cut:  # a process was killed
                    self.warning = f"the last line of {name} is incomplete and was ignored"
                    break
                raise FileError(
                    f"{name} is not a cassette: line {number} is {line[:60]!r} ({error!r}). "
                    "Nothing was written to it. Use a different file; if it is a recording with a "
                    f"fault, restore it, or use mode 'record' and {FORCE} to replace it"
                ) from error
        self._refs = set(parts)
        return entries

    def _use_header(self, header: Json) -> None:
        """Take in what the first line says; raises ValueError for another version."""
        if header["cassette"] != VERSION:
            raise ValueError(f"version {header['cassette']!r}; expected {VERSION}")
        self._matcher.use(header.get("volatile"))
        self._header = header

    def forget(self) -> None:
        """Replace the file with the next exchange."""
        self._header = None

    @property
    def was_changed(self) -> bool:
        """Whether another process has written it since it was read or written here."""
        return self._seen != self._signature()

    def check(self) -> None:
        """Raise FileError where it is known that `write` would fail."""
        self._output.check()

    def write(self, entries: Sequence[Entry]) -> None:
        """Replace the file's contents; where that fails, the file is unchanged."""
        header = self._new_header()
        refs: set[str] = set()
        lines = [_dump(header)]
        for entry in entries:
            lines += lines_of(entry, refs)
        self._output.write("".join(f"{line}\n" for line in lines))
        self._seen = self._signature()
        self._header = header
        self._refs = refs

    def append(self, entries: Sequence[Entry]) -> None:
        """Write entries of which only the last is new; append it where that is possible."""
        if self._header is None or self._header != self._new_header() or self.was_changed:
            self.write(entries)
            return
        header = self._header
        self._header = None  # in case of an interrupt: write all next time
        data = "".join(f"{line}\n" for line in lines_of(entries[-1], self._refs)).encode()
        self._output.append(data)
        self._seen = self._signature()
        self._header = header

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from writing it; raises FileError where it cannot be written.

        A recording is not an effect of the call in which it is written, which undo would revert.
        """
        with own_file(self._output.target()), self._output.locked():
            yield

    def _new_header(self) -> Json:
        header: Json = {"cassette": VERSION}
        if self.models:
            header["models"] = self.models
        volatile = self._matcher.volatile.header
        if volatile:
            header["volatile"] = volatile
        return header

    def _signature(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def lines_of(entry: Entry, refs: set[str]) -> Iterator[str]:
    """The lines of one exchange, preceded by its parts that are not in `refs` yet."""
    if isinstance(entry, RecordedReply):
        for part in entry.request.parts:
            if part.ref not in refs:
                refs.add(part.ref)
                yield _dump({"ref": part.ref, part.kind: part.content})
    yield entry.line()


def _entry(
    line: Json, parts: dict[str, RequestPart], keys: dict[str, str], matcher: Matcher
) -> Entry:
    if "asked" in line:
        prompt = matcher.volatile(line["asked"])
        exchange = None
        if "in" in line:
            exchange = keys.get(line["in"], line["in"])
        return RecordedAnswer(prompt, line["answered"], line.get("seconds"), exchange)
    schema = None
    if "schema" in line:
        schema = parts[line["schema"]]
    request = Request(
        messages=tuple(parts[ref] for ref in line["messages"]),
        tools=tuple(parts[ref] for ref in line.get("tools", ())),
        schema=schema,
        model=line.get("model", DEFAULT),
        step=line["step"],
        max_tokens=line.get("max_tokens"),
    )
    reply = None
    if "error" not in line:
        reply = _reply_from_json(line["reply"])
    keys[line["exchange"]] = request.key
    return RecordedReply(request, reply, line.get("error"), line.get("learned", {}))


def _reply_to_json(reply: ModelReply) -> Json:
    """A reply without the fields that have their default values."""
    plain = ModelReply()
    line: Json = {}
    for each in dataclasses.fields(reply):
        value = getattr(reply, each.name)
        if value != getattr(plain, each.name):
            line[each.name] = value
    if reply.calls:
        line["calls"] = [
            {"name": c.name, "arguments": c.arguments, **({"extra": c.extra} if c.extra else {})}
            for c in reply.calls
        ]
    if reply.tokens:
        line["tokens"] = [[each.text, each.alternatives] for each in reply.tokens]
    if "usage" in line:
        counts = dataclasses.asdict(reply.usage)
        line["usage"] = {name: count for name, count in counts.items() if count}
    return line


def _reply_from_json(line: dict[str, Json]) -> ModelReply:
    calls = tuple(WireCall(**call) for call in line.get("calls", ()))
    usage = Usage(**line.get("usage", {}))
    tokens = tuple(
        Token(text, tuple((other, share) for other, share in alternatives))
        for text, alternatives in line.get("tokens", ())
    )
    return ModelReply(**{**line, "calls": calls, "usage": usage, "tokens": tokens})


def _dump(line: Json) -> str:
    text = json.dumps(line, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, as some models write
        return json.dumps(line)
    return text
