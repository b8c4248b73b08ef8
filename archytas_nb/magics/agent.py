"""``%agent`` and ``%%agent``: read the line, ask, return the run."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import argument
from traitlets import observe

from archytas_nb.cells import ran
from archytas_nb.conversation import Conversation, History
from archytas_nb.errors import (
    ArchytasError,
    ConfigurationError,
    RunError,
    RunInterrupted,
    ToolTimeout,
)
from archytas_nb.magics.first_sign import FirstSign
from archytas_nb.magics.line import (
    line_magic_with,
    parser_of,
    print_help,
    split_options,
    with_options,
    without_frames,
)
from archytas_nb.magics.options import AGENT_FLAGS, FORK_FLAGS, MAP_FLAGS
from archytas_nb.magics.overview import TextResult, overview_of_magics
from archytas_nb.magics.settings import SettingTraits, model_settings
from archytas_nb.namespace import Cell, cell_of, cells_of
from archytas_nb.settings import QUESTION_SETTINGS, Settings, configure, value
from archytas_nb.words import count

if TYPE_CHECKING:
    from archytas_nb.loop import events
    from archytas_nb.loop.model import Model
    from archytas_nb.magics.after import AfterRuns
    from archytas_nb.magics.background import Background
    from archytas_nb.magics.fork import LastAsked, StartOfBranch
    from archytas_nb.models.choose import Confirm
    from archytas_nb.prepare import Question, RunSetup
    from archytas_nb.run import Run
    from archytas_nb.trace.live import Mode

_FIX = "Why did cell [{number}] fail? Explain it in one or two sentences, and correct the cell."
"""The question of `%agent_fix`."""
_NO_CODE = "The answer has no block of Python code: no cell was added"
_log = logging.getLogger("archytas_nb")


@magics_class
class ArchytasNB(SettingTraits, Magics):
    """The agent of this notebook."""

    shell: Any
    history: History
    after: AfterRuns
    _is_loaded = False  # traits are set, and observed, before __init__ has ended

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._models: dict[Any, Model] = {}
        self._callbacks: set[Callable[..., None]] = set()
        self._warmed: list[events.Message] | None = None
        self._last_asked: LastAsked | None = None
        self._background: Background | None = None

    @no_var_expand
    @needs_local_scope
    @with_options(
        *AGENT_FLAGS,
        examples=(
            "%agent Which island has the heaviest penguins in df?",
            "%agent --python undoable Drop the rows of df without a mass",
            "%agent --type float --out mean_mass What is their mean mass in kg?",
        ),
        prose="QUESTION",
    )
    @line_cell_magic
    def agent(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Ask a question; the agent answers it using the tools and live objects of this notebook.

        Options come first, then the question: the rest of the line and, with %%agent, the rest of
        the cell. {name} is replaced with the value of a variable; {{ and }} are literal braces. The
        next question continues the conversation; rerunning a notebook cell replaces its question.
        Options apply to this question, %config ArchytasNB to all questions. Without a question,
        %agent --new deletes the conversation. See also %agent_history, %agent_undo and %agent_why.
        """
        __tracebackhide__ = True
        flags, text = split_options(line, parser_of(self.agent))
        args = parser_of(self.agent).parse_args(flags)
        if args.help:
            return print_help(parser_of(self.agent))
        if args.models:
            from archytas_nb.magics.models import models_to_name

            return models_to_name(self)
        silent = cell is None and text.endswith(";")
        if cell is not None:
            text = f"{text}\n{cell}"
        elif silent:
            text = text.removesuffix(";")
        text = text.strip()
        if not text and args.new and not args.dry_run:
            return self._start_over()
        if not text and not flags and cell is None:
            return overview_of_magics(self.shell)
        if not text:
            raise UsageError(
                "the question is empty; use %agent QUESTION, or %%agent with the question below it"
            )
        names: dict[str, Any] = self.shell.user_ns
        if local_ns is not None and local_ns is not names:  # in a function, its own come first
            names = {**names, **local_ns}
        return self._ask(text, args, names, silent=silent)

    def _start_over(self) -> TextResult:
        """Delete the conversation; the next question begins a new one."""
        if self.history.is_running:
            raise UsageError("a question is being answered; start over when that has ended")
        number = len(self.history.exchanges)
        self.history.reset()
        return TextResult(f"removed: {count(number, 'question')}")

    @no_var_expand
    @with_options(
        *AGENT_FLAGS,
        are_listed=False,
        examples=(
            "%agent_fix",
            "%agent_fix Keep the names of the columns",
            "%agent_fix --model local",
        ),
        prose="[OPTIONS OF %agent] [TEXT]",
    )
    @line_magic
    def agent_fix(self, line: str) -> Any:
        """Ask why the last cell failed, and put the corrected cell below; it is not run.

        What you add is part of the question: %agent_fix keep the column names. The options are
        those of %agent. The corrected cell is the last block of Python code of the answer.
        """
        __tracebackhide__ = True
        flags, text = split_options(line, parser_of(self.agent_fix))
        args = parser_of(self.agent_fix).parse_args(flags)
        if args.help:
            return print_help(parser_of(self.agent_fix))
        failed = ran.last_failure()
        if failed is None:
            raise UsageError(
                "the last cell did not fail, so there is nothing to correct; ask about any cell "
                "with %agent QUESTION"
            )
        if self._settings(vars(args)).context == "none":
            raise UsageError(
                "context is 'none', so the model does not see the error: use %agent_fix --context "
                "auto"
            )
        args.cell = True
        silent = text.endswith(";")
        question = f"{_FIX.format(number=failed.number)} {text.removesuffix(';')}".strip()
        return self._ask(question, args, self.shell.user_ns, silent=silent)

    @line_magic_with(
        argument("--wait", action="store_true", help="Wait in this cell until all have ended."),
        argument("--stop", action="store_true", help="End those that are running."),
    )
    def agent_runs(self, args: Any) -> Any:
        """Show the questions in the background, wait for them, or end them.

        %agent --background asks one. While a cell waits for it, its calls run in this cell.
        """
        if self._background is None:
            return TextResult("no question was asked in the background")
        try:
            if args.stop:
                return self._background.stop()
            if args.wait:
                return self._background.wait()
        except KeyboardInterrupt as error:
            print("This cell no longer waits; the question continues.")  # noqa: T201
            raise without_frames(error) from None
        return self._background.runs()

    @no_var_expand
    @with_options(*FORK_FLAGS, prose="[STEP [TEXT]]")
    @line_magic
    def agent_fork(self, line: str) -> Any:
        """Try the last question another way from one of its steps, and keep both branches.

        %agent_fork 3 puts the variables and files back to where they were before step 3, and asks
        again from there; what follows the number is told to the agent: %agent_fork 3 use the
        median. Without a number it lists the branches; --to goes to one of them, with its variables
        and files. What the question changed must have been watched: see %agent_undo.
        """
        __tracebackhide__ = True
        from archytas_nb.magics.fork import branches, fork_from, go_to

        flags, text = split_options(line, parser_of(self.agent_fork))
        args = parser_of(self.agent_fork).parse_args(flags)
        if args.help:
            return print_help(parser_of(self.agent_fork))
        if self.history.is_running:
            raise UsageError("a question is being answered; fork it when that has ended")
        try:
            if args.to is not None:
                return go_to(self.history, args.to)
            if not text.strip():
                return branches(self.history)
            start = fork_from(self.history, self._last_asked, text)
            return self._forked(start, args)
        except (ArchytasError, RunInterrupted, ValueError) as error:
            raise without_frames(error) from None

    @no_var_expand
    @with_options(
        *MAP_FLAGS,
        examples=(
            "%agent_map --on df.comment --out topics In one word, what is this about?",
            "%agent_map --on df --type float --out prices What does {product} cost?",
            "%agent_map --on df --plan --out labels Does {text} name a person?",
        ),
        prose="PROMPT",
    )
    @line_cell_magic
    def agent_map(self, line: str, cell: str | None = None) -> Any:
        """Ask about every row of a column or a frame, each in a conversation of its own.

        Options come first, then what to do with each row: the rest of the line and, with
        %%agent_map, the rest of the cell. {column} is replaced with the row's value; if no column
        is named, the whole row is added below the prompt. Results are stored in a file, so
        rerunning the cell continues where it stopped. The settings are those of %agent; for
        details, see Agent.map.
        """
        __tracebackhide__ = True
        from archytas_nb.batch.engine import is_replay
        from archytas_nb.batch.map import mapped
        from archytas_nb.magics import options
        from archytas_nb.magics.after import offer_retry
        from archytas_nb.progress import line_writer
        from archytas_nb.tools.toolbox import toolbox

        flags, text = split_options(line, parser_of(self.agent_map))
        if {"-h", "--help"} & {*flags}:  # without the options that are required
            return print_help(parser_of(self.agent_map))
        if not any(flag.startswith("--on=") for flag in flags):
            raise UsageError(_needs_rows(text, self.shell.user_ns))
        args = parser_of(self.agent_map).parse_args(flags)
        prompt = text
        if cell is not None:
            prompt = f"{text}\n{cell}".strip()
        if not prompt:
            raise UsageError("the prompt is empty; say after the options what to do with each row")
        names = self.shell.user_ns
        out = None
        if args.out:
            out = options.variable(args.out)
        try:
            toolbox.refresh(names)
            given = {**vars(args), "ask_user": "off", "python": "off", "undo": False}
            settings = self._settings(given)
            output_type = None
            if args.type:
                output_type = options.answer_type(args.type, names)
            data = options.rows_of(args.on, names)
            setup = self._setup(args, settings, is_replay=is_replay(None))
            ask = partial(
                mapped,
                setup.for_rows(prompt, is_planned=args.plan is True),
                data, prompt,
                output_type=output_type, workers=args.workers, budget=args.budget, rpm=args.rpm,
                store=args.store, progress=line_writer(), name=args.model or "default",
                plan=args.plan, rows=args.rows, verify=args.verify,
                max_fallback=args.max_fallback, retry=args.retry,
                when=args.when, expression=args.on, variable=args.out or "",
                on_planned=self.history.add_map,
            )  # fmt: skip
            frame = ask()
        except (ArchytasError, ValueError, KeyboardInterrupt) as error:
            raise without_frames(error) from None
        if out is None:
            return frame
        names[out] = frame
        offer_retry(names, out, frame, ask)
        return None

    # ── the extension's life ──────────────────────────────────────────────────────────────────────

    def loaded(self) -> None:
        """Start the model with the extension where `warm` is set; raises UsageError."""
        self._is_loaded = True
        ran.watch(self.shell)
        configure(self._trait_values)
        if self.warm:
            self._warm_up()

    def unload(self) -> None:
        """Remove the callbacks that wait for the end of a cell, the cassette and the settings."""
        ran.unwatch()
        configure(None)
        self.drop_refused()
        if self._background is not None:
            self._background.close()
        if self.cassette:
            from archytas_nb.cassettes.switch import configure_cassette

            configure_cassette("")
        for each in tuple(self._callbacks):
            self._unregister(each)

    @observe("warm")
    def _warm_changed(self, change: Any) -> None:
        if change.new and self._is_loaded:
            self._warm_up()

    @observe("cassette", "cassette_mode")
    def _cassette_changed(self, _: Any) -> None:
        """A cassette counts for every agent of this kernel, also for those that no magic makes."""
        from archytas_nb.cassettes.switch import configure_cassette

        configure_cassette(self.cassette, self.cassette_mode)

    def _warm_up(self) -> None:
        """Start the model in the background; the first question reports what goes wrong."""
        if self._read_tools not in self._callbacks:
            self._register(self._read_tools)
        self._warmed = None
        self._read_tools()

    def _read_tools(self, _: Any = None) -> None:
        """Have the model read each new set of tools, until it is asked something."""
        from archytas_nb.prepare import messages_of_conversation
        from archytas_nb.tools.toolbox import toolbox

        if not self.warm or self.history.exchanges:
            self._unregister(self._read_tools)
            return
        try:
            model = self._model(None, _ask_later)
            setup = self._setup(parser_of(self.agent).parse_args([]), self._settings({}))
            begins: list[events.Message] = []
            if toolbox:
                begins = messages_of_conversation(setup.now(), [])
        except (ArchytasError, UsageError) as error:
            _log.info("the model could not be warmed: %s", error)
            return
        from archytas_nb.loop.model import warm

        if begins != self._warmed:
            self._warmed = begins
            warm(model, begins)

    def _register(self, callback: Callable[..., None]) -> None:
        self._callbacks.add(callback)
        self.shell.events.register("post_run_cell", callback)

    def _unregister(self, callback: Callable[..., None]) -> None:
        self._callbacks.discard(callback)
        self.shell.events.unregister("post_run_cell", callback)

    # ── one question ──────────────────────────────────────────────────────────────────────────────

    def _ask(self, text: str, args: Any, names: dict[str, Any], *, silent: bool) -> Any:
        """Read a question with its options, and ask it."""
        __tracebackhide__ = True
        try:
            here = cell_of(self.shell)
            has_trace = not (args.dry_run or self._is_quiet(args))
            with FirstSign(self.shell, is_wanted=has_trace) as sign:
                asked = self._read(text, args, names, here)
                return self._answered(*asked, args, here, sign, written=text, silent=silent)
        except (ArchytasError, RunInterrupted) as error:
            is_shown = getattr(error, "run", None) is not None and not self._is_quiet(args)
            raise without_frames(error, is_shown=is_shown) from None

    def ask_from_chat(
        self, question: str, model: str | None, observer: Callable[[Any], Any]
    ) -> Run:
        """Ask a question that no cell asks, in the conversation of the notebook.

        Args:
            question: The question, taken as it is.
            model: The model, as after ``--model``; None for the configured one.
            observer: Called with every event of the run, which is also shown in the notebook.

        Raises:
            ArchytasError, RunInterrupted: As `Agent.run`.
            UsageError: The settings cannot be read, or another question is being answered.
        """
        from archytas_nb.driver import answered
        from archytas_nb.loop.record import Inbox
        from archytas_nb.prepare import read_question
        from archytas_nb.tools.toolbox import toolbox
        from archytas_nb.trace.live import TraceView

        if self.history.is_running:
            raise UsageError(
                "this conversation is already answering a question; ask when that has ended"
            )
        toolbox.refresh(self.shell.user_ns)
        settings = self._settings({})
        args = parser_of(self.agent).parse_args([])
        args.model = model
        setup = self._setup(args, settings).now()
        mode: Mode = "quiet" if value("quiet") else "static"

        def ask(conversation: Conversation, continues: str) -> Run:
            with TraceView(question, mode, continues) as view:
                return answered(
                    setup, read_question(setup.variables, question), conversation, Inbox(),
                    [view.on_event, observer],
                )  # fmt: skip

        cell = Cell("", "", len(cells_of(self.shell)) - 1)
        return self.history.ask(ask, "", cell, new=False)

    def _ask_below(
        self, question: str, setup: RunSetup, first: str, keywords: dict[str, Any]
    ) -> Run:
        """Ask a question between cells, with the setup of the first one, below which it is shown.

        If it is the same again, its answer has the same type, and it has the same pictures.
        """
        from archytas_nb.driver import answered
        from archytas_nb.loop.record import Inbox
        from archytas_nb.prepare import read_question
        from archytas_nb.trace.live import TraceView

        self._check_is_free()  # another one may have begun between the click and this
        kind = {**keywords, "origin": ""} if question == first else {}
        sees = setup.settings.context != "none"
        asked = read_question(setup.variables, question, names_variables=sees, **kind)

        def ask(conversation: Conversation, continues: str) -> Run:
            with TraceView(question, "static", continues) as view:
                return answered(setup, asked, conversation, Inbox(), [view.on_event])

        cell = Cell("", "", len(cells_of(self.shell)) - 1)
        return self.history.ask(ask, "", cell, new=False)

    def choose_model(self, name: str | None) -> str:
        """Choose the model of later questions, asking the person if need be; its name.

        Raises:
            ConfigurationError: There is no such model, or something is not installed that it needs.
        """
        from archytas_nb.loop.model import require

        model = self._model(name)
        require(model)
        return str(model.name)

    def _read(
        self, text: str, args: Any, names: dict[str, Any], cell: Cell
    ) -> tuple[str, str | None, dict[str, Any]]:
        """The question, the variable for the answer, and the other arguments of `Agent.run`.

        All of it is validated before anything is sent.
        """
        from archytas_nb.kernel.execute import KernelExecutor
        from archytas_nb.magics import options
        from archytas_nb.magics.expand import check_lookups, expand
        from archytas_nb.template import MAX_SECONDS
        from archytas_nb.tools.toolbox import toolbox

        has_lookups = not args.raw and ("{" in text or "}" in text)

        def read() -> tuple[str, str | None, dict[str, Any]]:
            question = text
            images: list[str] = []
            if has_lookups:
                question, found = expand(text, names)
                images += found
                check_lookups(text, question, self._settings(vars(args)).values)
            images += [options.picture(each, names) for each in args.image]
            output_type = until = out = None
            if args.type:
                output_type = options.answer_type(args.type, names)
            if args.until:
                until = options.condition(args.until, names, of_text=not args.type)
            if args.out:
                out = options.variable(args.out)
            keywords = {
                "output_type": output_type,
                "until": until,
                "images": images,
                "origin": self.history.origin(cell),
                "code": args.cell,
            }
            return question, out, keywords

        if not (has_lookups or args.image or args.type):
            return read()
        try:  # a value's __repr__ may never end
            return KernelExecutor(toolbox, names).call(read, MAX_SECONDS)
        except ToolTimeout:
            raise UsageError(
                f"the values in the question could not be read within {MAX_SECONDS:g} s: compute "
                "what the model needs in a cell, assign it to a variable and use that"
            ) from None

    def _answered(
        self,
        question: str,
        out: str | None,
        keywords: dict[str, Any],
        args: Any,
        cell: Cell,
        sign: FirstSign,
        *,
        written: str,
        silent: bool,
    ) -> Any:
        from archytas_nb.driver import answered
        from archytas_nb.loop.record import Inbox
        from archytas_nb.prepare import prepare, read_question
        from archytas_nb.run import Run
        from archytas_nb.tools.toolbox import toolbox
        from archytas_nb.trace.live import TraceView, display_mode

        toolbox.refresh(self.shell.user_ns)
        settings = self._settings(vars(args))
        origin = keywords["origin"]
        setup = replace(self._setup(args, settings).now(), plans=args.plan)
        sees = setup.settings.context != "none"
        asked = read_question(setup.variables, question, names_variables=sees, **keywords)
        if args.dry_run:
            from archytas_nb.magics.dry_run import dry_run

            exchanges = self.history.exchanges_for(origin, new=args.new)
            return dry_run(prepare(setup, setup.choice.choose(), asked, exchanges))
        inbox = Inbox()
        mode = display_mode(self.shell)
        is_quiet = self._is_quiet(args)
        shown = "quiet" if is_quiet else mode
        self._last_asked = (asked, setup, written)

        traces: list[TraceView] = []

        def ask(conversation: Conversation, continues: str) -> Run:
            with TraceView(
                question,
                shown,
                continues,
                inbox,
                written,
                keywords["images"],
                ran.seconds_waited(),
                place=sign.take(),
            ) as view:
                traces.append(view)
                try:
                    return answered(setup, asked, conversation, inbox, [view.on_event])
                except RunInterrupted as error:
                    view.end(getattr(error.run, "ending", None))
                    if inbox.is_stopped and isinstance(error.run, Run):
                        return error.run
                    raise

        self._check_is_free()
        self.after.close()
        if args.background and mode == "live":  # its trace says when it has ended, also if quiet
            return self._begun(setup, asked, out, args, cell, written, keywords, sign)
        _say_if_it_waits(args, mode)
        run = self.history.ask(ask, origin, cell, new=args.new)
        again = partial(self._ask_below, setup=setup, first=question, keywords=keywords)
        self.after.add(run, traces[-1], again)
        if is_quiet and not silent:
            run.show("answer")
        else:
            run.show("nothing")
            _show_no_prompt(self.shell, run, mode)

        def cell_ended(*_: Any) -> None:  # elsewhere the run shows itself whole
            run.show("all")
            self._unregister(cell_ended)

        self._register(cell_ended)
        if args.cell:
            self._add_cell(run)
        if out is not None and run.status != "interrupted":
            self._assign(out, run)
        return run

    @staticmethod
    def _is_quiet(args: Any) -> bool:
        """Whether nothing of the run is shown but its answer."""
        return bool(vars(args).get("quiet", value("quiet")))

    def _check_is_free(self) -> None:
        """Raise UsageError while a question is being answered."""
        if self.history.is_running:
            raise UsageError(
                "this conversation is already answering a question; a tool cannot ask another, and "
                "%agent_runs --wait waits for one in the background"
            )

    def _begun(
        self, setup: RunSetup, asked: Question, out: str | None, args: Any, cell: Cell,
        written: str, keywords: dict[str, Any], sign: FirstSign,
    ) -> Run:  # fmt: skip
        """Begin a question in the background."""
        from archytas_nb.loop.record import Inbox
        from archytas_nb.magics.background import Background, Outcome
        from archytas_nb.trace.live import TraceView

        if self._background is None:
            self._background = Background(self.shell, self.history)
        asking = self.history.begin(keywords["origin"], cell, new=args.new)

        traces: list[TraceView] = []

        def view(inbox: Inbox) -> TraceView:
            trace = TraceView(
                asked.exchange.question,
                "live",
                asking.continues,
                inbox,
                written,
                keywords["images"],
                ran.seconds_waited(),
                place=sign.take(),
            )
            traces.append(trace)
            return trace

        question = asked.exchange.question
        again = partial(self._ask_below, setup=setup, first=question, keywords=keywords)

        def ended(run: Run, changed: Collection[str]) -> Outcome:
            run.show("all")
            self.after.add(run, traces[-1], again)
            code = self._code_of(run) if args.cell else ""
            notes = []
            if args.cell and not code:
                notes.append(_NO_CODE)
            if out is not None and run.status != "answered":
                notes.append(f"{out} was not changed")
            elif out is not None and out in changed:
                notes.append(f"{out} was kept, because it was changed meanwhile")
                if self.shell.user_ns.get("Out", {}).get(cell.number) is run:
                    notes.append(f"the answer is Out[{cell.number}].output")
            elif out is not None:
                self._assign(out, run)
            return Outcome("; ".join(notes), code)

        watched = () if out is None else (out,)
        run = self._background.begin(setup, asked, asking, view, ended, watched)
        run.show("nothing")
        return run

    def _forked(self, start: StartOfBranch, args: Any) -> Run:
        """Ask the last question again from a step."""
        from archytas_nb.driver import answered
        from archytas_nb.fork import begin, go
        from archytas_nb.loop.record import Inbox
        from archytas_nb.prepare import ModelChoice
        from archytas_nb.run import Run
        from archytas_nb.trace.live import TraceView, display_mode

        self.after.close()
        question, setup, written = start.asked
        if args.model is not None:
            setup = replace(setup, choice=ModelChoice(self._model(args.model)))
        inbox = Inbox()
        before = start.before
        mode = display_mode(self.shell)
        run = Run[Any](before.question, _is_typed=question.is_typed)
        begin(run, start.beginning, before)

        def ask(conversation: Conversation) -> Run:
            with TraceView(before.question, mode, start.title, inbox, written) as view:
                for event in run.events:
                    view.on_event(event)
                try:
                    return answered(
                        setup, start.question, conversation, inbox, [view.on_event], run
                    )
                except RunInterrupted as error:
                    view.end(getattr(error.run, "ending", None))
                    raise

        try:
            for note in go(before, run):
                print(f"note: {note}")  # noqa: T201
            made = self.history.fork_last(ask, start.fork, cell_of(self.shell))
        finally:
            # One that was interrupted is a branch, too.
            if self.history.last is not run:  # nothing came of it: the other one is as it was
                go(run, before)
        made.show("nothing")
        return made

    def _add_cell(self, run: Run) -> None:
        """Put the code of an answer into a new cell below; say so if there is none."""
        code = self._code_of(run)
        if code:
            self.shell.set_next_input(code, replace=False)
        else:
            print(f"{_NO_CODE}.")  # noqa: T201

    @staticmethod
    def _code_of(run: Run) -> str:
        """The code of an answer, for a cell; empty if there is none."""
        from archytas_nb.trace.safe import last_python_block

        if run.incomplete:  # a part of a cell is not a cell
            return ""
        return last_python_block(run.answer)

    def _assign(self, name: str, run: Run) -> None:
        """Assign the answer to a variable, so that it can be undone with the run."""
        if run.incomplete:
            error = RunError(
                f"{run.reason}: there is no complete answer for {name!r}; the variable was not "
                "changed"
            )
            error.run = run
            raise error
        run.assign(name, run.output)

    def _settings(self, given: dict[str, Any]) -> Settings:
        """The settings of a question: what is given with it, else what is configured."""
        chosen = {name: given[name] for name in QUESTION_SETTINGS if name in given}
        try:
            return Settings.now(chosen)
        except ConfigurationError as error:
            raise UsageError(str(error)) from None

    def _setup(self, args: Any, settings: Settings, *, is_replay: bool = False) -> RunSetup:
        """The setup of this question; a map's replay needs no model."""
        from archytas_nb.magics.options import chosen_tools
        from archytas_nb.prepare import ModelChoice, RunSetup, profile_of
        from archytas_nb.tools.toolbox import Toolbox, toolbox

        model: Any = args.model
        if not is_replay:
            model = self._model(args.model, effort=vars(args).get("effort"))
        profile = profile_of(model)
        tools = None
        if settings.tools:
            tools = toolbox.only(*chosen_tools(settings.tools, toolbox))
        allow: Collection[str] = settings.allow
        if "allow" in vars(args):
            allow = chosen_tools(allow, toolbox, "--allow")
        asks_user = settings.ask_user == "on"
        if settings.ask_user == "auto":  # a tool of that name takes the place of the built-in one
            asks_user = profile.asks_user and "ask_user" not in toolbox
        settings = settings.but(allow=allow, ask_user=asks_user)
        return RunSetup(settings, ModelChoice(model), tools, Toolbox(), self.shell.user_ns)

    def _model(
        self, name: str | None, confirm: Confirm | None = None, effort: str | None = None
    ) -> Model:
        """The model for this question; made once, so that a cassette and a connection last.

        ``confirm`` asks whether a server may be used that nobody named; None asks a person.
        ``effort`` takes the place of the setting.
        """
        held = held_model(self.shell.user_ns, name)
        if held is not None and effort is None:
            return held
        if held is not None:
            raise UsageError(
                f"--effort is not for the model in the variable {name!r}; create that model with "
                f"effort={effort!r}"
            )
        from archytas_nb.cassettes.switch import cassette_in_use, recorded
        from archytas_nb.kernel import person

        settings = model_settings(self)
        if effort is not None:
            settings = replace(settings, effort=effort)
        cassette = cassette_in_use()
        choice = (name, settings.resolved(), cassette)
        if choice not in self._models:
            try:
                model: Model = recorded(name, settings, cassette, confirm or person.confirm)
            except ConfigurationError as error:
                if name is None or not name.isidentifier():
                    raise
                raise ConfigurationError(
                    f"no variable {name!r} holds a model, and {error}"
                ) from None
            self._models[choice] = model
        if effort not in (None, "auto"):
            _check_effort(self._models[choice])
        return self._models[choice]


