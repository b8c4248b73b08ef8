"""Decides whether a call may run: by the run's policy, the tool's own check, or a person.

From top to bottom: who is asked, the decision, the approval dialogue, the tool `ask_user`, and the
wording (what a person is shown of a call, and what their answer means). Whatever goes wrong on the
way to an answer means no, and where nobody can be asked nothing waits.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, get_args

from archytas_nb.kernel import Namespace, current_shell
from archytas_nb.loop.events import Json, ToolCall
from archytas_nb.tools.render import safe_repr
from archytas_nb.tools.tool import BoundCall, Tool

Policy = Literal["ask", "auto", "deny"]
"""What becomes of a call whose tool wants approval: ask the person, run it, refuse it."""

Approve: TypeAlias = Policy | Callable[[Tool, ToolCall], str]
"""A policy; or a function that returns, for every call, the reason for a refusal or ``""``."""

_TRIES = 20  # unclear answers until the call is refused: most likely no person answers


# ── who is asked ──────────────────────────────────────────────────────────────────────────────────


class Person(Protocol):
    """Answers questions. Any object with these two members will do."""

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""

    def ask(self, prompt: str) -> str:
        """Show a prompt, which may have several lines, and return the line that was typed.

        Raises:
            EOFError: No answer will come; an OSError says the same.
            KeyboardInterrupt: The person interrupted instead of answering.
        """


class Keyboard:
    """The person at this kernel's or terminal's keyboard, asked by `input()`."""

    @property
    def there(self) -> bool:
        """Whether the front end takes input; without a kernel, whether there is a terminal."""
        kernel = getattr(current_shell(), "kernel", None)
        if kernel is not None:
            return bool(getattr(kernel, "_allow_stdin", False))
        try:
            return sys.stdin.isatty()
        except (AttributeError, ValueError):  # there is none, or it is closed
            return False

    def ask(self, prompt: str) -> str:
        """Ask by `input()`, which every front end answers while a cell is busy."""
        return input(prompt)


def confirm(prompt: str) -> bool | None:
    """Ask whoever is at the keyboard for yes or no; None where no answer comes in three tries."""
    person = Keyboard()
    try:
        for _ in range(3 if person.there else 0):
            answer = person.ask(prompt).strip().lower()
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")
    except (EOFError, OSError):
        pass
    return None


class NobodyThereError(Exception):
    """A tool asked a question that nobody can answer; the message says what to do instead."""


current_person: ContextVar[Person | None] = ContextVar("archytas_nb_person", default=None)
"""The person that the running tool may ask; None for the keyboard."""


# ── the decision ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided on a call."""

    bound: BoundCall | None = None  # the call to run; None where it must not be run
    refusal: str = ""  # why not, for the model
    stop: bool = False  # whether the person stops the run
    always: bool = False  # whether the tool is to be run without asking from now on
    edited: str = ""  # the input that the person put in place of the model's, as JSON


class Approver:
    """Decides on the calls of one run.

    Raises:
        ValueError: ``approve`` is no policy, callable or None, which means ``"ask"``.
        TypeError: ``allow``, the names of tools that run without asking, is one name.
    """

    def __init__(self, approve: Approve | None, allow: Collection[str], person: Person) -> None:
        if not (approve is None or callable(approve) or approve in get_args(Policy)):
            raise ValueError(
                f"approve is {approve!r}; expected 'ask', 'auto', 'deny' or a callable"
            )
        if isinstance(allow, str):
            raise TypeError(f"allow is {allow!r}; expected the names of tools, as in [{allow!r}]")
        self._approve: Approve = approve or "ask"
        self._allowed = set(allow)
        self._person = person

    def decide(
        self, tool: Tool, call: ToolCall, bound: BoundCall, namespace: Namespace
    ) -> Decision:
        """Decide on a call, whose arguments are validated in ``bound``."""
        if self._allowed & {tool.name, tool.source_name}:
            return Decision(bound)
        if callable(self._approve):
            refusal = _refusal_of(self._approve, tool, call)
            return Decision(refusal=refusal) if refusal else Decision(bound)
        if self._approve == "auto":
            return Decision(bound)
        why: bool | str
        try:
            why = tool.wants_approval(bound)
        except Exception as error:  # noqa: BLE001 - where the check fails a person decides
            why = f"You are asked because the tool's own check failed: {error!r}"
        if not why:
            return Decision(bound)
        if self._approve == "deny":
            return _refused(tool, "needs approval, which is denied in this run")
        if not self._person.there:
            return _refused(tool, "needs approval, and nobody can be asked here")
        try:
            dialogue = ApprovalDialogue(self._person, tool, call.input, bound, namespace)
            decision = dialogue.decide(f"({visible(why)})" if isinstance(why, str) else "")
        except (EOFError, OSError):
            return _refused(tool, "needs approval, and nobody answered")
        if decision.always:
            self._allowed.add(tool.name)
        return decision


