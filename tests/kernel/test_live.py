"""In a real kernel: what tools show, what a person is asked, what an interrupt stops, where %debug stops."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live_kernel import Cell, Kernel, live_kernel

SETUP = '''
import asyncio, json, logging, os, signal, subprocess, sys, threading, time, warnings
import archytas_nb as nb
from pathlib import Path
from archytas_nb.loop.events import CallOutcomes, ModelReply, WireCall
from archytas_nb.testing import ScriptedModel

early = logging.StreamHandler()  # holds the stream of now
logging.getLogger("early").addHandler(early)
def state():
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGALRM)]
    return [os.fstat(fd).st_ino for fd in (1, 2)], handlers, sys.unraisablehook

def ours():
    """Methods of ours that are left on the kernel's objects (IPython puts some of its own there)."""
    patched = [vars(each).values() for each in (sys.stdout, sys.stderr, get_ipython().display_pub)]
    return [each for values in patched for each in values if "archytas" in str(getattr(each, "__module__", ""))]

before = state()

def ask(*calls, **options):
    """Have these calls (names, or pairs of name and input) run as those of one reply; return their outcomes."""
    pairs = [(call, None) if isinstance(call, str) else call for call in calls]
    wired = tuple(WireCall(name, json.dumps(given or {})) for name, given in pairs)
    model = ScriptedModel(ModelReply("", wired, finish="tool_calls"), "done", protocol="native")
    agent = nb.Agent(model=model, **options)
    run = agent.run("Go")
    return [outcome for event in run.events if isinstance(event, CallOutcomes) for outcome in event.outcomes]

def begun(): Path(f"begun{len(list(Path().glob('begun*')))}").touch()
'''

TOOLS = '''
@nb.tool
def sleep() -> str:
    """Sleep."""
    begun()
    time.sleep(60)

@nb.tool
async def sleep_async() -> str:
    """Sleep on the loop."""
    begun()
    try:
        await asyncio.sleep(60)
    finally:
        Path(f"cancelled{len(list(Path().glob('cancelled*')))}").touch()

nb.toolbox.add(sleep_async, name="sleep_async_too")

@nb.tool
def shell_sleep() -> str:
    """Sleep in a shell."""
    get_ipython().system("touch begun0; sleep 60; touch slept")

@nb.tool
def child_sleep() -> str:
    """Sleep in a child."""
    subprocess.run("touch begun0; sleep 60; touch slept", shell=True)

@nb.tool
def swallow() -> str:
    """Swallow the interrupt."""
    begun()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        return "went on"

@nb.tool(approve=True)
def pay(to: str, amount: int) -> str:
    """Pay.

    Args:
        to: Who gets it
        amount: How much
    """
    Path("paid").write_text(f"{amount} to {to}")
    return f"paid {amount} to {to}"

@nb.tool
def fail(n: int) -> str:
    """Fail.

    Args:
        n: A number
    """
    secret = n * 2
    raise RuntimeError("it failed")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("live"))


@pytest.fixture(scope="module")
def kernel(folder: Path) -> Iterator[Kernel]:
    with live_kernel(folder) as kernel:
        ok(kernel.run(SETUP))
        ok(kernel.run(TOOLS))
        yield kernel


@pytest.fixture(autouse=True)
def everything_is_as_before(kernel: Kernel, folder: Path) -> Iterator[None]:
    """After each test: no patch, handler, timer or redirection is left, and the next question works."""
    for each in folder.iterdir():
        if each.is_file():
            each.unlink()
    yield
    assert ok(
        kernel.run("state() == before, ours(), signal.getitimer(signal.ITIMER_REAL)")
    ).result == ("(True, [], (0.0, 0.0))")
    assert ok(
        kernel.run("ask(('pay', {'to': 'Zoe', 'amount': 1}), approve='auto')[0].text")
    ).result == ("'paid 1 to Zoe'")


def ok(cell: Cell) -> Cell:
    assert cell.status == "ok", cell.error
    return cell


def begun(folder: Path, number: int = 1) -> Callable[[Cell], bool]:
    """Whether so many tools have begun."""
    return lambda cell: len(list(folder.glob("begun*"))) >= number


