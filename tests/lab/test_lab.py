"""In a real JupyterLab, as a person sees it: what runs, what is asked, what is interrupted, what stays."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from typing import Any

import nbformat

from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from tests.batch.shop import Shop
from tests.lab.lab import DARK, LIGHT, REPOSITORY, Lab
from tests.lab.stories import write_actions, write_fix, write_map
from tests.servers.plays import Hang
from tests.servers.server import Server
from tests.trace.samples import SAMPLES

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
LIVE = ".jp-OutputArea-output .widget-html"
STATIC = {"text/plain", "text/markdown", "text/html"}


def bundles(outputs: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The displays by media type, as in the file, without the empty ones that widgets leave."""
    return [
        {kind: "".join(text) for kind, text in output["data"].items()}
        for output in outputs
        if output["output_type"] in {"display_data", "execute_result"}
        and any(output["data"].values())
    ]


def trace_with_buttons(outputs: list[dict[str, Any]]) -> dict[str, str]:
    """The trace of the last question; the buttons below it are a widget alone."""
    trace, buttons = bundles(outputs)
    assert [set(trace), set(buttons)] == [STATIC, {WIDGET_VIEW}]
    return trace


def traces(notebook: dict[str, Any]) -> list[dict[str, str]]:
    """The traces in a notebook file."""
    every = [each for cell in notebook["cells"] for each in bundles(cell.get("outputs", []))]
    return [each for each in every if "anb-trace" in each.get("text/html", "")]


def sizes(saved: list[dict[str, str]]) -> list[float]:
    """The sizes of traces, in kB."""
    return [round(sum(map(len, each.values())) / 1000, 1) for each in saved]


def answer_below_top(desk: Any, index: int) -> float:
    """How many pixels below the top of the output its answer begins."""
    desk.look_at(index)
    cell = desk.page.locator(".jp-Notebook .jp-Cell").nth(index)
    top = "each => each.getBoundingClientRect().top"
    begin = cell.locator(".jp-Cell-outputArea").evaluate(top)
    return float(cell.locator(".anb-answer").evaluate(top) - begin)


def lines_of_numbers(desk: Any, index: int) -> list[int]:
    """On how many lines each number in a visible table of a cell stands."""
    cells = desk.page.locator(".jp-Notebook .jp-Cell").nth(index).locator("td:visible")
    lines: list[int] = cells.evaluate_all(
        """all => all.filter(each => /\\d/.test(each.textContent)).map(each => {
          const text = document.createRange()
          text.selectNodeContents(each)
          return new Set([...text.getClientRects()].map(each => Math.round(each.top / 4))).size
        })"""
    )
    return lines


def test_the_quickstart_leaves_what_it_leaves_with_nobody_there(lab: Lab, sit: Any) -> None:
    """Run All, live; then each trace in the file equals that of the repository, which was run headless."""
    desk = sit("quickstart.ipynb")
    desk.run_all()
    desk.wait_until_run(desk.last)
    assert desk.console == []
    desk.save()
    committed = json.loads(
        (REPOSITORY / "notebooks" / "01_quickstart.ipynb").read_text(encoding="utf-8")
    )
    saved = traces(lab.saved("quickstart.ipynb"))
    assert saved == traces(committed)
    print(f"saved {sizes(saved)} kB (at most 8 each)")
    assert [set(each) for each in saved] == [STATIC] * len(saved)
    assert len(saved) >= 3
    desk.picture("quickstart")