def _refused(tool: Tool, why: str) -> Decision:
    hint = "Do not call it again: tell the user that it was not run, and that --allow permits it."
    return Decision(refusal=f"Refused: {tool.name} {why}. {hint}")


def _refusal_of(approve: Callable[[Tool, ToolCall], Any], tool: Tool, call: ToolCall) -> str:
    try:
        reason = approve(tool, call)
    except Exception as error:  # noqa: BLE001 - a policy that fails refuses
        return f"{call.name} was not run: asking for approval failed with {error!r}"
    if isinstance(reason, str):
        return reason
    expected = "expected the reason for a refusal, or ''"
    return f"{call.name} was not run: approve answered {reason!r}; {expected}"


# ── the approval dialogue ─────────────────────────────────────────────────────────────────────────


class ApprovalDialogue:
    """Asks a person about one call, ``given`` by the model, until the answer is clear."""

    def __init__(
        self, person: Person, tool: Tool, given: Json, bound: BoundCall, namespace: Namespace
    ) -> None:
        self._person, self._tool, self._namespace = person, tool, namespace
        self._given, self._bound, self._edited = given, bound, ""

    def decide(self, why: str = "") -> Decision:
        """Ask until the answer is clear; ``why`` is what the tool itself says about the call."""
        lines = self._shown(why)
        for _ in range(_TRIES):
            answer, text = read_answer(
                self._person.ask("\n".join([*lines, f"Run it? {CHOICES}: "]))
            )
            lines = []  # the call stands above, as long as it is the same
            match answer:
                case "yes" | "always":
                    return Decision(self._bound, always=answer == "always", edited=self._edited)
                case "no":
                    return _refused_by_person(
                        text or self._person.ask("Reason, for the model (Enter for none): ").strip()
                    )
                case "stop":
                    return Decision(stop=True)
                case "reason" if self._confirms_refusal(text):
                    return _refused_by_person(text)
                case "edit":
                    self._edit()
                    lines = self._shown()
                case "help":
                    lines = [*self._left_out(), HELP.format(name=self._tool.name)]
                case "unclear":
                    typed = f"{visible(text)!r} is none of the choices. " if text else ""
                    lines = [f"{typed}Nothing was run yet."]
        why = "needs approval, and no clear answer came."
        return Decision(refusal=f"Refused: {self._tool.name} {why}")

    def _shown(self, why: str = "") -> list[str]:
        """The call as it would be run now."""
        more = ["(Some of it is left out; answer ? to see all.)"] if self._left_out() else []
        return [self._call(), *more, *([why] if why else [])]

    def _left_out(self) -> list[str]:
        """The whole call, where some of it was left out above."""
        whole = self._call(whole=True)
        return [] if whole == self._call() else [whole]

    def _call(self, *, whole: bool = False) -> str:
        """The call with what the function will receive: a name may stand for anything."""
        values = self._tool.arguments(self._bound)
        return call_text(self._tool.name, values, self._given, whole=whole)

    def _confirms_refusal(self, reason: str) -> bool:
        """Several words that begin with none of the choices are most likely a reason to refuse."""
        prompt = f"Refuse, and tell the model {visible(reason)!r}? [y]es  [n]o, back: "
        return read_answer(self._person.ask(prompt))[0] == "yes"

    def _edit(self) -> None:
        """Take a new input, which is then shown as the call; an empty line leaves it as it is."""
        names = [each.name for each in self._tool.parameters if not each.injected]
        how = f", or NAME = VALUE to change one of {', '.join(names)}" if names else ""
        prompt = f"The input now: {visible(_json(self._given))}\n"
        for _ in range(_TRIES):
            typed = self._person.ask(f"{prompt}New input (JSON{how}; Enter to go back): ").strip()
            if not typed:
                return
            try:
                new = read_input(typed, self._given, names)
            except ValueError as error:
                prompt = f"{error}\n"
                continue
            bound = self._tool.bind(new, self._namespace)
            if isinstance(bound, BoundCall):
                self._given, self._bound, self._edited = new, bound, _json(new)
                return
            prompt = f"That is no input for {self._tool.name}: {quoted(bound.text)}\n"


