"""Checks of a small model: before its first step, and before its answer ends the run.

None of them depends on the language: the model is asked for yes or no, and numbers are compared.
`SmallModelChecks` holds the state of one run; the functions below it are its questions and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

from archytas_nb.loop.events import AskModel, Requests
from archytas_nb.loop.reading.reply import Action, as_text
from archytas_nb.loop.wire import ToolCard, Wire
from archytas_nb.provenance import Source, link, nowhere

MAX_TOOLS = 8
"""Maximum number of tools for which the model is asked whether they fit, one request each."""

MAX_QUESTION = 1000
"""Maximum number of characters in a question, because it is sent once for each tool."""

Ask: TypeAlias = Callable[[AskModel], Requests[str]]
"""Asks the model for yes or no; the result is ``"yes"``, ``"no"`` or empty."""


class SmallModelChecks:
    """The checks in one run of a small model.

    Args:
        question: The question.
        ask: How the model is asked for yes or no.
    """

    def __init__(self, question: str, ask: Ask) -> None:
        self._question = question
        self._ask = ask
        self._unused_tool = ""  # the tool that fits, until an answer without it was questioned
        self._raised: set[str] = set()  # the reasons for which an end was questioned

    def find_fitting_tool(self, tools: Mapping[str, ToolCard]) -> Requests[bool]:
        """Ask for each tool whether it fits, until one does; return whether one was found."""
        for name, tool in tools.items():
            if (yield from self._ask(fit_request(tool, self._question))) != "no":
                self._unused_tool = name
                return True
        return False

    @property
    def tool_fits(self) -> bool:
        """Whether a tool was found that fits."""
        return bool(self._unused_tool)

    def knows_answer(self) -> Requests[bool]:
        """Ask whether the model knows the answer without a tool."""
        return (yield from self._ask(knowledge_request(self._question))) == "yes"

    def correction_before_end(
        self,
        action: Action,
        sources: Iterable[str],
        *,
        is_first_step: bool,
        last_call_failed: bool,
    ) -> Requests[str]:
        """Why the model is asked again instead of ending the run; empty if it may end.

        Args:
            action: An answer, or giving up.
            sources: The texts from which the numbers of the answer may come.
            is_first_step: Whether the model has done nothing yet.
            last_call_failed: Whether the last call failed.
        """
        if action.answers and self._unused_tool and is_first_step:
            tool = self._unused_tool
            self._unused_tool = ""
            if (yield from self._ask(knowledge_request(self._question))) != "yes":
                return unused_tool_correction(tool)
        answer = None
        if action.answers:
            answer = as_text(action.answer)
        for reason, correction in reasons_to_confirm(
            answer, sources, last_call_failed=last_call_failed
        ):
            if reason not in self._raised:
                self._raised.add(reason)
                return correction
        return ""


def known_hint(wire: Wire) -> str:
    """The hint for a model that sees no tool that fits, and knows the answer."""
    judged = "You judged that none of your tools fits, and that you know it by heart"
    return f"({judged}: use {wire.answer_action}.)"


def no_tool_hint(wire: Wire) -> str:
    """The hint for a model that sees no tool that fits, and does not know the answer."""
    judged = "You judged that none of your tools fits"
    return f"({judged}: use {wire.fail_action}, and say what is missing.)"


def fit_request(tool: ToolCard, question: str) -> AskModel:
    """The request that asks whether a tool fits a question."""
    function = tool.spec()["function"]
    inputs = ", ".join(function["parameters"].get("properties", {}))
    summary = str(function.get("description", "")).strip().partition("\n")[0]
    return _yes_no_request(
        "You judge whether a tool fits a question.",
        f"Tool: {tool.name}({inputs}): {summary}\nRequest: {question}\n"
        "Can this tool find out or do what the request asks for?",
    )


def knowledge_request(question: str) -> AskModel:
    """The request that asks whether the model knows the answer without a tool."""
    return _yes_no_request(
        "You judge what a request needs.",
        f"Request: {question}\nDo you know the answer by heart, with certainty?",
    )


def _yes_no_request(rule: str, asked: str) -> AskModel:
    ending = "Reply with yes or no."
    system = {"role": "system", "content": f"{rule} {ending}"}
    return AskModel(0, (system, {"role": "user", "content": f"{asked} {ending}"}), max_tokens=3)


def parse_yes_no(text: str) -> str:
    """``"yes"`` or ``"no"``; empty for any other reply."""
    start = text.strip(" \n\"'.*").lower()
    return next((each for each in ("yes", "no") if start.startswith(each)), "")


def unused_tool_correction(tool: str) -> str:
    """The correction for an answer that was neither known nor found with a tool."""
    return (
        f"You used no tool, and {tool} fits the question: call it now. Only if it cannot help, "
        "give your answer again."
    )


def reasons_to_confirm(
    answer: str | None, sources: Iterable[str], *, last_call_failed: bool
) -> Iterator[tuple[str, str]]:
    """Reasons to ask the model again before the run ends, each with its correction.

    Args:
        answer: The final answer; None if the model gives up.
        sources: The texts from which the numbers of the answer may come.
        last_call_failed: Whether the last call failed.
    """
    if last_call_failed:
        end = "Give your answer again"
        if answer is None:
            end = "Give up again"
        yield (
            "failure",
            (
                f"Your last call failed, but another input may work. {end} only if there is none. "
                "Otherwise call the tool now, with an input in the form that is expected and for "
                "one thing."
            ),
        )
    if answer is not None and (numbers := unsupported_numbers(answer, sources)):
        yield (
            "numbers",
            (
                f"You were told nothing that contains {', '.join(numbers)}. If no tool can find it "
                "out, give your answer again. Otherwise call the tool now."
            ),
        )


def unsupported_numbers(answer: str, sources: Iterable[str]) -> list[str]:
    """The numbers of an answer that no source contains, and that none of them is derived from."""
    found = nowhere(link(answer, [Source("", text) for text in sources]))
    return list(dict.fromkeys(each.strip() for each in found))
