"""Decides whether a call may run: by the run's policy, the tool's own check, or a person.

From top to bottom: the decision, the dialogue with the person, and what they are shown. Any failure
before a clear answer refuses the call, and nothing waits if nobody can be asked.
"""

from __future__ import annotations

import ast
import json
import math
import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from archytas_nb.choices import AskBefore, Policy
from archytas_nb.errors import STOPS
from archytas_nb.kernel.output import capture_paused
from archytas_nb.kernel.permission import (
    IN_NOTEBOOK,
    NOTEBOOK,
    Permission,
    Permissions,
    Source,
    ToolState,
    state_of,
)
from archytas_nb.kernel.person import (
    Keyboard,
    Person,
    answered_from,
    block,
    current_person,
    quoted,
    recording_of,
    seconds_taken,
)
from archytas_nb.loop.decision import Decision, Scope, UnansweredError
from archytas_nb.loop.events import (
    Answer,
    ApprovalForm,
    Choice,
    Edit,
    FormArgument,
    FormField,
    Json,
    Preview,
    ToolCall,
)
from archytas_nb.namespace import Namespace
from archytas_nb.tools.data import is_data, listing, preview, shape_of
from archytas_nb.tools.texts import safe_repr, type_name
from archytas_nb.tools.tool import ApprovalCheck, BoundCall, Tool
from archytas_nb.undo.fingerprint import Fingerprint, fingerprint
from archytas_nb.words import (
    edit_in_words,
    escape,
    keep_both_ends,
    truncate_both_ends,
    visible,
    visible_code,
)

Approve: TypeAlias = Policy | Callable[[Tool, ToolCall], str]
"""A policy, or a function that returns the reason to refuse a call, or ``""`` to run it."""

_dialogue = threading.RLock()
"""Held while a person is asked: two agents in threads ask one after the other."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The subject of a decision: the tool and the values at that time."""

    tool: ToolState
    values: Mapping[str, Fingerprint] = field(default_factory=dict)

    def changed(self, tool: Tool, bound: BoundCall) -> str:
        """The changes since then, as the beginning of a sentence; empty if there are none."""
        now = state_of(tool)
        if now != self.tool:
            return now.changed_from(self.tool)
        given = tool.arguments(bound)
        names = [name for name, each in self.values.items() if fingerprint(given[name]) != each]
        return f"{', '.join(names)} changed" if names else ""


def _seen(tool: Tool, bound: BoundCall) -> Seen:
    """The current state of what a person sees in the form of a call."""
    values = {name: fingerprint(each) for name, each in tool.arguments(bound).items()}
    return Seen(state_of(tool), values)


@dataclass(frozen=True, slots=True)
class Clearance:
    """Whether a call may run: the call as it would run, or why it does not."""

    bound: BoundCall | None = None  # the call to run; None for a refusal
    refusal: str = ""  # the reason, for the model
    for_person: str = ""  # the same for a person; empty if it is the same text
    edit: Edit | None = None  # changes that the person made before
    form: ApprovalForm | None = None  # what the person saw and decided
    allowed: str = ""  # why nobody was asked about a call that requires approval
    seen: Seen | None = None  # its subject; None if the decision stays valid whatever changes

    @property
    def decision(self) -> Decision | None:
        """The decision of the person; None if nobody was asked."""
        return None if self.form is None else self.form.decision

    @property
    def stops(self) -> bool:
        """Whether the person ends the run."""
        return self.decision is not None and self.decision.kind == "stopped"


@dataclass(frozen=True, slots=True)
class CallingProgram:
    """The program of the model that makes a call.

    Attributes:
        program: Its text; empty if none makes it.
        line: The line of the call; 0 if it is not known.
        objects: Its arguments that JSON cannot represent, by name.
    """

    program: str = ""
    line: int = 0
    objects: Mapping[str, Any] = field(default_factory=dict)

    def with_objects(self, given: Json, sent: Json) -> Json:
        """The arguments with these objects, except those that a person changed.

        Args:
            given: The arguments by name, as JSON.
            sent: The arguments as the program sent them.
        """
        if not self.objects:
            return given
        same = [name for name in self.objects if given[name] == sent[name]]
        return {**given, **{name: self.objects[name] for name in same}}