def _refused_by_person(reason: str) -> Decision:
    why = f": {reason.rstrip('.')}" if reason else ""
    return Decision(refusal=f"The user refused this call{why}. Do not send the same call again.")


# ── the tool by which the model asks ──────────────────────────────────────────────────────────────

_NO_ANSWER = "(The user gave no answer.)"
_GO_ON = "Go on with what is known, or say in the final answer what must be decided first."


def ask_user(question: str, choices: list[str] | None = None) -> str:
    """Ask the user a question and wait for the answer.

    Use it only for what no other tool can find out: a wish, a decision, something that only the user knows.

    Args:
        question: The question, in one or two sentences.
        choices: The answers to choose from; leave it out for a free answer.

    Returns:
        What the user answered: one of the choices, or their own words.
    """  # noqa: E501 - the model reads the line as it is
    person = current_person.get() or Keyboard()
    if not question.strip():
        raise ValueError("the question is empty; expected text to ask the user")
    if not person.there:
        raise NobodyThereError(
            f"Nobody can be asked here: the notebook runs without a person. {_GO_ON}"
        )
    prompt = f"The agent asks: {quoted(question)}\n"
    try:
        return _chosen(person, prompt, choices) if choices else _free(person, prompt)
    except (EOFError, OSError):
        raise NobodyThereError(
            f"The user was asked, and no answer can come: the input has ended. {_GO_ON}"
        ) from None


def _free(person: Person, prompt: str) -> str:
    again = "That was empty. Type an answer, or press Enter again to give none: "
    return person.ask(f"{prompt}> ").strip() or person.ask(again).strip() or _NO_ANSWER


def _chosen(person: Person, prompt: str, choices: list[str]) -> str:
    listed = "\n".join(f"  {n}. {visible(choice)}" for n, choice in enumerate(choices, 1))
    number = f"a number from 1 to {len(choices)}" if len(choices) > 1 else "1"
    prompt += f"{listed}\n  0. something else\nAnswer with {number}, or 0: "
    for _ in range(_TRIES):
        typed = person.ask(prompt).strip()
        same = [each for each in choices if each.strip().casefold() == typed.casefold()]
        if same and typed:  # before the numbers: a choice may itself look like one
            return same[0]
        if typed.isdecimal() and 1 <= int(typed) <= len(choices):
            return choices[int(typed) - 1]
        if typed.isdecimal() and int(typed) == 0:
            return person.ask("Your own answer: ").strip() or _NO_ANSWER
        prompt = (
            f"{visible(typed)!r} is none of them. Answer with {number}, or 0 for something else: "
        )
    return _NO_ANSWER


# ── the wording: what an answer means ─────────────────────────────────────────────────────────────

CHOICES = "[y]es, once  [a]lways in this run  [e]dit  [n]o  [s]top the run  [?] help"

HELP = """  y  run it, this once
  a  run it, and do not ask again for {name} in this run
  e  change its input first
  n  do not run it; a reason for the model may follow, as in: n, the table is in use
  s  stop the whole run; nothing more is run"""

Answer = Literal["yes", "always", "edit", "no", "stop", "help", "reason", "unclear"]

_ANSWERS: dict[str, Answer] = {
    "y": "yes", "yes": "yes", "a": "always", "always": "always", "e": "edit", "edit": "edit",
    "n": "no", "no": "no", "s": "stop", "stop": "stop", "?": "help", "h": "help", "help": "help",
}  # fmt: skip


def read_answer(line: str) -> tuple[Answer, str]:
    """Read an answer, and the reason or the unclear text in it; no other word decides anything."""
    line = line.strip()
    answer = _ANSWERS.get(line.casefold().rstrip(".!"))
    if answer is not None:
        return answer, ""
    with_reason = re.fullmatch(r"(?:no|n)\s*[,:;.–—-]\s*(\S.*)", line, re.IGNORECASE | re.DOTALL)
    if with_reason:
        return "no", with_reason[1]
    return "reason" if len(line.split()) > 1 else "unclear", line


