"""The simulated worlds of the Berkeley function-calling leaderboard, and what was done in them.

Needs ``bfcl-eval`` (installed with --no-deps; its functions need only mpmath beside the standard library).
"""

from __future__ import annotations

import ast
import copy
import datetime as dt
import functools
import importlib
import importlib.util
import inspect
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CODE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
APIS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
MENDED = {"close_ticket": {"ticket_id": int | str}}
"""The one annotation that the ground truth contradicts: it closes the ticket ``"ticket_001"``."""


def data() -> Path:
    """Where the leaderboard's files are."""
    spec = importlib.util.find_spec("bfcl_eval")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"


def rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def api(name: str) -> type:
    """A simulated class."""
    found: type = getattr(importlib.import_module(f"{CODE}.{APIS[name]}"), name)
    return found


@dataclass
class World:
    """Fresh stateful objects for one task, and a journal of what is called on them.

    Attributes:
        objects: The simulated object of each class.
        functions: Their public methods, bound, by name.
        journal: Name, arguments and result of each call from outside, in order, as the method itself saw them.
    """

    task: dict[str, Any]
    objects: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=dict)
    journal: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    depth: int = 0

    def __post_init__(self) -> None:
        for name in self.task["involved_classes"]:
            self.objects[name] = made = _journaling(api(name))()
            made.journaled_by = self
            if name != "MathAPI":
                made._load_scenario(
                    copy.deepcopy(self.task["initial_config"].get(name, {})), long_context=False
                )
            found = inspect.getmembers(made, inspect.ismethod)
            self.functions |= {key: method for key, method in found if not key.startswith("_")}

    def state(self) -> dict[str, Any]:
        """All of the objects' state, private parts and random generators included, as comparable values."""
        return {name: _plain(each, {}) for name, each in self.objects.items()}


@functools.cache
def _journaling(cls: type) -> type:
    """The class with its methods noting, in the world of their object, each call from outside."""

    def noting(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @functools.wraps(method)
        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            world: World = self.journaled_by
            given = signature.bind(self, *args, **kwargs)
            given.apply_defaults()
            received = copy.deepcopy(dict(list(given.arguments.items())[1:]))
            world.depth += 1
            try:
                result = method(self, *args, **kwargs)
            finally:
                world.depth -= 1
            if not world.depth:
                world.journal.append((name, received, copy.deepcopy(result)))
            return result

        noted.__annotations__ = {**method.__annotations__, **MENDED.get(name, {})}
        return noted

    methods = inspect.getmembers(cls, inspect.isfunction)
    return type(
        cls.__name__, (cls,), {n: noting(n, m) for n, m in methods if not n.startswith("_")}
    )


def _plain(thing: Any, seen: dict[int, int]) -> Any:
    """A graph of objects as nested values; an object that was met before is named by its number."""
    if isinstance(thing, (str, int, float, type(None))):
        return thing
    if isinstance(thing, dt.datetime):
        return "a time"
    if isinstance(thing, random.Random):
        return thing.getstate()
    if isinstance(thing, dict):
        return {key: _plain(value, seen) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_plain(value, seen) for value in thing]
    if isinstance(thing, (set, frozenset)):
        return sorted(map(repr, thing))
    if id(thing) in seen:
        return ("again", seen[id(thing)])
    seen[id(thing)] = len(seen)
    return (
        type(thing).__name__,
        {key: _plain(value, seen) for key, value in vars(thing).items() if key != "journaled_by"},
    )


def call_of(source: str, functions: dict[str, Callable[..., Any]]) -> tuple[str, dict[str, Any]]:
    """Read ``name(a=1)`` as a name and the JSON object that a model would send."""
    node = ast.parse(source.strip(), mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    parameters = inspect.signature(functions[node.func.id]).parameters
    positional = dict(zip(parameters, map(ast.literal_eval, node.args), strict=False))
    return node.func.id, json.loads(json.dumps({**positional, **given}))
