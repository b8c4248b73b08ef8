"""Skills: folders with a SKILL.md, of which the model reads names first and texts when it asks.

The format is the open one of agentskills.io: a front matter in YAML with a name and a description,
then Markdown. As with `rules`, nothing is read that was not named: the setting ``skills`` names the
places. A skill is a text and permits nothing: the tool `skill` only reads, by names that were found
here, so no path from a model or a file is ever opened; and code in it runs only if the model passes
it to `python`, by the rules of that tool.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError
from archytas_nb.models.secrets import mask_all
from archytas_nb.tools.tool import Tool
from archytas_nb.words import did_you_mean, truncate_line, visible

FILE = "SKILL.md"
TOOL = "skill"
"""The name of the tool that reads skills."""
PAGE = 20_000
"""Characters of a file that one call returns."""
MAX_DESCRIPTION = 1024
"""Characters of a description; the format permits no more."""
MAX_SKILLS = 100
_MAX_FRONT = 16_000  # characters of a front matter
_MAX_DEPTH = 20  # lists and mappings in one another in a front matter
_MAX_FILE = 2_000_000  # bytes of a file of a skill; a larger one is not read
_MAX_LISTED = 100  # files of a skill that are named
_MAX_WALKED = 2_000  # entries of a folder that are looked at
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_MAX_NAME = 64
_FRONT = re.compile(r"\A---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)\Z", re.DOTALL | re.MULTILINE)
_FIELD = re.compile(r"^([\w-]+):(.*(?:\n(?:[ \t].*)?$)*)", re.MULTILINE)
"""A field of a front matter, with the indented lines below it."""
_DOCSTRING = """Read a skill: instructions for a kind of task. Read it before you begin such a task.

{skills}

Args:
    name: The skill.
    file: One of its files, as its text names it; without, the instructions.
    start: Characters to leave out at the beginning, to read on in a long text.
"""
_FOLDERS = (".agents/skills", ".claude/skills")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill.

    Attributes:
        name: Its name, which is that of its folder.
        description: When it is of use, on one line.
        folder: Its folder.
    """

    name: str
    description: str
    folder: Path

    def files(self) -> dict[str, Path]:
        """Its files by their paths in its folder; links and hidden files are none of them."""
        return dict(_files(self.folder))

    def text(self, file: str = "") -> str:
        """The text below the front matter, or that of another file; secrets in it are masked.

        Raises:
            ValueError: It has no such file, or that is not text.
        """
        files = self.files()
        # Folders are written on systems that ignore case.
        alike = [each for each in files if each.casefold() == file.casefold()]
        wanted = file or FILE
        if len(alike) == 1:
            [wanted] = alike
        if wanted not in files:
            guess = did_you_mean(wanted, files) or ";"
            there = ", ".join([*files][:_MAX_LISTED]) or "none"
            raise ValueError(f"{self.name!r} has no file {wanted!r}{guess} expected one of {there}")
        text = _read(files[wanted])
        if text is None:
            raise ValueError(
                f"{wanted!r} of {self.name!r} is not a text of at most {_MAX_FILE:,} bytes"
            )
        if not file:
            text = _split(text)[1]
        return mask_all(text)


def skills_tool(places: Iterable[str]) -> Tool | None:
    """The tool with which a model reads the skills in some places; None if there are none.

    Args:
        places: ``"project"``, ``"user"``, or paths of folders.

    Raises:
        ConfigurationError: A folder that was named is not there, or PyYAML is not installed.
    """
    found = skills_in(places)
    if not found:
        return None

    def read(name: str, file: str = "", start: int = 0) -> str:
        return _page(found, name, file, start)

    # Each description is one line that begins with a name, so none is read as a section.
    lines = "\n".join(f"- {each.name}: {each.description}" for each in found.values())
    read.__doc__ = _DOCSTRING.format(skills=lines)
    return Tool.from_function(read, TOOL, pure=True, repeat=True, max_chars=2 * PAGE)


def _page(found: Mapping[str, Skill], name: str, file: str, start: int) -> str:
    """The result of a call of the tool."""
    if name not in found:
        guess = did_you_mean(name, found) or ";"
        raise ValueError(f"no skill is named {name!r}{guess} expected one of {', '.join(found)}")
    skill = found[name]
    text = skill.text(file)
    parts = [text[max(start, 0) :][:PAGE]]
    end = max(start, 0) + PAGE
    if end < len(text):
        parts.append(f"({len(text) - end:,} more characters: read on with start={end}.)")
    others = [each for each in skill.files() if each != FILE]
    if not file and start <= 0 and others:
        shown = ", ".join(others[:_MAX_LISTED])
        more = len(others) - _MAX_LISTED
        left = f" and {more:,} more" if more > 0 else ""
        parts.append(f"(Its files, in {str(skill.folder)!r}: {shown}{left}.)")
    return "\n\n".join(filter(None, parts)) or "(The text is empty.)"


# ── finding skills ────────────────────────────────────────────────────────────────────────────────


def skills_in(places: Iterable[str]) -> dict[str, Skill]:
    """The skills in some places by their names; of two with one name, the first.

    One that cannot be used is left out with a warning that says why.

    Raises:
        ConfigurationError: A folder that was named is not there, or PyYAML is not installed.
    """
    found: dict[str, Skill] = {}
    for folder, root in _folders(places):
        for path in _candidates(folder):
            try:
                skill = _skill(path, root)
            except ValueError as why:
                warnings.warn(f"the skill in {str(path)!r} is left out: {why}", stacklevel=2)
                continue
            if len(found) == MAX_SKILLS and skill.name not in found:
                warnings.warn(f"only the first {MAX_SKILLS} skills are offered", stacklevel=2)
                return found
            found.setdefault(skill.name, skill)
    return found


