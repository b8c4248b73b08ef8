"""``%%tool`` and ``%tools``: turn a cell's functions into tools; list, show and remove tools."""

from __future__ import annotations

import ast
import json
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from archytas_nb.errors import ArchytasError, ToolError
from archytas_nb.magics.line import (
    arguments,
    line_magic_with,
    parser_of,
    with_options,
    without_frames,
)
from archytas_nb.magics.overview import Overview, TextResult
from archytas_nb.magics.settings import integer, number
from archytas_nb.namespace import running_cell

if TYPE_CHECKING:
    from archytas_nb.tools.tool import Tool
    from archytas_nb.tools.toolbox import Toolbox


@magics_class
class ToolMagics(Magics):
    """The tools of this notebook."""

    shell: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._cells: dict[str, str] = {}  # by the tool's name the cell that has defined it

    @no_var_expand
    @with_options(
        argument(
            "--name",
            metavar="NAME",
            help="The name of the tool, if the cell defines only one function.",
        ),
        argument("--approve", action="store_true", default=None, help="Ask you before each call."),
        argument(
            "--timeout", type=number, metavar="S", help="Maximum number of seconds for one call."
        ),
        argument(
            "--max-chars",
            type=integer,
            metavar="N",
            help="Maximum number of characters of a result that the model reads.",
        ),
        argument("--repeat", action="store_true", help="Allow identical calls to run again."),
        argument(
            "--pure",
            action="store_true",
            help="The tool has no side effects, so a map may run it in parallel.",
        ),
        argument(
            "--dry-run",
            action="store_true",
            help="Only show what the model would read of the tools, and their warnings; the cell "
            "runs, but nothing is registered, and your variables keep their values.",
        ),
    )
    @cell_magic
    def tool(self, line: str, cell: str) -> Any:
        """Run the cell and turn its functions into tools.

        These are the functions decorated with ``@tool``, or, if there are none, all public
        functions of the cell; names that start with ``_`` are helpers. If the cell fails, nothing
        is registered.

        An argument that cannot be expressed in JSON, such as a DataFrame, is passed as the name of
        one of your variables; any other is passed as a value, unless it is annotated
        ``Annotated[str, archytas_nb.ByName]``.
        """
        __tracebackhide__ = True
        from archytas_nb.tools.toolbox import toolbox

        parsed = arguments(parser_of(self.tool), line, "%%")
        if parsed is None:
            return None
        options = {key: value for key, value in vars(parsed).items() if _is_given(value)}
        if options.pop("dry_run", False):
            with _nothing_kept(toolbox, self.shell.user_ns):
                return _preview(self._define(toolbox, cell, options))
        known = {*toolbox}
        tools = self._define(toolbox, cell, options)
        names = [tool.name for tool in tools]
        cell_id, _ = running_cell(self.shell)
        # That a cell replaces its own tools when it is run again is not worth a note.
        own = {name for name in names if cell_id and self._cells.get(name) == cell_id}
        self._cells.update(dict.fromkeys(names, cell_id))
        return _registered(tools, known - own)

    def _define(self, toolbox: Toolbox, cell: str, options: dict[str, Any]) -> list[Tool]:
        """Run the cell and add its tools; if that fails, the toolbox is as before."""
        __tracebackhide__ = True
        before = toolbox.snapshot()
        known = dict(toolbox)
        try:
            tree = run_cell(self.shell, cell)
            return [toolbox[name] for name in self._register(toolbox, known, tree, options)]
        except BaseException as error:
            toolbox.restore(before)
            if isinstance(error, ArchytasError):
                raise without_frames(error) from None
            if isinstance(error, NameError) and error.name == "tool":
                error.add_note(
                    "%%tool needs no @tool; for its options: from archytas_nb import tool"
                )
            raise

    def _register(
        self, toolbox: Toolbox, known: dict[str, Any], tree: ast.Module, options: dict[str, Any]
    ) -> list[str]:
        """Add what the cell defines, unless it decorates its tools; return their names."""
        from archytas_nb.tools.toolbox import has_decorated_methods

        namespace = self.shell.user_ns
        for name in _public_names(tree, ast.ClassDef):
            defined = namespace.get(name)  # the cell may have deleted or wrapped it
            if isinstance(defined, type) and has_decorated_methods(defined):
                toolbox.extend(defined)
        new = [name for name, each in toolbox.items() if known.get(name) is not each]
        if new and options:
            flags = ", ".join(f"--{key.replace('_', '-')}" for key in options)
            raise UsageError(f"{flags}: the tools in this cell are decorated; use @tool(…) instead")
        if not new:
            names = _public_names(tree, ast.FunctionDef, ast.AsyncFunctionDef)
            names = [name for name in names if callable(namespace.get(name))]
            if "name" in options and len(names) != 1:
                raise UsageError(
                    f"--name requires a cell with one function; this cell defines {names}"
                )
            new = [toolbox.add(namespace[name], **options).name for name in names]
        if not new:
            raise UsageError(
                "the cell does not define any functions that could be tools: write one with def, "
                "or decorate the methods of a class with @tool (from archytas_nb import tool)"
            )
        return new

    @line_magic_with(
        argument("name", nargs="?", help="Show this tool as the model sees it."),
        argument("--remove", metavar="NAME", help="Remove a tool."),
        argument(
            "--disable",
            metavar="NAME",
            help="Keep a tool in the list, but do not offer it to the model.",
        ),
        argument("--enable", metavar="NAME", help="Offer a disabled tool to the model again."),
        argument("--warnings", action="store_true", help="Show the warnings about each tool."),
    )
    def tools(self, args: Any) -> Any:
        """List the tools of this notebook, or show one as the model sees it."""
        from archytas_nb.tools.toolbox import toolbox

        try:
            if args.remove:
                toolbox.remove(args.remove)
            if args.disable:
                toolbox.disable(args.disable)
            if args.enable:
                toolbox.enable(args.enable)
            if args.warnings and args.name:
                return _issues([toolbox[args.name]])
            if args.warnings:
                return _issues(list(toolbox.values()))
            if args.name:
                return _page(toolbox[args.name])
        except KeyError as error:
            raise UsageError(str(error)) from None
        return _table(toolbox)


