"""A specification that differs from the file of the function is told as such; nothing else is."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from archytas_nb import Agent, Toolbox
from archytas_nb.loop.events import Notice
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import Tool

FUNCTION = '''
def area(w: int, box: Box | None = None) -> int:
    """Area.

    Args:
        w: Width.
        box: Box.
    """
    return w * 10
'''
KINDS = {
    "a dataclass": "from dataclasses import dataclass\n@dataclass\nclass Box:",
    "a typed dict": "from typing_extensions import TypedDict\nclass Box(TypedDict):",
    "a named tuple": "from typing import NamedTuple\nclass Box(NamedTuple):",
    "a model": "from pydantic import BaseModel\nclass Box(BaseModel):",
    "an enum": "from enum import IntEnum\nclass Box(IntEnum):",
}


class Written:
    """A module of the user in a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "module_that_changes.py"
        self._module: ModuleType | None = None

    def write(self, text: str) -> None:
        """Write the file; its time differs from that of another text of the same size."""
        self._file.write_text(text, "utf-8")

    def load(self) -> Any:
        """Import the module, or import it again."""
        importlib.invalidate_caches()
        if self._module is None:
            self._module = importlib.import_module(self._file.stem)
        else:
            self._module = importlib.reload(self._module)
        return self._module


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    """A module that nobody has imported."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield Written(tmp_path)
    sys.modules.pop("module_that_changes", None)


def _with_field(kind: str, field: str) -> str:
    value = "= 1" if kind == "an enum" else ": int"
    return f"{KINDS[kind]}\n    {field}{value}\n{FUNCTION}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_was_renamed_in_the_file_alone_is_told(module: Written, kind: str) -> None:
    module.write(_with_field(kind, "deep"))
    box = Toolbox(module.load().area)
    module.write(_with_field(kind, "height"))
    box.reread()
    tool = box["area"]
    assert "'Box' of 'module_that_changes.py' was changed in the file" in tool.outdated[0]
    assert "height" in tool.text
    assert "height" in tool.description
    assert "height" not in str(tool.schema())  # the old class is called, and takes the old field


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_that_was_imported_again_is_told_as_it_is_now(module: Written, kind: str) -> None:
    module.write(_with_field(kind, "deep"))
    Tool.from_function(module.load().area)
    module.write(_with_field(kind, "height_in_mm"))
    tool = Tool.from_function(module.load().area)
    assert tool.outdated == ()


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("w * 10", "w * 20", "return w * 20"),
        ("w: int,", "w: float,", "w: float"),
        ("box: Box | None = None", "box: Box | None = None, n: int = 1", "n: int=1"),
        ("Area.", "The area.", "The area."),
        ("def area", "def surface", "is no longer in the file"),
        ("    return", "    # a comment\n    return", None),
        ("\ndef area", "\n\n\ndef other():\n    pass\n\ndef area", None),
        ("def area", "def area(", None),  # it is being written
    ],
)
def test_a_function_that_was_changed_in_the_file_alone_is_told(
    module: Written, before: str, after: str, told: str | None
) -> None:
    text = _with_field("a dataclass", "deep")
    module.write(text)
    area = module.load().area
    Tool.from_function(area)
    module.write(text.replace(before, after))
    outdated = Tool.from_function(area).outdated
    if told is None:
        assert outdated == ()
    else:
        assert told in outdated[0]


def test_a_field_of_a_field_and_of_a_base_is_told(module: Written) -> None:
    text = (
        "from dataclasses import dataclass\n@dataclass\nclass Base:\n    a: int\n"
        "@dataclass\nclass Inner(Base):\n    b: int\n@dataclass\nclass Box:\n    inner: list[Inner]\n"
    )
    module.write(text + FUNCTION)
    area = module.load().area
    Tool.from_function(area)
    module.write(text.replace("a: int", "aa: int").replace("b: int", "bb: int") + FUNCTION)
    assert [each.split()[0] for each in Tool.from_function(area).outdated] == ["'Inner'", "'Base'"]


def test_a_method_that_was_changed_does_not_count(module: Written) -> None:
    text = _with_field("a model", "deep").replace(
        "    deep: int", "    deep: int\n    def f(self) -> int:\n        return 1"
    )
    module.write(text)
    area = module.load().area
    Tool.from_function(area)
    module.write(text.replace("return 1", "return 2"))
    assert Tool.from_function(area).outdated == ()


def test_the_person_reads_it_once_in_a_run(module: Written) -> None:
    module.write(_with_field("a dataclass", "deep"))
    agent = Agent(
        [module.load().area],
        model=ScriptedModel(("area", {"w": 1}), ("final_answer", "10"), ("final_answer", "10")),
    )
    module.write(_with_field("a dataclass", "height"))
    run = agent.run("How large?")
    assert [each.text for each in run.events if isinstance(each, Notice)] == [
        *run.tools["area"].outdated
    ]
    assert "height" in str(run.messages[0])
    module.load()  # but the agent has the function from before
    again = agent.run("How large?")
    assert "'Box' of" in str([each for each in again.events if isinstance(each, Notice)])