@dataclass(frozen=True, slots=True)
class _Rules:
    """The settings of a run that decide on its calls.

    Attributes:
        approve: The policy.
        allow: The names of tools that run without asking.
        ask_before: The acts that code of the model does only after a person was asked.
    """

    approve: Approve
    allow: frozenset[str]
    ask_before: frozenset[AskBefore] = frozenset()

    def may_refuse(self, tool: Tool) -> bool:
        """Whether some call of a tool may be asked about or refused."""
        if tool.act is not None:
            return tool.act in self.ask_before
        if self.approve == "auto" or self.allow & {tool.name, tool.source_name}:
            return False
        return callable(self.approve) or tool.may_require_approval

    def allows(self, tool: Tool) -> str:
        """The setting by which nobody is asked about a tool whose calls all require approval."""
        if tool.approve is not True:
            return ""
        if self.approve == "auto":
            return "approve is 'auto'"
        return "allow names it"


class Approver:
    """Decides on the calls of one run.

    If the agent of the run is a tool of another run, the settings of the outer run count as well. A
    call runs only if both allow it, and a person is asked if one of them requires it.

    Args:
        approve: The policy; None is the same as ``"ask"``.
        allow: The names of tools that run without asking.
        person: Who is asked.
        source: Who asks the question of the run; the outer run's, if there is one.
        permitted: The permissions of the person for this run, given before it began.
        ask_before: The acts that code of the model does only after a person was asked.
        preview: Tries a call before the person is asked about it; None for no preview.
    """

    def __init__(
        self,
        approve: Approve | None,
        allow: Collection[str],
        person: Person,
        *,
        source: Source = NOTEBOOK,
        permitted: Permissions | None = None,
        ask_before: Collection[AskBefore] = (),
        preview: Callable[[Tool, BoundCall], Preview | None] | None = None,
    ) -> None:
        self._person = person
        self._preview = preview
        policy = "ask" if approve is None else approve
        self.rules: tuple[_Rules, ...] = (_Rules(policy, frozenset(allow), frozenset(ask_before)),)
        self.source = source
        outer: Approver | None = getattr(current_person.get(), "approver", None)
        if outer is not None:
            self.rules += outer.rules
            self.source = outer.source
        self._permitted = permitted or Permissions()
        self._in_run = Permissions()

    @property
    def asks_before(self) -> frozenset[AskBefore]:
        """The acts of the model's code that need a person's approval first."""
        return frozenset().union(*(each.ask_before for each in self.rules))

    def may_refuse(self, tool: Tool) -> bool:
        """Whether some call of a tool may be asked about or refused."""
        return any(each.may_refuse(tool) for each in self.rules)

    def decide(
        self,
        tool: Tool,
        call: ToolCall,
        bound: BoundCall,
        namespace: Namespace,
        *,
        may_ask: bool = True,
        caller: CallingProgram | None = None,
    ) -> Clearance:
        """Decide on a call.

        Args:
            tool: The tool.
            call: The call as the model sent it.
            bound: The call with its validated arguments.
            namespace: The variables that an edited argument may name.
            may_ask: Whether the person can be asked now; if not, calls that need approval are
                refused.
            caller: The program of the model that makes the call; None if none does.
        """
        deciding = [each.approve for each in self.rules if each.may_refuse(tool)]
        if not deciding:
            return Clearance(bound, allowed=self.rules[0].allows(tool))
        # Functions decide first, so that nobody is asked about a call that one of them refuses.
        for approve in deciding:
            if callable(approve) and (refusal := _refusal_of(approve, tool, call)):
                return Clearance(refusal=refusal)
        asking = [approve for approve in deciding if not callable(approve)]
        if not asking:
            return Clearance(bound)
        check = _checked(tool, bound)
        if not check.required:
            return Clearance(bound)
        if "deny" in asking:
            return _refused(tool, "needs approval, which is denied in this run")
        state = state_of(tool)
        # A reason of the tool's own check is about this call, which no earlier permission covers.
        if check.reason is None and (allowed := self._permits(state)):
            return Clearance(bound, allowed=allowed, seen=Seen(state))
        if not may_ask:
            why = "needs approval, and nobody is asked after the code that calls it has ended"
            return _refused(tool, why)
        return self._asked(tool, call, bound, namespace, check, caller or CallingProgram())

    # ── permissions ───────────────────────────────────────────────────────────────────────────────

    @property
    def _sources(self) -> tuple[Source, ...]:
        """The source whose permissions cover the current calls."""
        recording = recording_of(self._person)
        if recording is None:
            return (self.source,)
        return (Source("recording", recording), self.source)

    def _permits(self, tool: ToolState) -> str:
        """Why nobody is asked about a tool as it is now; empty if somebody is."""
        if not self.source.can_permit:
            return ""
        sources = self._sources
        if IN_NOTEBOOK.covers(sources, tool):
            return "you always approve it in this notebook"
        if self._in_run.covers(sources, tool):
            return "you approved it for this run"
        if self._permitted.covers((NOTEBOOK,), tool):
            return "you approved it for this map"
        return ""

    def _note_changes(self, tool: ToolState) -> str:
        """The change since the person said not to ask again; empty if there is none."""
        if self._permits(tool):
            # The text of the tool's own check asks about a call of the tool that they read.
            return ""
        for given in (IN_NOTEBOOK, self._in_run, self._permitted):
            if changed := given.changed(self._sources, tool):
                return f"You are asked again, because {changed} since you said not to ask again."
        return ""

    def _give(self, answer: Answer, tool: ToolState) -> None:
        """Keep the permission that an answer gives."""
        source = self.source
        recording = answered_from(self._person)
        if recording is not None:
            source = Source("recording", recording)
        if answer == "always":
            IN_NOTEBOOK.give(Permission(source, tool))
        elif answer == "this run":
            self._in_run.give(Permission(source, tool))

    def _asked(
        self,
        tool: Tool,
        call: ToolCall,
        bound: BoundCall,
        namespace: Namespace,
        check: ApprovalCheck,
        caller: CallingProgram,
    ) -> Clearance:
        """The decision of the person; a refusal if the person cannot be asked."""
        if not self._person.there:
            return _refused(tool, "needs approval, and nobody can be asked here")
        if too_long := _too_long_to_show(tool, bound):
            return Clearance(refusal=f"Refused: {tool.name} was not run, because {too_long}")
        names = [each.name for each in tool.parameters if not each.injected]
        if isinstance(call.input, dict) and any(each.is_rest for each in tool.parameters):
            names += call.input  # each of them is an argument
        sent = _by_name(call.input, names)
        with _dialogue:
            dialogue = ApprovalDialogue(
                self._person, tool, sent, bound, namespace, check, caller,
                choices_of(self.source, tool), self._note_changes(state_of(tool)),
                # Nobody reads the form of a recorded answer, and an act has no function.
                None if recording_of(self._person) is not None or tool.act else self._preview,
            )  # fmt: skip
            try:
                answer, clearance = dialogue.decide()
                if clearance.seen is not None:
                    self._give(answer, clearance.seen.tool)
                return clearance
            except (EOFError, OSError) as error:
                return dialogue.unanswered(error)
            finally:
                with capture_paused():
                    Keyboard.close(dialogue.summary)


