"""A default model that is gone falls to the next that the endpoint serves; `doctor` says what ends when."""

from __future__ import annotations

import json
from datetime import date, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb import command
from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import published
from archytas_nb.models.anthropic import AnthropicModel
from archytas_nb.models.choose import choose_model
from archytas_nb.models.completion import Price, price_of
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.published import MODELS, PROVIDERS, Provider, Published, Source
from archytas_nb.models.remote import RemoteModel
from tests.cassettes.tapes import no_model
from tests.servers.anthropic import AnthropicServer
from tests.servers.plays import Say, Status
from tests.servers.server import Exchange, Server

NAMES = ("best-2", "good-2", "good-1")
ASK = AskModel(1, ({"role": "user", "content": "Well?"},))
_keys = count()


class Catalogue(Server):
    """Serves some models, and refuses others in its own way.

    Args:
        served: What it serves.
        listed: The items of its list of models; None for no list.
        refusal: How it refuses a model that it does not serve.
    """

    def __init__(
        self, served: list[str], listed: list[dict[str, Any]] | None, refusal: Status
    ) -> None:
        super().__init__(models=None, then=Say("fine"))
        self.served = served
        self.listed = listed
        self.refusal = refusal

    def answer(self, exchange: Exchange) -> None:
        if exchange.body["model"] in self.served:
            super().answer(exchange)
        else:
            self.refusal.play(exchange)

    def list_models(self, exchange: Exchange) -> None:
        if self.listed is None:
            Status(403, "not with this key").play(exchange)
        else:
            exchange.send(200, json.dumps({"data": self.listed}).encode())

    @property
    def asked_for(self) -> list[str]:
        """The models of the chat requests, without repetitions."""
        return list(dict.fromkeys(asked.body["model"] for asked in self.chats))


def default_model(monkeypatch: pytest.MonkeyPatch, server: Server) -> OpenAIModel:
    monkeypatch.setitem(PROVIDERS, "groq", Provider(server.url, "GROQ_API_KEY", NAMES))
    return OpenAIModel(None, server.url, f"sk-{next(_keys):012}")


def complete(model: RemoteModel) -> tuple[str, list[Notice]]:
    """The model's reply, and the notices about the choice of the model."""
    notices: list[Notice] = []
    asking = model.complete(ASK)
    while True:
        try:
            event = next(asking)
        except StopIteration as end:
            return end.value.text, notices
        if isinstance(event, Notice) and event.kind == "model":
            notices.append(event)


FORMS = ("{}", "models/{}", "{}-2026-04-23", "{}-20260423")
WORDS = (
    "The model does not exist.",
    "This is no longer offered.",
    "Unknown parameter: 'model'.",
    "no",
)


@settings(max_examples=25, deadline=None)
@given(
    served=st.lists(st.sampled_from(NAMES), unique=True),
    others=st.lists(st.sampled_from(["huge-9", "tiny-3"]), unique=True),
    form=st.sampled_from(FORMS),
    refusal=st.builds(Status, st.sampled_from([400, 403, 404, 410, 422]), st.sampled_from(WORDS)),
)
def test_the_first_default_that_is_served_answers_however_the_others_are_refused(
    served: list[str], others: list[str], form: str, refusal: Status
) -> None:
    listed = [{"id": form.format(name)} for name in [*others, *served]]
    first = next((name for name in NAMES if name in served), None)
    with pytest.MonkeyPatch.context() as patch, Catalogue(served, listed, refusal) as server:
        model = default_model(patch, server)
        if first is None and listed:
            with pytest.raises(ModelError) as caught:
                complete(model)
            assert server.asked_for == [NAMES[0]]
            assert caught.value.kind == "not_found"
            assert all(repr(each["id"]) in str(caught.value) for each in listed)
        elif first is not None:
            text, notices = complete(model)
            assert text == "fine"
            assert model.name == first
            assert server.asked_for == list(dict.fromkeys([NAMES[0], first]))
            assert len(notices) == (first != NAMES[0])
            assert complete(model) == ("fine", [])  # told once