# ── what a tool shows ─────────────────────────────────────────────────────────────────────────────


def test_all_output_of_a_tool_is_captured_in_order(
    kernel: Kernel,
) -> None:
    code = '''
@nb.tool
def tell() -> str:
    """Tell in all ways."""
    print("printed")
    os.system("echo system; echo system error >&2")
    print("then")
    subprocess.run(["echo", "subprocess"])
    logging.getLogger("early").warning("logged")
    logging.getLogger("unconfigured").warning("last resort")
    warnings.warn("warned")
    get_ipython().system("echo shell")
    display({"a": 1})
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    import ctypes; ctypes.CDLL(None).puts(b"from C")
    sys.__stdout__.write("under the stream\\n")
    return "ok"
text = ask("tell")[0].text
'''
    cell = ok(kernel.run(code))
    assert (cell.printed, cell.displayed) == ("", [])
    said = ok(kernel.run("print(text)")).printed
    assert re.sub(r"<cell>:\d+", "<cell>:N", said) == (
        "printed\nsystem\nsystem error\nthen\nsubprocess\nlogged\nlast resort\n"
        "<cell>:N: UserWarning: warned\n  warnings.warn(\"warned\")\nshell\n{'a': 1}\nthread\nfrom C\n"
        "under the stream\n\nReturned: ok\n"
    )


def test_displays_are_captured_in_their_last_state(kernel: Kernel) -> None:
    code = '''
@nb.tool
def show() -> None:
    """Show."""
    import pandas
    from IPython.display import HTML, clear_output, display, update_display
    display("gone"); clear_output()
    handle = display("working", display_id=True)
    display(pandas.DataFrame({"a": [1]}))
    handle.update("finished")
    display(HTML("<b>bold</b>"))
[outcome] = ask("show")
'''
    cell = ok(kernel.run(code))
    assert (cell.displayed, cell.of("clear_output"), cell.of("update_display_data")) == ([], [], [])
    said = ok(
        kernel.run("print(outcome.text); print('text/html' in outcome.outputs[1].data)")
    ).printed
    assert "gone" not in said
    assert "working" not in said
    assert "'finished'\n   a\n0  1\nbold" in said
    assert said.endswith("True\n")


@pytest.mark.parametrize("end", ["", "; plt.show()", "; return plt.gcf()", "; raise RuntimeError"])
def test_a_figure_reaches_the_model_once_and_not_the_cell(kernel: Kernel, end: str) -> None:
    code = f'''
@nb.tool
def plot():
    """Plot."""
    import matplotlib.pyplot as plt
    plt.plot([1, 2]){end}
[outcome] = ask("plot")
'''.replace("def plot():", "def plot() -> object:")
    cell = ok(kernel.run(code))
    assert cell.displayed == []
    shown = ok(
        kernel.run(
            "len(outcome.images), len([each for each in outcome.outputs if 'image/png' in each.data])"
        )
    )
    assert shown.result == ("(1, 0)" if "return" in end else "(1, 1)")


def test_figures_of_other_cells_are_still_shown_below_them(kernel: Kernel) -> None:
    cell = ok(
        kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); ask('pay', approve='deny');")
    )
    assert ["image/png" in each for each in cell.displayed] == [True]


def test_output_is_reported_while_the_tool_runs(kernel: Kernel) -> None:
    code = '''
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import ToolCall
seen = []
@nb.tool
def steps() -> str:
    """Work in steps."""
    print("one")
    os.system("echo two")
    deadline = time.time() + 20
    while "two" not in "".join(seen) and time.time() < deadline:
        time.sleep(0.01)
    return "seen while it ran" if "one" in "".join(seen) and "two" in "".join(seen) else "not seen"
def watch(text):
    print("watcher")
    seen.append(text)
KernelExecutor(nb.toolbox, {}, on_output=watch).run([ToolCall("c", "steps")])[0].value
'''
    cell = ok(kernel.run(code))
    assert cell.result == "'seen while it ran'"
    assert set(cell.printed.split()) == {"watcher"}