def _checked(tool: Tool, bound: BoundCall) -> ApprovalCheck:
    """Whether a call requires approval; it does where the tool's own check fails."""
    try:
        return tool.check_approval(bound)
    except STOPS:
        raise
    except BaseException as error:  # noqa: BLE001 - the person decides
        reason = f"You are asked because the tool's own check failed: {safe_repr(error)}"
        return ApprovalCheck(required=True, reason=reason)


def _too_long_to_show(tool: Tool, bound: BoundCall) -> str:
    """Why a person cannot be shown all of the code that a call runs; empty if they can."""
    if not tool.runs_code:
        return ""
    for name, value in tool.arguments(bound).items():
        size = len(visible(_as_text(value) or safe_repr(value)))
        if size > MAX_VALUE:
            return (
                f"{name} takes {size:,} characters to show, and a person who approves code is "
                f"shown at most {MAX_VALUE:,}. Send it in shorter parts."
            )
    return ""


def _refused(tool: Tool, why: str) -> Clearance:
    hint = "Do not call it again: tell the user that it was not run, and that --allow permits it."
    refusal = f"Refused: {tool.name} {why}."
    permits = f"--allow {tool.name} permits it."
    return Clearance(refusal=f"{refusal} {hint}", for_person=f"{refusal} {permits}")


