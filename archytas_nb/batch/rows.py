"""Reads rows out of a column, a frame or a list, and makes a frame of their results."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archytas_nb.batch.store import RowResult
from archytas_nb.loop.events import Json
from archytas_nb.tools.names import did_you_mean
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool

_FIELD = re.compile(r"\{(\w+)\}")
_MAX_CHARS = 20_000  # of a value that is not text; text is sent whole
COLUMNS = ("status", "error", "tokens", "cost", "seconds")
"""What stands beside the answer."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a map.

    Attributes:
        items: The rows: mappings by column, or values.
        library: ``"pandas"``, ``"polars"``, or empty for a list.
        index: The index of the result; None but for pandas.
    """

    items: list[Any]
    library: str
    index: Any = None

    @classmethod
    def of(cls, data: Any) -> Rows:
        """Read a Series, a DataFrame (pandas or polars), a list, or anything that can be iterated.

        Raises:
            ValueError: It has no rows to ask about, as text or a number.
        """
        library = str(type(data).__module__).partition(".")[0]
        library = library if library in ("pandas", "polars") else ""
        if library and hasattr(data, "columns"):
            is_polars = library == "polars"
            items = data.to_dicts() if is_polars else data.to_dict("records")
            return cls(items, library, None if is_polars else data.index)
        if isinstance(data, (str, bytes, Mapping)) or not isinstance(data, Iterable):
            kind = type(data).__name__
            raise ValueError(  # noqa: TRY004 - of arguments, as everywhere
                f"data is of type {kind!r}; expected a column, a frame or a list"
            )
        if library == "pandas" and not hasattr(data, "index"):  # an Index has rows and no index
            library = ""
        return cls(list(data), library, data.index if library == "pandas" else None)  # type: ignore[attr-defined]

    def questions(self, prompt: str) -> list[str]:
        """The question for each row: ``{column}`` is replaced; a row without it stands below.

        Raises:
            ValueError: The prompt is empty, or names a column that there is not.
        """
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError(f"the prompt is {prompt!r}; expected what to do with each row")
        by_name = bool(self.items) and all(isinstance(item, Mapping) for item in self.items)
        named = _FIELD.findall(prompt) if by_name else []
        if not named:
            return [f"{prompt.strip()}\n\n{_shown(item)}" for item in self.items]
        known = list(dict.fromkeys(str(name) for item in self.items for name in item))
        for name in named:
            if name not in known:
                hint = did_you_mean(name, known)
                columns = ", ".join(known[:40])
                raise ValueError(f"the prompt names {name!r}{hint or ';'} columns: {columns}")
        return [_filled(prompt, item) for item in self.items]

    def result(self, results: Sequence[RowResult], values: Sequence[Any], output_type: Any) -> Any:
        """A frame with the answers' columns and `COLUMNS`; for a list, a list of dicts."""
        names, parts = fields_of(output_type)
        records = [
            {
                **dict.fromkeys(names),
                **(parts(value) if each.status == "done" else {}),
                "status": each.status,
                "error": each.error,
                "tokens": each.usage.input_tokens + each.usage.output_tokens,
                "cost": each.usage.usd or None,
                "seconds": each.seconds,
            }
            for each, value in zip(results, values, strict=True)
        ]
        if not self.library:
            return records
        columns = [*names, *COLUMNS]
        made = sys.modules[self.library].DataFrame
        data = {name: [record[name] for record in records] for name in columns}
        if self.library == "polars":
            return made(data, strict=False, schema_overrides={"cost": float})
        frame = made(data, index=self.index, columns=columns)
        # A whole number that is missing would make its column one of floats.
        answers = {name: frame[name].convert_dtypes() for name in names}
        return frame.assign(**answers, cost=frame["cost"].astype("float64"))


def fields_of(output_type: Any) -> tuple[list[str], Callable[[Any], dict[str, Any]]]:
    """The columns of an answer of a type, and how one is taken apart.

    Raises:
        ValueError: A field has the name of another column.
    """
    if dataclasses.is_dataclass(output_type):
        names = [each.name for each in dataclasses.fields(output_type)]
    elif hasattr(output_type, "model_fields"):  # a pydantic model
        names = list(output_type.model_fields)
    elif hasattr(output_type, "_fields"):  # a named tuple
        names = list(output_type._fields)
    elif hasattr(output_type, "__required_keys__"):  # a typed dict
        names = list(output_type.__annotations__)
    else:
        return ["answer"], lambda value: {"answer": value}
    taken = [name for name in names if name in COLUMNS]
    if taken:
        raise ValueError(f"the type's field {taken[0]!r} is a column of the result; rename it")

    def parts(value: Any) -> dict[str, Any]:
        if isinstance(value, Mapping):
            return {name: value.get(name) for name in names}
        return {name: getattr(value, name) for name in names}

    return names, parts


def keys_of(questions: Iterable[str], tools: Iterable[Tool], *parts: Json) -> list[str]:
    """What identifies each row's result: its question, the tools with their code, and the rest."""
    same = [*parts, *([tool.name, tool.spec(), _source(tool.function)] for tool in tools)]
    text = json.dumps(same, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    keys = []
    for question in questions:
        row = digest.copy()
        row.update(question.encode("utf-8", "surrogatepass"))
        keys.append(row.hexdigest())
    return keys


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed into an interpreter, or written in C
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def _shown(item: Any) -> str:
    if isinstance(item, Mapping):
        return "\n".join(f"{name}: {_text(value)}" for name, value in item.items())
    return _text(item)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else render(value, _MAX_CHARS).text


def _filled(prompt: str, item: Mapping[Any, Any]) -> str:
    values = {str(name): value for name, value in item.items()}
    return _FIELD.sub(lambda found: _text(values.get(found[1])), prompt)
