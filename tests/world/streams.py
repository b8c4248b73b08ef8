"""Ways in which gateways cut, number and repeat the calls of a streamed reply."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Calls = list[tuple[str, dict[str, Any]]]

_VALUE = st.one_of(
    st.integers(-5, 5),
    st.text(st.sampled_from('ab{}[]"\\:, é'), max_size=6),
    st.lists(st.integers(0, 3), max_size=2),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2),
    st.none(),
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["add", "get_weather", "f"]),
        st.dictionaries(st.sampled_from(["a", "b", "text"]), _VALUE, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True)
class Gateway:
    """How a gateway writes the pieces of calls.

    Attributes:
        index: From where it counts the calls, in which steps; or ``"zero"`` for all of them,
            ``"none"``, ``"null"``, or ``"first"``: only the first piece of a call has one.
        ids: The id stands in the ``"first"`` piece of a call, in ``"all"``, in none (``"no"``), or it is
            ``"blank"`` in later ones; or each piece has another one (``"new"``), or all calls share one.
        name: The name is in the ``"first"`` piece, in ``"all"``, in ``"pieces"``, or ``"blank"`` in later ones.
        arguments: They come as an ``"object"``, as a ``"whole"`` text, in ``"pieces"``, or in pieces with
            all of them once more at the ``"end"``, or after a ``"placeholder"`` of an empty object.
        interleaved: The pieces of the calls alternate.
        batched: How many pieces stand in one chunk.
        size: Of a piece of the arguments.
    """

    index: str = "0+1"
    ids: str = "first"
    name: str = "first"
    arguments: str = "pieces"
    interleaved: bool = False
    batched: int = 1
    size: int = 3

    @property
    def is_decidable(self) -> bool:
        """Whether what it writes means one list of calls only."""
        is_numbered = self.index in ("0+1", "1+1", "0+3")
        if self.ids == "new":  # nothing else tells where a piece of a name belongs
            is_plain = self.name != "pieces" and self.arguments in ("object", "whole", "pieces")
            return is_plain and not self.interleaved
        if self.ids == "shared" and not is_numbered:  # what follows may be more of the same call
            return False
        if self.arguments == "placeholder" and self.name == "all" and self.ids != "all":
            return False
        return not self.interleaved or (is_numbered and self.ids != "shared") or self.ids == "all"

    def chunks(self, calls: Calls) -> list[list[dict[str, Any]]]:
        """The lists of pieces, one for each chunk."""
        rows = [self._pieces(number, *call) for number, call in enumerate(calls)]
        if self.interleaved:
            most = max(map(len, rows))
            flat = [row[at] for at in range(most) for row in rows if at < len(row)]
        else:
            flat = [piece for row in rows for piece in row]
        return [flat[at : at + self.batched] for at in range(0, len(flat), self.batched)]

    def _pieces(self, number: int, name: str, given: dict[str, Any]) -> list[dict[str, Any]]:
        made = []
        names = [name]
        if self.name == "pieces" and len(name) > 1:
            names = [name[:2], name[2:]] if len(name) > 2 else [name[:1], name[1:]]
        arguments = self._arguments(given)
        fragments: list[tuple[str | None, Any]] = [(each, None) for each in names[:-1]]
        fragments += [(names[-1], arguments[0]), *((None, each) for each in arguments[1:])]
        for at, (part, text) in enumerate(fragments):
            function: dict[str, Any] = {}
            if part is None and self.name in ("all", "blank"):
                part = name if self.name == "all" else ""
            if part is not None:
                function["name"] = part
            if text is not None:
                function["arguments"] = text
            made.append({**self._index(number, at), **self._id(number, at), "function": function})
        return made

    def _arguments(self, given: dict[str, Any]) -> list[Any]:
        text = json.dumps(given, ensure_ascii=False)
        pieces = [text[at : at + self.size] for at in range(0, len(text), self.size)]
        match self.arguments:
            case "object":
                return [given]
            case "whole":
                return [text]
            case "end" if len(pieces) > 1:
                return [*pieces, text]
            case "placeholder":
                return [{}, *pieces]
        return pieces

    def _index(self, number: int, at: int) -> dict[str, Any]:
        match self.index:
            case "none":
                return {}
            case "null":
                return {"index": None}
            case "zero":
                return {"index": 0}
            case "first":
                return {"index": number} if at == 0 else {}
        start, _, step = self.index.partition("+")
        return {"index": int(start) + number * int(step)}

    def _id(self, number: int, at: int) -> dict[str, Any]:
        match self.ids:
            case "no":
                return {}
            case "all":
                return {"id": f"call_{number}", "type": "function"}
            case "shared":
                return {"id": "call", "type": "function"}
            case "new":
                return {"id": f"call_{number}_{at}"}
            case "blank" if at:
                return {"id": ""}
        return {"id": f"call_{number}", "type": "function"} if at == 0 else {}


GATEWAYS = st.builds(
    Gateway,
    index=st.sampled_from(["0+1", "1+1", "0+3", "zero", "none", "null", "first"]),
    ids=st.sampled_from(["first", "all", "no", "blank", "new", "shared"]),
    name=st.sampled_from(["first", "all", "pieces", "blank"]),
    arguments=st.sampled_from(["object", "whole", "pieces", "end", "placeholder"]),
    interleaved=st.booleans(),
    batched=st.sampled_from([1, 1, 2, 5]),
    size=st.integers(1, 12),
).filter(lambda each: each.is_decidable)
