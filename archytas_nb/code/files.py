"""The code of runs as files: a script, a notebook, or a test, with the cells that it needs."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.code.derive import Code, comment
from archytas_nb.code.literals import Literals, NotWritable
from archytas_nb.code.names import Imports, Names
from archytas_nb.kernel.python import mentions

_OURS = re.compile(
    r"\s*(?:\w+\s*=\s*)?%(?:agent\w*|tools|load_ext\s+archytas_nb|reload_ext\s+archytas_nb"
    r"|config\s+ArchytasNB)\b.*"
)
"""A line with one of our magics."""
_OUR_CELL = re.compile(r"%%(?:agent\w*)\b")
_TOOL_CELL = re.compile(r"%%tool\b[^\n]*\n?")
_MAGIC = re.compile(r"\s*(?:[\w, ]+=\s*)?[%!].*|.*\w\?\s*$")


@dataclass(slots=True)
class FilePart:
    """A part of a file: a cell of the notebook, or the code of a run.

    Attributes:
        source: The code.
        code: The run's; None for a cell.
    """

    source: str
    code: Code | None = None
    _mentioned: list[tuple[str, int, bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        plain = without_magics(self.source)
        try:
            self._mentioned = mentions(plain)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self._mentioned = []

    @property
    def names(self) -> set[str]:
        """The variables that it reads or changes."""
        return {name for name, _, _ in self._mentioned}

    @property
    def defined(self) -> set[str]:
        """The variables that it assigns as a whole, so that nothing of before is needed."""
        try:
            body = ast.parse(without_magics(self.source)).body
        except (SyntaxError, ValueError):
            return set()
        found: set[str] = set()
        for each in body:
            if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(each.name)
            elif isinstance(each, (ast.Import, ast.ImportFrom)):
                found |= {(one.asname or one.name).partition(".")[0] for one in each.names}
            elif isinstance(each, ast.Assign):
                found |= {one.id for one in each.targets if isinstance(one, ast.Name)}
        read = {name for name, _, changed in self._mentioned if not changed}
        return found - read


def cell_part(source: str) -> FilePart | None:
    """A cell without our magics; None if nothing is left."""
    if _OUR_CELL.match(source):
        return None
    source = _TOOL_CELL.sub("", source, count=1) if source.startswith("%%tool") else source
    lines = [line for line in source.split("\n") if not _OURS.fullmatch(line)]
    text = "\n".join(lines).strip("\n")
    return FilePart(text) if text.strip() else None


def without_magics(source: str) -> str:
    """Source in which lines of IPython are blank."""
    if source.startswith("%%"):
        return ""
    return "\n".join("" if _MAGIC.fullmatch(line) else line for line in source.split("\n"))


def needed(parts: Sequence[FilePart], chosen: Sequence[FilePart]) -> list[FilePart]:
    """The chosen parts, and those before them that they need, in order."""
    wanted: set[str] = set()
    kept: list[FilePart] = []
    for part in reversed(parts):
        is_chosen = any(part is each for each in chosen)
        if not is_chosen and not part.names & wanted:
            continue
        if not is_chosen and _only_shows(part):
            continue
        kept.append(part)
        wanted -= part.defined
        wanted |= part.names - part.defined
    return kept[::-1]


def _only_shows(part: FilePart) -> bool:
    """Whether a cell is one expression without a call of a method that might change something."""
    try:
        body = ast.parse(without_magics(part.source)).body
    except (SyntaxError, ValueError):
        return True
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return not body
    shown = ("head", "describe", "info", "print", "display", "tail", "len")
    calls = [node for node in ast.walk(body[0]) if isinstance(node, ast.Call)]
    names = [getattr(each.func, "attr", getattr(each.func, "id", "")) for each in calls]
    return all(name in shown for name in names)


# ── the files ─────────────────────────────────────────────────────────────────────────────────────


def script(parts: Sequence[FilePart]) -> str:
    """The parts as a script."""
    texts = []
    for part in parts:
        if part.code is not None:
            texts.append(without_awaits(part.code.text))
        else:
            texts.append(without_awaits(without_magics(part.source).strip("\n")))
    return "\n\n".join(_with_asyncio([each for each in texts if each.strip()])) + "\n"


def test_file(parts: Sequence[FilePart], namespace: Mapping[str, Any]) -> str:
    """The parts as a file of pytest: each run is a test function."""
    names = Names(())
    texts = []
    for part in parts:
        if part.code is None:
            texts.append(without_awaits(without_magics(part.source).strip("\n")))
            continue
        code = part.code
        body = "\n".join([code.body, *assertions(code, namespace), *code.closing])
        inside = without_awaits(body)
        name = names.take(f"test_{_slug(code.question)}")
        question = textwrap.indent(comment(code.question), "    ")
        texts.append(f"def {name}():\n{question}\n{textwrap.indent(inside, '    ')}\n    pass")
    return "\n\n\n".join(_with_asyncio([each for each in texts if each.strip()])) + "\n"


def assertions(code: Code, namespace: Mapping[str, Any]) -> list[str]:
    """The values of the results, asserted, as far as they can be written."""
    literals = Literals(namespace, Imports(namespace, Names(namespace)))
    lines = []
    for name, value in code.results.items():
        is_short = isinstance(value, (bool, int, float, str)) and len(repr(value)) <= 200
        if is_short and value == value:  # noqa: PLR0124 - not NaN
            try:
                lines.append(f"assert {name} == {literals.text(value)}")
            except NotWritable:
                continue
    return lines


def notebook(parts: Sequence[FilePart], pretty: Callable[[Any], str] = repr) -> str:
    """The parts as a notebook, with the recorded values as outputs.

    Raises:
        ImportError: nbformat is not installed.
    """
    from nbformat import v4

    cells: list[Any] = []
    for part in parts:
        code = part.code
        if code is None:
            cells.append(v4.new_code_cell(part.source))  # type: ignore[no-untyped-call]
            continue
        cells.append(v4.new_markdown_cell(f"**{code.question.strip()}**"))  # type: ignore[no-untyped-call]
        shown = _shown_results(code)
        source = "\n".join([code.body, *(comment(each) for each in code.answer.notes)])
        outputs = []
        if shown:
            values = tuple(shown.values())
            source = f"{source}\n{', '.join(shown)}"
            text = pretty(values[0] if len(values) == 1 else values)
            output = v4.new_output(  # type: ignore[no-untyped-call]
                "execute_result", {"text/plain": text}, execution_count=len(cells)
            )
            outputs.append(output)
        if source.strip():
            cells.append(v4.new_code_cell(source, outputs=outputs, execution_count=len(cells)))  # type: ignore[no-untyped-call]
        if code.answer.text and not _is_computed(code):
            cells.append(v4.new_markdown_cell(code.answer.text))  # type: ignore[no-untyped-call]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number + 1}"
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    book = v4.new_notebook(cells=cells, metadata=metadata)  # type: ignore[no-untyped-call]
    return str(v4.writes(book)) + "\n"  # type: ignore[no-untyped-call]


def _is_computed(code: Code) -> bool:
    return bool(code.answer.name) and code.answer.has_value


def _shown_results(code: Code) -> dict[str, Any]:
    """The values that a cell shows: the answer, or the results that are plain."""
    answer = code.answer
    if _is_computed(code) and isinstance(answer.value, (bool, int, float, str)):
        return {answer.name: answer.value}
    return {
        name: value
        for name, value in code.results.items()
        if isinstance(value, (bool, int, float, str)) and len(repr(value)) <= 200
    }


def write(path: Path, parts: Sequence[FilePart], namespace: Mapping[str, Any], pretty: Any) -> None:
    """Write the parts to a file, whose name says what it is.

    Raises:
        ValueError: It is neither a notebook nor a Python file.
        OSError: It cannot be written.
        ImportError: A library for notebooks is not installed.
    """
    if path.suffix == ".ipynb":
        text = notebook(parts, pretty)
    elif path.suffix == ".py" and (path.name.startswith("test_") or path.stem.endswith("_test")):
        text = test_file(parts, namespace)
    elif path.suffix == ".py":
        text = script(parts)
    else:
        raise ValueError(f"{str(path)!r} is neither a notebook (.ipynb) nor a Python file (.py)")
    path.write_text(text, encoding="utf-8", newline="\n")


def without_awaits(source: str) -> str:
    """Source in which each await of the module runs an event loop of its own."""
    if "await " not in source:
        return source

    class Runs(ast.NodeTransformer):
        def visit_Await(self, node: ast.Await) -> ast.AST:
            run = ast.parse("asyncio.run", mode="eval").body
            return ast.copy_location(ast.Call(run, [node.value], []), node)

        def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
            return node

    lines = []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return source
    end = 0
    for each in tree.body:
        above = source.split("\n")[end : each.lineno - 1]
        end = each.end_lineno or each.lineno
        lines += above
        segment = "\n".join(source.split("\n")[each.lineno - 1 : end])
        changed = ast.unparse(Runs().visit(each))
        lines.append(changed if "asyncio.run" in changed else segment)
    return "\n".join([*lines, *source.split("\n")[end:]])


def _with_asyncio(texts: list[str]) -> list[str]:
    needs = any("asyncio.run(" in each for each in texts)
    has = any(re.search(r"^import asyncio$", each, re.MULTILINE) for each in texts)
    return ["import asyncio", *texts] if needs and not has else texts


def _slug(question: str) -> str:
    words = re.findall(r"\w+", question.lower())
    return "_".join(words)[:50].strip("_") or "run"
