"""A run in every form at once, and what becomes of it outside Jupyter."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import bleach
import nbformat
import pytest
from markdown_it import MarkdownIt
from nbconvert import HTMLExporter, MarkdownExporter

from archytas_nb import __version__
from archytas_nb.loop.events import CallOutcomes
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from tests.chromium import CHROMIUM, FLAGS, needs_chromium
from tests.live_kernel import live_kernel
from tests.trace.samples import RECOVERED, SAMPLES, answer, call


def test_a_bundle_has_three_forms_and_metadata() -> None:
    """Text, Markdown and HTML, and what differs from run to run in the metadata."""
    data, metadata = bundle(fold(*SAMPLES["answered"], protocol="react"))
    assert list(data) == ["text/plain", "text/markdown", "text/html"]
    assert metadata == {
        "archytas_nb": {
            "version": __version__,
            "model": "sample-1.5b",
            "protocol": "react",
            "steps": 2,
            "ending": "Answered",
            "seconds": 1.0,
            "usage": {"requests": 2, "input_tokens": 200, "cached_tokens": 0, "output_tokens": 40},
        }
    }


def test_the_texts_of_a_run_do_not_depend_on_its_speed() -> None:
    view = fold(*SAMPLES["rich"])
    slow, fast = (bundle(replace(view, seconds=seconds))[0] for seconds in (1, 99))
    assert slow["text/plain"] == fast["text/plain"]
    assert slow["text/markdown"] == fast["text/markdown"]


def test_the_saved_output_does_not_depend_on_how_long_tools_take() -> None:
    question, events = SAMPLES["rich"]
    slow = [
        replace(event, outcomes=tuple(replace(each, seconds=50.0) for each in event.outcomes))
        if isinstance(event, CallOutcomes)
        else event
        for event in events
    ]
    assert bundle(fold(question, slow)) == bundle(fold(question, events))


ADDRESS = re.compile(r"""(?:src|href|url|import)\s*[=(]?\s*["']?(?:https?:)?//[^"')\s>]+""")
DYING = '''%%tool
import os, time

def die() -> None:
    """End the kernel, once what was displayed has arrived."""
    while not os.path.exists("arrived"):
        time.sleep(0.01)
    os._exit(1)'''


def notebook(*outputs: Any) -> nbformat.NotebookNode:
    """A notebook of one executed cell."""
    cell = nbformat.v4.new_code_cell("%agent …", execution_count=1, outputs=list(outputs))
    return nbformat.v4.new_notebook(cells=[cell])


def saved(name: str) -> nbformat.NotebookNode:
    """A notebook with the trace of a sample, as a front end saves it."""
    data, metadata = bundle(fold(*SAMPLES[name]))
    return notebook(nbformat.v4.new_output("display_data", data, metadata=metadata))


@pytest.mark.parametrize("name", ["recovered", "parallel", "rich", "huge"])
def test_an_exported_page_contains_the_trace_and_loads_nothing_for_it(name: str) -> None:
    page, _ = HTMLExporter().from_notebook_node(saved(name))
    bare, _ = HTMLExporter().from_notebook_node(notebook())
    assert set(ADDRESS.findall(page)) == set(ADDRESS.findall(bare))
    [trace] = re.findall(r'<div class="anb-trace.*?(?=</main>)', page, re.DOTALL)
    view = fold(*SAMPLES[name])
    text = re.sub(r"<[^>]+>", "", trace)
    assert view.question in text
    for step in view.steps:
        assert all(f"{call.name}(" in text for call in step.calls)


def as_on_github(markdown: str) -> str:
    """Markdown as GitHub shows it: some tags become text, and all but harmless elements are removed."""
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown)
    page = re.sub(
        r"<(?=/?(?:title|textarea|style|xmp|iframe|noembed|noframes|script)\b)", "&lt;", page
    )
    tags = "h2 p strong em code pre div span table thead tbody tr th td details summary ol li img"
    return str(bleach.clean(page, tags=tags.split(), attributes={"details": ["open"]}, strip=True))


def test_a_trace_in_an_exported_markdown_file_is_text_with_foldable_steps() -> None:
    """nbconvert prefers HTML: it has no rules that are left as text, and an empty line does not end it."""
    hostile = "one\n\n![x](https://example.org/x.png)\n \n    # two\n\n<b>three"
    events = [*call(1, "read", {"sql": hostile}, hostile), *answer(2, f"```python\n{hostile}\n```")]
    data, metadata = bundle(fold("What is in it?", events))
    book = notebook(nbformat.v4.new_output("display_data", data, metadata=metadata))
    book.cells.append(nbformat.v4.new_markdown_cell("## After it"))
    markdown, _ = MarkdownExporter().from_notebook_node(book)
    shown = as_on_github(markdown)
    assert "archytas" not in shown
    assert "<img" not in shown
    assert shown.count("<pre>") == 4  # the cell, the argument, the result, the answer
    assert shown.count("<details>") == 2
    assert shown.count("# two") == 4  # also in the summary
    assert shown.rstrip().endswith("<h2>After it</h2>")


@needs_chromium
def test_on_paper_what_is_folded_stays_so_and_nothing_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    playwright = pytest.importorskip("playwright.async_api")
    pypdf = pytest.importorskip("pypdf")
    from nbconvert import WebPDFExporter

    launch = playwright.BrowserType.launch

    async def launch_ours(self: Any, **options: Any) -> Any:
        """The exporter asks for a browser that playwright has downloaded."""
        return await launch(self, **options | {"executable_path": CHROMIUM, "args": FLAGS})

    monkeypatch.setattr(playwright.BrowserType, "launch", launch_ours)
    long = "\n".join(f"line {n} of sixty" for n in range(60))
    error = call(3, "tell", {}, long, status="error", thought="It is long.")
    view = fold("What is on paper?", [*RECOVERED[:8], *error, *answer(4, "All is **said**.")])
    assert [step.failed for step in view.steps] == [True, False, True, False]
    data, metadata = bundle(replace(view, trace="steps"))
    above = nbformat.v4.new_output("stream", text="above\n" * 30)
    pdf, _ = WebPDFExporter().from_notebook_node(
        notebook(above, nbformat.v4.new_output("display_data", data, metadata=metadata))
    )
    pages = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(pdf)).pages]
    assert "line 0 of sixty" in pages[0]  # what does not fit is continued on the next page
    text = re.sub(r"\s+", " ", " ".join(pages))
    for words in (
        "What is on paper?",
        "line 0 of sixty",
        "line 59 of sixty",
        "All is said.",
    ):
        assert words in text, text
    assert "I misspelled the name." not in text


