"""The code of runs as files: a script, a notebook, or a test, with the cells that it needs."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.code.derive import Block, Code, comment, indented
from archytas_nb.code.literals import Literals
from archytas_nb.code.names import Imports, Names
from archytas_nb.files import OutputFile, is_signed, signed, unsigned
from archytas_nb.syntax.bindings import DEFINITIONS, Bindings, bound_by
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.parse import parsed
from archytas_nb.words import truncate_line

MARK = "written by %agent_code"
"""Marks each file, with a digest: a file that was not edited may be written again."""

_OURS = re.compile(
    r"(\s*)(?:(\w+)\s*=\s*)?%(?:agent\w*|tools|load_ext\s+archytas_nb|reload_ext\s+archytas_nb"
    r"|config\s+ArchytasNB)\b.*"
)
"""A line with one of our magics: its indentation, and the variable that it assigns."""
_OUR_CELL = re.compile(r"%%(?:agent\w*)\b")
_TOOL_CELL = re.compile(r"%%tool\b[^\n]*\n?")
_PYTHON_CELL = re.compile(r"%%(?:time|capture|prun)\b[^\n]*\n")
"""The first line of a cell whose magic runs the rest as Python."""
_MAX_DESCRIBED = 800  # characters of a question in the description of a skill
_FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)
"""Moves to the beginning of a file, from whatever cell it was in."""
_MAGIC = re.compile(r"(\s*)(?:(?:[\w, ]+=\s*)?[%!].*|\?{0,2}[\w.*]+\?{1,2})\s*")


@dataclass(slots=True)
class FilePart:
    """A part of a file: a cell of the notebook, or the code of a run.

    Attributes:
        source: The code.
        code: The run's; None for a cell.
        returned: The variables to which the cell assigns a run, as in ``run = %agent …``.
        body: Its statements; none if it is not Python.
    """

    source: str
    code: Code | None = None
    returned: frozenset[str] = frozenset()
    body: Sequence[ast.stmt] = field(init=False, default=())
    _bindings: Bindings = field(init=False)

    def __post_init__(self) -> None:
        with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            self.body = parsed(without_magics(self.source)).body
        self._bindings = Bindings.of_statements(self.body)

    @property
    def names(self) -> frozenset[str]:
        """The variables that it reads or changes."""
        return self._bindings.used

    @property
    def defines(self) -> set[str]:
        """The functions and classes that it defines."""
        return {each.name for each in self.body if isinstance(each, DEFINITIONS)}

    @property
    def needs(self) -> frozenset[str]:
        """The variables that it does not define itself."""
        return self.names - self.defined

    @property
    def defined(self) -> set[str]:
        """The variables that it assigns as a whole, so their earlier values are not needed."""
        return {name for each in self.body for name in bound_by(each)} - self._bindings.read


def cell_part(source: str) -> FilePart | None:
    """A cell without our magics; None if nothing is left."""
    if _OUR_CELL.match(source):
        return None
    source = _TOOL_CELL.sub("", source, count=1) if source.startswith("%%tool") else source
    lines: list[str] = []
    returned: set[str] = set()
    for line in source.split("\n"):
        ours = _OURS.fullmatch(line)
        if ours is None:
            lines.append(line)
            continue
        if ours[1]:
            # It may be all that a block consists of.
            lines.append(f"{ours[1]}pass")
        if ours[2]:
            returned.add(ours[2])
    text = "\n".join(lines).strip("\n")
    if not text.strip() and not returned:
        return None
    return FilePart(text, returned=frozenset(returned))


def without_magics(source: str) -> str:
    """Source without the parts that only IPython runs."""
    source = _PYTHON_CELL.sub("", source, count=1)
    if source.startswith("%%"):
        return ""
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        # It may not be Python at all.
        return "\n".join(_plain_line(line) for line in source.split("\n"))
    return source


def _plain_line(line: str) -> str:
    magic = _MAGIC.fullmatch(line)
    if magic is None:
        return line
    return f"{magic[1]}pass" if magic[1] else ""


def needed(parts: Sequence[FilePart], chosen: Sequence[FilePart]) -> list[FilePart]:
    """The chosen parts, and those before them that they need, in order."""
    wanted: set[str] = set()
    kept: list[FilePart] = []
    uses = _uses(parts)
    for part in reversed(parts):
        is_chosen = any(part is each for each in chosen)
        if not is_chosen and not part.names & wanted:
            continue
        if not is_chosen and _only_shows(part):
            continue
        kept.append(part)
        wanted -= part.defined
        wanted |= _with_uses(part.needs, uses)
    return kept[::-1]


def _uses(parts: Sequence[FilePart]) -> dict[str, set[str]]:
    """The needs of the functions and classes that the parts define; they count at each use."""
    uses: dict[str, set[str]] = {}
    for part in parts:
        for name in part.defines:
            uses.setdefault(name, set()).update(part.needs)
    return uses


def _with_uses(names: frozenset[str], uses: Mapping[str, set[str]]) -> set[str]:
    """Names with those that their functions need."""
    found: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        found.add(name)
        todo |= uses.get(name, set()) - found
    return found


def _only_shows(part: FilePart) -> bool:
    """Whether a cell is one expression without a call of a method that might change something."""
    body = part.body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return not body
    shown = ("head", "describe", "info", "print", "display", "tail", "len")
    calls = [node for node in ast.walk(body[0]) if isinstance(node, ast.Call)]
    names = [getattr(each.func, "attr", getattr(each.func, "id", "")) for each in calls]
    return all(name in shown for name in names)


# ── the files ─────────────────────────────────────────────────────────────────────────────────────


def script(parts: Sequence[FilePart]) -> str:
    """The parts as a script, which prints what a notebook shows."""
    texts = []
    for part in parts:
        text = _plain(part)
        if part.code is not None:
            shown = ", ".join(_shown_results(part.code))
            text = "\n".join(filter(None, [text, f"print({shown})" if shown else ""]))
        texts.append(text)
    return _file(texts, "\n\n")


def _plain(part: FilePart) -> str:
    """A part as plain Python."""
    if part.code is not None:
        return without_awaits(part.code.text)
    return without_awaits(without_magics(part.source).strip("\n"))


def test_file(parts: Sequence[FilePart], namespace: Mapping[str, Any]) -> str:
    """The parts as a file of pytest: each run is a test function.

    Cells between two runs are run in the function after them, as in the notebook.
    """
    names = Names(())
    texts = []
    waiting: list[str] = []  # cells between two runs
    has_run = False
    for part in parts:
        code = part.code
        if code is None and has_run and not _only_defines(part):
            waiting.append(_plain(part))
        elif code is None:
            texts.append(_plain(part))
        elif not any(each.source for each in code.blocks):
            # They are comments.
            texts.append(code.text)
        else:
            has_run = True
            name = names.take(f"test_{_slug(code.question)}")
            lines = [*waiting, code.body, *assertions(code, namespace), *code.closing]
            waiting = []
            others = [each for each in parts if each is not part]
            shared = part.needs.union(
                *(each.names if each.code is None else each.needs for each in others)
            )
            texts.append(_test(name, code, without_awaits("\n".join(lines)), shared))
    return _file(texts, "\n\n\n")


def _test(name: str, code: Code, inside: str, shared: frozenset[str]) -> str:
    """A test function; the variables that other parts share with it are those of the module."""
    assigned = sorted(Bindings.of(inside).bound & shared)
    lines = [comment(code.question)]
    if assigned:
        lines.append(f"global {', '.join(assigned)}")
    body = indented("\n".join([*lines, inside]))
    return f"def {name}():\n{body}"


def _only_defines(part: FilePart) -> bool:
    """Whether a cell only imports and defines functions and classes."""
    definitions = (
        ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass
    )  # fmt: skip
    return all(isinstance(each, definitions) for each in part.body)


def assertions(code: Code, namespace: Mapping[str, Any]) -> list[str]:
    """Assertions of the values of the results, for those that can be written as code."""
    literals = Literals(namespace, Imports(namespace, Names(namespace)))
    values = dict(code.results)
    name = code.answer.name
    if _is_computed(code) and not any(
        b.source.startswith(f"assert {name} ==") for b in code.blocks
    ):
        values[name] = code.answer.value
    lines = []
    for name, value in values.items():
        is_short = isinstance(value, (bool, int, float, str)) and len(repr(value)) <= 200
        if is_short and value == value:  # noqa: PLR0124 - not NaN
            lines.append(f"assert {name} == {literals.text(value)}")
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
        source = "\n".join([code.body, *(comment(each) for each in code.answer.notes)])
        shown = _shown_results(code)
        last = code.blocks[-1] if code.blocks else Block("")
        is_displayed = last.is_verbatim and last.value is not None  # as the cell ends with it
        if code.shows_output or (is_displayed and not _is_shown(last.value)):
            # It is not a value, and may differ: nbval does not compare it.
            ignored = {"tags": ["nbval-ignore-output"]}
            cells.append(v4.new_code_cell(source, metadata=ignored))  # type: ignore[no-untyped-call]
            source = ""
        outputs = []
        values = tuple(shown.values())
        if is_displayed and source and not shown:
            values = (last.value,)
        if values:
            source = "\n".join(filter(None, [source, ", ".join(shown)]))
            text = pretty(values[0] if len(values) == 1 else values)
            output = v4.new_output(  # type: ignore[no-untyped-call]
                "execute_result", {"text/plain": text}, execution_count=len(cells)
            )
            outputs.append(output)
        if source.strip():
            cells.append(v4.new_code_cell(source, outputs=outputs, execution_count=len(cells)))  # type: ignore[no-untyped-call]
        if code.answer.text and code.answer.name not in shown:
            cells.append(v4.new_markdown_cell(code.answer.text))  # type: ignore[no-untyped-call]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number + 1}"
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "archytas_nb": unsigned(MARK),
    }
    book = v4.new_notebook(cells=cells, metadata=metadata)  # type: ignore[no-untyped-call]
    return str(v4.writes(book)) + "\n"  # type: ignore[no-untyped-call]


def _is_computed(code: Code) -> bool:
    return bool(code.answer.name) and code.answer.has_value


def _shown_results(code: Code) -> dict[str, Any]:
    """The values that a cell shows: the answer, or the results that are plain."""
    answer = code.answer
    if _is_computed(code) and _is_shown(answer.value):
        return {answer.name: answer.value}
    return {name: value for name, value in code.results.items() if _is_shown(value)}


def _is_shown(value: Any) -> bool:
    """Whether a value is shown as an output: a short one of plain types."""
    plain = (bool, int, float, str, list, tuple, dict)
    return isinstance(value, plain) and len(repr(value)) <= 200


def write(
    path: Path,
    parts: Sequence[FilePart],
    namespace: Mapping[str, Any],
    pretty: Callable[[Any], str],
    *,
    force: bool = False,
) -> None:
    """Write the parts to a file, whose suffix says which kind it is.

    Args:
        path: The file.
        parts: Its contents.
        namespace: The variables of the user.
        pretty: Writes a value as an output.
        force: Whether to replace a file that this function did not write, or that was edited since.

    Raises:
        ValueError: It is neither a notebook nor a Python file.
        FileError: It cannot be written, or must not be replaced.
        ImportError: A library for notebooks is not installed.
    """
    if path.suffix == ".ipynb":
        text = notebook(parts, pretty)
    elif path.suffix == ".py" and (path.name.startswith("test_") or path.stem.endswith("_test")):
        text = test_file(parts, namespace)
    elif path.suffix == ".py":
        text = script(parts)
    else:
        raise ValueError(
            f"{str(path)!r} is neither a notebook nor a Python file; expected a name that ends "
            "with .ipynb or .py"
        )
    file = OutputFile(path, "the file")
    file.check_ours(lambda text: is_signed(text, MARK), force=force)
    file.write(signed(text, MARK))


SKILL = """---
name: "{name}"
description: {description}
---