def _is_given(value: Any) -> bool:
    """Whether a value of argparse was given; 0 is one."""
    return value is not None and value is not False


@contextmanager
def _nothing_kept(toolbox: Toolbox, namespace: dict[str, Any]) -> Iterator[None]:
    """Restore the toolbox and the variables at the end; objects that were changed stay changed."""
    tools = toolbox.snapshot()
    variables = dict(namespace)
    try:
        yield
    finally:
        toolbox.restore(tools)
        for name in namespace.keys() - variables.keys():
            del namespace[name]
        namespace.update(variables)


# ── running the cell ──────────────────────────────────────────────────────────────────────────────


def run_cell(shell: Any, source: str) -> ast.Module:
    """Run the cell below ``%%tool`` as if it were a cell of its own.

    Tracebacks name the cell and the line that the user sees, ``inspect.getsource`` and ``%debug``
    work, IPython syntax is understood, and the last expression is shown.

    Raises:
        ToolError: The cell is not Python.
        UsageError: The cell awaits at top level, which a magic cannot do.
    """
    __tracebackhide__ = True
    # The empty first line stands for the magic's, so that line numbers are those of the cell.
    code = "\n" + shell.transform_cell(source)
    name = shell.compile.cache(code, _cell_number(shell), raw_code=code)
    try:
        tree: ast.Module = ast.parse(code, name, "exec")
        parts: list[tuple[Any, str]] = [(tree, "exec")]
        if tree.body and not source.rstrip().endswith(";"):  # show the value of the last line
            first = ast.Module(tree.body[:-1], type_ignores=[])
            parts = [(first, "exec"), (ast.Interactive(tree.body[-1:]), "single")]
        flags: int = shell.compile.flags
        runs = [compile(part, name, mode, flags, dont_inherit=True) for part, mode in parts]
    except SyntaxError as error:
        if "await" in str(error.msg) or "async" in str(error.msg):
            raise UsageError(
                f"{error.msg}: move top-level await to a cell without %%tool"
            ) from None
        # IPython draws a SyntaxError with every frame of ours, whatever the exception wishes.
        error.filename = "this cell"
        text = "".join(traceback.format_exception_only(error))
        raise ToolError(f"the cell is not valid Python:\n{text}") from None
    for each in runs:
        exec(each, shell.user_ns)  # noqa: S102 - running the user's cell is what a kernel is for
    return tree


def _cell_number(shell: Any) -> int:
    """The number of the running cell; the shell's own counter may be ahead of it."""
    cells: list[str] = shell.history_manager.input_hist_raw
    if cells and cells[-1].lstrip().startswith("%%"):
        return len(cells) - 1
    number: int = shell.execution_count
    return number


def _public_names(tree: ast.Module, *kinds: type[ast.stmt]) -> list[str]:
    """Names of a cell's public definitions of these kinds, in order, each once."""
    found = [str(getattr(node, "name", "_")) for node in tree.body if isinstance(node, kinds)]
    return list(dict.fromkeys(name for name in found if not name.startswith("_")))


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


def _registered(tools: Sequence[Tool], replaced: Collection[str]) -> TextResult:
    """The tools of a cell, each with its first warning."""
    lines = []
    for tool in tools:
        line = f"tool {tool.name}"
        if tool.name in replaced:
            line += " (replaces the earlier one)"
        lines.append(line)
        if not tool.issues:
            continue
        warning = f"  ! {tool.issues[0]}"
        more = len(tool.issues) - 1
        if more:
            warning += f" (and {more} more: %tools --warnings)"
        lines.append(warning)
    return TextResult("\n".join(lines))


def _preview(tools: Sequence[Tool]) -> TextResult:
    """The texts of tools for the model, with their warnings."""
    parts = []
    for tool in tools:
        warnings = [f"  ! {each}" for each in tool.issues] or ["  no issues"]
        cost = f"  about {tool.tokens} tokens in each request"
        parts.append("\n".join([tool.text, "", *warnings, cost]))
    names = ", ".join(tool.name for tool in tools)
    return TextResult("\n\n".join([*parts, f"checked and not registered: {names}"]))


def _table(toolbox: Toolbox) -> Overview:
    """All tools, one in a row."""
    rows = []
    for name, tool in toolbox.items():
        summary = ""
        lines = tool.text.split("\n")
        if len(lines) > 1 and not lines[1].strip().startswith("_input_"):
            summary = lines[1].strip()
        if not toolbox.is_enabled(name):
            summary = f"(disabled) {summary}"
        rows.append((name, summary))
    empty = "no tools yet: define a function in a cell that starts with %%tool"
    return Overview(("tool", "what it does"), tuple(rows), empty)


def _issues(tools: Sequence[Tool]) -> TextResult:
    """The warnings about each tool."""
    doubtful = ["\n  ! ".join([tool.name, *tool.issues]) for tool in tools if tool.issues]
    return TextResult("\n".join(doubtful) or f"no issues (tools checked: {len(tools)})")


def _page(tool: Tool) -> TextResult:
    """One tool as the model reads it: the text, then the JSON schema."""
    schema = json.dumps(tool.schema(), indent=2, ensure_ascii=False)
    return TextResult(f"{tool.text}\n\n{schema}\n\nabout {tool.tokens} tokens in each request")