def _refusal_of(approve: Callable[[Tool, ToolCall], Any], tool: Tool, call: ToolCall) -> str:
    try:
        reason = approve(tool, call)
    except STOPS:
        raise
    except BaseException as error:  # noqa: BLE001 - a policy that fails refuses the call
        why = safe_repr(error)
        return f"{call.name} was not run: asking for approval failed with {why}"
    if issubclass(type(reason), str):
        return str.__str__(reason)  # a subclass may be false although it has text
    expected = "expected the reason for a refusal, or ''"
    return f"{call.name} was not run: approve answered {safe_repr(reason)}; {expected}"


def _by_name(sent: Json, names: list[str]) -> dict[str, Json]:
    """The arguments that the model sent, by name, also from JSON text or a single bare value."""
    if isinstance(sent, str) and len(names) != 1:
        try:
            sent = json.loads(sent)
        except ValueError:
            return {}
    if isinstance(sent, dict) and set(sent) <= set(names):
        return sent
    if len(names) == 1 and sent is not None:
        return {names[0]: sent}
    return {}


# ── the dialogue ──────────────────────────────────────────────────────────────────────────────────

CHOICES = (
    Choice("yes", "y", "run"),
    Choice("this run", "this run", "run, and do not ask again in this run"),
    Choice("always", "a", "run, and do not ask again in this notebook"),
    Choice("edit", "NAME = VALUE", "edit"),
    Choice("no", "n", "refuse with a reason"),
    Choice("stop", "stop", "stop"),
)
"""The choices of a person in every front end: the answer, how it is typed, and its label."""


def prompt_of(form: ApprovalForm) -> str:
    """The line on which a person types one of the choices of a form."""
    offered = " · ".join(f"[{each.line}] {each.label}" for each in form.choices)
    return f"run? {offered}; or say what to do instead: "


def choices_of(source: Source, tool: Tool) -> tuple[Choice, ...]:
    """The choices of a person about a call of a question from this source."""
    choices: tuple[Choice, ...] = CHOICES
    if tool.act is not None:  # the code does what it does
        choices = tuple(each for each in choices if each.answer != "edit")
    if not source.can_permit:
        return tuple(each for each in choices if each.answer not in ("this run", "always"))
    if source.kind == "chat":
        label = "run, and do not ask again in the chat"
        return tuple(
            replace(each, label=label) if each.answer == "always" else each for each in choices
        )
    return choices


_ALL_SHOWN = "All of the call is shown above.\n"