def test_debug_after_a_failing_tool_stops_in_the_tool_also_after_another_error(
    kernel: Kernel,
) -> None:
    assert kernel.run("1 / 0").status == "error"
    ok(kernel.run("ask(('fail', {'n': 21}))"))
    debug = ok(kernel.run("%debug", person=True, answers=["p secret", "w", "up", "q"]))
    printed = re.sub(r"\x1b\[[0-9;]*m", "", debug.printed)
    assert "42" in printed
    assert "raise RuntimeError" in printed
    assert "*** Oldest frame" in printed  # nothing of ours is above the tool
    assert "1 / 0" not in printed


# ── what a person is asked ────────────────────────────────────────────────────────────────────────

PAY = (
    "[outcome] = ask(('pay', {'to': 'Ann', 'amount': 5}))\nprint(outcome.status, '|', outcome.text)"
)


def test_a_person_sees_the_call_and_allows_it(kernel: Kernel, folder: Path) -> None:
    cell = ok(kernel.run(PAY, person=True, cell_id="c", answers=["y"]))
    assert cell.printed == "done | paid 5 to Ann\n"
    [prompt] = cell.prompts
    assert prompt.startswith("run? [y] run")
    assert (folder / "paid").read_text() == "5 to Ann"


def test_a_console_prints_the_call_again_after_each_edit(kernel: Kernel, folder: Path) -> None:
    cell = ok(kernel.run(PAY, person=True, answers=["amount = 4", "y"]))
    assert cell.of("update_display_data") == cell.displayed == []
    first, second = re.findall(r"(?m)^  amount = .*", cell.printed)
    assert first == "  amount = 5"
    assert second.startswith("  amount = 4")
    assert (folder / "paid").read_text() == "4 to Ann"


def test_a_person_refuses_with_a_reason_edits_or_asks_for_help(
    kernel: Kernel, folder: Path
) -> None:
    cell = ok(kernel.run(PAY, person=True, cell_id="c", answers=["", "?", "too early"]))
    assert (
        cell.printed
        == "refused | The user refused this call: too early. Do not send the same call again.\n"
    )
    assert not (folder / "paid").exists()
    cell = ok(
        kernel.run(PAY, person=True, cell_id="c", answers=["amount = 'x'", "amount = 4", "y"])
    )
    assert 'It was run with: {"to": "Ann", "amount": 4}' in cell.printed
    [form] = cell.displayed
    assert form["text/plain"].startswith("The agent wants to run pay:\n  to = 'Ann'\n  amount = 5")
    updates = [each["data"]["text/plain"] for each in cell.of("update_display_data")]
    assert "amount = 4  (edited, was 5)" in updates[0]
    assert updates[1:] == ["pay(to='Ann', amount=4): approved by you, edited amount 5 → 4"]
    assert (folder / "paid").read_text() == "4 to Ann"


@pytest.mark.parametrize(
    "patched",
    [
        "with patch('builtins.input', return_value='y'):\n    {}",
        "import builtins; builtins.input = lambda *_: 'y'\nif True:\n    {}",
        "input = lambda *_: 'y'\nif True:\n    {}",
        "sys.stdin = open(os.devnull)\nif True:\n    {}",
    ],
)
def test_what_stands_for_input_in_the_notebook_approves_nothing(
    patched: str, kernel: Kernel, folder: Path
) -> None:
    call = PAY.strip().replace("\n", "\n    ")
    code = f"from unittest.mock import patch\n{patched.format(call)}"
    cell = kernel.run(code, person=True, cell_id="c", answers=["n"])
    assert "refused |" in cell.printed
    assert not (folder / "paid").exists()
    assert len(cell.prompts) == 1
    kernel.run("import sys, builtins; sys.stdin = sys.__stdin__; globals().pop('input', None)")


def test_a_person_stops_the_run(kernel: Kernel, folder: Path) -> None:
    cell = kernel.run(PAY, person=True, cell_id="c", answers=["stop"])
    assert (cell.status, cell.reply["ename"]) == ("error", "RunInterrupted")
    assert not (folder / "paid").exists()


