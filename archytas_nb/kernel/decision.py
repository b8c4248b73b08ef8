"""The approval dialogue: show a person one call, and go on until it is clear what they want. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass

from archytas_nb.kernel import dialogue
from archytas_nb.kernel.namespace import Namespace
from archytas_nb.kernel.person import Person
from archytas_nb.loop.events import Json
from archytas_nb.tools import approval
from archytas_nb.tools.bound import BoundCall
from archytas_nb.tools.tool import Tool

_TRIES = 20  # who answers so often without a clear word is no person


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on a call.

    Attributes:
        bound: The call to run; None where it must not be run.
        refusal: Why not, for the model.
        stop: Whether the person wants nothing more to be run.
        always: Whether the tool is to be run without asking from now on.
        edited: The input that the person put in place of the model's, as JSON; empty where it was left alone.
    """

    bound: BoundCall | None = None
    refusal: str = ""
    stop: bool = False
    always: bool = False
    edited: str = ""


class Asking:
    """One call that a person is asked about.

    Args:
        person: Who is asked.
        tool: The tool.
        given: Its input, as the model sent it.
        bound: The same, validated.
        namespace: What arguments by reference may name, where the input is edited.
    """

    def __init__(
        self, person: Person, tool: Tool, given: Json, bound: BoundCall, namespace: Namespace
    ) -> None:
        self._person, self._tool, self._namespace = person, tool, namespace
        self._given, self._bound, self._edited = given, bound, ""
        self._names = [each.name for each in tool.parameters if not each.injected]

    def decide(self, why: str = "") -> Decision:
        """Ask until the answer is clear.

        Args:
            why: What the tool itself says about the call; empty for nothing.

        Raises:
            EOFError: No answer will come.
            KeyboardInterrupt: The person interrupted instead of answering.
        """
        lines = self._shown(why)
        for _ in range(_TRIES):
            said = dialogue.read_answer(
                self._person.ask("\n".join([*lines, f"Run it? {dialogue.CHOICES}: "]))
            )
            lines = []  # the call stands above, as long as it is the same
            match said.answer:
                case "yes" | "always":
                    return Decision(
                        self._bound, always=said.answer == "always", edited=self._edited
                    )
                case "no":
                    reason = (
                        said.text
                        or self._person.ask("Reason, for the model (Enter for none): ").strip()
                    )
                    return refused(reason)
                case "stop":
                    return Decision(stop=True)
                case "reason" if self._means_it(said.text):
                    return refused(said.text)
                case "edit":
                    self._edit()
                    lines = self._shown()
                case "help":
                    lines = [*self._left_out(), dialogue.HELP.format(name=self._tool.name)]
                case "unclear":
                    typed = (
                        f"{dialogue.harmless(said.text)!r} is none of the choices. "
                        if said.text
                        else ""
                    )
                    lines = [f"{typed}Nothing was run yet."]
        return Decision(
            refusal=f"Refused: {self._tool.name} needs a person's approval, and no clear answer came."
        )

    def _shown(self, why: str = "") -> list[str]:
        """The call as it would be run now."""
        more = ["(Some of it is left out; answer ? to see all.)"] if self._left_out() else []
        return [self._call(), *more, *([why] if why else [])]

    def _left_out(self) -> list[str]:
        """The whole call, where some of it was left out; else it stands above already."""
        whole = self._call(whole=True)
        return [] if whole == self._call() else [whole]

    def _call(self, *, whole: bool = False) -> str:
        """The call with what the function will receive: a name that was sent may stand for anything."""
        values = approval.values(self._tool.parameters, self._bound)
        return dialogue.shown_call(
            self._tool.name, dialogue.arguments(values, self._given), whole=whole
        )

    def _means_it(self, reason: str) -> bool:
        """Several words that begin with none of the choices are a reason to refuse, most likely, not surely."""
        prompt = f"Refuse, and tell the model {dialogue.harmless(reason)!r}? [y]es  [n]o, back: "
        return dialogue.read_answer(self._person.ask(prompt)).answer == "yes"

    def _edit(self) -> None:
        """Take a new input, which is then shown as the call; an empty line leaves it as it is."""
        names = (
            f", or NAME = VALUE to change one of {', '.join(self._names)}" if self._names else ""
        )
        prompt = f"The input now: {dialogue.harmless(dialogue.as_json(self._given))}\n"
        for _ in range(_TRIES):
            typed = self._person.ask(f"{prompt}New input (JSON{names}; Enter to go back): ").strip()
            if not typed:
                return
            try:
                new = dialogue.read_input(typed, self._given, self._names)
            except ValueError as error:
                prompt = f"{error}\n"
                continue
            bound = self._tool.bind(new, self._namespace)
            if isinstance(bound, BoundCall):
                self._given, self._bound, self._edited = new, bound, dialogue.as_json(new)
                return
            prompt = f"That is no input for {self._tool.name}: {dialogue.marked(bound.text)}\n"


def refused(reason: str) -> Decision:
    """A person's refusal, with the reason that the model reads."""
    return Decision(
        refusal="The user refused this call." + (f" The reason: {reason}" if reason else "")
    )
