"""``%agent`` and ``%%agent``: read the line, ask, return the run."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import magic_arguments
from traitlets import observe

from archytas_nb.errors import (
    ArchytasError,
    ConfigurationError,
    RunError,
    RunInterrupted,
    ToolTimeout,
)
from archytas_nb.magics.line import brief, print_help, split_options
from archytas_nb.magics.options import agent_flags, map_flags
from archytas_nb.magics.settings import Settings

if TYPE_CHECKING:
    from archytas_nb.agent import Agent, Model
    from archytas_nb.loop import events
    from archytas_nb.magics.conversation import Conversation
    from archytas_nb.models.choose import Confirm, ModelSettings
    from archytas_nb.run import Run, Shows

_LIMITS = ("max_steps", "max_errors", "max_seconds", "max_total_tokens", "max_reply_tokens")
_CHOSEN = (
    "protocol",
    "instructions",
    "tools",
    "approve",
    "allow",
    "ask_user",
    "context",
    "python",
    "undo",
    "quiet",
)
_MOVED = re.compile(r"\s*--(history|undo|reset|cost)\b\s*(.*)", re.DOTALL)
_log = logging.getLogger("archytas_nb")


class Question(NamedTuple):
    """One question, read as far as possible without asking it."""

    text: str  # as it is sent
    out: str | None  # the variable that the answer is put into
    keywords: dict[str, Any]  # further arguments of `Agent.run`


@magics_class
class ArchytasNB(Settings, Magics):
    """The agent of this notebook."""

    shell: Any
    conversation: Conversation
    _is_loaded = False  # traits are set, and observed, before __init__ has ended

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._models: dict[Any, Model] = {}
        self._callbacks: set[Callable[..., None]] = set()
        self._warmed: list[events.Message] | None = None

    @no_var_expand
    @needs_local_scope
    @magic_arguments()
    @agent_flags
    @line_cell_magic
    def agent(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Ask a question; the agent answers it using the tools and live objects of this notebook.

        Options come first, then the question: the rest of the line and, with %%agent, the rest of
        the cell. {name} is replaced with the value of a variable; {{ and }} are literal braces. The
        next question continues the conversation; rerunning a notebook cell replaces its question.
        Options apply to this question, %config ArchytasNB to all questions. See also
        %agent_history, %agent_undo, %agent_reset and %agent_cost; %agent_diff and %agent_why say
        what was changed.
        """
        __tracebackhide__ = True
        if (moved := _MOVED.fullmatch(line)) is not None:
            name, rest = moved.groups()
            if rest or cell:
                raise UsageError(f"use %agent_{name} instead of --{name}; it takes no question")
            hint = f"%agent --{name} is deprecated; use %agent_{name}"
            warnings.warn(hint, FutureWarning, stacklevel=3)
            return getattr(self.conversation, f"agent_{name}")("")
        flags, text = split_options(line, self.agent.parser)
        args = self.agent.parser.parse_args(flags)
        if args.help:
            return print_help(self.agent.parser)
        text = text if cell is None else f"{text}\n{cell}"
        silent = cell is None and text.endswith(";")
        text = text.removesuffix(";").strip() if silent else text.strip()
        if not text and args.new and not args.dry_run:
            return self.conversation.reset()
        if not text:
            raise UsageError(
                "the question is empty; use %agent QUESTION, or %%agent with the question below it"
            )
        names: dict[str, Any] = self.shell.user_ns
        if local_ns is not None and local_ns is not names:  # in a function, its own come first
            names = {**names, **local_ns}
        try:
            return self._answered(self._read(text, args, names), args, silent=silent)
        except (ArchytasError, RunInterrupted) as error:
            raise brief(error) from None

    @no_var_expand
    @magic_arguments()
    @map_flags
    @line_cell_magic
    def agent_map(self, line: str, cell: str | None = None) -> Any:
        """Ask about every row of a column or a frame, each in a conversation of its own.

        Options come first, then what to do with each row: the rest of the line, and with
        %%agent_map the cell below. {column} stands for a value of the row; without one the whole
        row stands below. Results are kept in a file: a cell that is run again goes on where it
        stopped. The settings are those of %agent; more: Agent.map.
        """
        __tracebackhide__ = True
        from archytas_nb.batch.map import Plan, is_replay
        from archytas_nb.batch.methods import mapped
        from archytas_nb.magics import options
        from archytas_nb.magics.tool import refresh_tools
        from archytas_nb.progress import Progress

        if re.search(r"(?<!\S)(?:-h|--help)(?!\S)", line):
            return print_help(self.agent_map.parser)
        flags, text = split_options(line, self.agent_map.parser)
        args = self.agent_map.parser.parse_args(flags)
        prompt = text if cell is None else f"{text}\n{cell}".strip()
        names = self.shell.user_ns
        out = args.out and options.variable(args.out)
        try:
            refresh_tools(names)
            settings = Settings(
                **{name: getattr(self, name) for name in (*_LIMITS, *_CHOSEN)}
                | {"ask_user": "off", "python": "off", "undo": False}
            )
            plan = Plan(
                args.type and options.answer_type(args.type, names), args.workers, args.budget,
                args.rpm, store=args.store, show=Progress().show, name=args.model or "default",
            )  # fmt: skip
            data = options.rows_of(args.on, names)
            agent = self._agent(args, settings, is_replay=is_replay(None))
            frame = mapped(agent, data, prompt, plan)
        except (ArchytasError, ValueError) as error:
            raise brief(error) from None
        if out is None:
            return frame
        names[out] = frame
        return None

    # ── the extension's life ──────────────────────────────────────────────────────────────────────

    def loaded(self) -> None:
        """Start the model with the extension where `warm` is set; raises UsageError."""
        self._is_loaded = True
        if self.warm:
            self._warm_up()

    def unload(self) -> None:
        """Remove the callbacks that wait for the end of a cell, and the cassette."""
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
        from archytas_nb.tools.toolbox import toolbox

        if not self.warm or self.conversation.exchanges:
            self._unregister(self._read_tools)
            return
        try:
            model = self._chosen_model(None, confirm=_ask_later)
            begins = self._agent(self.agent.parser.parse_args([]), self).messages if toolbox else []
        except (ArchytasError, UsageError) as error:
            _log.info("the model could not be warmed: %s", error)
            return
        warm = getattr(model, "warm", None)
        if callable(warm) and begins != self._warmed:
            self._warmed = begins
            warm(begins)

    def _register(self, callback: Callable[..., None]) -> None:
        self._callbacks.add(callback)
        self.shell.events.register("post_run_cell", callback)

    def _unregister(self, callback: Callable[..., None]) -> None:
        self._callbacks.discard(callback)
        self.shell.events.unregister("post_run_cell", callback)

    # ── one question ──────────────────────────────────────────────────────────────────────────────

    def _read(self, text: str, args: Any, names: dict[str, Any]) -> Question:
        """Read and validate the question and its options before anything is sent."""
        from archytas_nb.kernel.execute import KernelExecutor
        from archytas_nb.magics import options
        from archytas_nb.magics.expand import MAX_SECONDS, Expanded, expand
        from archytas_nb.tools.toolbox import toolbox

        def read() -> Question:
            expanded = Expanded(text) if args.raw else expand(text, names)
            images = *expanded.images, *(options.picture(each, names) for each in args.image)
            of_text = args.type is None
            keywords = {
                "output_type": None if of_text else options.answer_type(args.type, names),
                "until": args.until and options.condition(args.until, names, of_text=of_text),
                "images": images,
                "origin": self.conversation.origin(),
            }
            return Question(expanded.text, args.out and options.variable(args.out), keywords)

        if "{" not in text and not args.image and args.type is None:
            return read()
        try:  # a value's __repr__ may never end
            return KernelExecutor(toolbox, names).call(read, MAX_SECONDS)
        except ToolTimeout:
            raise UsageError(
                f"the values in the question could not be read within {MAX_SECONDS:g} s: compute "
                "what the model needs in a cell, assign it to a variable and use that"
            ) from None

    def _answered(self, question: Question, args: Any, *, silent: bool) -> Any:
        from archytas_nb.magics.tool import refresh_tools
        from archytas_nb.trace.live import TraceView, display_mode

        refresh_tools(self.shell.user_ns)
        given = vars(args)
        settings = Settings(
            **{name: given.get(name, getattr(self, name)) for name in (*_LIMITS, *_CHOSEN)}
        )
        agent = self._agent(args, settings)
        if args.dry_run:
            return self._preview(agent, question, args)
        quiet, mode = settings.quiet, display_mode(self.shell)
        # A terminal writes "Out[1]:" before it looks what there is to show: there must be
        # something.
        shown: Shows = "status" if mode == "terminal" else "nothing"
        shown = "answer" if quiet and not silent else shown

        def ask(continues: str) -> Run:
            with TraceView(question.text, "quiet" if quiet else mode, continues) as view:
                observers = [view.on_event]
                return agent.run(
                    question.text, observers=observers, progress=False, **question.keywords
                )

        origin = question.keywords["origin"]
        run = self.conversation.ask(agent, ask, origin, new=args.new)
        run.show(shown)

        def cell_ended(*_: Any) -> None:  # elsewhere the run shows itself whole
            run.show("all")
            self._unregister(cell_ended)

        self._register(cell_ended)
        if question.out is not None:
            self._put(run, question)
        return run

    def _put(self, run: Run, question: Question) -> None:
        """Assign the answer to the variable, but never an incomplete one."""
        if run.incomplete:
            error = RunError(
                f"{run.reason}: there is no complete answer for {question.out!r}; the variable "
                "was not changed"
            )
            error.run = run
            raise error
        from archytas_nb.kernel.watch import Watch
        from archytas_nb.loop.events import NotCovered

        typed = question.keywords["output_type"] is not None
        unseen = run.watch is None and run.calls
        run.watch = run.watch or Watch(self.shell.user_ns)
        note = NotCovered("", "what the calls of this question changed")
        value, notes = run.value if typed else run.answer, (note,) if unseen else ()
        run.watch.assign(str(question.out), value, notes)

    def _agent(self, args: Any, settings: Settings, *, is_replay: bool = False) -> Agent:
        """An agent with the settings of this question; a map's replay needs no model at all."""
        from archytas_nb.agent import Agent
        from archytas_nb.magics.options import chosen_tools
        from archytas_nb.tools.toolbox import toolbox

        allowed, wanted = settings.allow, settings.tools
        if "allow" in vars(args):
            allowed = chosen_tools(allowed, toolbox, "--allow")
        model: Any = args.model if is_replay else self._chosen_model(args.model)
        may_ask = settings.ask_user == "on"
        small = bool(getattr(model, "is_small", False))
        if settings.ask_user == "auto":
            may_ask = not small
        # A small model is not offered to write code unless this question says so.
        python: Any = "off" if small and "python" not in vars(args) else settings.python
        return Agent(
            tools=toolbox.only(*chosen_tools(wanted, toolbox)) if wanted else None,
            model=model,
            protocol=settings.protocol,
            instructions=settings.instructions,
            namespace=self.shell.user_ns,
            approve=settings.approve,
            allow=allowed,
            context=settings.context,
            ask_user=may_ask and "ask_user" not in toolbox,
            python=python,
            undo=settings.undo,
            **{name: getattr(settings, name) for name in _LIMITS},
        )

    def _preview(self, agent: Agent, question: Question, args: Any) -> Any:
        from archytas_nb.magics.dry_run import DryRun

        origin = question.keywords["origin"]
        agent.exchanges = self.conversation.exchanges_for(origin, new=args.new)
        ask = agent.preview(question.text, **question.keywords)
        limits = ", ".join(f"{name}={getattr(agent.limits, name)}" for name in _LIMITS[:4])
        facts = {
            "model": agent.model.name,
            "protocol": agent.protocol if agent.protocol != "auto" else agent.model.protocol,
            "limits": limits,
            "tools": ", ".join(agent.tools) or "none",
            "reply": f"at most {ask.max_tokens} tokens" if ask.max_tokens else "no limit",
        }
        if getattr(agent.model, "is_small", False) and agent.tools and not agent.exchanges:
            facts["before it"] = (
                "short requests: does this tool fit the question? (small models only)"
            )
        return DryRun(ask, tuple(facts.items()))

    def _chosen_model(self, name: str | None, **ways: Any) -> Model:
        """The model for this question; made once, so that a cassette and a connection last."""
        held = held_model(self.shell.user_ns, name)
        if held is not None:
            return held
        from archytas_nb.cassettes.switch import cassette_in_use

        settings, cassette = model_settings(self), cassette_in_use()
        environment = tuple(map(os.environ.get, ("OPENAI_API_KEY", "OPENAI_BASE_URL")))
        choice = (name, settings, cassette, environment)
        if choice not in self._models:
            self._models[choice] = make_model(name, settings, **ways)
        return self._models[choice]