_OTHER_WORDS: dict[str, Answer] = {
    "yes": "yes", "run": "yes", "always": "always", "no": "no", "?": "show all", "": "unclear",
}  # fmt: skip
_EDIT = re.compile(r"([^\W\d]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)
_REASON = re.compile(r"(?:no|n)\s*[,:;.–—-]\s*(\S.*)", re.IGNORECASE | re.DOTALL)
_LIKE_YES = re.compile(r"(?:y|yes|yep|yeah|yup|ok|okay|sure)\b", re.IGNORECASE)
_SCOPES: dict[Answer, Scope] = {"yes": "once", "this run": "run", "always": "notebook"}
"""What an answer approves."""

_MAX_REASON = 300  # characters of the reason for a refusal
_MAX_UNCLEAR = 3  # empty or unclear answers


def read_answer(line: str) -> tuple[Answer, str]:
    """Parse an answer and its text: the reason for a refusal, or the change of an argument."""
    line = line.strip()
    typed: dict[str, Answer] = {each.line: each.answer for each in CHOICES}
    if found := (typed | _OTHER_WORDS).get(line.lower()):
        return found, ""
    if _EDIT.fullmatch(line):
        return "edit", line
    if reason := _REASON.fullmatch(line):
        return "no", reason[1]
    is_typo = line.isascii() and len(line) < 3
    if is_typo or _LIKE_YES.match(line):
        return "unclear", line
    return "no", line


class ApprovalDialogue:
    """Asks a person about one call until the answer is clear; ``sent`` is the model's input.

    ``caller`` is the program that makes the call, ``choices`` are the choices of the person,
    ``changes`` says what has changed since a permission for the tool was given, and ``preview``
    tries a call.

    Attributes:
        summary: The call and the decision on one line.
    """

    def __init__(
        self, person: Person, tool: Tool, sent: dict[str, Json], bound: BoundCall,
        namespace: Namespace, check: ApprovalCheck, caller: CallingProgram = CallingProgram(),
        choices: tuple[Choice, ...] = (), changes: str = "",
        preview: Callable[[Tool, BoundCall], Preview | None] | None = None,
    ) -> None:  # fmt: skip
        self._person = person
        self._tool = tool
        self._namespace = namespace
        self._check = check
        self._choices = choices
        # This is not part of the form, by which a recording is found; it may have other
        # permissions.
        self._changes = f"{escape(changes)}\n" if changes else ""
        self._caller = caller
        self._program = visible_code(keep_both_ends(caller.program, MAX_VALUE))
        self._sent = self._input = sent  # as the model sent it, and as edited by the person
        self._bound = bound
        self._try = preview
        self._tried: tuple[BoundCall, Preview | None] | None = None  # the call that was tried last
        self._seconds: float | None = None  # that the person has taken so far
        self._shows_all = tool.runs_code  # code is never shortened
        self._originals: dict[str, str] = {}  # the arguments as text, before any edit
        self._seen = _seen(tool, bound)
        self._form = self._new_form()
        self._originals = {each.name: each.text for each in self._form.arguments}
        self.summary = self._summary("not run")

    def decide(self) -> tuple[Answer, Clearance]:
        """Ask until the answer is clear; each time about the call as it would run then."""
        note = self._changes
        unclear = 0
        while unclear <= _MAX_UNCLEAR:
            answer, text = read_answer(self._person.ask(note + prompt_of(self._form), self._form))
            self._note_time()
            note = ""
            match answer:
                case "yes" | "this run" | "always":
                    note = self._why_not(answer)
                    if not note:
                        form = self._decided(Decision("approved", _SCOPES[answer]))
                        edit = self._edited()
                        return answer, Clearance(self._bound, edit=edit, form=form, seen=self._seen)
                    unclear += not self._is_offered(answer)
                case "no":
                    return answer, self._refused(text)
                case "stop":
                    return answer, Clearance(form=self._decided(Decision("stopped")))
                case "show all":
                    self._shows_all = True
                    note = _ALL_SHOWN
                case "edit" if self._tool.act is not None:
                    note = self._why_not(answer)
                    unclear += 1
                case "edit":
                    note = self._edit(text)
                case "unclear":
                    unclear += 1
                    note = f"{escape(text)!r} is not clear: nothing was run.\n" if text else ""
            self._seen = _seen(self._tool, self._bound)
            self._form = self._new_form()
        return "unclear", self.unanswered()

    def unanswered(self, error: EOFError | OSError | None = None) -> Clearance:
        """The refusal of a call without a clear answer; `error` is why there can be none."""
        if error is None:
            form = self._decided(Decision("unanswered"))
            refusal = f"Refused: {self._tool.name} needs approval, and the reply was not a yes."
            return Clearance(refusal=refusal, edit=self._edited(), form=form)
        why = "nobody answered"
        if isinstance(error, UnansweredError):
            why = str(error)
            self._seconds = (self._seconds or 0.0) + error.seconds
        form = self._decided(Decision("unanswered"))
        refused = _refused(self._tool, f"needs approval, and {why}")
        return replace(refused, edit=self._edited(), form=form)

    def _is_offered(self, answer: Answer) -> bool:
        return any(each.answer == answer for each in self._choices)

    def _why_not(self, answer: Answer) -> str:
        """Why a call is not run by an answer that runs it; empty if it is."""
        if not self._is_offered(answer):
            return f"{answer!r} is not offered for this call: nothing was run.\n"
        changed = self._seen.changed(self._tool, self._bound)
        if changed:
            return f"Not run yet: {changed} since it was shown. Look at it again.\n"
        return ""

    def _note_time(self) -> None:
        """Add the time of the last answer."""
        seconds = seconds_taken(self._person)
        if seconds is not None:
            self._seconds = (self._seconds or 0.0) + seconds

    def _refused(self, text: str) -> Clearance:
        """The refusal of the person, with the given reason."""
        why = ""
        reason = None
        if text:
            reason = text.rstrip(".")
            why = f": {reason}"
        form = self._decided(Decision("refused", reason=reason))
        return Clearance(
            refusal=f"The user refused this call{why}. Do not send the same call again.",
            for_person=f"You refused this call{why}.",
            edit=self._edited(),
            form=form,
        )

    def _edited(self) -> Edit | None:
        """The changes of the person, if the input differs from the model's."""
        if self._input != self._sent:
            return Edit(self._input, self._form.edited)
        return None

    def _edit(self, line: str) -> str:
        """Change one argument; return the error message, if any."""
        name, _, text = (each.strip() for each in line.partition("="))
        if name not in self._originals:
            known = ", ".join(self._originals) or "none"
            return f"{self._tool.name} has no argument {escape(name)!r}; it has {known}.\n"
        try:
            value = _literal(text)
        except ValueError:
            what = f"{escape(text[:100])} is neither a Python literal nor JSON"
            return f'{what}; text needs quotes: "text".\n'
        edited = {**self._input, name: value}
        bound = self._tool.bind(self._given(edited), self._namespace)
        if not isinstance(bound, BoundCall):
            fault = self._fault({name: value}) or bound.text
            return f"{self._tool.name} does not accept this: {quoted(fault)}\n"
        if too_long := _too_long_to_show(self._tool, bound):
            return f"Nothing was changed: {too_long}\n"
        self._input = edited
        self._bound = bound
        self._check = _checked(self._tool, bound)
        return ""

    def _given(self, edited: dict[str, Json]) -> Json:
        return self._caller.with_objects(edited, self._sent)

    def _fault(self, changes: Mapping[str, Json]) -> str:
        """The first fault of changed arguments; empty if there is none."""
        if self._tool.runs_code:
            for text in changes.values():
                fault = syntax_fault(text)
                if fault:
                    return fault
        faults = self._tool.faults(self._given({**self._input, **changes}), self._namespace)
        return next(iter(faults), "")

    def _fields(self) -> tuple[FormField, ...]:
        """The arguments as a person can change them."""
        if self._tool.act is not None:
            return ()
        properties = self._tool.schema()["properties"]
        fields = []
        for name, value in self._tool.arguments(self._bound).items():
            kind = properties.get(name, {})  # one without a parameter of its own may be anything
            sent = self._input.get(name)
            is_fixed = name in self._caller.objects
            if name not in self._input:
                sent = kind.get("default")
                is_fixed = "default" not in kind
            is_fixed = is_fixed or (type(sent) is str and type(value) is not str and is_data(value))
            is_code = self._tool.runs_code and type(value) is str
            text = ""
            if is_fixed:
                text = _in_short(value, sent)
            fields.append(FormField(name, sent, kind, is_code, is_fixed, text))
        return tuple(fields)

    def _new_form(self) -> ApprovalForm:
        """The call, with the values that the function would receive now in place of names."""
        arguments = []
        for name, value in self._tool.arguments(self._bound).items():
            is_default = name not in self._input
            text = _lines(value)
            sent = text
            if not is_default:
                sent = _lines(self._input[name])
            before = self._originals.get(name, text)
            argument = FormArgument(name, text, is_default=is_default)
            if sent != text:
                argument = replace(argument, sent=sent)
            if before != text:
                argument = replace(argument, before=before)
            arguments.append(argument)
        form = ApprovalForm(
            self._tool.name,
            tuple(arguments),
            escape(self._check.reason or self._check.note),
            program=self._program,
            line=self._caller.line,
            fields=self._fields(),
            check=self._fault,
            choices=self._choices,
            preview=self._previewed(),
        )
        whole = form_text(form, whole=True)
        short = form_text(form)
        if short != whole and not self._shows_all:
            return replace(form, text=f"{short}\n(shortened; ? shows all)")
        return replace(form, text=whole)

    def _previewed(self) -> Preview | None:
        """The effects of the call in a copy; it is tried once, and again after an edit."""
        if self._try is None:
            return None
        if self._tried is None or self._tried[0] is not self._bound:
            self._tried = self._bound, self._try(self._tool, self._bound)
        return self._tried[1]

    def _decided(self, decision: Decision) -> ApprovalForm:
        """The form with the decision."""
        decision = replace(decision, seconds=self._seconds)
        if decision.reason is not None:
            decision = replace(
                decision, reason=keep_both_ends(escape(decision.reason), _MAX_REASON)
            )
        edited = self._form.edited
        changes = [f", edited {edit_in_words(a.name, a.before or '', a.text)}" for a in edited]
        self.summary = self._summary(keep_both_ends(decision.in_words + "".join(changes), 300))
        return replace(self._form, decision=decision)

    def _summary(self, decision: str) -> str:
        arguments = [each for each in self._form.arguments if not each.is_default]
        given = ", ".join(f"{a.name}={truncate_both_ends(a.text)}" for a in arguments)
        return f"{keep_both_ends(f'{self._tool.name}({given})', 200)}: {decision}"


def syntax_fault(code: Any) -> str:
    """The fault in the syntax of some Python code; empty if there is none."""
    try:
        ast.parse(code)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, TypeError, MemoryError, RecursionError) as error:
        return str(error)
    return ""


