"""The code that a session of the sandbox runs first: functions that it lacks or does differently.

A program may bind the name of any builtin, and its variables stay. So our own code in the session
reads builtins by private names, which no program can bind; `private` returns them.
"""

from __future__ import annotations

import ast
import builtins

from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.parse import parsed
from archytas_nb.tools.declaration import PRIVATE

CONTAINERS = (str, bytes, list, tuple, dict, set, frozenset)
"""The builtin types whose methods a program may use as values."""

_FUNCTIONS = """\
def round(number, ndigits=None):
    if isinstance(number, float) and isinstance(ndigits, int) and 0 <= ndigits < 300:
        return float(f'{number:.{ndigits}f}')
    return round(number, ndigits)


def len(items):
    try:
        return len(items)
    except TypeError:
        length = getattr(items, '_length', None)
        if length is None:
            raise
        return length


def _sandbox_keys(items, key):
    keys = [key(each) for each in items]
    return lambda place: keys[place]


def _sandbox_in_order(items, key, reverse):
    if key is None:
        return sorted(items, reverse=reverse)
    items = list(items)
    key = _sandbox_keys(items, key)
    return [items[each] for each in sorted(range(len(items)), key=key, reverse=reverse)]


def sorted(items, *, key=None, reverse=False):
    return _sandbox_in_order(items, key, reverse)


def max(*items, key=None, **named):
    if key is None:
        return max(*items, **named)
    items = list(items[0]) if len(items) == 1 else items
    if not items:
        return max([], **named)
    return items[max(range(len(items)), key=_sandbox_keys(items, key))]


def min(*items, key=None, **named):
    if key is None:
        return min(*items, **named)
    items = list(items[0]) if len(items) == 1 else items
    if not items:
        return min([], **named)
    return items[min(range(len(items)), key=_sandbox_keys(items, key))]


def map(function, *items):
    return [function(*each) for each in zip(*items)]


def filter(function, items):
    return [each for each in items if (each if function is None else function(each))]


def _sandbox_lazy(values, is_found):
    is_many, value, items, *tests = values
    for each in items:
        given = each if is_many else [each]
        for test in tests:
            if not test(*given):
                break
        else:
            found = value(*given)
            if is_found(found):
                return [found]
    return []


def _sandbox_has_methods(value):
    return isinstance(value, (str, bytes, list, tuple, dict, set, frozenset))


def _sandbox_check(kind, value):
    if not isinstance(value, kind):
        raise TypeError(f"expected '{kind.__name__}', got '{type(value).__name__}'")
    return value


def _sandbox_sort(items, *, key=None, reverse=False):
    if not isinstance(items, list):
        raise AttributeError(f"'{type(items).__name__}' object has no attribute 'sort'")
    items[:] = _sandbox_in_order(items, key, reverse)


def _sandbox_delete(items, key):
    if not isinstance(items, (list, dict)):
        raise TypeError(f"'{type(items).__name__}' object doesn't support item deletion")
    items.pop(key)


def _sandbox_any(values):
    return bool(_sandbox_lazy(values, lambda each: each))


def _sandbox_all(values):
    return not _sandbox_lazy(values, lambda each: not each)


def _sandbox_next(values, *default):
    found = _sandbox_lazy(values, lambda each: True)
    if found:
        return found[0]
    if default:
        return default[0]
    raise StopIteration


def _sandbox_beginning(value):
    return value[:300] if isinstance(value, (str, bytes, list, tuple)) else value
"""


def private(text: str) -> str:
    """Our own code, reading builtins by their private names."""
    tree = parsed(text)
    edits = Edits(text)
    for each in Bindings(tree).uses:
        is_builtin = hasattr(builtins, each.name) and not each.is_local
        if each.act == "read" and is_builtin and isinstance(each.node, ast.Name):
            edits.replace(each.node, f"{PRIVATE}{each.name}")
    return edits.applied()


_NAMES = "list(locals())"
_UNBINDING = "try:\n    raise ValueError\nexcept ValueError as name:\n    pass"


_OURS = "\n".join([_FUNCTIONS, _NAMES, _UNBINDING])
_READ = {each for each in Bindings.of(_OURS).read if hasattr(builtins, each)}
_READ |= {each.__name__ for each in CONTAINERS}

PRELUDE = "\n".join(
    [*(f"{PRIVATE}{each} = {each}" for each in sorted(_READ)), private(_FUNCTIONS), ""]
)

NAMES = private(_NAMES)
"""Evaluates to the names that are bound."""

BEGINNING = f"{PRIVATE}beginning"
"""The function that returns a value if it is short, or the beginning of a long one."""


def unbinding(name: str) -> str:
    """Lines that unbind a name.

    The sandbox has no `del`, but it unbinds the name of a caught exception after the block.
    """
    return private(_UNBINDING).replace("as name:", f"as {name}:") + "\n"