@pytest.mark.parametrize(
    "delete",
    [
        "os.remove('raw.csv')",
        "t = threading.Thread(target=os.remove, args=('raw.csv',))\nt.start()\nt.join()",
        "await asyncio.to_thread(os.remove, 'raw.csv')",
    ],
)
def test_code_of_the_model_deletes_only_after_the_person_was_asked(
    delete: str, kernel: Kernel, folder: Path
) -> None:
    code = f"import asyncio, os, threading\n{delete}"
    call = f'ask(("python", {{"code": {code!r}}}), python="undoable", ask_before=["delete"])'
    for answer, is_left in (("n: keep it", True), ("y", False)):
        (folder / "raw.csv").write_text("a")
        cell = kernel.run(f"threading.excepthook = print\n{call}", person=True, answers=[answer])
        assert len(cell.prompts) == 1
        assert "path = 'raw.csv'" in str(cell.messages)
        assert (folder / "raw.csv").exists() is is_left
    kernel.run("threading.excepthook = threading.__excepthook__")


def test_headless_refuses_at_once_and_says_how_to_allow_the_call(
    kernel: Kernel, folder: Path
) -> None:
    cell = ok(kernel.run(PAY))
    assert cell.printed.startswith("refused | Refused: pay needs approval, and nobody can be asked")
    assert not (folder / "paid").exists()
    assert (
        ok(kernel.run(PAY.replace("}))", "}), allow=['pay'])"))).printed == "done | paid 5 to Ann\n"
    )


def test_the_model_asks_the_user(kernel: Kernel) -> None:
    code = "ask(('ask_user', {'question': 'Which?', 'choices': ['red', 'blue']}), ask_user=True)[0].text"
    cell = ok(kernel.run(code, person=True, cell_id="c", answers=["7", "2"]))
    assert cell.result == "'blue'"
    assert cell.prompts[0].startswith("The agent asks: Which?\n  1. red\n  2. blue\n")
    assert "Nobody can be asked here" in ok(kernel.run(code)).result


# ── what an interrupt stops ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("calls", [
    "'sleep'", "'sleep_async'", "'sleep_async', 'sleep_async_too'", "'shell_sleep'", "'child_sleep'", "'swallow'",
    "'sleep', 'sleep'", "'sleep_async', 'sleep'",
])  # fmt: skip
def test_an_interrupt_stops_what_runs_and_the_next_question_works(
    kernel: Kernel, folder: Path, calls: str
) -> None:
    together = 2 if calls == "'sleep_async', 'sleep_async_too'" else 1
    cell = kernel.run(f"ask({calls})", interrupt_when=begun(folder, together), wait=30)
    assert (cell.status, cell.reply["ename"]) == ("error", "RunInterrupted")
    assert len(list(folder.glob("cancelled*"))) == (together if "async" in calls else 0)
    left = (
        "print(subprocess.run(['pgrep', '-f', 'sleep 60; touch slept'],"
        " capture_output=True, text=True).stdout)"
    )
    assert ok(kernel.run(left)).printed.strip() == ""


def test_an_interrupt_at_the_prompt_runs_nothing_and_the_conversation_goes_on(
    kernel: Kernel, folder: Path
) -> None:
    cell = kernel.run(
        PAY, person=True, cell_id="c", interrupt_when=lambda cell: bool(cell.prompts), wait=30
    )
    assert (cell.status, cell.reply["ename"]) == ("error", "RunInterrupted")
    assert not (folder / "paid").exists()
    assert (
        ok(kernel.run(PAY, person=True, cell_id="c", answers=["y"])).printed
        == "done | paid 5 to Ann\n"
    )


def test_an_async_tool_that_is_called_by_hand_is_cancelled(kernel: Kernel, folder: Path) -> None:
    cell = kernel.run("nb.toolbox['sleep_async'].call()", interrupt_when=begun(folder), wait=30)
    assert (cell.status, cell.reply["ename"]) == ("error", "KeyboardInterrupt")
    assert len(list(folder.glob("cancelled*"))) == 1