@pytest.mark.parametrize("served", [*range(3), None])
def test_without_a_list_the_defaults_are_tried_in_turn(
    monkeypatch: pytest.MonkeyPatch, served: int | None
) -> None:
    has = [] if served is None else [NAMES[served]]
    with Catalogue(
        has, None, Status(404, "The model does not exist.", code="model_not_found")
    ) as server:
        model = default_model(monkeypatch, server)
        if served is None:
            for _ in range(2):  # and again with the next question
                with pytest.raises(ModelError) as caught:
                    complete(model)
                assert caught.value.kind == "not_found"
            assert server.asked_for == list(NAMES)
        else:
            assert complete(model)[0] == "fine"
            assert server.asked_for == list(NAMES[: served + 1])


def test_a_default_of_anthropic_falls_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anthropic")
    with AnthropicServer(models=["good-2-20260423", "good-2"], then=Say("fine")) as server:
        provider = Provider(server.url, "ANTHROPIC_API_KEY", NAMES)
        monkeypatch.setitem(PROVIDERS, "anthropic", provider)
        model = AnthropicModel(None, server.url, f"sk-ant-{next(_keys):012}")
        assert complete(model)[0] == "fine"
        assert model.name == "good-2"
        assert [asked.body["model"] for asked in server.chats] == ["best-2", "good-2"]


def test_a_model_that_somebody_named_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalogue(
        ["good-2"], [{"id": "good-2"}], Status(404, "The model does not exist.")
    ) as server:
        default_model(monkeypatch, server)
        with pytest.raises(ModelError, match="It serves 'good-2'"):
            complete(OpenAIModel("best-2", server.url, "sk-0123456789"))
        assert server.asked_for == ["best-2"]


def test_a_refusal_of_what_is_served_replaces_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [{"id": name} for name in NAMES]
    for status in (400, 401, 403, 429):
        with Catalogue([], listed, Status(status, "no")) as server:
            model = default_model(monkeypatch, server)
            model.max_retries = 0
            with pytest.raises(ModelError):
                complete(model)
            assert server.asked_for == ["best-2"]
            assert model.name == "best-2"


def test_a_run_says_which_model_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    with Catalogue(
        ["good-1"], [{"id": "good-1"}], Status(404, "The model does not exist.")
    ) as server:
        model = default_model(monkeypatch, server)
        source = Source("https://example.org", date(2026, 11, 1))
        ours = Published("groq", "good-1", source, 5000)
        monkeypatch.setattr(published, "MODELS", (*MODELS, ours))
        prices = dict.fromkeys(NAMES[:2]) | {"good-1": Price(1, 1, 2)}
        monkeypatch.setattr(OpenAIModel, "price", property(lambda self: prices[self.name]))
        run = Agent([], model, namespace={}).run("Well?")
        told = [
            each.text for each in run.events if isinstance(each, Notice) and each.kind == "model"
        ]
        assert (run.answer, run.model, run.price) == ("fine", "good-1", Price(1, 1, 2))
        assert [("best-2" in text, "good-1" in text) for text in told] == [(True, True)]
        assert model.context_tokens == 5000
        # another agent of this process does not ask for what is gone
        again = OpenAIModel(None, server.url, model._key)
        assert complete(again) == ("fine", [])
        assert server.asked_for == ["best-2", "good-1"]


def test_a_recording_keeps_the_model_that_answered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "cell.jsonl"
    listed = [{"id": "good-1"}]
    with Catalogue(["good-1"], listed, Status(404, "The model does not exist.")) as server:
        monkeypatch.setitem(PROVIDERS, "groq", Provider(server.url, "GROQ_API_KEY", NAMES))
        monkeypatch.setenv("GROQ_API_KEY", f"sk-{next(_keys):012}")
        live = CassetteModel(Cassette(path, "record"), lambda: choose_model("groq:"))
        recorded = Agent([], live, namespace={}).run("Well?")
    replay = CassetteModel(Cassette(path, "replay"), no_model)
    replayed = Agent([], replay, namespace={}).run("Well?")
    assert (recorded.model, replayed.model) == ("good-1", "good-1")
    assert replayed.answer == "fine"