def test_a_run_is_seen_while_it_happens_and_stays_without_its_kernel(lab: Lab, sit: Any) -> None:
    """Thought, call, the output of the running tool and the clock are live; then one static output, for ever.

    What is seen hardly moves, the output is never much higher than in the end, and the kernel is busy.
    """
    desk = sit("penguins.ipynb")
    for cell in range(3):
        desk.run_cell(cell)
    desk.wait_until_run(2)
    desk.look_at(3)
    desk.watch_texts()
    desk.watch_layout(3)
    desk.run_cell(3)
    place = desk.wait_until_shown("reading 68 Chinstrap penguins")
    seen = desk.shown_texts[place - 1]
    assert "A picture says more than three numbers." in seen
    assert re.search(r"running plot_masses( for \d+ s)? · step 4 · \d+ s", seen)
    assert "scripted" in seen
    assert "ValueError: unit is 'pounds'" not in seen  # the steps are folded
    assert [set(each) for each in bundles(desk.outputs(3))] == [STATIC, {WIDGET_VIEW}]
    assert "Which penguins are the heaviest" not in seen  # the cell shows it
    desk.page.wait_for_function(f"{KERNEL}.status === 'busy'")
    assert "running plot_masses" in desk.text(3)
    assert desk.faint_texts(LIVE) == []
    desk.picture("live", 3)
    desk.wait_for_text("Gentoo penguins are the heaviest: 5,092 g")  # the answer, as it is written
    desk.wait_until_run(3)
    [left] = bundles(desk.outputs(3))
    assert set(left) == STATIC
    finished = desk.text(3)
    assert "Gentoo penguins are the heaviest: 5,092 g on average" in finished
    inside, below, heights = desk.layout
    print(f"layout shift {inside:.4f}, of what is below {below:.4f}, heights {heights}")
    first, between = desk.seconds_between(" · step 1", "Gentoo penguins")
    often = statistics.mean(between)
    print(f"first sign after {first:.2f} s, then {len(between)} updates, one each {often:.2f} s")
    print(f"saved {sizes([left])} kB with a plot (at most 37)")
    assert inside < 0.05  # 0.1 is where people notice it
    falls = [before - after for before, after in itertools.pairwise(heights)]
    assert max(falls) < 10  # so what is below moves as far as the finished trace is high
    assert not desk.page.evaluate("shownTexts.some(each => each.includes('had not finished'))")
    assert "running plot_masses" not in finished
    desk.picture("finished", 3)
    assert answer_below_top(desk, 3) <= 220
    summaries = desk.page.locator(".anb-trace summary")
    line, failed = summaries.nth(0), summaries.nth(1)
    assert "4 calls · 1 corrected" in line.inner_text()
    assert not failed.is_visible()
    line.click()
    result = failed.locator(".anb-folded")  # the style sheet is applied: in one of the two places
    assert [each.is_visible() for each in result.all()] == [True] * result.count()
    failed.click()
    assert not any(each.is_visible() for each in result.all())
    failed.click()
    line.click()
    desk.save()
    desk.command("kernelmenu:shutdown")
    desk.close()

    [trace] = traces(lab.saved("penguins.ipynb"))
    assert trace == left
    again = sit("penguins.ipynb", kernel=False)
    assert not again.has_kernel
    assert again.text(3) == finished
    assert again.page.locator(".anb-trace img").evaluate("image => image.naturalWidth") > 400
    again.picture("reopened", 3)
    again.change_theme(DARK)
    assert again.faint_texts(".anb-trace") == []
    again.picture("dark", 3)
    again.change_theme(LIGHT)
    again.resize(420)
    again.picture("narrow", 3)
    lines = lines_of_numbers(again, 3)
    assert len(lines) == 12
    assert set(lines) == {1}  # a number that is broken can be read as another one
    assert again.page.locator(".anb-trace").evaluate("each => each.scrollWidth <= each.clientWidth")
    assert "3706.0" not in again.text(3)
    again.unfold()
    assert "3706.0" in again.text(3)