def test_a_kernel_that_dies_leaves_a_text_that_says_so(tmp_path: Path) -> None:
    """A front end has a static output at that moment, which every converter can show."""
    with live_kernel(tmp_path) as kernel:
        for cell in (
            "%load_ext archytas_nb",
            DYING,
            "from archytas_nb.testing import ScriptedModel\nscript = ScriptedModel(('die', {}))",
        ):
            assert kernel.run(cell).status == "ok"
        client: Any = kernel.client
        client.session.metadata = {"cellId": "a1"}
        asked = client.execute("%agent --model script Will you finish?", allow_stdin=True)
        ids = set()
        output = None
        while output is None:
            message = client.get_iopub_msg(timeout=30)
            if message["parent_header"].get("msg_id") != asked:
                continue
            if message["msg_type"] == "display_data":
                ids.add(message["content"]["transient"].get("display_id"))
            elif message["msg_type"] == "update_display_data":  # in place of the first sign
                data, transient = message["content"]["data"], message["content"]["transient"]
                assert transient["display_id"] in ids
                output = nbformat.v4.new_output("display_data", data)
        (tmp_path / "arrived").touch()
        kernel.manager.provisioner.process.wait(30)
    assert set(output.data) == {"text/plain", "text/markdown", "text/html"}
    assert "■ The run had not finished when this was saved" in output.data["text/plain"]
    page, _ = HTMLExporter().from_notebook_node(notebook(output))
    assert "Will you finish?" in page
    assert "■ The run had not finished when this was saved" in page
