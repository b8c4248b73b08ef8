"""The keys of results: a row's question, and the setup with which it is asked.

A tool counts by its source, so that equal code is equal in every version of Python. Where the file
has another text by now than the code that runs, or there is no source, the code itself counts.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import linecache
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FunctionType
from typing import Any

from archytas_nb.functions.door import code_of
from archytas_nb.kernel.permission import all_codes
from archytas_nb.tools.tool import Tool
from archytas_nb.undo.fingerprint import fingerprint


def keys_of(
    questions: Sequence[str], salts: Sequence[str], tools: Iterable[Tool], *parts: str
) -> list[str]:
    """The key of each row's result: from its question, the tools with their code, and the rest."""
    same = [*parts, *([tool.name, tool.spec(), version_of(tool.function)] for tool in tools)]
    text = json.dumps(same, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    keys = []
    for question in questions:
        row = digest.copy()
        row.update(question.encode("utf-8", "surrogatepass"))
        keys.append(row.hexdigest())
    if salts:
        return [f"{key} {salt}" for key, salt in zip(keys, salts, strict=True)]
    return keys


def version_of(function: Callable[..., Any]) -> str:
    """The identity of the code that a call of a function runs."""
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        # It was typed into an interpreter, is written in C, or is an object.
        source = ""
    written = _written_in_python(function)
    code = None if written is None else code_of(written)
    if source and (code is None or _is_in_its_file(code)):
        return source
    module = getattr(function, "__module__", "")
    text = source or f"{module}.{getattr(function, '__qualname__', '')}"
    return text if code is None else f"{text} {fingerprint(code).digest:032x}"


def _written_in_python(function: Any) -> Any:
    """The function inside partials, methods, callable objects and decorators."""
    for _ in range(100):
        # An object may lead to itself.
        if isinstance(function, FunctionType):
            inner: Any = inspect.unwrap(function)
            if inner is function:
                return function
            function = inner
        elif isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__func__"):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif isinstance(vars(type(function)).get("__call__"), FunctionType):
            function = vars(type(function))["__call__"]
        else:
            return None
    return None


def _is_in_its_file(code: CodeType) -> bool:
    """Whether the text from which Python shows the source is that of the code."""
    digests = _digests_in(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    return digests is None or fingerprint(code).digest in digests


@functools.lru_cache(maxsize=64)
def _digests_in(file: str, text: str) -> frozenset[int] | None:
    """The code of all functions in a text; None where that cannot be told, as of a magic's cell."""
    try:
        whole = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return frozenset(fingerprint(each).digest for each in all_codes(whole))
