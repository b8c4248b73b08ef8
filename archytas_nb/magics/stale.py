"""Tools whose function was defined anew in a plain cell: what the user sees is what must run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from archytas_nb.errors import ToolError


def refresh(namespace: Mapping[str, Any]) -> None:
    """Take the present definition of each function of the notebook that is a tool.

    Args:
        namespace: The notebook's variables.

    Raises:
        ToolError: A function was defined anew in a way that cannot be a tool.
    """
    from archytas_nb.tools.toolbox import toolbox

    for tool in tuple(toolbox.values()):
        old = tool.function
        if (
            not inspect.isfunction(old)
            or old.__module__ != "__main__"
            or old.__qualname__ != old.__name__
        ):
            continue
        new = namespace.get(old.__name__)
        if new is old or not inspect.isfunction(new) or new.__module__ != "__main__":
            continue
        options = {
            name: getattr(tool, name) for name in ("approve", "timeout", "max_chars", "repeat")
        }
        try:
            toolbox.add(new, name=tool.source_name, **options)
        except ToolError as error:
            raise ToolError(
                f"the tool {tool.name!r} was defined anew, and cannot be a tool as it is now. Mend it, or forget "
                f"the tool with %tools --remove {tool.name}.\n{error}"
            ) from error