def _folders(places: Iterable[str]) -> Iterator[tuple[Path, Path]]:
    """The folders that may hold skills, each with the one that no link may lead out of."""
    here = Path.cwd()
    for place in places:
        if place == "user":
            home = Path.home()
            # Links there are the user's own; those of a project may be anybody's.
            yield from ((home / each, Path(home.anchor)) for each in _FOLDERS)
        elif place == "project":
            for parent in _project(here):
                yield from ((parent / each, parent) for each in _FOLDERS)
        else:
            path = here / Path(place).expanduser()
            if not path.is_dir():
                expected = "expected 'project', 'user', or the path of a folder"
                raise ConfigurationError(f"skills: {place!r} is not a folder; {expected}")
            yield path, path


def _project(here: Path) -> list[Path]:
    """The working directory and those above it, up to a repository's; without one, the first."""
    for number, each in enumerate((here, *here.parents)):
        if (each / ".git").exists():
            return [here, *here.parents][: number + 1]
    return [here]


def _candidates(folder: Path) -> list[Path]:
    """The folders with a SKILL.md: this one, or those in it."""
    if os.path.lexists(folder / FILE):
        return [folder]
    try:
        return sorted(each for each in folder.iterdir() if os.path.lexists(each / FILE))
    except OSError:  # it is not there, as mostly
        return []


def _skill(path: Path, root: Path) -> Skill:
    """The skill in a folder.

    Raises:
        ValueError: It cannot be used.
        ConfigurationError: PyYAML is not installed.
    """
    try:
        folder = path.resolve()
        is_inside = folder.is_relative_to(root.resolve())
    except (OSError, RuntimeError) as error:
        raise ValueError(str(error)) from None
    if not is_inside:
        raise ValueError(f"it is a symbolic link to another folder, to {str(folder)!r}")
    if not _is_file(folder / FILE):
        raise ValueError(f"its {FILE} is not a regular file")
    text = _read(folder / FILE)
    if text is None:
        raise ValueError(f"its {FILE} is not a text of at most {_MAX_FILE:,} bytes")
    fields = _fields(_split(text)[0])
    name, description = fields.get("name"), fields.get("description")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        expected = f"expected at most {_MAX_NAME} letters from a to z, digits and single hyphens"
        raise ValueError(f"its name is {truncate_line(repr(name), 80)}; {expected}")
    if name != path.name:
        raise ValueError(f"its name is {name!r}; expected that of its folder, {path.name!r}")
    if not isinstance(description, str) or not description.strip():
        raise ValueError("its description is missing; expected a text that says when it is of use")
    line = " ".join(visible(description).split())
    return Skill(name, mask_all(truncate_line(line, MAX_DESCRIPTION)), folder)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The regular files in a folder, its SKILL.md first, then those nearest to it."""
    left = _MAX_WALKED
    if _is_file(folder / FILE):
        yield FILE, folder / FILE
    for at, folders, names in os.walk(folder):  # it does not follow links
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            left -= 1
            if left < 0:
                return
            path = Path(at) / name
            if not name.startswith(".") and path != folder / FILE and _is_file(path):
                yield path.relative_to(folder).as_posix(), path
        left -= len(folders)


def _is_file(path: Path) -> bool:
    """Whether a path is a file itself: no link to one, and nothing that waits when it is read."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def _read(path: Path) -> str | None:
    """The text of a file; None if it is too large, is not text, or cannot be read."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE + 1)
    except OSError:
        return None
    if len(raw) > _MAX_FILE or b"\0" in raw:
        return None
    return raw.decode("utf-8", "replace").removeprefix("\ufeff")


def _split(text: str) -> tuple[str, str]:
    """The front matter of a text, and the text below it; the first is empty without one."""
    found = _FRONT.match(text)
    if found is None:
        return "", text
    return found[1], found[2].strip()


def _fields(front: str) -> Mapping[str, Any]:
    """The fields of a front matter.

    Raises:
        ValueError: It is too long, or has aliases.
        ConfigurationError: PyYAML is not installed.
    """
    if not front.strip():
        raise ValueError("it does not begin with a front matter, between two lines of ---")
    if len(front) > _MAX_FRONT:
        size = f"{len(front):,} characters; expected {_MAX_FRONT:,} at most"
        raise ValueError(f"its front matter has {size}")
    try:
        import yaml  # noqa: F401 - before anything is read
    except ImportError:
        command = extras.install("skills")
        raise ConfigurationError(f"skills are read with PyYAML: {command}") from None

    fields = _value(front)
    if isinstance(fields, dict):
        return fields
    # Mostly for a colon in a text: each field is read alone, and one that is not YAML as written.
    found: dict[str, Any] = {}
    for field in _FIELD.finditer(front):
        alone = _value(field[0])
        is_read = isinstance(alone, dict) and field[1] in alone
        found[field[1]] = alone[field[1]] if is_read else " ".join(field[2].split())
    return found


def _value(text: str) -> Any:
    """The value of a text in YAML; None if it is not YAML, or is deeper than any front matter.

    Raises:
        ValueError: It has aliases.
    """
    import yaml

    depth = 0
    try:
        for event in yaml.parse(text, yaml.BaseLoader):
            if type(event) is yaml.AliasEvent:  # with which a few lines make any number of values
                raise ValueError("its front matter has aliases (*name): write the values out")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:  # to read it would take the square of its length
                return None
        return yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and dicts
    except yaml.YAMLError:
        return None
