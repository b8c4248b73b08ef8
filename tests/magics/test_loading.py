"""Loading and unloading: the shell is afterwards what it was before, and nothing is said."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from archytas_nb.magics import _SILENT
from archytas_nb.settings import SETTINGS
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import live_kernel


def state(shell: Any) -> dict[str, Any]:
    """Everything of a shell that an extension could leave something in, by identity where it matters."""
    return {
        "magics": {kind: dict(names) for kind, names in shell.magics_manager.magics.items()},
        "registry": dict(shell.magics_manager.registry),
        "lazy": dict(shell.magics_manager.lazy_magics),
        "configurables": [id(each) for each in shell.configurables],
        "cleanup": list(shell.input_transformers_cleanup),
        "post": list(shell.input_transformers_post),
        "line": list(shell.input_transformer_manager.line_transforms),
        "tokens": list(shell.input_transformer_manager.token_transformers),
        "ast": list(shell.ast_transformers),
        "events": {name: list(each) for name, each in shell.events.callbacks.items()},
        "matchers": list(shell.Completer.custom_matchers),
        "hooks": {
            name: list(each.strs) + list(each.regexs) for name, each in shell.strdispatchers.items()
        },
        "handlers": dict(shell.custom_exceptions)
        if isinstance(shell.custom_exceptions, dict)
        else shell.custom_exceptions,
        "observers": {
            name: {kind: list(each) for kind, each in kinds.items()}
            for name, kinds in shell._trait_notifiers.items()
        },
        "names": {name for name in shell.user_ns if not name.startswith("_")} - {"script", "x"},
        "hidden": {name for name in shell.user_ns_hidden if not name.startswith("_")},
        "config": shell.config.copy(),
        "formatters": {
            name: dict(each.type_printers)
            for name, each in shell.display_formatter.formatters.items()
        },
        "displayhook": sys.displayhook,
        "excepthook": sys.excepthook,
        "streams": (sys.stdout, sys.stderr),
        "loggers": [list(logging.getLogger(name).handlers) for name in (None, "archytas_nb")],
    }


def test_unloading_leaves_the_shell_as_it_was_even_after_questions(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("unload_ext", "archytas_nb")
    before = state(shell)
    shell.run_line_magic("load_ext", "archytas_nb")
    shell.run_line_magic("load_ext", "archytas_nb")
    assert state(shell) != before
    shell.user_ns["script"] = ScriptedModel(("final_answer", "Hello."), ("final_answer", "Bye."))
    shell.run_cell("%agent --quiet --model script hello?;")
    shell.run_cell(
        "x = %agent --model script hello?\n%unload_ext archytas_nb"
    )  # in the very cell that asked
    after = state(shell)
    for part, value in before.items():
        assert after[part] == value, part
    assert _SILENT not in logging.getLogger("archytas_nb").handlers
    assert str(shell.user_ns["x"]) == "Bye."


def test_unloading_leaves_nothing_of_a_question_that_no_cell_asked(shell: InteractiveShell) -> None:
    shell.run_line_magic("unload_ext", "archytas_nb")
    before = state(shell)["events"]
    shell.run_line_magic("load_ext", "archytas_nb")
    shell.user_ns["script"] = ScriptedModel(("final_answer", "Hello."))
    shell.run_line_magic("agent", "--model script hello")
    assert state(shell)["events"] != before
    shell.run_line_magic("unload_ext", "archytas_nb")
    assert state(shell)["events"] == before


def test_loading_and_unloading_print_nothing(
    shell: InteractiveShell, capfd: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("unload_ext", "archytas_nb")
    shell.run_line_magic("load_ext", "archytas_nb")
    assert capfd.readouterr() == ("", "")


def test_what_goes_on_is_logged_and_not_printed(
    shell: InteractiveShell, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    shell.user_ns["script"] = ScriptedModel(("final_answer", "Hello."))
    shell.run_line_magic("config", "ArchytasNB.api_key = 'sk-secret'")
    with caplog.at_level(logging.INFO, "archytas_nb"):
        shell.run_line_magic("agent", "--quiet --model script hello")
    assert "a run with scripted (react) was answered" in caplog.text
    assert "secret" not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_a_setting_in_ipythons_own_configuration_counts_and_a_wrong_one_is_one_line(
    tmp_path: Path,
) -> None:
    profile = tmp_path / "ipython" / "profile_default"
    profile.mkdir(parents=True)
    (profile / "ipython_kernel_config.py").write_text("c.ArchytasNB.max_steps = 3\n", "utf-8")
    with live_kernel(tmp_path) as kernel:
        kernel.run("%load_ext archytas_nb")
        assert kernel.run("%config ArchytasNB.max_steps").result == "3"
    (profile / "ipython_kernel_config.py").write_text("c.ArchytasNB.max_steps = 0\n", "utf-8")
    with live_kernel(tmp_path) as kernel:
        cell = kernel.run("%load_ext archytas_nb")
        assert (cell.status, cell.error) == ("error", "")
        assert cell.printed.startswith("UsageError: IPython's configuration of ArchytasNB: ")
        assert cell.printed.count("\n") == 1
        assert kernel.run("%config").printed.count("Archytas") == 0


@pytest.mark.parametrize(
    ("name", "wrong", "value"),
    [
        ("max_steps", "0", 4),
        ("protocol", "'carrier pigeon'", "react"),
        ("request", "{'model': 1}", {}),
    ],
)
def test_a_wrong_value_that_config_refused_is_not_read_when_the_extension_is_loaded_again(
    shell: InteractiveShell, name: str, wrong: str, value: object
) -> None:
    shell.run_line_magic("config", "ArchytasNB.max_errors = 7")
    shell.run_line_magic("config", f"ArchytasNB.{name} = {value!r}")
    shell.run_line_magic("config", f"ArchytasNB.{name} = {wrong}")
    assert shell.run_line_magic("config", f"ArchytasNB.{name}") == value
    shell.run_line_magic("reload_ext", "archytas_nb")
    assert shell.run_line_magic("config", f"ArchytasNB.{name}") == value
    assert shell.run_line_magic("config", "ArchytasNB.max_errors") == 7


def test_a_wrong_value_leaves_nothing_in_the_configuration_of_the_shell(
    shell: InteractiveShell,
) -> None:
    shell.run_line_magic("config", "ArchytasNB.max_steps = 'many'")
    shell.run_line_magic("unload_ext", "archytas_nb")
    assert not shell.config.ArchytasNB
    shell.run_line_magic("load_ext", "archytas_nb")
    assert shell.run_line_magic("config", "ArchytasNB.max_steps") == SETTINGS["max_steps"].default


class Cold:
    """A model that can be warmed."""

    name, protocol, is_scripted = "cold", "react", True

    def __init__(self) -> None:
        self.warmed = 0
        self.read: list[str] = []

    def warm(self, messages: Any = ()) -> None:
        self.warmed += 1
        self.read = [message["content"] for message in messages]

    def complete(self, ask: Any) -> Any:
        raise NotImplementedError


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> Cold:
    model = Cold()
    monkeypatch.setattr("archytas_nb.cassettes.switch.recorded", lambda *_, **ways: model)
    return model


def test_the_model_is_warmed_only_where_that_was_asked_for(
    shell: InteractiveShell, cold: Cold, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run_line_magic("reload_ext", "archytas_nb")
    assert cold.warmed == 0
    shell.run_line_magic("config", "ArchytasNB.warm = True")
    assert cold.warmed == 1
    monkeypatch.setenv("ARCHYTAS_NB_WARM", "1")
    shell.run_line_magic("reload_ext", "archytas_nb")
    assert cold.warmed == 2


TWICE = """\
%%tool
def twice(n: int) -> int:
    '''Double a number.

    Args:
        n: The number
    '''
    return 2 * n