def test_a_limit_stops_a_shell_and_its_child(kernel: Kernel) -> None:
    code = "nb.toolbox.add(shell_sleep, timeout=0.5)\nask('shell_sleep')[0].text"
    assert "stopped after 0.5 s" in ok(kernel.run(code)).result


PAGES = {
    "map": '<iframe srcdoc="&lt;script&gt;"></iframe>',
    "styled": "<style>td {color: red}</style><table><td>1</td></table>",
    "sound": '<audio controls src="data:audio/wav;base64,"></audio>',
}
DISPLAYS = (
    f"PAGES = {PAGES!r}"
    '''
from IPython.display import HTML, SVG, Latex, Markdown, clear_output, display

class Chart:
    """An object as a plotting library makes it."""
    def __init__(self, name): self.name = name
    def __repr__(self): return f"Chart({self.name})"
    def _repr_mimebundle_(self, **_):
        return {"application/vnd.vegalite.v5+json": {"mark": self.name}, "text/plain": repr(self)}, {"scale": 2}

class Figure(Chart):
    """One that displays itself."""
    def _ipython_display_(self): self.show()
    def show(self):
        display({"application/vnd.plotly.v1+json": {"data": [self.name]}}, raw=True)

class Page(Chart):
    """One that is drawn as HTML: a map, a table with a style, a player."""
    def _repr_mimebundle_(self, **_): return None
    def _repr_html_(self): return PAGES[self.name]

@nb.tool
def chart(name: str) -> Chart:
    """Draw.

    Args:
        name: A name
    """
    if name == "shown and returned":
        (figure := Figure(name)).show()
        return figure
    if name == "markdown":
        return Markdown("a **bold** word")
    if name == "formula":
        return Latex("$$x^2$$")
    if name in PAGES:
        return Page(name)
    if name == "drawing":
        return SVG("<svg xmlns='http://www.w3.org/2000/svg'><rect/></svg>")
    if name == "loop":
        for number in range(3):
            clear_output(wait=True)
            display(Chart(number))
        return "drawn"
    return Figure(name) if name == "figure" else Chart(name)

def draw(name):
    """Ask a question whose only call draws a chart of this name."""
    global script
    script = ScriptedModel(("chart", {"name": name}), ("final_answer", "Here it is."))
    get_ipython().run_line_magic("agent", f"--new --model script Draw {name}")
'''
)


@pytest.fixture(scope="module")
def drawing(kernel: Kernel) -> Kernel:
    ok(kernel.run("%load_ext archytas_nb"))
    ok(kernel.run(DISPLAYS))
    return kernel


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "bar",
            [{"application/vnd.vegalite.v5+json": {"mark": "bar"}, "text/plain": "Chart(bar)"}],
        ),
        ("figure", [{"application/vnd.plotly.v1+json": {"data": ["figure"]}}]),
        (
            "shown and returned",
            [{"application/vnd.plotly.v1+json": {"data": ["shown and returned"]}}],
        ),
        ("loop", [{"application/vnd.vegalite.v5+json": {"mark": 2}, "text/plain": "Chart(2)"}]),
        ("markdown", []),
        ("drawing", []),
        ("formula", []),
        *(
            (name, [{"text/html": page, "text/plain": f"Chart({name})"}])
            for name, page in PAGES.items()
        ),
    ],
)
def test_what_a_cell_would_display_follows_the_trace_as_it_is(
    drawing: Kernel, name: str, expected: list[dict[str, object]]
) -> None:
    """A chart is displayed by its own media types, once; what the trace can show is in the trace."""
    trace, *displays = ok(drawing.run(f"draw({name!r})")).displayed
    assert displays == expected
    assert ("<strong>bold</strong>" in trace["text/html"]) == (name == "markdown")
    assert ("data:image/svg+xml" in trace["text/html"]) == (name == "drawing")
    assert ("$$x^2$$</span>" in trace["text/html"]) == (name == "formula")
    assert "<script" not in trace["text/html"]
    outcome = ok(drawing.run(f"ask(('chart', {{'name': {name!r}}}))[0].text")).result
    assert "vnd." not in outcome
    assert "Chart" in outcome or name not in {"bar", "figure", *PAGES}