def _literal(text: str) -> Json:
    """Parse a Python literal that JSON can represent, or JSON; raises ValueError."""
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        value = _strict_json(text)
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, RecursionError) as error:
        raise ValueError(text) from error


def _strict_json(text: str) -> Json:
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError(text) from error


# ── what the person is shown ──────────────────────────────────────────────────────────────────────

MAX_VALUE = 100_000  # characters in the whole form
_MAX_SHORT_VALUE = 300  # in the short form
_AROUND = 4  # lines of a program before and after the one that waits, in the short form
_ITEMS = 60  # items that are shown of a container that is too long
_CELLS = 20_000  # an array, a series or a frame with at most this many values is shown in full


def form_text(form: ApprovalForm, *, whole: bool = False) -> str:
    """A form as plain text, each argument on one line or in a marked block."""
    end = ":" if form.arguments else "."
    lines = [f"The agent wants to run {escape(form.tool)}{end}"]
    for each in form.arguments:
        if "\n" in each.text + (each.before or ""):
            lines += _lines_of_block(each, whole=whole)
        else:
            lines.append(_line_of(each, whole=whole))
    if form.why:
        lines.append(f"({form.why})")
    if form.program:
        lines += _lines_of_program(form, whole=whole)
    return "\n".join(lines)


def _lines_of_program(form: ApprovalForm, *, whole: bool) -> list[str]:
    """The program that makes the call, or its lines around the call, which is marked."""
    lines = form.program.split("\n")
    first = 0
    end = len(lines)
    if not whole:
        first = max(0, form.line - 1 - _AROUND)
        end = min(end, first + 1 + 2 * _AROUND)
    head = "Its program waits:"
    if form.line:
        head = f"Its program waits in line {form.line}:"
    shown = [head]
    if first:
        shown.append("       …")
    for number in range(first + 1, end + 1):
        mark = "→" if number == form.line else " "
        source = lines[number - 1]
        if not whole:
            source = keep_both_ends(source, _MAX_SHORT_VALUE)
        shown.append(f"  {mark} {number:>2}  {source}")
    if end < len(lines):
        shown.append("       …")
    return shown


