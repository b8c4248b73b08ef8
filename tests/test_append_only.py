"""Each request extends the one before, byte for byte, so that an endpoint's cache keeps matching."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.loop.events import AskModel, ModelReply, WireCall
from archytas_nb.testing import ScriptedModel
from tests.strict import fault_of

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()


class Picture:
    """An object that a notebook draws as an image."""

    def _repr_png_(self) -> bytes:
        return base64.b64decode(PNG)


def measure(place: int) -> int:
    """Measure something.

    Args:
        place: Where
    """
    return place * 2


def draw() -> Any:
    """Draw something."""
    return Picture()


def failing(place: int) -> int:
    """Fail.

    Args:
        place: Where
    """
    raise RuntimeError(f"nothing at {place}")


def later(number: int) -> Callable[..., int]:
    """A tool that the user adds later."""

    def added(place: int) -> int:
        """Measure something else.

        Args:
            place: Where
        """
        return place + number

    added.__name__ = f"added_{number}"
    return added


def call(name: str, /, **given: Any) -> ModelReply:
    return ModelReply("", (WireCall(name, json.dumps(given)),), finish="tool_calls")


STEPS = st.lists(
    st.sampled_from([
        call("measure", place=1),
        *[call("measure", place=2)] * 2,
        ModelReply("", (WireCall("measure", '{"place": 1}'), WireCall("draw", ""))),
        ModelReply("Then I look.", (WireCall("failing", '{"place": 3}'),)),
        call("draw"),
        call("measure", place="x"),
        call("unknown"),
        call("python", code="1 + 1"),
        call("look", name="v"),
        ModelReply('{"name": "measure"'),
        ModelReply(""),
        ModelReply("", (WireCall("measure", '{"place": '),), finish="length"),
    ]),
    max_size=5,
)  # fmt: skip
ENDINGS = st.sampled_from([
    (None, [ModelReply("It is 3.")]),
    (int, [ModelReply("three"), call("final_answer", answer="four"), call("final_answer", answer=3)]),
    (list[float], [call("final_answer", answer={"$var": "nothing"}), call("final_answer", answer=[1])]),
    (None, [call("fail_task", reason="I cannot.")]),
])  # fmt: skip
CHANGES = st.sampled_from([
    {}, {"python": "undoable"}, {"python": "off"}, {"python": "copy"}, {"python": "unwatched"}, {"context": "none"}, {"ask_user": False}, {"add": 1},
    {"add": 2}, {"only": True},
])  # fmt: skip


def extends(before: AskModel, after: AskModel) -> bool:
    """Whether the bytes of a request begin with those of another, field by field."""
    for one, other in ((before.tools, after.tools), (before.messages, after.messages)):
        known = json.dumps(list(one), ensure_ascii=False)[:-1]
        if not json.dumps(list(other), ensure_ascii=False).startswith(known):
            return False
    return True


@given(st.lists(st.tuples(CHANGES, STEPS, ENDINGS), min_size=1, max_size=4))
def test_every_request_extends_the_one_before(
    questions: list[tuple[dict[str, Any], list[ModelReply], tuple[Any, list[ModelReply]]]],
) -> None:
    model = ScriptedModel(protocol="native")
    tools = nb.Toolbox(measure, draw, failing)
    agent = nb.Agent(
        tools, model, namespace={"v": [1, 2]}, max_errors=30, max_steps=30, python="off"
    )
    added = dict[int, Callable[..., int]]()
    for number, (change, steps, (output_type, ends)) in enumerate(questions):
        model._remaining = [*steps, *ends]  # a run may end before it has used all of them
        options: dict[str, Any] = {}
        if "add" in change:
            tool = added.setdefault(change["add"], later(change["add"]))
            tools.add(tool)
        elif change.get("only"):
            options["tools"] = tools.only("measure")
        elif change:
            agent._configure(**change)  # what options of %agent do for one question
        with contextlib.suppress(nb.ArchytasError):
            agent.run(f"Question {number}?", output_type=output_type, **options)
    for before, after in zip(model.asked, model.asked[1:], strict=False):
        assert extends(before, after), (before, after)
        assert fault_of(after.messages) == ""