"""


def test_a_warm_model_reads_new_tools_at_the_end_of_their_cell_until_it_is_asked(
    shell: InteractiveShell, cold: Cold
) -> None:
    shell.run_cell("%config ArchytasNB.warm = True")
    assert (cold.warmed, cold.read) == (1, [])
    shell.run_cell(TWICE)
    shell.run_cell("1 + 1")
    assert cold.warmed == 2
    [system] = cold.read
    assert "twice:\n    Double a number." in system
    shell.run_cell(
        TWICE.replace("Double", "Make twice").replace(
            "%%tool", "import archytas_nb as nb\n@nb.tool"
        )
    )
    assert cold.warmed == 3
    assert "Make twice a number." in cold.read[0]
    asked = shell.run_line_magic("agent", "--dry-run Double 4.").ask.messages
    assert [asked[0]["content"]] == cold.read
    shell.run_cell("%agent --new")
    assert cold.warmed == 3
    cold.complete = ScriptedModel(("final_answer", "8")).complete  # type: ignore[method-assign]
    shell.run_cell("%agent Double 4.")
    shell.run_cell(TWICE)
    assert cold.warmed == 3, "it has been asked, and has read all that there was"


def test_a_model_that_cannot_be_warmed_harms_nothing(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_MODEL", "nowhere")
    monkeypatch.setenv("ARCHYTAS_NB_DISCOVER", "0")
    shell.run_line_magic("config", "ArchytasNB.warm = True")
    assert capfd.readouterr() == ("", "")


def test_a_variable_that_makes_no_sense_at_loading_leaves_nothing_half_loaded(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run_line_magic("unload_ext", "archytas_nb")
    before = state(shell)
    monkeypatch.setenv("ARCHYTAS_NB_WARM", "perhaps")
    with pytest.raises(
        UsageError, match="variable ARCHYTAS_NB_WARM: 'perhaps' is not true or false"
    ):
        shell.run_line_magic("load_ext", "archytas_nb")
    assert state(shell) == before
    monkeypatch.delenv("ARCHYTAS_NB_WARM")
    shell.run_line_magic("load_ext", "archytas_nb")
    assert "agent" in shell.magics_manager.magics["line"]


def test_an_error_of_ours_that_nobody_logs_is_not_printed(
    shell: InteractiveShell, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("archytas_nb").error("the trace could not be shown")
    assert capfd.readouterr() == ("", "")


def test_a_model_that_is_warmed_asks_nobody_whether_a_server_may_be_used(
    monkeypatch: pytest.MonkeyPatch, shell: Any
) -> None:
    reached = []

    def make_model(_name: Any, _settings: Any, _cassette: Any, confirm: Any) -> Any:
        reached.append("a server was found")
        return confirm("Use it?")

    monkeypatch.setattr("archytas_nb.cassettes.switch.recorded", make_model)
    monkeypatch.setattr(
        "archytas_nb.kernel.person.Keyboard.ask", lambda *_: pytest.fail("somebody was asked")
    )
    shell.run_line_magic("config", "ArchytasNB.warm = True")
    assert reached
