"""A scripted model, to test tools and agents without a real one."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any, Self, TypeAlias

from archytas_nb.choices import ActiveProtocol
from archytas_nb.errors import UsersFrames
from archytas_nb.hints import hinted
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    AskModel,
    Delta,
    ModelReply,
    Usage,
    WireCall,
)

Scripted: TypeAlias = str | tuple[Any, ...] | dict[str, Any] | ModelReply | BaseException


class ScriptError(UsersFrames, AssertionError):
    """A script does not match the requests; a notebook shows the line that made the request."""


@hinted
class ScriptedModel:
    """A model that gives the replies of a script, in order.

    As a context manager it also checks at the end that every reply was used.

    Args:
        replies: Each is a call ``("tool", tool_input)`` or ``("thought", "tool", tool_input)``; a
            text; a `ModelReply` (for several calls in one reply); or an exception to raise.
        protocol: The wire protocol to use.

    Example:
        >>> ScriptedModel(("add", {"a": 1, "b": 2}), ("final_answer", "3"))
        ScriptedModel(2 replies left)
    """

    name = "scripted"
    is_scripted = True  # never replaced by a cassette

    def __init__(self, *replies: Scripted, protocol: ActiveProtocol = "react") -> None:
        for each in replies:
            others = (str, dict, ModelReply, BaseException)
            is_call = isinstance(each, (tuple, list)) and len(each) in (2, 3)
            if not is_call and not isinstance(each, others):
                raise ScriptError(
                    f'a reply of the script is {each!r}; expected ("tool", tool_input), '
                    '("thought", "tool", tool_input), a text, a dict, a ModelReply or an exception'
                )
        self.protocol: ActiveProtocol = protocol
        self._remaining = list(replies)
        self.asked: list[AskModel] = []
        """Every request, in order."""

    def __repr__(self) -> str:
        return f"ScriptedModel({len(self._remaining)} replies left)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise `ScriptError` if a reply of the script was not used."""
        if self._remaining:
            raise ScriptError(
                f"{len(self._remaining)} scripted replies were not used; "
                f"the next is {self._remaining[0]!r}"
            )

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        """The next reply of the script.

        Raises:
            ScriptError: No reply is left; the message shows the request.
        """
        if not ask.step:  # the question whether a tool fits: always yes
            return ModelReply("yes")
        self.asked.append(ask)
        if not self._remaining:
            last = ask.messages[-1]
            raise ScriptError(
                f"the script has no reply left for request {len(self.asked)}; its last message "
                f"is {last!r}"
            )
        reply = self._remaining.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, str):
            yield Delta("text", reply)
        return self._reply(reply)

    def _reply(self, reply: Any) -> ModelReply:
        if isinstance(reply, ModelReply):
            return reply
        usage = Usage(requests=1)
        if isinstance(reply, str):
            return ModelReply(reply, usage=usage)
        if isinstance(reply, dict):
            return ModelReply(json.dumps(reply, ensure_ascii=False), usage=usage)
        if len(reply) == 2:
            reply = ("", *reply)
        thought, tool, given = reply
        if self.protocol == "react":
            action = {"thought": thought, "tool": tool, "tool_input": given}
            return ModelReply(json.dumps(action, ensure_ascii=False), usage=usage)
        if self.protocol == "program":
            return ModelReply(self._program(thought, tool, given), usage=usage)
        if tool == ANSWER and isinstance(given, str):
            return ModelReply(given, usage=usage)
        if tool == ANSWER:
            return ModelReply(json.dumps(given), usage=usage)
        arguments = json.dumps(given, ensure_ascii=False)
        return ModelReply(thought, (WireCall(tool, arguments),), finish="tool_calls", usage=usage)

    @staticmethod
    def _program(thought: str, tool: str, given: Any) -> str:
        """A program that makes one call and shows its result, or that answers."""
        if tool == ANSWER:
            statement = f"answer({given!r})"
        elif tool == FAIL:
            statement = f"give_up({given!r})"
        else:
            statement = f"show({tool}(**{given or {}!r}))"
        return f"{thought}\n```python\n{statement}\n```".lstrip()