# ── what ends when ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("field", "counts"),
    [
        ("shutdown_date", True), ("retires_at", True), ("expiration_date", True), ("sunset_on", True),
        ("deprecated_at", False), ("deprecation", False), ("created_at", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["", "T00:00:00Z"])
def test_the_list_of_an_endpoint_tells_when_a_model_ends(
    field: str, counts: bool, end: str
) -> None:
    day = date(2027, 1, 14)
    listed: list[dict[str, Any]] = [
        {"id": "a", field: f"{day}{end}"},
        {"id": "b", field: None},
        {"id": "c", field: "soon"},
    ]
    with Catalogue([], listed, Status(404)) as server:
        found = OpenAIModel("a", server.url).listed()
    assert [each.ends for each in found] == [day if counts else None, None, None]


def report(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Server, model: str
) -> tuple[str, bool]:
    monkeypatch.setitem(PROVIDERS, "groq", Provider(server.url, "GROQ_API_KEY", NAMES))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("GROQ_API_KEY", f"sk-{next(_keys):012}")
    monkeypatch.setenv("ARCHYTAS_NB_MODEL", model)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    text, is_ready = command.report()
    return text.partition("\nmodel ")[2].partition("\nendpoints ")[0], is_ready


def test_doctor_says_what_ends_when(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    soon = date.today() + timedelta(days=10)  # noqa: DTZ011 - the day of this machine
    source = Source("https://example.org/ends", date(2026, 11, 1))
    facts = [
        Published("groq", "good-2", source, None, soon),
        Published("groq", "old-1", source, None, date(2020, 1, 1)),
    ]
    monkeypatch.setattr(published, "MODELS", (*MODELS, *facts))
    listed = [{"id": "best-2", "shutdown_date": str(soon)}, {"id": "good-2"}, {"id": "old-1"}]
    with Catalogue([], listed, Status(404)) as server:
        text, is_ready = report(monkeypatch, tmp_path, server, "groq:best-2")
        assert is_ready
        assert f"'best-2' ends on {soon}, in 10 days (says the endpoint)" in text
        assert "such as 'good-1'" in text  # the first default that does not end
        assert f"'good-2' on {soon}" in text
        text, _ = report(monkeypatch, tmp_path, server, "groq:good-2")
        assert f"'good-2' ends on {soon}, in 10 days (says https://example.org/ends)" in text
        text, _ = report(monkeypatch, tmp_path, server, "groq:old-1")
        assert "'old-1' was announced to end on 2020-01-01" in text


def test_doctor_says_which_default_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with Catalogue([], [{"id": "good-1"}], Status(404)) as server:
        text, is_ready = report(monkeypatch, tmp_path, server, "groq:")
        assert is_ready
        assert "'good-1' at" in text
        assert "the default 'best-2' is not available there" in text
    with Catalogue([], [{"id": "huge-9"}], Status(404)) as server:
        text, is_ready = report(monkeypatch, tmp_path, server, "groq:")
        assert not is_ready
        assert "available models: 'huge-9'" in text


# ── the facts ─────────────────────────────────────────────────────────────────────────────────────


def test_each_fact_is_of_a_provider_and_has_an_address_and_a_day() -> None:
    assert len({(each.provider, each.name) for each in MODELS}) == len(MODELS)
    for each in MODELS:
        assert each.provider in {*PROVIDERS, "local"}
        assert each.source.address.startswith("https://")
        assert isinstance(each.source.read, date)


def test_the_defaults_are_published_and_do_not_end() -> None:
    for prefix, provider in PROVIDERS.items():
        for name in provider.defaults:
            found = published.published(provider.base_url, name)
            assert found is not None, f"{prefix}:{name}"
            assert found.ends is None


def test_a_price_is_that_of_the_package_with_prices() -> None:
    pytest.importorskip("genai_prices")
    for each in MODELS:
        if each.price is not None:
            there = price_of(PROVIDERS[each.provider].base_url, each.name)
            assert there in (None, Price(*each.price))


def test_a_published_price_and_context_count_without_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archytas_nb.models.remote.price_of", lambda *_: None)
    for prefix, provider in PROVIDERS.items():
        if not provider.key_name:
            continue
        monkeypatch.setenv(provider.key_name, "sk-0123456789")
        for each in MODELS:
            if each.provider == prefix:
                model = choose_model(f"{prefix}:{each.name}")
                assert model.price == (each.price and Price(*each.price))
                if each.context_tokens is not None:
                    assert model.context_tokens == each.context_tokens
