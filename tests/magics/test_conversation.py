"""Which cell asks: a cell that is run again replaces its question."""

from types import SimpleNamespace
from typing import Any

import pytest

from archytas_nb.magics.conversation import Origins
from tests.live_kernel import Kernel
from tests.servers.plays import Say
from tests.servers.server import Server


class Front:
    """A shell whose kernel is sent requests by a notebook."""

    def __init__(self) -> None:
        self.kernel: Any = SimpleNamespace(get_parent=lambda _: self.parent)
        self.parent: dict[str, Any] = {}
        self._executions = 0

    def run(self, cell: str | None) -> None:
        self._executions += 1
        metadata = {} if cell is None else {"cellId": cell}
        self.parent = {"metadata": metadata, "header": {"msg_id": str(self._executions)}}


def test_a_question_is_known_by_its_cell_and_its_place_among_the_questions_of_this_run_of_the_cell() -> (
    None
):
    front = Front()
    origins = Origins(front)
    seen = []
    for cell in ("a", "b", "a"):
        front.run(cell)
        for _ in range(2):
            assert origins.next() == origins.next()
            seen.append(origins.next())
            origins.asked()
    assert seen == ["a#1", "a#2", "b#1", "b#2", "a#1", "a#2"]


@pytest.mark.parametrize(
    "parent", [{}, {"metadata": {}, "header": {"msg_id": "1"}}, {"metadata": None, "header": {}}]
)
def test_where_no_cell_is_named_there_is_no_origin(parent: dict[str, Any]) -> None:
    front = Front()
    front.parent = parent
    assert Origins(front).next() == ""
    assert Origins(SimpleNamespace()).next() == ""


def questions(server: Server) -> list[str]:
    return [
        message["content"]
        for message in server.chats[-1].body["messages"]
        if message["role"] == "user"
    ]


def test_a_cell_that_is_run_again_replaces_its_question_in_its_place(kernel: Kernel) -> None:
    with Server(then=Say("Fine.")) as server:
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        kernel.run("%agent --new")
        kernel.run("%agent one", cell_id="a")
        kernel.run("%agent two", cell_id="b")
        kernel.run("%agent uno", cell_id="a")
        assert questions(server) == ["uno"]
        kernel.run("%agent three", cell_id="c")
        assert questions(server) == ["uno", "two", "three"]


def test_two_questions_of_one_cell_are_two_and_stay_two_when_it_is_run_again(
    kernel: Kernel,
) -> None:
    cell = "%agent one\n%agent two"
    with Server(then=Say("Fine.")) as server:
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        kernel.run("%agent --new")
        for _ in range(2):
            assert kernel.run(cell, cell_id="a").status == "ok"
        assert kernel.run("%agent --history").result.count("Fine.") == 2


def test_without_a_cell_each_question_is_added(kernel: Kernel) -> None:
    with Server(then=Say("Fine.")) as server:
        kernel.run(f"%config ArchytasNB.base_url = {server.url!r}")
        kernel.run("%agent --new")
        for _ in range(2):
            kernel.run("%agent one")
        assert questions(server) == ["one", "one"]
