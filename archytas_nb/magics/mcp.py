"""``%agent_mcp``: offer the notebook's tools to other programs, and use the tools of servers."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument

from archytas_nb import extras
from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.magics.line import arguments, parser_of, with_options, without_frames
from archytas_nb.magics.overview import Overview, TextResult
from archytas_nb.words import count

if TYPE_CHECKING:
    from archytas_nb.agent import Agent
    from archytas_nb.files import Held
    from archytas_nb.loop.events import CallOutcome, Json
    from archytas_nb.magics.agent import ArchytasNB
    from archytas_nb.mcp.client import ServerConnection
    from archytas_nb.mcp.server import NotebookServer
    from archytas_nb.run import Run
    from archytas_nb.tools.tool import Tool
    from archytas_nb.tools.toolbox import Toolbox
    from archytas_nb.trace.live import Mode

KEPT = 20
"""How many results of calls are kept as variables; a program may call any number of times."""
SHOWN = 10
"""How many of the last calls are shown below the cell that serves, and of the tools left out."""

_log = logging.getLogger("archytas_nb")


@magics_class
class McpMagics(Magics):
    """The servers of this notebook."""

    shell: Any
    magics_of_agent: ArchytasNB

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._pid = os.getpid()
        self._server: NotebookServer | None = None
        self._registered: Held | None = None
        self._written: list[tuple[str, Path, str]] = []  # client, folder and address
        self._connections: dict[str, ServerConnection] = {}

    @no_var_expand
    @with_options(
        argument(
            "action",
            nargs="?",
            choices=("serve", "stop", "add", "remove"),
            help="serve: offer the tools of this notebook; stop: end that; add: use the tools of a "
            "server; remove: end that. Without it, show what is offered and used.",
        ),
        argument(
            "words",
            nargs="*",
            metavar="SERVER",
            help="add: NAME -- COMMAND for a server that is started, or URL --name NAME; remove: "
            "NAME.",
        ),
        argument("--name", default="", help="The name of a server that is added by its address."),
        argument(
            "--header",
            action="append",
            default=[],
            metavar="'NAME: VALUE'",
            help="A header of each request to an address; {name} is replaced with the value of a "
            "variable. Can be given more than once.",
        ),
        argument(
            "--env",
            action="append",
            default=[],
            metavar="NAME[=VALUE]",
            help="A variable of the environment of a command, with the value that it has in this "
            "kernel, or with this one; {name} is replaced with the value of a variable. A command "
            "is given only a few that every program needs. Can be given more than once.",
        ),
        argument(
            "--allow",
            default="",
            metavar="NAME[,NAME]",
            help="Tools of the server that run without approval; those that the server declares to "
            "read only do so anyway.",
        ),
        argument("--port", type=int, default=0, help="The port; by default a free one."),
        argument(
            "--write",
            metavar="CLIENT",
            choices=("claude", "cursor", "vscode", "jupyter-ai"),
            help="Also write the address and the token into the file in which claude, cursor, "
            "vscode or jupyter-ai lists its servers, in this folder, after asking; stop removes "
            "them.",
        ),
    )
    @line_magic
    def agent_mcp(self, line: str) -> Any:
        """Offer the tools of this notebook to other programs, or use theirs (MCP).

        Served: each call is validated, approved, undone and shown like one of %agent, below the
        cell that serves; it waits while a cell is running. The server listens on this machine only,
        for programs that have its token, until %agent_mcp stop or the end of the kernel.
        Added: the tools of a server, named SERVER_TOOL, become tools of this notebook; their calls
        require approval.
        """
        __tracebackhide__ = True
        options, separator, command = f" {line} ".partition(" -- ")
        args = arguments(parser_of(self.agent_mcp), options)
        if args is None:
            return None
        try:
            match args.action:
                case "add":
                    return self._add(args, command, is_command=bool(separator))
                case "remove":
                    return self._remove(args.words)
                case "serve":
                    return self._serve(args)
                case "stop":
                    return self._stop()
            return self._state()
        except (ArchytasError, KeyboardInterrupt) as error:
            raise without_frames(error) from None

    def unload(self) -> None:
        """Stop serving, and end the connections."""
        self._stop()
        for name in list(self._connections):
            self._remove([name])
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """Leave no files behind; the servers end with this process."""
        if os.getpid() != self._pid:  # a forked child, to which none of them belongs
            return
        self._forget()
        for each in self._connections.values():
            each.remove_log()

    # ── servers of others ─────────────────────────────────────────────────────────────────────────

    def _add(self, args: Any, command: str, *, is_command: bool) -> TextResult:
        name, target = _server(args, command, is_command=is_command)
        if name in self._connections:
            raise UsageError(f"a server is named {name!r} already; %agent_mcp remove {name}")
        if self._server is not None and target == self._server.url:
            raise UsageError(
                f"{target!r} is this notebook: its tools are there already, and a call of the cell "
                "would wait for the end of the cell"
            )
        names = self.shell.user_ns
        headers = dict(_header(each, names) for each in args.header)
        environment = dict(_variable(each, names) for each in args.env)
        _import_libraries("client")
        from archytas_nb.mcp.client import ServerConnection

        allowed = [each.strip() for each in args.allow.split(",") if each.strip()]
        toolbox = _toolbox()
        taken = _taken(toolbox)
        connection = ServerConnection(name, target, headers, environment, allowed, taken)
        atexit.unregister(self._at_exit)  # so that it runs once
        atexit.register(self._at_exit)
        connection.connect()
        for each in connection.tools:
            toolbox.add(each)
        self._connections[name] = connection
        lines = [f"added {count(len(connection.tools), 'tool')} of {name} ({connection.address})"]
        left_out = [f"left out: {tool}: {why}" for tool, why in connection.left_out.items()]
        lines += left_out[:SHOWN]
        if len(left_out) > SHOWN:
            lines.append(f"left out: {count(len(left_out) - SHOWN, 'more tool')}")
        unknown = [each for each in allowed if each not in connection.names]
        if unknown:
            lines.append(f"--allow names no tool of the server: {', '.join(unknown)}")
        return TextResult("\n".join(lines))

    def _remove(self, words: list[str]) -> TextResult:
        known = ", ".join(self._connections) or "none was added"
        if len(words) != 1 or words[0] not in self._connections:
            raise UsageError(f"%agent_mcp remove takes the name of a server: {known}")
        connection = self._connections.pop(words[0])
        toolbox = _toolbox()
        for each in connection.tools:
            if toolbox.get(each.name) is each:
                toolbox.remove(each.name)
        connection.close()
        return TextResult(f"removed {connection.name} and {count(len(connection.tools), 'tool')}")

    # ── serving ───────────────────────────────────────────────────────────────────────────────────

    def _serve(self, args: Any) -> None:
        if self._server is not None and self._server.is_running:
            raise UsageError(
                f"this notebook is served already at {self._server.url}; %agent_mcp stop ends that"
            )
        _import_libraries("server", "bridge")
        from archytas_nb.kernel.main_thread import MainThread
        from archytas_nb.kernel.registered import register
        from archytas_nb.mcp import bridge, server

        try:
            main = MainThread()
        except RuntimeError:
            raise UsageError(
                "serving needs a Jupyter kernel, where work can run between two cells: use "
                "JupyterLab, or jupyter console in a terminal"
            ) from None
        notebook = ServedNotebook(self.magics_of_agent, main)
        self._stop()  # one that has ended by itself
        is_written = bool(args.write) and self._may_write(args.write)
        lines = self._remove_dead()
        atexit.unregister(self._at_exit)  # so that it runs once
        atexit.register(self._at_exit)
        try:
            self._server = started = server.NotebookServer(notebook, args.port)
            self._registered = register(bridge.KIND, started.url, started.token)
            started.start()
            lines.append(f"serving {count(len(notebook.tools()), 'tool')} at {started.url}")
            if is_written:
                lines += self._write(args.write, started)
            else:
                lines += _to_paste(args.write, started)
        except (OSError, OverflowError) as error:
            self._stop()
            raise UsageError(f"--port {args.port}: {error}; leave it out for a free port") from None
        except BaseException:  # nothing stays open that was not announced
            self._stop()
            raise
        notebook.show("\n".join(lines))

    def _may_write(self, client: str) -> bool:
        from archytas_nb.kernel.person import Keyboard, confirm
        from archytas_nb.kernel.registered import working_folder
        from archytas_nb.mcp import clients
        from archytas_nb.trace.controls import Controls

        path = working_folder() / clients.FILES[client].path
        asked = f"Write the address and the token of this notebook into {str(path)!r}?"
        return confirm(asked, Controls(Keyboard())) is True

    def _write(self, client: str, started: NotebookServer) -> list[str]:
        from archytas_nb.kernel.registered import working_folder
        from archytas_nb.mcp import clients

        folder = working_folder()
        try:
            path = clients.write_entry(client, folder, started.url, started.token)
        except ConfigurationError as error:
            return [f"nothing was written: {error}", *_to_paste(client, started)]
        self._written.append((client, folder, started.url))
        return [f"written: {path}"]

    def _remove_dead(self) -> list[str]:
        """Remove what kernels that were killed have left; what was removed, for the person."""
        from archytas_nb.kernel.registered import remove_dead, working_folder
        from archytas_nb.mcp import bridge, clients

        here = working_folder()
        lines = []
        for each in remove_dead(bridge.KIND):
            for folder in {each.folder, here}:
                for client, file in clients.FILES.items():
                    with suppress(ConfigurationError):  # nothing is written to it now
                        if clients.remove_entry(client, folder, each.url):
                            path = folder / file.path
                            lines.append(f"removed from {path}: a kernel that was killed")
        return lines

    def _stop(self) -> TextResult:
        server = self._server
        self._server = None
        if server is None:
            return TextResult("nothing is served")
        server.stop()
        return TextResult("\n".join([f"stopped: {server.url}", *self._forget()]))

    def _forget(self) -> list[str]:
        """Remove what was written for other programs; what was removed, for the person."""
        if self._registered is not None:
            self._registered.remove()
            self._registered = None
        lines = []
        for client, folder, url in self._written:
            from archytas_nb.mcp import clients

            try:
                if clients.remove_entry(client, folder, url):
                    lines.append(f"removed from {folder / clients.FILES[client].path}")
            except ConfigurationError as error:
                lines.append(str(error))
        self._written.clear()
        return lines

    def _state(self) -> Any:
        rows = []
        if self._server is not None:
            state = "served" if self._server.is_running else "served, but the server has ended"
            rows.append((state, "", self._server.url, ""))
        for name, each in self._connections.items():
            state = "added" if each.is_open else "added, but the connection has ended"
            tools = ", ".join(tool.name for tool in each.tools)
            rows.append((state, name, each.address, tools))
        empty = "nothing is served, and no server was added"
        return Overview(("", "name", "address", "tools"), tuple(rows), empty)


def _to_paste(client: str | None, started: NotebookServer) -> list[str]:
    """The text that the person pastes into a program's settings; without its name, for several."""
    from archytas_nb.mcp import clients

    show = f"in a terminal, {clients.PRINT_IT} prints the token: it is not saved with a notebook"
    if client:
        entry = clients.text_of_entry(client, started.url, "TOKEN")
        return [f"for {client}, in {clients.FILES[client].path}:", entry, show]
    return [
        "for Claude Code, in a terminal:",
        f"  {clients.command(started.url)}",
        "for others: the address above, with the header Authorization: Bearer TOKEN",
        f"  {show}",
    ]


