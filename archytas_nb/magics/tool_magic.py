"""``%%tool`` and ``%tools``: functions of a cell become tools; tools are listed, shown, removed, switched off."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from archytas_nb.errors import ArchytasError
from archytas_nb.magics.brief import brief
from archytas_nb.magics.cell import public_names, run_cell
from archytas_nb.magics.flags import count, seconds
from archytas_nb.magics.line import help_text, split_options

if TYPE_CHECKING:
    from archytas_nb.tools.toolbox import Toolbox


@magics_class
class ToolMagics(Magics):
    """The tools of this notebook."""

    shell: Any

    @no_var_expand
    @magic_arguments()
    @argument("-h", "--help", action="store_true", help="Show this.")
    @argument(
        "--name", metavar="NAME", help="The tool's name, where the cell defines one function."
    )
    @argument("--approve", action="store_true", default=None, help="Ask a person before each call.")
    @argument("--timeout", type=seconds, metavar="S", help="Seconds that a call may take.")
    @argument(
        "--max-chars",
        type=count,
        metavar="N",
        help="Most characters of a result that the model reads.",
    )
    @argument(
        "--repeat",
        action="store_true",
        help="The same call may come to something else the next time.",
    )
    @argument(
        "--check",
        action="store_true",
        help="Run the docstrings' examples as a model would; costs no token.",
    )
    @cell_magic
    def tool(self, line: str, cell: str) -> Any:
        """Run the cell and make its functions tools.

        The functions decorated with ``@tool``, or where there are none each public function of the cell;
        names that begin with ``_`` are helpers. A cell that fails registers nothing.

        An argument that JSON cannot carry, such as a DataFrame, is given the name of one of your variables; any
        other is given a value, unless it is annotated ``Annotated[str, archytas_nb.ByName]``.
        """
        __tracebackhide__ = True
        from archytas_nb.magics.tables import Registered
        from archytas_nb.tools.examples import check_examples
        from archytas_nb.tools.toolbox import toolbox

        args = vars(_parsed(line, self.tool.parser))
        if args.pop("help"):
            return _help(self.tool.parser, "%%")
        check = args.pop("check")
        options = {key: value for key, value in args.items() if value not in (None, False)}
        before, known = toolbox.snapshot(), dict(toolbox)
        try:
            tree = run_cell(self.shell, cell)
            names = self._register(toolbox, known, tree, options)
        except ArchytasError as error:
            toolbox.restore(before)
            raise brief(error) from None
        except BaseException:
            toolbox.restore(before)
            raise
        tools = tuple(toolbox[name] for name in names)
        checked = (
            {tool.name: check_examples(tool, self.shell.user_ns) for tool in tools} if check else {}
        )
        return Registered(tools, tuple(name for name in names if name in known), checked)

    def _register(
        self, toolbox: Toolbox, known: dict[str, Any], tree: ast.Module, options: dict[str, Any]
    ) -> list[str]:
        """Add what the cell defines, unless it has decorated its tools; return the names of its tools."""
        from archytas_nb.tools.toolbox import has_decorated_methods

        namespace = self.shell.user_ns
        for name in public_names(tree, ast.ClassDef):
            defined = namespace.get(name)  # the cell may have deleted or wrapped what it defined
            if isinstance(defined, type) and has_decorated_methods(defined):
                toolbox.extend(defined)
        new = [name for name, each in toolbox.items() if known.get(name) is not each]
        if new and options:
            flags = ", ".join(f"--{key.replace('_', '-')}" for key in options)
            raise UsageError(
                f"{flags}: this cell decorates its tools; give the options to the decorator, @tool(…)"
            )
        if not new:
            names = public_names(tree, ast.FunctionDef, ast.AsyncFunctionDef)
            names = [name for name in names if callable(namespace.get(name))]
            if "name" in options and len(names) != 1:
                raise UsageError(
                    f"--name names one function; the cell defines {len(names)}: {', '.join(names)}"
                )
            new = [toolbox.add(namespace[name], **options).name for name in names]
        if not new:
            raise UsageError(
                "the cell defines no function that could be a tool; begin one with 'def'"
            )
        return new

    @no_var_expand
    @magic_arguments()
    @argument("-h", "--help", action="store_true", help="Show this.")
    @argument("name", nargs="?", help="Show what the model reads of this tool.")
    @argument("--remove", metavar="NAME", help="Forget a tool.")
    @argument(
        "--disable", metavar="NAME", help="Keep a tool in the list, but offer it to no model."
    )
    @argument("--enable", metavar="NAME", help="Offer a tool again.")
    @argument("--check", action="store_true", help="Show what is doubtful in each tool.")
    @line_magic
    def tools(self, line: str) -> Any:
        """List the tools of this notebook, or show one as the model reads it."""
        from archytas_nb.magics.tables import ToolIssues, ToolPage, ToolTable
        from archytas_nb.tools.toolbox import toolbox

        args = _parsed(line, self.tools.parser)
        if args.help:
            return _help(self.tools.parser)
        try:
            if args.remove:
                toolbox.remove(args.remove)
            if args.disable:
                toolbox.disable(args.disable)
            if args.enable:
                toolbox.enable(args.enable)
            if args.check:
                return ToolIssues((toolbox[args.name],) if args.name else tuple(toolbox.values()))
            if args.name:
                return ToolPage(toolbox[args.name])
        except KeyError as error:
            raise UsageError(str(error)) from None
        return ToolTable(
            tuple(toolbox.values()), tuple(name for name in toolbox if not toolbox.is_enabled(name))
        )


def _parsed(line: str, parser: Any) -> Any:
    options, rest = split_options(line, parser)
    return parser.parse_args([*options, *rest.split()])


def _help(parser: Any, sign: str = "%") -> None:
    print(help_text(parser, sign))  # noqa: T201 - what was asked for
