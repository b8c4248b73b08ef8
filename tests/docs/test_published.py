"""Every page names only models that are published, and none whose end is announced."""

from __future__ import annotations

import pytest

from archytas_nb.models.published import MODELS, PROVIDERS
from tests.docs.published import PAGE, ROOT, known, names_in, sources, written


def test_a_page_names_only_published_models_that_do_not_end() -> None:
    faults = []
    for page, text in sources().items():
        for each in names_in(text):
            found = known(each.name, each.prefix)
            where = f"{page}, line {each.line}: {each.name!r}"
            if not found:
                faults.append(f"{where} is not in archytas_nb/models/published.py")
            elif all(one.ends for one in found):
                faults.append(f"{where} ends on {found[0].ends}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "text",
    [
        "`%agent --model groq:{} …`", '%config ArchytasNB.model = "{}"', 'nb.Agent("{}", [f])', "ARCHYTAS_NB_MODEL=openai:{}",
        'agent.evaluate(cases, models=["gpt-6-luna", "{}"])', 'model="{}"', "python -m benchmarks.success --model {} --kinds x",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "name", ["nobody-7b-chat", "sometime/large-2", "gpt-99-x", "new-model-latest"]
)
def test_a_name_is_found_in_commands_and_settings(text: str, name: str) -> None:
    found = [each.name for each in names_in(text.format(name)) if not known(each.name, each.prefix)]
    assert found == [name]


@pytest.mark.parametrize(
    "name",
    [
        "gpt-99",
        "claude-epic-9-9",
        "gemini-9.5-flash",
        "qwen/qwen9-32b",
        "mistral-tiny-latest",
        "gpt-3.5-turbo",
        "o1-mini",
    ],
)
def test_a_name_is_found_in_prose(name: str) -> None:
    text = f"If you have a key, `{name}` answers; (or {name}), as in {name}."
    assert {each.name for each in names_in(text)} == {name}
    assert not known(name)


def test_what_is_no_name_is_not_taken_for_one() -> None:
    text = "llama.cpp's server, the channels of gpt-oss, `groq:`, `ollama:mistral:NAME`, model=DEPLOYMENT, step-2"
    assert not list(names_in(text))


def test_the_table_of_defaults_is_up_to_date() -> None:
    text = PAGE.read_text("utf-8")
    assert text == written(text), "out of date: run `python -m tests.docs.published`"
    assert all(name in text for provider in PROVIDERS.values() for name in provider.defaults)


def test_the_page_of_endpoints_states_the_price_of_the_default() -> None:
    name = PROVIDERS["openai"].defaults[0]
    price = next(each.price for each in MODELS if (each.provider, each.name) == ("openai", name))
    assert price is not None
    text = " ".join((ROOT / "docs" / "endpoints.md").read_text("utf-8").split())
    costs = f"{price[0]:.2f} USD for a million tokens of input and {price[2]:.2f} USD for a million tokens of output"
    assert f"`{name}`, which costs {costs}" in text