def _server(args: Any, command: str, *, is_command: bool) -> tuple[str, str | list[str]]:
    """The name of a server, and its address or command; raises UsageError."""
    usage = "use %agent_mcp add NAME -- COMMAND, or %agent_mcp add URL --name NAME"
    if len(args.words) != 1:
        raise UsageError(f"%agent_mcp add takes one name or one address: {usage}")
    word = args.words[0]
    target: str | list[str]
    if is_command:
        name = word
        try:
            target = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"the command {command.strip()!r} cannot be read: {error}") from None
    else:
        name = args.name
        target = word
        if not word.startswith(("http://", "https://")):
            raise UsageError(f"{word!r} is not an address that begins with http: {usage}")
    if not target or not re.fullmatch(r"[A-Za-z]\w*", name):
        raise UsageError(f"the name of a server is {name!r}; expected letters and digits: {usage}")
    return name, target


def _header(text: str, names: Mapping[str, Any]) -> tuple[str, str]:
    """The name and the value of a header; raises UsageError."""
    from archytas_nb.magics.expand import expand

    name, colon, value = expand(text, names).text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"--header is {name!r}; expected 'NAME: VALUE'")
    return name.strip(), value.strip()


def _variable(text: str, names: Mapping[str, Any]) -> tuple[str, str]:
    """The name and the value of a variable of the environment; raises UsageError."""
    from archytas_nb.magics.expand import expand

    name, equals, value = expand(text, names).text.partition("=")
    if not equals and name in os.environ:
        value = os.environ[name]
    elif not equals or not name:
        raise UsageError(
            f"--env is {name!r}; expected NAME of this kernel's environment, or NAME=VALUE"
        )
    return name, value


