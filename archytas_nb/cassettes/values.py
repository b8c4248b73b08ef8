"""What a cassette is made of: requests in parts, exchanges with the model and the person, and who was recorded.

Frozen values that compare by content. They know no file and no line of one, nor how a request was made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from archytas_nb.errors import ModelErrorKind
from archytas_nb.loop.events import Json, ModelReply

PartKind = Literal["message", "tool", "schema"]
DEFAULT = "default"
"""What the model is called that nobody has named."""


def ref_of(kind: PartKind, content: Json) -> str:
    """The name of a part: a hash of what it is, 12 hexadecimal digits."""
    return _hash([kind, content])[:12]


def _hash(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """Something that requests are made of.

    Attributes:
        kind: What it is.
        content: A message, a tool's specification, or the schema of the reply; as it is compared.
        ref: Its name in the file.
    """

    kind: PartKind
    content: Json
    ref: str


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the model in the form in which it is compared.

    Attributes:
        step: Which reply of its run it asks for, counted from 1; it does not count for equality.
        messages: The conversation.
        tools: The specifications for function calling.
        schema: What the reply's text must satisfy, or None.
        max_tokens: The longest reply that is asked for; it does not count for equality, see `Exchanged.fits`.
        model: What the notebook calls the model that it asks.
        key: The fingerprint; two requests with the same key are the same.
    """

    step: int
    messages: tuple[Part, ...]
    tools: tuple[Part, ...]
    schema: Part | None
    max_tokens: int | None
    model: str = DEFAULT
    key: str = field(init=False, default="")

    def __post_init__(self) -> None:
        refs = [[part.ref for part in self.messages], [part.ref for part in self.tools]]
        schema = None if self.schema is None else self.schema.ref
        object.__setattr__(self, "key", _hash([*refs, schema, self.model])[:16])

    @property
    def parts(self) -> Iterator[Part]:
        """All parts, in the order in which they are written."""
        yield from self.tools
        if self.schema is not None:
            yield self.schema
        yield from self.messages


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One exchange with the model.

    Attributes:
        request: What was asked.
        reply: What the model said; None where the endpoint would not take the request in this form.
        fault: The kind of that refusal, which steered the run another way; None where there is a reply.
        learned: What became known of the model by this exchange and steers a run from here on.
    """

    request: Request
    reply: ModelReply | None
    fault: ModelErrorKind | None = None
    learned: dict[str, Json] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """What it is found by."""
        return self.request.key

    def fits(self, max_tokens: int | None) -> bool:
        """Whether its reply answers a request with this bound; one that came whole does so under any bound."""
        is_cut = self.reply is not None and self.reply.finish == "length"
        return not (is_cut and self.request.step and self.request.max_tokens != max_tokens)


@dataclass(frozen=True, slots=True)
class Asked:
    """One exchange with the person: an approval, or an answer to ``ask_user``.

    Attributes:
        prompt: What was asked.
        answer: What was typed; None where nobody was there to answer.
    """

    prompt: str
    answer: str | None

    @property
    def key(self) -> str:
        """What it is found by."""
        return f"person: {self.prompt}"


Entry: TypeAlias = Exchanged | Asked


@dataclass(frozen=True, slots=True)
class Speaker:
    """A model that was recorded.

    Attributes:
        name: What it calls itself.
        facts: What is known of it and steers a run, by attribute name; ``"protocol"`` is always there.
    """

    name: str
    facts: dict[str, Json]

    def __post_init__(self) -> None:
        if self.facts.get("protocol") not in ("react", "native"):
            raise ValueError(
                f"protocol is {self.facts.get('protocol')!r}; expected 'react' or 'native'"
            )


@dataclass(frozen=True, slots=True)
class Header:
    """What is said once for all exchanges.

    Attributes:
        models: Who was recorded, by what the notebook calls them.
        volatile: What differs from run to run, as `Volatile` takes it.
    """

    models: dict[str, Speaker] = field(default_factory=dict)
    volatile: Json = None