def test_what_can_be_done_with_the_last_answer_is_done_by_a_click(lab: Lab, sit: Any) -> None:
    """Undo, redo and code; in a saved notebook there are no buttons, and no error in their place."""
    write_actions(lab.work)
    desk = sit("actions.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    desk.wait_until_run(3)
    buttons = desk.page.locator(".anb-actions button:visible")
    buttons.nth(2).wait_for()
    assert buttons.all_inner_texts() == ["Undo", "Keep as code", "Ask again"]
    assert answer_below_top(desk, 2) <= 220  # it has no buttons any more
    buttons.get_by_text("Keep as code").click()
    desk.wait_for_text("verified: 2 of 2 values equal")
    assert "rows.append(11)" in desk.text(3)
    buttons.get_by_text("Undo").click()
    desk.wait_for_text("Undone at")
    desk.run_cell(4)
    desk.wait_until_run(4)
    assert desk.text(4).endswith("3")
    assert "the answer that was undone" in desk.text(3)
    buttons.get_by_text("Redo").click()
    desk.wait_for_text("Eleven is there.")
    desk.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    cell = desk.page.locator(".jp-Notebook .jp-Cell").nth(3)
    copies = cell.locator("[aria-label='Copy the answer']")
    copies.focus()  # waits until the answer is there again
    desk.page.keyboard.press("Enter")
    copies.filter(has_text="Copied").wait_for()
    assert desk.page.evaluate("navigator.clipboard.readText()") == "Eleven is there."
    desk.picture("actions", 3)
    desk.save()
    desk.command("kernelmenu:shutdown")
    desk.page.locator(".anb-actions button:visible").first.wait_for(state="hidden")
    desk.close()
    reader = sit("actions.ipynb", kernel=False)
    reader.wait_for_text("Eleven is there.")
    reader.page.wait_for_timeout(1_000)  # in which a widget would say that it is not there
    assert reader.page.locator(".anb-actions").count() == 0
    assert "widget" not in reader.text(3)


def test_a_kernel_that_is_restarted_leaves_the_steps_so_far(lab: Lab, sit: Any) -> None:
    """Where the widgets have died, a reader of the saved notebook finds the static trace and no error."""
    desk = sit("interrupts.ipynb")
    for cell in (0, 1, 2, 4):
        desk.run_cell(cell)
    desk.wait_for_text("good night")
    desk.wait_for_static_copy(4, "sleep(seconds=600)")
    desk.restart_kernel()
    desk.wait_for_copy("The run had not finished")
    # The name and the arguments are cut apart from each other: a page reads a space between them.
    assert desk.text(4).count("sleep (seconds=600)") == 1
    desk.save()
    desk.close()
    for kernel in (True, False):
        reader = sit("interrupts.ipynb", kernel=kernel)
        reader.wait_for_text("The run had not finished")
        reader.wait_for_copy("The run had not finished")
        reader.page.wait_for_timeout(1_000)  # in which a widget would say that it is not there
        read = reader.text(4)
        assert read.count("sleep (seconds=600)") == 1
        assert "The run had not finished" in read
        assert "Error displaying widget" not in read
        assert "Loading widget" not in read
        reader.picture(f"restarted-{kernel}", 4)
        if kernel:
            reader.command("kernelmenu:shutdown")
        reader.close()


def test_a_call_is_run_where_a_person_says_so_in_the_input_box(lab: Lab, sit: Any) -> None:
    """The person sees the call with its input, and says yes; the other one is refused with a reason."""
    desk = sit("approval.ipynb")
    for cell in range(4):
        desk.run_cell(cell)
    box = desk.page.locator(".jp-Stdin")
    box.wait_for()
    assert "run? [y] run" in box.inner_text()
    desk.wait_for_text("delete_rows · waiting for approval")
    desk.wait_for_text("waiting for you · step 1")
    desk.picture("approval", 3)
    desk.answer("y")
    desk.wait_until_run(3)
    assert "5 rows are left" in bundles(desk.outputs(3))[0]["text/plain"]
    desk.run_cell(4)
    desk.answer("n, the table is in use")
    desk.wait_until_run(4)
    refusal = bundles(desk.outputs(4))[0]["text/plain"]
    assert "⊘ delete_rows(above=-1) → refused" in refusal
    assert "the table is in use" in refusal
    desk.save()
    assert len(traces(lab.saved("approval.ipynb"))) == 2


def test_an_interrupt_from_the_menu_ends_a_hanging_request_and_a_sleeping_tool(
    lab: Lab, sit: Any
) -> None:
    """Each ends as interrupted, in one line and with the cell failed; the next question is answered."""
    desk = sit("interrupts.ipynb")
    for cell in range(3):
        desk.run_cell(cell)
    desk.wait_until_run(2)
    desk.watch_texts()
    desk.run_cell(3)
    desk.wait_until_shown("waiting for the model · step 1 · 1 s")
    desk.interrupt()
    desk.wait_until_run(3)
    desk.run_cell(4)
    desk.wait_for_text("good night")
    desk.interrupt()
    desk.wait_until_run(4)
    desk.run_cell(5)
    desk.wait_until_run(5)
    desk.save()
    cells = lab.saved("interrupts.ipynb")["cells"]
    request, tool, answer = (bundles(cell["outputs"])[0]["text/plain"] for cell in cells[3:])
    assert "■ Interrupted during a request to the model" in request
    assert "■ sleep(seconds=600)" in tool
    assert "┆ good night" in tool
    assert "Here I am." in answer
    for cell in cells[3:5]:
        [error] = [each for each in cell["outputs"] if each["output_type"] == "error"]
        assert len(error["traceback"]) <= 1
        assert "Interrupt" in error["ename"]
    for cell in (3, 4):  # the cell has failed, and its trace says why, once
        assert "Interrupted during" in desk.text(cell)
        assert "RunInterrupted" not in desk.text(cell)


def test_a_map_shows_its_progress_and_goes_on_after_an_interrupt(lab: Lab, sit: Any) -> None:
    """Rows that were done are kept, and asked once; the frame has the columns of the type."""
    hangs = [True]
    shop = Shop(lambda row, _: Hang() if row > 3 and hangs else None, latency=0.3)
    with Server(then=shop) as server:
        write_map(lab.work, server.url)
        desk = sit("map.ipynb")
        for cell in range(2):
            desk.run_cell(cell)
        desk.wait_until_run(1)
        desk.watch_texts()
        desk.run_cell(2)
        last = desk.wait_until_shown("4 of 8 rows done")
        assert desk.wait_until_shown("0 of 8 rows done · 0 tokens") < last
        desk.interrupt()
        desk.wait_until_shown("stopped by an interrupt (rerun the cell to continue)")
        desk.wait_until_run(2)
        desk.run_cell(3)
        desk.wait_until_run(3)
        [stopped] = bundles(desk.outputs(2))
        line, *below = stopped["text/plain"].splitlines()
        ended = r"stopped by an interrupt \(rerun the cell to continue\)"
        assert re.fullmatch(rf"labels · 4 of 8 rows done · [\d,]+ tokens · {ended}", line)
        assert re.match(r"label +even 2 ▇+ +odd 2 ▇+$", below[0])
        assert [each.split()[-1] for each in below[-5:]] == [*["done"] * 4, "open"]
        assert desk.text(3).count(" open") == 4
        hangs.clear()
        desk.run_cell(2)
        desk.wait_until_shown("8 of 8 rows done")
        desk.run_cell(3)
        desk.wait_for_text("h odd 7 done")
    [finished], [frame] = bundles(desk.outputs(2)), bundles(desk.outputs(3))
    line, *below = finished["text/plain"].splitlines()
    assert re.fullmatch(r"labels · 8 of 8 rows done · [\d,]+ tokens", line)
    assert re.match(r"label +even 4 ▇+ +odd 4 ▇+$", below[0])
    assert [each.split()[-1] for each in below[-5:]] == ["done"] * 5
    rows = [each.split() for each in frame["text/plain"].splitlines()[1:]]
    words = ("even", "odd")
    assert rows == [["abcdefgh"[n], words[n % 2], str(n), "done"] for n in range(8)]
    assert shop.paid == dict.fromkeys(range(8), 1)
    assert desk.console == []


def test_a_formula_is_typeset_and_one_that_would_be_a_link_is_not(sit: Any) -> None:
    """The page draws everything between dollar signs, unless it may do more than be drawn."""
    desk = sit("formula.ipynb")
    for cell in range(3):
        desk.run_cell(cell)
    desk.wait_until_run(2)
    trace = desk.page.locator(".anb-trace")
    trace.locator("mjx-container").nth(1).wait_for()
    assert trace.locator("mjx-container").count() == 2
    assert trace.locator("a").count() == 0
    assert "and costs $5; \\(\\href{" in desk.text(2)


def test_five_megabytes_and_three_hundred_steps_do_not_freeze_the_page(lab: Lab, sit: Any) -> None:
    """A person can type all the while; what was cut is said, and is still in the kernel by its name."""
    desk = sit("large.ipynb")
    for cell in range(3):
        desk.run_cell(cell)
    desk.wait_until_run(2)
    desk.watch_for_freezes()
    desk.run_cell(3)
    desk.wait_until_run(3)
    desk.run_cell(4)
    desk.run_cell(5)
    desk.wait_for_text("count(n=99)")
    desk.type_into(6, "here I am")
    desk.wait_until_run(5)
    print(f"the longest freeze took {desk.longest_freeze:.2f} s")
    assert desk.longest_freeze < 10  # a machine with other work to do halts the page, too
    assert desk.source(6).endswith("here I am")
    desk.save()
    cells = lab.saved("large.ipynb")["cells"]
    [log], [length], [counted] = (bundles(cells[at]["outputs"]) for at in (3, 4, 5))
    assert "characters left out" in log["text/html"]
    assert "read_log_1" in log["text/html"]
    assert int(length["text/plain"]) > 5_000_000
    assert sum(map(len, log.values())) < 100_000
    assert "288 earlier steps" in counted["text/html"]
    assert sum(map(len, counted.values())) < 1_000_000


def test_an_untrusted_notebook_keeps_its_rules_can_be_read_and_shows_no_result_twice(
    lab: Lab, sit: Any
) -> None:
    """A notebook of another person is sanitised: no style sheet, no variables, few inline styles."""
    data, metadata = bundle(fold(*SAMPLES["recovered"]))
    output = nbformat.v4.new_output("display_data", data, metadata=metadata)
    cell = nbformat.v4.new_code_cell("", outputs=[output])
    sent = nbformat.read(lab.work / "penguins.ipynb", as_version=4)
    sent.cells = [cell]
    nbformat.write(sent, lab.work / "sent.ipynb")
    desk = sit("sent.ipynb")
    trace = desk.page.locator(".anb-trace")
    assert trace.locator("style").count() == 0
    assert "not a species" not in desk.text(0)
    assert answer_below_top(desk, 0) <= 220
    trace.locator("summary").first.click()
    assert desk.text(0).count("not a species") == 1
    assert desk.faint_texts(".anb-trace") == []
    edges = trace.locator("div").evaluate_all(
        "all => all.map(each => getComputedStyle(each).borderLeftStyle)"
    )
    assert "solid" in edges
    desk.picture("untrusted", 0)
    desk.change_theme(DARK)
    assert desk.faint_texts(".anb-trace") == []
    desk.change_theme(LIGHT)


def test_a_cell_that_failed_is_explained_and_corrected_below(lab: Lab, sit: Any) -> None:
    write_fix(lab.work)
    desk = sit("fix.ipynb")
    for cell in range(3):
        desk.run_cell(cell)
        desk.wait_until_run(cell)
    trace, *_ = bundles(desk.outputs(2))  # and what can be done with it
    assert "with the error of cell 2" in trace["text/plain"]
    desk.picture("fix-why", 2)
    desk.run_cell(3)
    desk.wait_until_run(3)
    trace, *_ = bundles(desk.outputs(3))
    assert "Why did cell [2] fail?" in trace["text/plain"]
    assert desk.source(4) == "x = 2\ny = 1 / x"
    desk.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    desk.look_at(3)
    desk.page.locator(".anb-trace pre").hover()
    desk.page.get_by_role("button", name="Copy", exact=True).click()
    assert desk.page.evaluate("navigator.clipboard.readText()") == "x = 2\ny = 1 / x"
    desk.run_cell(4)
    desk.wait_until_run(4)
    desk.run_cell(5)
    desk.wait_until_run(5)
    desk.picture("fix", 3)
    assert desk.outputs(5)[0]["data"]["text/plain"] == "(0.5,)"