def _import_libraries(*modules: str) -> None:
    """Import modules of `archytas_nb.mcp`, which takes seconds.

    It is done on a thread: an interrupt would leave libraries that are imported in part.

    Raises:
        ConfigurationError: The extra is not installed.
    """
    done: Future[None] = Future()

    def work() -> None:
        try:
            for each in modules:
                import_module(f"archytas_nb.mcp.{each}")
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=work, name="archytas_nb import", daemon=True).start()
    while not done.done():
        wait([done], timeout=0.2)  # without a timeout, it cannot be interrupted on Windows
    try:
        done.result()
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"%agent_mcp needs the package {error.name!r}: {extras.install('mcp')}"
        ) from None


def _taken(toolbox: Toolbox) -> set[str]:
    """The names that a tool of a server cannot have, because something else is called by them."""
    from archytas_nb.prepare import built_in_names
    from archytas_nb.tools.declaration import python_name

    in_programs = map(python_name, toolbox.values())
    return {*toolbox, *in_programs, *built_in_names()}


def _toolbox() -> Toolbox:
    from archytas_nb.tools.toolbox import toolbox

    return toolbox


class ServedNotebook:
    """The notebook as its server sees it.

    Args:
        magics: The settings and the history of the notebook.
        main: The main thread of the kernel.
    """

    def __init__(self, magics: ArchytasNB, main: Any) -> None:
        from archytas_nb.trace.live import display_mode

        self._magics = magics
        self._shell = magics.shell
        self._main = main
        self._mode = display_mode(self._shell)
        self._runs: list[Run[Any]] = []
        self._stored: deque[tuple[str, Any]] = deque()
        self._handle: Any = None
        self._said = ""

    def show(self, text: str) -> None:
        """Display the calls below the cell that serves, with this text above them."""
        from IPython.display import display

        self._said = text
        show: Any = display
        self._handle = show(self._bundle(), raw=True, display_id=True)

    def tools(self) -> Mapping[str, Tool]:
        """The tools that exist now."""
        from archytas_nb.tools.toolbox import toolbox

        toolbox.refresh(self._shell.user_ns)
        return dict(self._agent().tools)

    def call(self, caller: str, tool: str, arguments: Mapping[str, Json]) -> Future[CallOutcome]:
        """Run a call between two cells."""
        future: Future[CallOutcome] = self._main.submit(partial(self._run, caller, tool, arguments))
        return future

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt a call that is running."""
        self._main.interrupt(future)

    def names(self) -> list[str]:
        """The variables that may be described."""
        from archytas_nb.kernel.visible import shown_names

        names = shown_names(self._shell.user_ns)
        hidden = self._hidden()
        if hidden is None:
            return names
        return [name for name in names if name not in hidden]

    def _hidden(self) -> Collection[str] | None:
        """The names that are not told; None if values may be told as well."""
        from archytas_nb.kernel.disclosure import names_made_in_runs
        from archytas_nb.settings import value

        if value("values") == "all":
            return None

        return names_made_in_runs

    def described(self, name: str) -> Future[str]:
        """A description of a variable, or of all; without values if these stay here."""
        from archytas_nb.kernel.cards import card
        from archytas_nb.kernel.look import NO_VARIABLES, look_tools, pages_of

        work: Callable[[], str]
        names = self._shell.user_ns
        hidden = self._hidden()
        if not name:
            shown = {each: names[each] for each in self.names()}
            work = lambda: "\n".join(pages_of(shown, hidden=hidden)) or NO_VARIABLES  # noqa: E731
        elif hidden is not None:
            work = lambda: card(name, names[name], values="none", hidden=hidden)  # noqa: E731
        else:
            _, looking = look_tools()
            work = lambda: looking.call({"name": name}, names).text  # noqa: E731
        future: Future[str] = self._main.submit(work)
        return future

    def _agent(self) -> Agent:
        """An agent with the settings of the notebook, for one call."""
        from archytas_nb.agent import Agent

        # The program that calls asks its own user, and describes nothing to a model.
        return Agent(
            namespace=self._shell.user_ns, ask_user=False, context="none", protocol="native"
        )

    def _run(self, caller: str, tool: str, arguments: Mapping[str, Json]) -> CallOutcome:
        from archytas_nb.mcp.calls import run_call
        from archytas_nb.tools.toolbox import toolbox
        from archytas_nb.trace.live import TraceView

        toolbox.refresh(self._shell.user_ns)
        agent = self._agent()
        mode: Mode = "quiet"
        if tool in agent.tools and agent.tools[tool].may_require_approval:
            mode = self._mode  # so that the person sees what they approve
        shown = f"{caller} calls {tool}"
        with TraceView(shown, mode, inbox=agent.inbox, can_tell=False) as view:
            outcome, run = run_call(agent, caller, tool, arguments, observers=[view.on_event])
        if outcome.stored:
            self._keep_stored(outcome.stored)
        if run is not None:
            self._magics.history.add_call(run, self._shell.execution_count - 1)
            if mode == "quiet":
                self._runs = [*self._runs[1 - SHOWN :], run]
                self._main.later(self._update)
        return outcome

    def _keep_stored(self, name: str) -> None:
        """Keep the last results that calls have put into variables."""
        names = self._shell.user_ns
        self._stored.append((name, names.get(name)))
        while len(self._stored) > KEPT:
            earliest, value = self._stored.popleft()
            if names.get(earliest) is value:
                del names[earliest]

    def _update(self) -> None:
        try:
            self._handle.update(self._bundle(), raw=True)
        except Exception:  # noqa: BLE001 - the call itself has succeeded
            _log.exception("the calls of other programs cannot be shown")

    def _bundle(self) -> dict[str, str]:
        from archytas_nb.trace import bundle
        from archytas_nb.trace.fold import fold
        from archytas_nb.trace.safe import element

        bundles = [bundle(fold(each.question, each.events))[0] for each in self._runs]
        texts = [self._said, *(each["text/plain"] for each in bundles)]
        parts = [element("pre", self._said), *(each["text/html"] for each in bundles)]
        return {"text/plain": "\n\n".join(texts), "text/html": "\n".join(parts)}