def _check_effort(model: Any) -> None:
    """Raise UsageError for the embedded model, for which a level of effort would do nothing."""
    from archytas_nb.models.embedded.model import EmbeddedModel

    if isinstance(model, EmbeddedModel):
        raise UsageError(
            "--effort is not for the embedded model, which has no levels; leave it out, or name "
            "another model with --model"
        )


def _say_if_it_waits(args: Any, mode: Mode) -> None:
    """Say that a question is not in the background where a person would think that it is."""
    if args.background and mode in ("terminal", "console"):
        print("--background needs a notebook: here the cell waits for the answer")  # noqa: T201


def _show_no_prompt(shell: Any, run: Run, mode: Mode) -> None:
    """Have IPython in a terminal keep a value that its trace has shown, as `_` and in `Out`.

    It writes ``Out[1]:`` before it looks what there is to show. At the end of the cell, it puts the
    hook back that it had.
    """
    if mode != "terminal":
        return
    usual = sys.displayhook

    def displayed(value: Any) -> None:
        if value is run:
            shell.displayhook.update_user_ns(value)
            shell.displayhook.fill_exec_result(value)
        else:
            usual(value)

    sys.displayhook = displayed


def held_model(namespace: dict[str, Any], name: str | None) -> Model | None:
    """The model in a variable of the notebook, or None where no variable of that name has one."""
    from archytas_nb.loop.model import answers_itself, is_model

    held: Any = namespace.get(name) if name else None
    if not is_model(held):
        return None
    model: Model = held
    if not answers_itself(held):
        from archytas_nb.cassettes.switch import recorded

        model = recorded(held)
    return model


def _needs_rows(text: str, names: dict[str, Any]) -> str:
    """The message for a map without rows, with the variable that was written in their place."""
    first, _, rest = text.partition(" ")
    rows = first if first in names else "df"
    prompt = rest if first in names and rest else "What is this about?"
    return f"%agent_map needs the rows to ask about: %agent_map --on {rows} {prompt.strip()}"


def _ask_later(_prompt: str) -> bool | None:
    raise ConfigurationError("whether to use a model server will be asked with the first question")