def _line_of(argument: FormArgument, *, whole: bool) -> str:
    """An argument on one line."""
    text = argument.text
    before = argument.before
    if not whole:
        text = keep_both_ends(text, _MAX_SHORT_VALUE)
    if before is None:
        return f"  {argument.name} = {text}{_note_of(argument)}"
    if not whole:
        before = keep_both_ends(before, _MAX_SHORT_VALUE)
    return f"  {argument.name} = {text}  (edited, was {before})"


def _lines_of_block(argument: FormArgument, *, whole: bool) -> list[str]:
    """An argument as a marked block, with the one before it was edited."""
    value = block(argument.text, whole=whole)
    if argument.before is None:
        return [f"  {argument.name}:{_note_of(argument)}", *value]
    before = block(argument.before, whole=whole)
    return [f"  {argument.name}:  (edited)", *value, "    before:", *before]


def _note_of(argument: FormArgument) -> str:
    """The origin of the value of an argument that was not edited."""
    if argument.sent is not None:
        return f"  (sent as {keep_both_ends(argument.sent, _MAX_SHORT_VALUE)})"
    if argument.is_default:
        return "  (default)"
    return ""


def _lines(value: Any) -> str:
    """A value with every character visible: multi-line text as it is, anything else as a repr."""
    text = _as_text(value)
    if text:
        return visible(keep_both_ends(text, MAX_VALUE))
    return visible(bounded_repr(value))


