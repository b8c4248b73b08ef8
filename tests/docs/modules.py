"""``archytas_nb/README.md``: every module with the first sentence that it says about itself, in the order of the layers.

``python -m tests.docs.modules`` writes the page again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.test_layers import LAYERS, PACKAGE

PAGE = PACKAGE / "README.md"
_HEAD = """\
# Modules

From the top to the bottom: a module imports only from what stands below it, or from its own package. Each line is the
beginning of the module's own docstring; `python -m tests.docs.modules` writes this page.
"""


def sentence(file: Path) -> str:
    """The first paragraph of a module's docstring, on one line.

    Raises:
        ValueError: It has none.
    """
    text = ast.get_docstring(ast.parse(file.read_text("utf-8")))
    if not text:
        raise ValueError(f"{str(file)!r} has no docstring; say in its first line what it is for")
    return " ".join(text.split("\n\n")[0].split())


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield _HEAD
    for layer in LAYERS:
        names = sorted(name for name in layer if name and "." not in name)
        alone = [name for name in names if (PACKAGE / f"{name}.py").exists()]
        if alone:
            yield (
                "\n".join(f"- `{each}.py`: {sentence(PACKAGE / f'{each}.py')}" for each in alone)
                + "\n"
            )
        for name in sorted(set(names) - set(alone)):
            folder = PACKAGE / name
            yield f"## {name}\n\n{sentence(folder / '__init__.py')}\n"
            files = sorted(file for file in folder.rglob("*.py") if file != folder / "__init__.py")
            named = ((file.relative_to(folder).as_posix(), file) for file in files)
            yield "\n".join(f"- `{name}`: {sentence(file)}" for name, file in named) + "\n"


def page() -> str:
    """The page as it should be."""
    return "\n".join(lines())


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
