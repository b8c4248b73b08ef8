"""The objects that stay outside of the sandbox and are represented by handles."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Mapping
from typing import Any

from pydantic_monty import ClassInstance, ClassType, MontyClassProxy

from archytas_nb.loop.events import VAR, Json
from archytas_nb.namespace import contained
from archytas_nb.tools.data import is_data, shape_of
from archytas_nb.tools.render import is_lazy, render
from archytas_nb.tools.tables import table_of
from archytas_nb.tools.texts import safe_repr
from archytas_nb.tools.variables import name_of


class Handles:
    """The objects that handles stand for, and the names that calls use for them.

    An object keeps one handle while the table exists, so it stays equal to itself.

    Attributes:
        kept: Objects that are not variables of the user, by the name that a call gives for them.
    """

    def __init__(self, namespace: Mapping[str, Any] | None = None) -> None:
        self.kept: dict[str, Any] = {}
        self._namespace: Mapping[str, Any] = {}
        if namespace is not None:
            self._namespace = namespace
        self._by_id: dict[uuid.UUID, Any] = {}
        self._ids: dict[int, uuid.UUID] = {}  # of objects that `_by_id` keeps alive
        self._types: dict[type, ClassType] = {}

    def wrapped(self, value: Any, fields: Mapping[str, Any] | None = None) -> ClassInstance:
        """A handle for an object, or a record with these fields; nothing else can be reached."""
        key = self._ids.get(id(value))
        if key is None:
            key = uuid.uuid4()
            self._ids[id(value)] = key
            self._by_id[key] = value
        if fields is None:  # objects are equal there if their fields are
            fields = {"_handle": key.hex, **_facts_of(value)}
        return _Wrapped(value, key, self._type(type(value)), fields)

    def _type(self, cls: type) -> ClassType:
        # An id for each class: two classes of one name, such as those of a cell that was run twice,
        # would share one, and the sandbox refuses the second.
        if cls not in self._types:
            self._types[cls] = ClassType(cls, id=uuid.uuid4())
        return self._types[cls]

    def object_of(self, proxy: MontyClassProxy) -> Any:
        """The object of a handle that was restored with a session; KeyError if there is none."""
        return self._by_id[proxy.id]

    def holds(self, value: Any) -> bool:
        """Whether the sandbox has a handle or a record of this object."""
        return id(value) in self._ids

    def name(self, value: Any) -> str:
        """The variable that has an object; an object without one is kept under a new name."""
        found = name_of(value, self._namespace) or name_of(value, self.kept)
        if found:
            return found
        stem = re.sub(r"[\W_]+", "_", type(value).__name__).strip("_")
        for number in itertools.count(1):
            found = f"{stem or 'object'}_{number}"
            if found not in self._namespace and found not in self.kept:
                break
        self.kept[found] = value
        return found

    def reference(self, value: Any) -> Json:
        """How a call names an object."""
        return {VAR: self.name(value)}

    def in_words(self, text: str) -> str:
        """A text of a program, with the texts of the objects in place of those of their handles.

        A program that formats or prints an object has the text of its handle, which tells nobody
        anything.
        """
        parts: list[str] = []
        at = 0
        for found in _HANDLE.finditer(text):
            value = self._by_id.get(uuid.UUID(found["key"]), _NOTHING)
            start = found.start() - len(type(value).__name__)
            if value is _NOTHING or start < at:
                continue
            end = _end_of(text, found.end())
            if end is None:
                break
            # A generator would be read, and its items would be gone.
            words = safe_repr(value) if is_lazy(value) else render(value).text
            parts += [text[at:start], words]
            at = end
        return "".join([*parts, text[at:]])

    def copy(self, namespace: Mapping[str, Any] | None = None) -> Handles:
        """A table with the same handles, to go back to; with other variables if they are given."""
        other = Handles(self._namespace)
        if namespace is not None:
            other._namespace = namespace
        other.kept = dict(self.kept)
        other._by_id = dict(self._by_id)
        other._ids = dict(self._ids)
        other._types = dict(self._types)
        return other


_NOTHING = object()  # in place of an object that no handle has
_HANDLE = re.compile(r"\(_handle='(?P<key>[0-9a-f]{32})'")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.DOTALL)


def _end_of(text: str, at: int) -> int | None:
    """The place after the parenthesis that closes the one before `at`; None if it is cut off."""
    depth = 1
    for found in _TOKEN.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    return None


def _facts_of(value: Any) -> dict[str, Any]:
    """The readable facts of data that stays outside: ``.shape``, ``.columns``, its length."""
    if type(value) in (list, tuple, dict, set, frozenset):
        return {"_length": len(value)}
    found: dict[str, Any] = {}
    with contained():
        if not is_data(value):
            return {}
        table = table_of(value)
        shape = tuple(map(int, shape_of(value)))
        if table is None:
            found = {"shape": shape}
        elif table.size is not None:
            found = {"shape": shape, "columns": [str(each) for each in table.names]}
        if shape and found:
            found["_length"] = shape[0]
    return found


class _Wrapped(ClassInstance):
    """An object of which the sandbox can reach only the fields that were converted for it."""

    def __init__(
        self, value: Any, key: uuid.UUID, class_type: ClassType, fields: Mapping[str, Any]
    ) -> None:
        super().__init__(value, id=key, class_type=class_type)
        self._fields = fields

    def get_eager_attrs(self) -> dict[str, Any]:
        return dict(self._fields)