def _as_text(value: Any) -> str:
    """A text of several lines; empty for any other value, which is shown as a repr."""
    if type(value) is str and "\n" in value:
        return value
    return ""


def _in_short(value: Any, sent: Json) -> str:
    """A value that cannot be edited: the name that was sent for it, if any, its type and shape."""
    what = type_name(value)
    if is_data(value):
        what = f"{what}, {' × '.join(map(str, shape_of(value)))}"
    if type(sent) is str:
        what = f"{keep_both_ends(sent, _MAX_SHORT_VALUE)} ({what})"
    return escape(what)


_BRACKETS: dict[type[Any], str] = {list: "[]", tuple: "()"}  # others have braces


def bounded_repr(value: Any, most: int = MAX_VALUE) -> str:
    """The repr of a value; for a long one both ends, and the middle is never computed."""
    if is_data(value):
        try:
            return keep_both_ends(_data(value), most)
        except STOPS:
            raise
        except BaseException:  # noqa: BLE001, S110 - the repr is shown instead
            pass
    if not _is_long(value, most):
        return keep_both_ends(safe_repr(value), most)
    kind = type(value)
    size = len(value)
    ends = (most * 2 // 3, most // 3)
    if kind in (str, bytes, bytearray):
        head = value[: ends[0]]
        tail = value[size - ends[1] :]
        return f"{head!r} … {size - sum(ends):,} characters left out … {tail!r}"
    texts = _item_texts(value, most // _ITEMS)
    if left := size - len(texts):
        texts.insert(_ITEMS * 2 // 3, f"… {left:,} items left out …")
    brackets = _BRACKETS.get(kind, "{}")
    return f"{brackets[0]}{', '.join(texts)}{brackets[1]}"


def _item_texts(value: Any, room: int) -> list[str]:
    """The texts of the first and the last items of a container; none if there is no room."""
    if not room:
        return []
    if type(value) is dict:
        pairs = _first_and_last(list(value.items()))
        return [f"{bounded_repr(key, room)}: {bounded_repr(each, room)}" for key, each in pairs]
    return [bounded_repr(each, room) for each in _first_and_last(list(value))]


def _first_and_last(items: list[Any]) -> list[Any]:
    if len(items) <= _ITEMS:
        return items
    return [*items[: _ITEMS * 2 // 3], *items[-(_ITEMS // 3) :]]


def _is_long(value: Any, most: int) -> bool:
    """Whether a value holds more than ``most`` items and characters in all."""
    values = [value]
    size = 0
    while values and size <= most:
        each = values.pop()
        kind = type(each)
        if kind in (str, bytes, bytearray):
            size += len(each)
        elif kind in (list, tuple, set, frozenset, dict):
            size += 2 * len(each) + 2
            if size > most:
                break
            values += each
            if kind is dict:
                values += each.values()
    return size > most


def _data(value: Any) -> str:
    """All values of an array, a series or a table; for a long one both ends."""
    is_long = math.prod(shape_of(value)) > _CELLS
    return preview(value) if is_long else listing(value)
