"""``%agent`` and ``%%agent``, with their configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_cell_magic,
    magics_class,
    no_var_expand,
)
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from traitlets import Enum, Float, Int, Unicode

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.magics.brief import brief
from archytas_nb.magics.line import split_options

if TYPE_CHECKING:
    from archytas_nb.run import Run
    from archytas_nb.session import Agent, Model


class _Hidden(str):
    """A key that does not show itself."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'…'" if self else "''"


class Secret(Unicode):  # type: ignore[type-arg]
    """A text whose value ``%config`` does not print into the notebook."""

    def validate(self, obj: Any, value: Any) -> str:
        """Accept a text, and hide it."""
        return _Hidden(super().validate(obj, value))


@magics_class
class ArchytasNB(Magics):
    """The agent of this notebook."""

    shell: Any
    model = Unicode(help="The model's name at its endpoint, or 'local' for the embedded model.").tag(config=True)
    base_url = Unicode(help="Where the API begins; empty takes OPENAI_BASE_URL.").tag(config=True)
    api_key = Secret(help="The endpoint's key; empty takes OPENAI_API_KEY.").tag(config=True)
    local_model = Unicode(help="A GGUF path or hf:REPO/FILE for the embedded model.").tag(config=True)
    protocol = Enum(["auto", "react", "native"], "auto", help="How tools are spoken of to the model.").tag(
        config=True
    )
    timeout = Float(300.0, help="Seconds without a byte before a request is given up.").tag(config=True)
    max_retries = Int(3, help="How often a passing failure of the endpoint is tried again.").tag(config=True)
    max_steps = Int(20, help="Most replies of the model for one question.").tag(config=True)
    max_errors = Int(5, help="Most unusable replies and failing calls in a row.").tag(config=True)
    instructions = Unicode(help="Added to the system prompt.").tag(config=True)
    cassette = Unicode(help="A file that model replies are recorded in and replayed from.").tag(config=True)
    cassette_mode = Enum(["auto", "replay", "record"], "auto", help="What the cassette is used for.").tag(
        config=True
    )

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._conversation: Agent | None = None
        self._models: dict[Any, Model] = {}

    @no_var_expand
    @magic_arguments()
    @argument("--model", help="Ask this model, or that of a variable; 'local' is the embedded one.")
    @argument("--protocol", choices=["auto", "react", "native"], help="How tools are spoken of to the model.")
    @argument("--max-steps", type=int, help="Most replies of the model for this question.")
    @argument("--new", action="store_true", help="Begin a new conversation.")
    @argument("--quiet", action="store_true", help="Show no trace, only the answer.")
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> Run | None:
        """Ask a question; the agent answers it with the tools of this notebook, on its live objects.

        The next question goes on in the same conversation.
        """
        __tracebackhide__ = True
        if line.strip() in ("-h", "--help"):
            print(self.agent.parser.format_help())  # noqa: T201 - what was asked for
            return None
        flags, question = split_options(line, self.agent.parser)
        args = parse_argstring(self.agent, flags)
        if cell is not None:
            question = f"{question}\n{cell}"
        question = question.strip()
        silent = cell is None and question.endswith(";")
        if silent:
            question = question.removesuffix(";").rstrip()
        if args.new and self._conversation is not None:
            self._conversation.reset()
        if not question:
            if args.new:
                return None
            raise UsageError("ask something: %agent QUESTION, or %%agent with the question below it")
        try:
            run = self._ask(question, args)
        except (ArchytasError, RunInterrupted) as error:
            raise brief(error) from None
        if silent or not args.quiet:
            self._shown_once(run)
        return run

    def _ask(self, question: str, args: Any) -> Run:
        from archytas_nb.magics.stale import refresh
        from archytas_nb.react.guards import Limits
        from archytas_nb.session import Agent
        from archytas_nb.trace.view import TraceView, display_mode

        agent = self._conversation
        if agent is None:
            agent = self._conversation = Agent(namespace=self.shell.user_ns)
        refresh(self.shell.user_ns)
        agent.model = self._chosen_model(args.model)
        protocol: Any = args.protocol or self.protocol
        agent.protocol = protocol
        agent.instructions = self.instructions
        try:
            steps = self.max_steps if args.max_steps is None else args.max_steps
            agent.limits = Limits(steps, self.max_errors)
        except ValueError as error:
            raise UsageError(str(error)) from None
        mode = "quiet" if args.quiet else display_mode(self.shell)
        with TraceView(question, mode=mode) as view:
            return agent.run(question, observers=[view.on_event])

    def _shown_once(self, run: Run) -> None:
        """The run is the cell's value, but its answer stands in the trace: do not show it again in this cell."""
        run.shown_in_trace(now=True)

        def cell_ended(*_: Any) -> None:
            run.shown_in_trace(now=False)
            self.shell.events.unregister("post_run_cell", cell_ended)

        self.shell.events.register("post_run_cell", cell_ended)

    def _chosen_model(self, flag: str | None) -> Model:
        """The model for this question; made once, so that a cassette and a connection last."""
        from archytas_nb.magics.models import held_model, make_model, model_choice

        held = held_model(self.shell.user_ns, flag)
        if held is not None:
            return held
        choice = model_choice(self, flag)
        if choice not in self._models:
            self._models[choice] = make_model(choice)
        return self._models[choice]
