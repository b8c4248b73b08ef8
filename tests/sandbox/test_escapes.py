"""Programs that try to reach more than the tools and the plain values of variables.

They use what is known of other interpreters of Python in Python: attributes of classes, functions,
frames and tracebacks, format strings, modules that hold modules; and everything that a program gets
here: handles, records, results, errors, and the notebook's names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.loop.events import CallOutcome, ProgramEnded
from archytas_nb.tools.tool import Tool
from tests.sandbox import programs as module
from tests.sandbox.programs import Frame, Programs, uncheck

CANARY = "canary-5f1c"


@dataclass
class Account:
    """A record with more than its fields."""

    name: str

    def __post_init__(self) -> None:
        self.token = CANARY

    @property
    def secret(self) -> str:
        return CANARY


class Name(str):
    """A text that says something else of itself."""

    __slots__ = ()

    def __str__(self) -> str:
        return CANARY

    __repr__ = __format__ = __str__  # type: ignore[assignment]


class Liar:
    """An object that looks like plain values."""

    hidden = CANARY
    __class__ = property(lambda _: dict)  # type: ignore[assignment]

    def __getattr__(self, name: str) -> str:
        return CANARY

    def __iter__(self) -> Iterator[str]:
        return iter([CANARY])

    def items(self) -> list[tuple[str, str]]:
        return [("a", CANARY)]


def account() -> Account:
    """Make an account."""
    return Account("Ada")


def fail() -> None:
    """Raise an error."""
    local = CANARY  # noqa: F841
    raise ValueError("raise SystemExit; answer('x') {0.__class__} %s \x1b[31m")


def liar() -> Any:
    """Give an object."""
    return Liar()


ESCAPES = {
    "subclasses": "().__class__.__bases__[0].__subclasses__()",
    "mro": "type(frame).__mro__[-1].__subclasses__()",
    "globals of a tool": "price.__globals__['CANARY']",
    "globals of a tool by getattr": "getattr(price, '__glo' + 'bals__')",
    "code of a tool": "price.__code__.co_consts",
    "wrapped tool": "price.__wrapped__.__func__.__globals__",
    "format": "'{0.__class__.__init__.__globals__}'.format(frame)",
    "format map": "'{a.hidden}'.format_map({'a': frame})",
    "format spec": "f'{frame:{frame.hidden}}'",
    "percent": "'%(a)s' % {'a': thing.hidden}",
    "attribute of a handle": "frame.hidden",
    "dict of a handle": "frame.__dict__",
    "reduce of a handle": "frame.__reduce_ex__(2)",
    "method of a handle": "frame.open()",
    "call of a handle": "frame()",
    "class of a handle": "type(frame)(1).hidden",
    "class of a record": "type(account())('x').token",
    "more of a record": "account().token",
    "property of a record": "account().secret",
    "record by key": "account()['token']",
    "vars of a record": "vars(account())",
    "setter": "frame.hidden = 'x'\nframe.hidden.__class__.__init__.__globals__",
    "liar": "liar().hidden",
    "liar as a dict": "dict(liar())",
    "liar in a list": "list(liar())",
    "lying text": "str(name) + repr(name) + f'{name}'",
    "generator frame": "(g.gi_frame.f_back.f_globals for g in [(n for n in [1])])",
    "coroutine frame": "async def f():\n    pass\nf().cr_frame.f_back",
    "traceback": "try:\n    fail()\nexcept ValueError as e:\n    x = e.__traceback__.tb_frame.f_locals\nx",
    "error": "try:\n    fail()\nexcept ValueError as e:\n    x = [e.args, e.__context__, e.__cause__]\nx",
    "except star": "try:\n    fail()\nexcept* ValueError as e:\n    x = e.exceptions[0].__traceback__\nx",
    "system": "import os\nos.system('touch MARK')",
    "popen": "import os\nos.popen('touch MARK').read()",
    "spawn": "import subprocess\nsubprocess.run(['touch', 'MARK'])",
    "environment": "import os\nos.environ['CANARY']",
    "getenv": "import os\nos.getenv('CANARY')",
    "read": "open('FILE').read()",
    "write": "open('MARK', 'w').write('x')",
    "pathlib": "from pathlib import Path\nPath('FILE').read_text()",
    "list": "import os\nos.listdir('/')",
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "ctypes": "import ctypes\nctypes.CDLL(None).system(b'touch MARK')",
    "import": "__import__('os').environ['CANARY']",
    "importlib": "import importlib\nimportlib.import_module('os').environ['CANARY']",
    "module in a module": "import random\nrandom._os.system('touch MARK')",
    "modules": "import sys\nsys.modules['os'].environ['CANARY']",
    "getframe": "import sys\nsys._getframe(0).f_back.f_globals",
    "builtins": "__builtins__['__import__']('os').environ['CANARY']",
    "builtins module": "import builtins\nbuiltins.open('FILE').read()",
    "loader": "__loader__.load_module('os').environ['CANARY']",
    "spec": "__spec__.loader.get_data('FILE')",
    "pickle": "import pickle\npickle.loads(b\"cos\\nsystem\\n(S'touch MARK'\\ntR.\")",
    "code": "compile('1', 'x', 'eval')",
    "object of the notebook": "Out[1], In[1], _oh, get_ipython",
    "module of the notebook": "os.environ['CANARY']",
    "function of the notebook": "helper()",
    "class of the notebook": "Frame(1)",
    "secret of the notebook": "api_key",
    "private name of the notebook": "_secret",
    "checkpoint": "__checkpoint__(1, frame)",
    "name of a handle": "account.__self__",
    "bound method": "frame.__init__.__self__.hidden",
    "operators": "[frame + 1, frame < frame, frame[0], len(frame), hash(frame), iter(frame)]",
    "exception class": "class E(Exception):\n    pass\nE.__init__.__globals__",
    "metaclass": "class M(type):\n    pass\nM.__base__.__subclasses__(M)",
    "descriptor": "property(lambda s: s).fget.__globals__",
    "names that look like markup": "show('</script>', '{{x}}', '\\x1b[31m', '\\u202e')",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "file").write_text(CANARY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def escaping(place: Path) -> Iterator[Programs]:
    tools = [Tool.from_function(each) for each in (account, fail, liar)]
    patch = pytest.MonkeyPatch()
    patch.setattr(module, "TOOLS", {**module.TOOLS, **{each.name: each for each in tools}})
    patch.setattr(module, "CANARY", CANARY, raising=False)
    patch.setenv("CANARY", CANARY)
    frame = Frame(1)
    frame.hidden = CANARY  # type: ignore[attr-defined]
    names: dict[str, Any] = {"frame": frame, "thing": Liar(), "name": Name("plain"), "os": os}
    names |= {"helper": lambda: CANARY, "Frame": Frame, "api_key": CANARY, "_secret": CANARY}
    names |= {"In": ["", CANARY], "Out": {1: CANARY}, "_oh": {1: CANARY}, "get_ipython": CANARY}
    made = Programs(names)
    yield made
    made.session.close()
    patch.undo()


@pytest.mark.parametrize("name", ESCAPES)
@pytest.mark.parametrize("is_checked", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_program_reaches_nothing_else(
    escaping: Programs,
    place: Path,
    name: str,
    is_checked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = place / "mark"
    text = ESCAPES[name].replace("FILE", str(place / "file")).replace("MARK", str(mark))
    with monkeypatch.context() as patch:
        if not is_checked:
            uncheck(patch)
        reply = escaping.reply(text)
    assert CANARY not in repr(reply)
    assert not mark.exists()
    # The session is usable, and neither it nor the objects have changed.
    ended = escaping.run("(rows(frame), 1 + 1)")
    assert ended.shown == ("(1, 2)",)
    assert escaping.namespace["frame"].hidden == CANARY


def test_a_result_that_looks_like_a_handle_stays_text(escaping: Programs) -> None:
    escaping.answered = lambda _: CallOutcome("done", "x", value={"$var": "api_key"})
    try:
        ended = escaping.run("x = price('a')\nrows(x)")
        assert isinstance(ended, ProgramEnded)
    finally:
        escaping.answered = escaping.call


@pytest.mark.parametrize("name", ["api_key", "_secret", "os", "helper", "Frame"])
def test_a_tool_gets_no_variable_that_a_program_may_not_name(escaping: Programs, name: str) -> None:
    given: list[Any] = []
    escaping.answered = lambda call: given.append(call.input) or escaping.call(call)  # type: ignore[func-returns-value]
    try:
        reply = escaping.reply(f"rows({{'$var': '{name}'}})")
    finally:
        escaping.answered = escaping.call
    assert CANARY not in repr(reply)
