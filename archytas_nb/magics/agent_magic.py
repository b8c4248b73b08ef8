"""``%agent`` and ``%%agent``: read the line, ask, give back the run."""

from __future__ import annotations

import logging
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
from archytas_nb.magics.brief import brief
from archytas_nb.magics.flags import REPORTS, agent_flags
from archytas_nb.magics.line import help_text, split_options
from archytas_nb.magics.settings import Settings
from archytas_nb.magics.traits import split_names

if TYPE_CHECKING:
    from archytas_nb.loop.events import Message
    from archytas_nb.magics.conversation import Conversation, Origins
    from archytas_nb.run import Run, Shows
    from archytas_nb.session import Agent, Model

_log = logging.getLogger("archytas_nb")


def _not_yet(_prompt: str) -> bool | None:
    """Nobody is asked while a model is started before the first question: that question asks."""
    raise ConfigurationError("the first question asks whether a model server may be used")


@dataclass(frozen=True, slots=True)
class Question:
    """One question, read as far as it can be without asking it.

    Attributes:
        text: As it is sent.
        out: The variable that the answer is put into, or None.
        keywords: What `Agent.run` is given beside the text.
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
        self._waiting: set[Callable[..., None]] = set()
        self._has_read: list[Message] | None = None

    @no_var_expand
    @needs_local_scope
    @magic_arguments()
    @agent_flags
    @line_cell_magic
    def agent(
        self, line: str, cell: str | None = None, local_ns: dict[str, Any] | None = None
    ) -> Any:
        """Ask a question; the agent answers it with the tools of this notebook, on its live objects.

        Options come first, then the question: the rest of the line, and with %%agent the cell below. In it {name}
        stands for the value of a variable, {{ and }} for braces. The next question goes on in the same
        conversation; a notebook's cell that is run again replaces its question. What is set here holds for this
        question, %config ArchytasNB for all.
        """
        __tracebackhide__ = True
        flags, text = split_options(line, self.agent.parser, prose=True)
        args = self.agent.parser.parse_args(flags)
        if args.help:
            print(help_text(self.agent.parser))  # noqa: T201 - what was asked for
            return None
        text = text if cell is None else f"{text}\n{cell}"
        silent = cell is None and text.endswith(";")
        text = text.removesuffix(";").strip() if silent else text.strip()
        reports = [name for name in REPORTS if getattr(args, name)]
        if reports or not text:
            return self._without_question(args, text, reports)
        try:
            question = self._read(text, args, self._scope(local_ns))
            return self._answered(question, args, silent=silent)
        except (ArchytasError, RunInterrupted) as error:
            raise brief(error) from None

    def loaded(self) -> None:
        """Begin what is to begin with the extension: nothing, unless `warm` says so.

        Raises:
            UsageError: The environment's value of `warm` makes no sense.
        """
        self._is_loaded = True
        if self.warm:
            self._warm_up()

    @observe("warm")
    def _warmth_changed(self, change: Any) -> None:
        if change.new and self._is_loaded:
            self._warm_up()

    @observe("cassette", "cassette_mode")
    def _cassette_changed(self, change: Any) -> None:
        """Say it to all: a cassette counts for every agent of this kernel, also for those that no magic makes."""
        from archytas_nb.cassettes.recorded import configure_cassette

        said = {
            "cassette": self.cassette,
            "cassette_mode": self.cassette_mode,
            change.name: change.new,
        }
        configure_cassette(said["cassette"], said["cassette_mode"])

    def _warm_up(self) -> None:
        """Start the model in the background; what goes wrong is said by the first question."""
        if self._reads_tools not in self._waiting:
            self._waiting.add(self._reads_tools)
            self.shell.events.register("post_run_cell", self._reads_tools)
        self._has_read = None
        self._reads_tools()

    def _reads_tools(self, _: Any = None) -> None:
        """Have the model read each new set of tools, until it is asked something."""
        from archytas_nb.tools.toolbox import toolbox

        if not self.warm or self._talk.exchanges:
            self._no_longer(self._reads_tools)
            return
        try:
            model = self._chosen_model(None, confirm=_not_yet)
            begins = self._agent(self.agent.parser.parse_args([])).messages if toolbox else []
        except (ArchytasError, UsageError) as error:
            _log.info("the model could not be warmed: %s", error)
            return
        warm = getattr(model, "warm", None)
        if callable(warm) and begins != self._has_read:
            self._has_read = begins
            warm(begins)

    def unload(self) -> None:
        """Take back what is still waiting for the end of a cell, and what was said to others."""
        if self.cassette:
            from archytas_nb.cassettes.recorded import configure_cassette

            configure_cassette("")
        for each in tuple(self._waiting):
            self._no_longer(each)

    def _answered(self, question: Question, args: Any, *, silent: bool) -> Any:
        from archytas_nb.magics.stale import refresh
        from archytas_nb.trace.view import TraceView, display_mode

        refresh(self.shell.user_ns)
        agent = self._agent(args)
        if args.dry_run:
            return self._preview(agent, question, args)
        quiet = self.quiet if args.quiet is None else args.quiet
        mode = display_mode(self.shell)
        # A terminal writes the mark of an output before it asks what there is to show: never show it nothing.
        shown: Shows = (
            "answer" if quiet and not silent else "status" if mode == "terminal" else "nothing"
        )

        def ask() -> Run:
            self._cells.asked()
            with TraceView(question.text, mode="quiet" if quiet else mode) as view:
                return agent.run(question.text, observers=[view.on_event], **question.keywords)

        run = self._talk.ask(agent, ask, anew=args.new)
        self._in_this_cell(run, shown)
        if question.out is not None:
            self._put(run, question)
        return run

    def _without_question(self, args: Any, text: str, reports: list[str]) -> Any:
        """Answer to a line that asks nothing."""
        from archytas_nb.magics.reports import Cost, History, Said

        talk = self._talk
        if text:
            begin = " To begin a new conversation with a question, use --new." if args.reset else ""
            raise UsageError(f"--{reports[0]} asks nothing: leave the question out.{begin}")
        if len(reports) > 1:
            raise UsageError(f"one at a time: {', '.join(f'--{each}' for each in reports)}")
        match reports:
            case ["history"]:
                return History(tuple(talk.exchanges))
            case ["cost"]:
                return Cost(tuple(talk.paid))
            case ["undo"]:
                if not talk.exchanges:
                    return Said("nothing to undo: nothing was asked yet in this conversation")
                return Said(f"forgotten: {talk.exchanges.pop().question}")
            case ["reset"]:
                forgotten = talk.reset()
                return Said(f"forgotten: {forgotten} question{'' if forgotten == 1 else 's'}")
        if not args.new or args.dry_run:
            raise UsageError(
                "ask something: %agent QUESTION, or %%agent with the question below it"
            )
        talk.reset()
        return None

    def _scope(self, local_ns: dict[str, Any] | None) -> dict[str, Any]:
        """The variables that a question sees: those of the notebook and, in a function, its own before them."""
        names: dict[str, Any] = self.shell.user_ns
        return names if local_ns is None or local_ns is names else {**names, **local_ns}

    def _read(self, text: str, args: Any, names: dict[str, Any]) -> Question:
        """Everything about a question that can be wrong, before anything is asked."""
        from archytas_nb.magics import options
        from archytas_nb.magics.expand import Expanded, expand

        expanded = Expanded(text) if args.raw else expand(text, names)
        out = None if args.out is None else options.variable(args.out)
        until = args.until
        keywords = {
            "output_type": None if args.type is None else options.answer_type(args.type, names),
            "until": None
            if until is None
            else options.condition(until, names, of_text=args.type is None),
            "images": (*expanded.images, *(options.picture(each, names) for each in args.image)),
            "origin": self._cells.next(),
        }
        return Question(expanded.text, out, keywords)

    def _agent(self, args: Any) -> Agent:
        """An agent with the settings of this question."""
        from archytas_nb.magics.options import chosen_tools
        from archytas_nb.session import Agent
        from archytas_nb.tools.toolbox import toolbox

        def setting(name: str) -> Any:
            flag = getattr(args, name)
            return getattr(self, name) if flag is None else flag

        wanted = self.tools if args.tools is None else split_names(args.tools)
        allowed = (
            self.allow
            if args.allow is None
            else chosen_tools(split_names(args.allow), toolbox, "--allow")
        )
        model = self._chosen_model(args.model)
        small = bool(getattr(model, "is_small", False))
        return Agent(
            tools=toolbox.only(*chosen_tools(wanted, toolbox)) if wanted else None,
            model=model,
            protocol=setting("protocol"),
            instructions=self.instructions,
            max_steps=setting("max_steps"),
            max_errors=self.max_errors,
            max_seconds=setting("max_seconds"),
            max_total_tokens=self.total_tokens(args),
            max_reply_tokens=setting("max_reply_tokens"),
            namespace=self.shell.user_ns,
            approve=setting("approve"),
            allow=allowed,
            ask_user="ask_user" not in toolbox
            and (self.ask_user == "on" or (self.ask_user == "auto" and not small)),
        )

    def _preview(self, agent: Agent, question: Question, args: Any) -> Any:
        from archytas_nb.magics.reports import DryRun

        agent.exchanges = [] if args.new else list(self._talk.exchanges)
        ask = agent.preview(question.text, **question.keywords)
        limits = agent.limits
        spoken = agent.protocol if agent.protocol != "auto" else agent.model.protocol
        facts = {
            "model": agent.model.name,
            "protocol": spoken,
            "limits": f"max_steps={limits.max_steps}, max_errors={limits.max_errors}, "
            f"max_seconds={limits.max_seconds}, max_total_tokens={limits.max_total_tokens}",
            "tools": ", ".join(agent.tools) or "none",
            "reply": f"at most {ask.max_tokens} tokens"
            if ask.max_tokens
            else "as long as the model likes",
        }
        if getattr(agent.model, "is_small", False) and agent.tools and not agent.exchanges:
            facts["before it"] = (
                "short requests: does this tool fit the question? (small models only)"
            )
        return DryRun(ask, tuple(facts.items()))

    def _put(self, run: Run, question: Question) -> None:
        """Put the answer into the variable; a variable never holds half an answer, nor that of another run."""
        from archytas_nb.loop.events import Stopped

        if isinstance(run.ending, Stopped):
            error = RunError(
                f"{run.ending.cause}: there is no complete answer for {question.out!r}; the variable is as it was"
            )
            error.run = run
            raise error
        typed = question.keywords["output_type"] is not None
        self.shell.user_ns[question.out] = run.value if typed else run.answer

    def _in_this_cell(self, run: Run, shows: Shows) -> None:
        """The run is the cell's value, but its answer stands in the trace: do not show it again in this cell."""
        run.show(shows)

        def cell_ended(*_: Any) -> None:
            run.show("all")
            self._no_longer(cell_ended)

        self._waiting.add(cell_ended)
        self.shell.events.register("post_run_cell", cell_ended)

    def _no_longer(self, waiting: Callable[..., None]) -> None:
        self._waiting.discard(waiting)
        self.shell.events.unregister("post_run_cell", waiting)

    def _chosen_model(self, name: str | None, **ways: Any) -> Model:
        """The model for this question; made once, so that a cassette and a connection last."""
        from archytas_nb.magics.models import held_model, make_model, model_choice

        held = held_model(self.shell.user_ns, name)
        if held is not None:
            return held
        choice = model_choice(self, name)
        if choice not in self._models:
            self._models[choice] = make_model(choice, **ways)
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
