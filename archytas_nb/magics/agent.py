"""``%agent`` and ``%%agent``: read the line, ask, return the run."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

from archytas_nb.errors import ArchytasError, ConfigurationError, RunError, RunInterrupted
from archytas_nb.magics.line import Message, brief, print_help, split_options
from archytas_nb.magics.options import REPORTS, agent_flags
from archytas_nb.magics.settings import Settings, split_names

if TYPE_CHECKING:
    from archytas_nb.agent import Agent, Model
    from archytas_nb.loop import events
    from archytas_nb.magics.conversation import Conversation, Origins
    from archytas_nb.models.choose import Confirm, ModelSettings
    from archytas_nb.run import Run, Shows

_PER_QUESTION = (
    "protocol", "max_steps", "max_seconds", "max_total_tokens", "max_reply_tokens", "approve",
)  # fmt: skip
"""Settings that an option of the same name overrides."""

_log = logging.getLogger("archytas_nb")


@dataclass(frozen=True, slots=True)
class Question:
    """One question, read as far as possible without asking it.

    Attributes:
        text: As it is sent.
        out: The variable that the answer is put into, or None.
        keywords: Further arguments of `Agent.run`.
    """

    text: str
    out: str | None
    keywords: dict[str, Any]


@magics_class
class ArchytasNB(Settings, Magics):
    """The agent of this notebook."""

    shell: Any
    _is_loaded = False  # traits are set, and observed, before __init__ has ended

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._conversation: Conversation | None = None
        self._origins: Origins | None = None
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
        """Ask a question; the agent answers it with this notebook's tools, on its live objects.

        Options come first, then the question: the rest of the line, and with %%agent the cell
        below. In it {name} stands for the value of a variable, {{ and }} for braces. The next
        question continues the conversation; a notebook's cell that is run again replaces its
        question. Options hold for this question, %config ArchytasNB for all.
        """
        __tracebackhide__ = True
        flags, text = split_options(line, self.agent.parser, prose=True)
        args = self.agent.parser.parse_args(flags)
        if args.help:
            return print_help(self.agent.parser)
        text = text if cell is None else f"{text}\n{cell}"
        silent = cell is None and text.endswith(";")
        text = text.removesuffix(";").strip() if silent else text.strip()
        if any(getattr(args, name) for name in REPORTS) or not text:
            return self._without_question(args, text)
        try:
            question = self._read(text, args, self._scope(local_ns))
            return self._answered(question, args, silent=silent)
        except (ArchytasError, RunInterrupted) as error:
            raise brief(error) from None

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
    def _cassette_changed(self, change: Any) -> None:
        """A cassette counts for every agent of this kernel, also for those that no magic makes."""
        from archytas_nb.cassettes.switch import configure_cassette

        values = {"cassette": self.cassette, "cassette_mode": self.cassette_mode}
        configure_cassette(*(values | {change.name: change.new}).values())

    def _warm_up(self) -> None:
        """Start the model in the background; the first question reports what goes wrong."""
        if self._read_tools not in self._callbacks:
            self._register(self._read_tools)
        self._warmed = None
        self._read_tools()

    def _read_tools(self, _: Any = None) -> None:
        """Have the model read each new set of tools, until it is asked something."""
        from archytas_nb.tools.toolbox import toolbox

        if not self.warm or self._talk.exchanges:
            self._unregister(self._read_tools)
            return
        try:
            model = self._chosen_model(None, confirm=_ask_later)
            begins = self._agent(self.agent.parser.parse_args([])).messages if toolbox else []
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

    def _scope(self, local_ns: dict[str, Any] | None) -> dict[str, Any]:
        """The notebook's variables and, in a function, its own before them."""
        names: dict[str, Any] = self.shell.user_ns
        return names if local_ns is None or local_ns is names else {**names, **local_ns}

    def _read(self, text: str, args: Any, names: dict[str, Any]) -> Question:
        """Everything about a question that can be wrong, before anything is asked."""
        from archytas_nb.magics import options
        from archytas_nb.magics.expand import Expanded, expand

        expanded = Expanded(text) if args.raw else expand(text, names)
        of_text = args.type is None
        keywords = {
            "output_type": None if of_text else options.answer_type(args.type, names),
            "until": args.until and options.condition(args.until, names, of_text=of_text),
            "images": (*expanded.images, *(options.picture(each, names) for each in args.image)),
            "origin": self._cells.next(),
        }
        return Question(expanded.text, args.out and options.variable(args.out), keywords)

    def _answered(self, question: Question, args: Any, *, silent: bool) -> Any:
        from archytas_nb.magics.tool import refresh_tools
        from archytas_nb.trace.live import TraceView, display_mode

        refresh_tools(self.shell.user_ns)
        agent = self._agent(args)
        if args.dry_run:
            return self._preview(agent, question, args)
        quiet = self.quiet if args.quiet is None else args.quiet
        mode = display_mode(self.shell)
        # A terminal writes "Out[1]:" before it looks what there is to show: there must be
        # something.
        shown: Shows = "status" if mode == "terminal" else "nothing"
        shown = "answer" if quiet and not silent else shown

        def ask() -> Run:
            if args.new:
                self._talk.reset()
            self._cells.asked()
            with TraceView(question.text, mode="quiet" if quiet else mode) as view:
                return agent.run(question.text, observers=[view.on_event], **question.keywords)

        run = self._talk.ask(agent, ask)
        run.show(shown)

        def cell_ended(*_: Any) -> None:  # elsewhere the run shows itself whole
            run.show("all")
            self._unregister(cell_ended)

        self._register(cell_ended)
        if question.out is not None:
            self._put(run, question)
        return run

    def _put(self, run: Run, question: Question) -> None:
        """Put the answer into the variable, which never holds half an answer or another run's."""
        from archytas_nb.loop.events import Stopped

        if isinstance(run.ending, Stopped):
            error = RunError(
                f"{run.ending.cause}: there is no complete answer for {question.out!r}; the "
                "variable is as it was"
            )
            error.run = run
            raise error
        typed = question.keywords["output_type"] is not None
        self.shell.user_ns[question.out] = run.value if typed else run.answer

    def _without_question(self, args: Any, text: str) -> Any:
        """Carry out a line that asks nothing."""
        from archytas_nb.magics.reports import cost, history

        talk = self._talk
        reports = [name for name in REPORTS if getattr(args, name)]
        if text:
            begin = " To begin a new conversation with a question, use --new." if args.reset else ""
            raise UsageError(f"--{reports[0]} asks nothing: leave the question out.{begin}")
        if len(reports) > 1:
            raise UsageError(f"one at a time: {', '.join(f'--{each}' for each in reports)}")
        match reports:
            case ["history"]:
                return history(talk.exchanges)
            case ["cost"]:
                return cost(talk.paid)
            case ["undo"]:
                if not talk.exchanges:
                    return Message("nothing to undo: nothing was asked yet in this conversation")
                return Message(f"forgotten: {talk.exchanges.pop().question}")
            case ["reset"]:
                forgotten = talk.reset()
                return Message(f"forgotten: {forgotten} question{'' if forgotten == 1 else 's'}")
        if not args.new or args.dry_run:
            raise UsageError(
                "ask something: %agent QUESTION, or %%agent with the question below it"
            )
        talk.reset()
        return None

    def _agent(self, args: Any) -> Agent:
        """An agent with the settings of this question."""
        from archytas_nb.agent import Agent
        from archytas_nb.magics.options import chosen_tools
        from archytas_nb.tools.toolbox import toolbox

        allowed, flags = self.allow, vars(args)
        if args.allow is not None:
            allowed = chosen_tools(split_names(args.allow), toolbox, "--allow")
        wanted = self.tools if args.tools is None else split_names(args.tools)
        model = self._chosen_model(args.model)
        small = bool(getattr(model, "is_small", False))
        may_ask = self.ask_user == "on" or (self.ask_user == "auto" and not small)
        return Agent(
            tools=toolbox.only(*chosen_tools(wanted, toolbox)) if wanted else None,
            model=model,
            instructions=self.instructions,
            max_errors=self.max_errors,
            namespace=self.shell.user_ns,
            allow=allowed,
            ask_user=may_ask and "ask_user" not in toolbox,
            **{
                name: getattr(self, name) if flags[name] is None else flags[name]
                for name in _PER_QUESTION
            },
        )

    def _preview(self, agent: Agent, question: Question, args: Any) -> Any:
        from archytas_nb.magics.reports import DryRun

        agent.exchanges = [] if args.new else list(self._talk.exchanges)
        ask = agent.preview(question.text, **question.keywords)
        limits = agent.limits
        facts = {
            "model": agent.model.name,
            "protocol": agent.protocol if agent.protocol != "auto" else agent.model.protocol,
            "limits": f"max_steps={limits.max_steps}, max_errors={limits.max_errors}, "
            f"max_seconds={limits.max_seconds}, max_total_tokens={limits.max_total_tokens}",
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

    @property
    def _talk(self) -> Conversation:
        if self._conversation is None:
            from archytas_nb.magics.conversation import Conversation

            self._conversation = Conversation()
        return self._conversation

    @property
    def _cells(self) -> Origins:
        if self._origins is None:
            from archytas_nb.magics.conversation import Origins

            self._origins = Origins(self.shell)
        return self._origins


def held_model(namespace: dict[str, Any], name: str | None) -> Model | None:
    """The model in a variable of the notebook, or None where no variable of that name has one."""
    held = namespace.get(name) if name else None
    if isinstance(held, type) or not callable(getattr(held, "complete", None)):
        return None
    from archytas_nb.cassettes.switch import recorded

    model: Model = recorded(held)
    return model


def model_settings(config: Settings) -> ModelSettings:
    """What the configuration says about models."""
    from archytas_nb.models.choose import ModelSettings

    return ModelSettings(
        model=config.model or None,
        base_url=config.base_url or None,
        api_key=str(config.api_key) or None,
        timeout=config.timeout,
        max_retries=config.max_retries,
        local_model=config.local_model or None,
        discover=config.discover,
        local_safe=config.local_safe,
        request=json.dumps(config.request),
    )


def make_model(name: str | None, settings: ModelSettings, confirm: Confirm | None = None) -> Model:
    """Make a model, behind the cassette in use.

    Args:
        name: The value of ``--model``, or None.
        settings: What the configuration says.
        confirm: Asks the user whether a server may be used that nobody named; None asks a person.

    Raises:
        ConfigurationError: There is no such model.
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
    raise ConfigurationError("the first question asks whether a model server may be used")
