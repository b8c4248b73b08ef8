"""The search for a form that an endpoint takes, by the thousand, without HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, ModelReply, Notice
from archytas_nb.loop.model import ReplyStream
from archytas_nb.models.body import body_of
from archytas_nb.models.capabilities import Capabilities, Change
from archytas_nb.models.features import FEATURES as TABLE
from archytas_nb.models.negotiate import MOST_REQUESTS, adapt_request
from archytas_nb.models.shapes import shaped
from archytas_nb.words import without_values
from tests.world.quirks import FEATURES

SCHEMA = {
    "type": "object",
    "properties": {
        "größe": {"type": "integer", "minimum": 0, "multipleOf": 2},
        "text": {"anyOf": [{"type": "string", "pattern": "[a-z]+"}, {"type": "null"}]},
    },
    "required": ["größe"],
}
LONG = {"name": "measure", "description": "Measure. " * 200, "parameters": SCHEMA}
SHORT = {
    "name": "add",
    "description": "Add.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
}
TOOLS = tuple({"type": "function", "function": each} for each in (LONG, SHORT))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TALK = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE]},
)
OWN: dict[str, Any] = {
    "temperature": 0, "seed": 1, "parallel_tool_calls": False, "reasoning_effort": "low",
    "stop": None,
}  # fmt: skip
ASK = AskModel(1, TALK, TOOLS, max_tokens=16384, has_text_form=True)
IN_TEXT = AskModel(1, TALK, schema={"type": "object"}, max_tokens=16384)
NAMES = sorted(FEATURES.keys() - {"tool_choice"})


@dataclass
class Endpoint:
    """Refuses features, in these words.

    Attributes:
        sent: The bodies of the requests.
        refused: How many of them were refused.
    """

    features: dict[str, str]
    status: int = 400
    sent: list[Any] = field(default_factory=list)
    refused: int = 0
    known: Capabilities = field(default_factory=Capabilities)
    lost: list[Change] = field(default_factory=list)

    def ask(self, ask: AskModel) -> list[str]:
        """Ask as a run does, with the text protocol if tools are refused; the notices."""
        notices: list[str] = []
        try:
            self._asked(ask, notices)
        except ModelError as error:
            if error.kind != "no_tools":
                raise
            self._asked(replace(IN_TEXT, step=ask.step), notices)
        return notices

    def _asked(self, ask: AskModel, notices: list[str]) -> None:
        if self.known.protocol == "react":
            ask = replace(IN_TEXT, step=ask.step)

        def once(form: Capabilities) -> ReplyStream:
            yield from ()
            body = body_of(
                shaped(ask, form.shapes),
                form,
                {name: value for name, value in OWN.items() if value is not None},
                stream=form.stream,
            )
            body["stream"] = form.stream
            self.sent.append(body)
            for name, words in self.features.items():
                if FEATURES[name](body):
                    self.refused += 1
                    raise ModelError("no.", kind="refused", status=self.status, refusal=words)
            return ModelReply("fine")

        def keep(_before: Any, needed: Any, dropped: Any) -> None:
            self.lost = [each for each in [*self.lost, *needed] if each not in dropped]

        flow = adapt_request(once, ask, self.known, OWN, stream=True, keep=keep)
        while True:
            try:
                event = next(flow)
            except StopIteration:
                return
            assert isinstance(event, Notice)
            notices.append(event.text)


WORDS = st.one_of(
    st.sampled_from(
        [
            "Bad Request", "", "{name}", "'{name}' is not supported", "no {name} here, sorry",
            "tools", "max_tokens", "the schema", "temperature", "maximum context length", "12345",
            "the tool 'add' has an invalid description", "'system' and streaming", "文本",
        ]
    ),
    st.text(max_size=30),
)  # fmt: skip
REFUSED = st.dictionaries(st.sampled_from(NAMES), WORDS, max_size=6).map(
    lambda found: {name: words.replace("{name}", name) for name, words in found.items()}
)


def check(refused: dict[str, str], status: int) -> None:
    endpoint = Endpoint(refused, status)
    endpoint.ask(ASK)
    assert endpoint.refused <= MOST_REQUESTS
    for step in range(2, 12):
        endpoint.ask(replace(ASK, step=step))
    assert endpoint.refused <= MOST_REQUESTS
    before = endpoint.refused
    endpoint.ask(ASK)
    assert endpoint.refused == before


@given(REFUSED, st.sampled_from([400, 404, 413, 415, 422]))
@settings(max_examples=200)
def test_a_form_is_found_with_few_requests(refused: dict[str, str], status: int) -> None:
    check(refused, status)


@pytest.mark.slow
@given(REFUSED, st.sampled_from([400, 404, 413, 415, 422]))
@settings(max_examples=5000)
def test_a_form_is_found_with_few_requests_by_the_thousand(
    refused: dict[str, str], status: int
) -> None:
    check(refused, status)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_refused_is_lost_in_the_end(name: str) -> None:
    """One feature that is refused without a word about it: what else was left out comes back."""
    endpoint = Endpoint({name: "Bad Request"})
    for step in range(1, 12):
        endpoint.ask(replace(ASK, step=step))
    good = Endpoint({})
    good.ask(IN_TEXT if name == "tools" else ASK)
    last, whole = endpoint.sent[-1], good.sent[-1]
    gone = {key for key in whole if key not in last}
    if name in ("temperature", "seed", "reasoning_effort", "parallel_tool_calls"):
        assert gone == {name}
    if name in ("pattern", "bounds", "multipleOf", "images", "names beyond ASCII"):
        assert not gone
        assert last["stream"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tools"])
def test_a_loss_is_told_once_and_tools_are_named(name: str) -> None:
    endpoint = Endpoint({name: "Bad Request"})
    notices = [text for step in range(1, 4) for text in endpoint.ask(replace(ASK, step=step))]
    if name in ("pattern", "bounds", "multipleOf", "long descriptions", "names beyond ASCII"):
        assert any("'measure'" in text for text in notices)
        assert not any("'add'" in text for text in notices)
    again = endpoint.ask(ASK)
    assert again == []


def test_the_hints_of_the_table_find_their_examples() -> None:
    for feature in TABLE:
        if feature.name != "field":
            assert feature.hint.search(feature.example), feature.name


@pytest.mark.parametrize("words", ["Bad Request", "Invalid value for 'user'", "temperature"])
def test_a_refusal_of_the_smallest_request_is_the_error(words: str) -> None:
    seen: list[int] = []

    def once(_form: Capabilities) -> ReplyStream:
        yield from ()
        seen.append(1)
        raise ModelError("no.", kind="refused", status=400, refusal=f"{words} {len(seen)}")

    known = Capabilities()
    with pytest.raises(ModelError) as caught:
        list(adapt_request(once, IN_TEXT, known, OWN, stream=True))
    assert caught.value.refusal == f"{words} {len(seen)}"
    assert "'temperature'" in str(caught.value)
    assert "streaming" in str(caught.value)
    assert len(seen) <= 1 + MOST_REQUESTS
    assert known == Capabilities()


def test_nothing_is_searched_where_all_was_accepted_before() -> None:
    endpoint = Endpoint({})
    endpoint.ask(IN_TEXT)
    endpoint.features = {"system": "This row is not acceptable."}
    with pytest.raises(ModelError):
        endpoint.ask(IN_TEXT)
    assert endpoint.refused == 1


def test_a_server_that_fails_again_and_again_may_refuse_something() -> None:
    endpoint = Endpoint({"seed": "Internal Server Error"}, status=500)
    with pytest.raises(ModelError):
        endpoint.ask(IN_TEXT)
    assert endpoint.refused == 1  # once may be by chance
    endpoint.ask(IN_TEXT)
    assert endpoint.lost == []  # and so may be twice
    for step in range(2, 8):
        endpoint.ask(replace(IN_TEXT, step=step))
    assert "seed" not in endpoint.sent[-1]
    assert endpoint.sent[-1]["temperature"] == 0


def test_a_grown_conversation_that_is_refused_is_too_long() -> None:
    endpoint = Endpoint({})
    endpoint.ask(IN_TEXT)
    endpoint.features = {"system": "Nein."}
    grown = replace(IN_TEXT, messages=(*TALK, {"role": "user", "content": "word " * 9000}))
    for kind in ("overflow", "refused"):  # shorter once, then it is something else
        with pytest.raises(ModelError) as caught:
            endpoint._asked(grown, [])
        assert caught.value.kind == kind


@given(st.text(max_size=60))
def test_texts_that_differ_in_values_are_of_a_kind(text: str) -> None:
    assert without_values(f"{text} 17") == without_values(f"{text} 4711")