def held_model(namespace: dict[str, Any], name: str | None) -> Model | None:
    """The model in a variable of the notebook, or None where no variable of that name has one."""
    held = namespace.get(name) if name else None
    if isinstance(held, type) or not callable(getattr(held, "complete", None)):
        return None
    from archytas_nb.cassettes.switch import recorded

    model: Model = recorded(held)
    return model


def model_settings(config: Settings) -> ModelSettings:
    """The configured model settings."""
    from archytas_nb.models.choose import ModelSettings

    values: dict[str, Any] = {
        each.name: getattr(config, each.name) for each in fields(ModelSettings)
    }
    values |= {"api_key": str(config.api_key), "request": json.dumps(config.request)}
    values = {name: None if each == "" else each for name, each in values.items()}
    return ModelSettings(**values)


def make_model(name: str | None, settings: ModelSettings, confirm: Confirm | None = None) -> Model:
    """Make a model, behind the cassette in use; raises ConfigurationError.

    ``confirm`` asks whether a server may be used that nobody named; None asks a person.
    """
    from archytas_nb.cassettes.switch import cassette_in_use, recorded
    from archytas_nb.kernel import person

    model: Model = recorded(name, settings, cassette_in_use(), confirm or person.confirm)
    return model


def served_models(config: Settings) -> list[str]:
    """Names of the models that the configured endpoint serves; none where it does not answer."""
    from archytas_nb.models.choose import served_names

    return served_names(model_settings(config))


def _ask_later(_prompt: str) -> bool | None:
    raise ConfigurationError("whether to use a model server will be asked with the first question")
