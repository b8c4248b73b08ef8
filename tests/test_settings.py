"""Settings: one definition of each, which `%agent` and `Agent` obey, in scripts and in kernels."""

import copy
import inspect
import json
import os
import pickle
import subprocess
import sys
from dataclasses import asdict, fields
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb import settings
from archytas_nb.agent import Agent
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.limits import Limits
from archytas_nb.magics.settings import SettingTraits
from archytas_nb.models.choose import ModelSettings
from archytas_nb.sandbox.bounds import Bounds
from archytas_nb.settings import SETTINGS, UNSET, Number, UnreadableSettingError, Whole
from archytas_nb.testing import ScriptedModel
from tests.servers.plays import Say
from tests.servers.server import Server


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No setting is set, except that no server of this machine is looked for."""
    for setting in SETTINGS.values():
        for variable in setting.variables:
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("ARCHYTAS_NB_DISCOVER", "0")
    monkeypatch.setattr(settings, "_state", settings._State())
    return monkeypatch


def configure(**values: Any) -> None:
    """Have `%config` set these values."""
    settings.configure(values)


def test_what_is_configured_is_read_when_a_setting_is(environ: pytest.MonkeyPatch) -> None:
    configured: dict[str, Any] = {}
    settings.configure(configured)
    environ.setenv("ARCHYTAS_NB_MAX_STEPS", "7")
    names = ("max_steps", "max_errors", "tools")
    default = SETTINGS["max_errors"].default
    assert settings.values(names) == {"max_steps": 7, "max_errors": default, "tools": []}
    configured |= {"max_steps": 3, "tools": ["count_*"]}
    assert settings.values(names) == {"max_steps": 3, "max_errors": default, "tools": ["count_*"]}
    del configured["max_steps"]
    assert settings.values(names)["max_steps"] == 7


# ── one definition ────────────────────────────────────────────────────────────────────────────────


def test_every_setting_has_a_trait_with_its_default_and_help() -> None:
    traits = SettingTraits.class_own_traits(config=True)
    assert set(traits) == set(SETTINGS)
    for name, setting in SETTINGS.items():
        assert traits[name].help == setting.text
        if name != "discover":
            assert getattr(SettingTraits(), name) == settings.value(name)


def test_arguments_of_an_agent_that_are_left_out_are_settings() -> None:
    parameters = inspect.signature(Agent).parameters
    left_out = {name for name, each in parameters.items() if each.default is UNSET}
    assert left_out <= set(SETTINGS)
    of_question = {name for name, setting in SETTINGS.items() if setting.scope == "question"}
    by_none = {"tools", "instructions", "approve"}
    assert left_out | by_none == of_question == set(settings.QUESTION_SETTINGS)
    of_models = {name for name, setting in SETTINGS.items() if setting.scope == "model"}
    assert of_models == {each.name for each in fields(ModelSettings)}


def test_the_defaults_of_limits_are_those_of_a_run() -> None:
    for name in (each.name for each in fields(Limits)):
        assert getattr(Limits(), name) == SETTINGS[name].default


def test_an_argument_that_was_left_out_stays_that_when_it_is_copied() -> None:
    assert copy.deepcopy(UNSET) is pickle.loads(pickle.dumps(UNSET)) is UNSET


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


@hypothesis.given(st.text(max_size=20))
def test_a_text_is_read_as_a_value_that_config_takes_or_(
    text: str,
) -> None:
    for name, setting in SETTINGS.items():
        try:
            value = setting.read(text)
        except UnreadableSettingError:
            continue
        configured = SettingTraits()
        setattr(configured, name, value)
        assert getattr(configured, name) == value


@hypothesis.given(st.one_of(st.integers(), st.floats()))
def test_numbers_are_read_within_their_limits_only(number: float) -> None:
    for setting in SETTINGS.values():
        kind = setting.kind
        if not isinstance(kind, Number) or (isinstance(kind, Whole) and isinstance(number, float)):
            continue
        is_within = (kind.least is None or number >= kind.least) and (
            kind.most is None or number <= kind.most
        )
        if is_within:
            assert setting.read(str(number)) == number
        else:
            with pytest.raises(UnreadableSettingError, match="number of at least"):
                setting.read(str(number))


@pytest.mark.parametrize("text", ["", " ", "\t"])
def test_an_empty_variable_counts_as_unset(environ: pytest.MonkeyPatch, text: str) -> None:
    for name, setting in SETTINGS.items():
        environ.setenv(setting.variable, text)
        assert settings.value(name) == setting.default


def test_a_key_that_cannot_be_read_is_not_shown(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("ARCHYTAS_NB_REQUEST", '{"api_key": "sk-secret-0123456789"}')
    with pytest.raises(ConfigurationError, match="request contains 'api_key'") as error:
        settings.value("request")
    assert "sk-secret" not in str(error.value)


def test_a_default_that_was_changed_by_its_user_is_the_default_again() -> None:
    settings.value("allow").append("everything")
    settings.value("request")["temperature"] = 2
    assert settings.value("allow") == []
    assert settings.value("request") == {}


def test_unknown_variables_are_named_with_the_nearest_known_one() -> None:
    names = ["ARCHYTAS_NB_DISCOVR", "archytas_nb_model", "ARCHYTAS_NB_XYZ123", "HOME"]
    names += ["ARCHYTASNB_CONTEXT"]
    names += [each.variable for each in SETTINGS.values()] + [*settings.OTHER_VARIABLES]
    assert settings.unknown_variables(names) == {
        "ARCHYTAS_NB_DISCOVR": "ARCHYTAS_NB_DISCOVER",
        "archytas_nb_model": "ARCHYTAS_NB_MODEL",
        "ARCHYTAS_NB_XYZ123": "",
        "ARCHYTASNB_CONTEXT": "ARCHYTAS_NB_CONTEXT",
    }


def test_an_error_advises_the_setting_that_takes_precedence(environ: pytest.MonkeyPatch) -> None:
    assert settings.where_to_set("base_url") == "OPENAI_BASE_URL"
    environ.setenv("ARCHYTAS_NB_BASE_URL", "http://127.0.0.1:9/v1")
    assert settings.where_to_set("base_url") == "ARCHYTAS_NB_BASE_URL"
    configure(base_url="http://127.0.0.1:8/v1")
    assert settings.where_to_set("base_url") == "%config ArchytasNB.base_url"
    assert settings.where_to_set("api_key") == "OPENAI_API_KEY (or %config ArchytasNB.api_key)"


# ── an agent ──────────────────────────────────────────────────────────────────────────────────────

VALUES: dict[str, tuple[Any, Any, Any]] = {
    "max_steps": (3, 4, 5), "max_errors": (3, 4, 6), "max_seconds": (1.5, 2.5, 3.5),
    "max_total_tokens": (1000, 2000, 3000), "max_reply_tokens": (100, 200, 300),
    "program_bounds": ({"calls": 3}, {"seconds": 2.5}, {"depth": 30}),
    "protocol": ("react", "native", "auto"), "context": ("none", "all", "mentioned"),
    "instructions": ("One.", "Two.", "Three."), "approve": ("deny", "auto", "ask"),
    "allow": (["a"], ["b"], ["c"]), "python": ("ask", "undoable", "unwatched"),
    "undo": (True, False, True),
}  # fmt: skip


def shown(agent: Agent, name: str) -> Any:
    """The settings of a run of an agent."""
    setup = agent._setup.now()
    match name:
        case "protocol" | "context" | "instructions":
            return getattr(agent, name)
        case "python":
            return setup.settings.python_for(by_setting=True)
        case "undo":
            return setup.settings.watches(by_setting=True)
        case "allow":
            return sorted(setup.settings.allow)
        case "approve":
            return setup.settings.approve
        case "program_bounds":
            standard = asdict(Bounds())
            found = asdict(Bounds(**setup.settings.program_bounds))
            return {each: found[each] for each in found if found[each] != standard[each]}
    return getattr(agent.limits, name)


@hypothesis.given(data=st.data())
def test_precedence_is_argument_configuration_environment_default(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*VALUES]))
    places = data.draw(st.sets(st.sampled_from(["argument", "configuration", "environment"])))
    argument, configured, environment = VALUES[name]
    text = str(environment)
    if isinstance(environment, list):
        text = ",".join(environment)
    elif isinstance(environment, dict):
        text = json.dumps(environment)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "_state", settings._State())
        if "environment" in places:
            patch.setenv(SETTINGS[name].variable, text)
        if "configuration" in places:
            configure(**{name: configured})
        agent = Agent([], **({name: argument} if "argument" in places else {}))
        default = False if name == "undo" else settings.from_environment(name)
        expected = environment if "environment" in places else default
        expected = configured if "configuration" in places else expected
        expected = argument if "argument" in places else expected
        assert shown(agent, name) == expected


@pytest.mark.parametrize(
    "wrong",
    [{"second": 3}, {"calls": 0}, {"calls": 1.5}, {"seconds": True}, {"memory": 100}, {"depth": "9"},
     {"seconds": float("nan")}, {"calls": 10**30}, 3, None],
)  # fmt: skip
def test_wrong_bounds_of_a_program_are_refused_wherever_they_are_set(
    environ: pytest.MonkeyPatch, wrong: Any
) -> None:
    with pytest.raises(ValueError, match="program_bounds"):
        Agent([], program_bounds=wrong)
    environ.setenv("ARCHYTAS_NB_PROGRAM_BOUNDS", json.dumps(wrong))
    with pytest.raises(ConfigurationError, match="PROGRAM_BOUNDS"):
        Agent([])


def test_the_names_of_bounds_are_those_of_the_sandbox() -> None:
    assert [*settings.BOUNDS] == [each.name for each in fields(Bounds)]


def test_a_setting_takes_effect_with_the_next_question_and_not_in_one() -> None:
    def tell() -> str:
        """Tell how many there are."""
        configure(instructions="Be polite.", context="all")
        return "124"

    names = {"penguins": [1, 2, 3]}
    model = ScriptedModel(("tell", {}), "124", ("final_answer", "124"), ("final_answer", "124"))
    agent = Agent([tell], model, namespace=names)
    configure(instructions="Be brief.", context="none")
    agent.run("How many penguins?")
    agent.run("And now?")
    systems = [asked.messages[0]["content"] for asked in model.asked]
    assert ["Be brief." in text for text in systems] == [True, True, True, False]
    assert "Be polite." in systems[-1]
    assert "penguins: list" not in json.dumps(model.asked[0].messages)


@pytest.mark.parametrize("where", ["environment", "configuration"])
def test_an_agent_describes_no_variable_where_the_context_is_none(
    environ: pytest.MonkeyPatch, where: str
) -> None:
    if where == "environment":
        environ.setenv("ARCHYTAS_NB_CONTEXT", "none")
    else:
        configure(context="none")
    names = {"customers_of_2026": [1, 2, 3]}
    ask = Agent([], ScriptedModel(), namespace=names).preview("Describe customers_of_2026.")
    assert "list" not in ask.messages[-1]["content"]
    ask = Agent([], ScriptedModel(), namespace=names, context="all").preview("Describe them.")
    assert "customers_of_2026" in json.dumps(ask.messages)


def test_the_endpoint_of_an_agent_is_the_configured_one(environ: pytest.MonkeyPatch) -> None:
    with Server(then=Say("Fine.")) as first, Server(then=Say("Well.")) as second:
        environ.setenv("ARCHYTAS_NB_BASE_URL", first.url)
        environ.setenv("ARCHYTAS_NB_API_KEY", "sk-environment")
        environ.setenv("ARCHYTAS_NB_MODEL", "tiny-1")
        environ.setenv("ARCHYTAS_NB_REQUEST", '{"temperature": 0}')
        agent = Agent([], namespace={})
        assert agent.run("Well?").answer == "Fine."
        configure(base_url=second.url, api_key="sk-config", timeout=7.0, max_retries=1)
        assert agent.run("And now?").answer == "Well."
        assert (agent.chosen_model().timeout, agent.chosen_model().max_retries) == (7.0, 1)
        configure(base_url="")
        assert agent.run("And now?").answer == "Fine."
    assert first.chats[0].headers["authorization"] == "Bearer sk-environment"
    assert second.chats[0].headers["authorization"] == "Bearer sk-config"
    assert {each.body["temperature"] for each in first.chats} == {0}


def test_a_configured_key_is_sent_only_to_the_configured_endpoint(
    environ: pytest.MonkeyPatch,
) -> None:
    configure(base_url="http://127.0.0.1:9/v1", api_key="sk-config")
    with Server(then=Say("Fine.")) as other:
        environ.setenv("OPENAI_API_KEY", "sk-openai")
        Agent([], nb.OpenAIModel("tiny-1", other.url)).run("Well?")
    assert other.chats[0].headers["authorization"] == "Bearer sk-openai"
    assert nb.OpenAIModel("tiny-1").base_url == "http://127.0.0.1:9/v1"


def test_tools_and_approvals_of_an_agent_are_the_configured_ones() -> None:
    def erase(species: str) -> str:
        """Erase a species.

        Args:
            species: The species
        """
        return f"{species} is gone"

    def count() -> int:
        """Count the penguins."""
        return 3

    before = nb.toolbox.snapshot()
    nb.toolbox.restore(({}, set()))
    try:
        nb.toolbox.add(erase, approve=True)
        nb.toolbox.add(count)
        configure(tools=["er*"], allow=["erase"])
        model = ScriptedModel(("erase", {"species": "Gentoo"}), ("final_answer", "Done."))
        agent = Agent(model=model, context="none")
        assert [*agent.tools] == ["erase"]
        [(_, outcome)] = agent.run("Erase it.").calls
        assert outcome.value == "Gentoo is gone"
        assert [*Agent([count], python="off").tools] == ["count"]
        configure(tools=["ers"])
        with pytest.raises(ConfigurationError, match=r"did you mean 'erase'"):
            _ = agent.tools
        assert "erase" in repr(Agent([erase])) + repr(agent)
    finally:
        nb.toolbox.restore(before)


def test_the_setting_python_is_not_for_small_models_but_the_argument_is() -> None:
    configure(python="undoable", ask_user="on")
    for small, given, is_there in (
        (False, {}, True),
        (True, {}, False),
        (True, {"python": "ask"}, True),
    ):
        model = ScriptedModel(("final_answer", "Yes."))
        model.is_small = small  # type: ignore[attr-defined]
        agent = Agent([], model, namespace={}, context="none", **given)
        run = agent.run("Well?")
        assert ("python" in json.dumps(run.messages)) == is_there
        assert (run.watch is not None) == is_there
    assert "ask_user" in agent.tools
    for value, asks in ((False, False), ("off", False), ("auto", False), (True, True)):
        assert ("ask_user" in Agent([], ask_user=value).tools) == asks


@pytest.mark.parametrize("name", ["max_steps", "context", "undo", "approve", "ask_user"])
def test_a_variable_that_cannot_be_read_is_named_when_an_agent_is_made(
    environ: pytest.MonkeyPatch, name: str
) -> None:
    environ.setenv(SETTINGS[name].variable, "perhaps")
    with pytest.raises(ConfigurationError, match="'perhaps' is") as error:
        Agent([])
    assert SETTINGS[name].variable in str(error.value)
    environ.setenv(SETTINGS[name].variable, "")
    Agent([])


def test_a_script_obeys_the_environment_and_is_advised_what_it_reads() -> None:
    program = (
        "import archytas_nb as nb\n"
        "print(nb.Agent().limits.max_steps)\n"
        "try:\n    nb.Agent([], 'gpt-x').run('Well?')\n"
        "except nb.ConfigurationError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "ARCHYTAS_NB_MAX_STEPS": "7"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    steps, error = ran.stdout.splitlines()
    assert steps == "7"
    assert "OPENAI_BASE_URL" in error
    assert "%config" not in error
    configure()
    with pytest.raises(ConfigurationError, match=r"%config ArchytasNB\.base_url"):
        Agent([], "gpt-x").run("Well?")
