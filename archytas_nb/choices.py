"""The values of the settings that are chosen from a few names, as types."""

from __future__ import annotations

from typing import Literal, TypeAlias

ActiveProtocol: TypeAlias = Literal["react", "native", "program"]
"""The wire protocol that a run uses: the text protocol, function calling, or programs."""

ProtocolName: TypeAlias = Literal["auto", ActiveProtocol]
"""The values of the setting ``protocol``."""

Policy: TypeAlias = Literal["ask", "auto", "deny"]
"""The values of the setting ``approve``: what to do when a tool requires approval."""

AskBefore: TypeAlias = Literal["network", "process", "delete", "outside"]
"""The values of the setting ``ask_before``: before what code of the model does you are asked.

A connection, a program or signal, a deletion, or a change outside of the working folder."""

CompactionName: TypeAlias = Literal["summary", "drop"]
"""The values of the setting ``compaction``: what a long conversation begins with."""

ContextName: TypeAlias = Literal["auto", "none", "mentioned", "changed", "all"]
"""The values of the setting ``context``: which variables are described below a question.

Those mentioned in it, also those that are new or have changed since the last question, or all;
``"auto"`` depends on the model."""

ValuesName: TypeAlias = Literal["all", "scalars", "none", "strict"]
"""The values of the setting ``values``: what a model may learn of values, the strictest last."""

PythonMode: TypeAlias = Literal["off", "copy", "ask", "undoable", "unwatched"]
"""The values of the setting ``python``: where a model may run code.

Nowhere; in a copy of the kernel, which can change nothing; or in the kernel: after approval, with
undo, or without."""

TraceName: TypeAlias = Literal["folded", "steps", "off"]
"""The values of the setting ``trace``: how the steps of a run are shown."""

ApiName: TypeAlias = Literal["auto", "chat", "responses"]
"""The values of the setting ``api``: which API of an OpenAI-compatible endpoint is used."""

EffortName: TypeAlias = Literal["auto", "none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The values of the setting ``effort``, from the second on in ascending order."""