# {title}

The code of this question, proved when it was written: run again from the state before the question,
it gave the values of the run. {mark}.

- `scripts/{module}.py` is the code, with the cells that it needs.
- `scripts/test_{module}.py` is its test: `pytest scripts/test_{module}.py`. Run it first. If it
  fails, the data or the functions have changed: check the code before you use it.

To answer such a question again, read `scripts/{module}.py`, and run it with what is different, such
as another file or another limit, in place of what is written there.
"""


def write_skill(
    folder: Path,
    parts: Sequence[FilePart],
    namespace: Mapping[str, Any],
    question: str,
    *,
    force: bool = False,
) -> list[Path]:
    """Write the parts as a skill: SKILL.md, the script and the test.

    Args:
        folder: Its folder, whose name is that of the skill.
        parts: The contents of the script.
        namespace: The variables of the user.
        question: The question.
        force: As for `write`.

    Raises:
        FileError: A file cannot be written, or must not be replaced.

    Returns:
        The files.
    """
    module = folder.name.replace("-", "_")
    line = " ".join(question.split())
    about = (
        f"Answers: {truncate_line(line, _MAX_DESCRIBED)} Use it for this question and similar ones."
    )
    texts = {
        # A text of JSON is one of YAML as well, whatever the question has.
        "SKILL.md": SKILL.format(
            name=folder.name,
            description=json.dumps(about, ensure_ascii=False),
            title=folder.name.replace("-", " ").capitalize(),
            module=module,
            mark=f"The file was {unsigned(MARK)}",
        ),
        f"scripts/{module}.py": script(parts),
        f"scripts/test_{module}.py": test_file(parts, namespace),
    }
    files = {folder / name: text for name, text in texts.items()}
    for path in files:  # all of them, or none
        OutputFile(path, "the file").check_ours(lambda text: is_signed(text, MARK), force=force)
    for path, text in files.items():
        OutputFile(path, "the file").write(signed(text, MARK))
    return [*files]


def without_awaits(source: str) -> str:
    """Source in which each await of the module runs its own event loop."""
    try:
        tree = parsed(source)
    except (SyntaxError, ValueError):
        return source
    edits = Edits(source)
    for node in _of_module(tree):
        if isinstance(node, ast.Await):
            edits.replace(node, "asyncio.run(", node.value, ")")
        elif isinstance(node, ast.ListComp) and any(each.is_async for each in node.generators):
            edits.replace(node, "asyncio.run(listed(", node.generators[0].iter, "))")
    return edits.applied()


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are not inside of a function that may await."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.AsyncFunctionDef):
            yield child
            yield from _of_module(child)


def _file(texts: list[str], between: str) -> str:
    """A file of these texts, with what their awaits need."""
    futures = dict.fromkeys(line for each in texts for line in _FUTURE.findall(each))
    texts = [_FUTURE.sub("", each).strip("\n") for each in texts]
    texts = [each for each in texts if each.strip()]
    whole = "\n".join(texts)
    if "asyncio.run(listed(" in whole:
        texts.insert(0, "async def listed(items):\n    return [each async for each in items]")
    has_import = re.search(r"^import asyncio$", whole, re.MULTILINE)
    if "asyncio.run(" in whole and not has_import:
        texts.insert(0, "import asyncio")
    if futures:
        texts.insert(0, "\n".join(futures))
    return f"# The code of runs, {unsigned(MARK)}.\n\n{between.join(texts)}\n"


def _slug(question: str) -> str:
    words = re.findall(r"\w+", question.lower())
    return "_".join(words)[:50].strip("_") or "run"