def read_input(text: str, before: Json, names: Collection[str]) -> Json:
    """Read JSON, a Python literal, or ``NAME = VALUE`` to change one argument of the input before.

    Raises:
        ValueError: It is none of these; the message says what was expected.
    """
    one = re.fullmatch(r"\s*([^\W\d]\w*)\s*=(?!=)\s*(.*)", text, re.DOTALL)
    if one and one[1] in names:
        kept = before if isinstance(before, dict) and set(before) <= set(names) else {}
        return {**kept, one[1]: _literal(one[2])}
    return _literal(text)


def _literal(text: str) -> Json:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(json.dumps(ast.literal_eval(text.strip()), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise ValueError(
            f"{visible(text[:100])} is neither JSON nor a Python value; "
            'text needs quotes, as in "text"'
        ) from None


# ── the wording: what a person is shown of a call ─────────────────────────────────────────────────
# The text comes from a model: it must not imitate a line of the prompt or hide anything.

_LONGEST = 300  # how much of one value is shown on one line
_LINES, _WIDTH = 40, 200  # how many lines of a longer text are shown, and how much of each

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00013441\U00013442"
    "\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)
"""Invisible characters that Unicode calls printable."""


def call_text(name: str, values: Mapping[str, Any], given: Json, *, whole: bool = False) -> str:
    """Show a call with its arguments, one a line.

    Args:
        name: The tool's name.
        values: What the function will receive, by name.
        given: What the model sent; it is shown beside a value that is another.
        whole: Whether long values are shown to their end.
    """
    sent = given if isinstance(given, dict) and set(given) <= set(values) else {}
    if len(values) == 1 and not sent and given is not None:
        sent = dict.fromkeys(values, given)
    lines = [f"The agent wants to run {visible(name)}" + (":" if values else " (no arguments).")]
    for argument, value in values.items():
        label, note = visible(argument), _note(value, sent.get(argument))
        text = value if type(value) is str else _written(value)
        if "\n" in text:
            lines += [f"  {label}:{note}", *_block(text, whole=whole)]
        else:
            line = visible(_written(value))
            lines.append(f"  {label} = {line if whole else _shortened(line, _LONGEST)}{note}")
    return "\n".join(lines)


def _note(value: Any, sent: Json) -> str:
    """Where a value comes from, if it is not what the model sent."""
    if sent is None:
        return "" if value is None else "  (the default)"
    written = _json(sent)
    same = written == _written(value)
    return "" if same else f"  (sent as {_shortened(visible(written), _LONGEST)})"


def _written(value: Any) -> str:
    """A value as JSON where it is plain data, as Python writes it elsewhere."""
    try:
        return _json(value) if _is_plain(value) else safe_repr(value)
    except (ValueError, RecursionError):  # too many digits, a list that contains itself
        return safe_repr(value)


def _is_plain(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(each) for key, each in value.items())
    return value is None or type(value) in (str, int, float, bool)


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _shortened(text: str, longest: int) -> str:
    """Both ends of a text: the end may matter as much as the beginning."""
    if len(text) <= longest:
        return text
    head, tail = longest * 2 // 3, longest // 3
    return f"{text[:head]} … {len(text) - head - tail:,} characters left out … {text[-tail:]}"


def _block(text: str, *, whole: bool = False) -> list[str]:
    """Code, SQL or prose, each line marked so that none can imitate a line of the prompt."""
    rows = text.split("\n")
    left_out = 0 if whole else max(len(rows) - _LINES, 0)
    head = _LINES * 2 // 3 if left_out else len(rows)
    shown = [visible(row.expandtabs(4)) for row in (*rows[:head], *rows[head + left_out :])]
    lines = [f"    │ {row if whole else _shortened(row, _WIDTH)}" for row in shown]
    note = [f"    … {left_out:,} lines left out …"] if left_out else []
    return [*lines[:head], *note, *lines[head:]]


def quoted(text: str) -> str:
    """A text of the model for a prompt: on its line where it fits there, else below and marked."""
    if len(text) > _WIDTH or len(text.splitlines()) > 1:
        return "\n".join(["", *_block(text)])
    return visible(text)


def visible(text: str) -> str:
    """Spell out on one line every character that does not show itself.

    That is what would end the line, move a cursor, colour it or turn its direction, all spaces but
    the usual one, and the letters and marks that look like nothing.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each
        if each.isprintable() and not _BLANK.match(each)
        else each.encode("unicode_escape", "surrogatepass").decode("ascii")
        for each in text
    )
