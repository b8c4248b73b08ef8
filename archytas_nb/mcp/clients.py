"""How other programs learn of the server of a notebook: a command, or an entry in their file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.files import OutputFile

NAME = "notebook"
"""The name of the server in the programs."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The file of a program that lists its servers.

    Attributes:
        path: The file, relative to the folder of the project.
        key: The key of the servers in it; they are a dictionary by name, or a list.
        entry: Makes the entry of a server from its address and its token.
        is_list: Whether the servers are a list.
    """

    path: str
    key: str
    entry: Callable[[str, str], dict[str, Any]]
    is_list: bool = False


def _headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _typed(url: str, token: str) -> dict[str, Any]:
    return {"type": "http", "url": url, "headers": _headers(token)}


def _untyped(url: str, token: str) -> dict[str, Any]:
    return {"url": url, "headers": _headers(token)}


def _listed(url: str, token: str) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in _headers(token).items()]
    return {"type": "http", "name": NAME, "url": url, "headers": headers}


FILES = {
    "claude": ClientFile(".mcp.json", "mcpServers", _typed),
    "cursor": ClientFile(".cursor/mcp.json", "mcpServers", _untyped),
    "vscode": ClientFile(".vscode/mcp.json", "servers", _typed),
    "jupyter-ai": ClientFile(".jupyter/mcp_settings.json", "mcp_servers", _listed, is_list=True),
}
"""The programs whose files can be written, by name."""


PRINT_IT = "python -m archytas_nb mcp --token"
"""What prints the token in a terminal: all that a notebook shows is saved with it."""


def command(url: str) -> str:
    """The command that tells Claude Code of a server; the shell puts the token in."""
    header = f'"Authorization: Bearer $({PRINT_IT})"'
    return f"claude mcp add --transport http {NAME} {url} --header {header}"


def text_of_entry(client: str, url: str, token: str) -> str:
    """The content of the file of a program that lists nothing else."""
    file = FILES[client]
    entry: Any = file.entry(url, token)
    servers = [entry] if file.is_list else {NAME: entry}
    return json.dumps({file.key: servers}, indent=2)


def write_entry(client: str, folder: Path, url: str, token: str) -> Path:
    """Add the server to the file of a program, in place of an earlier entry of the same name.

    Returns:
        The file.

    Raises:
        ConfigurationError: The file cannot be read as JSON, such as one with comments, or not be
            written.
    """
    file = FILES[client]
    path = folder / file.path
    written = _written(path)
    with written.locked():
        # Other kernels add their entries.
        content = _read(path)
        servers = _servers(content, file, path)
        _remove(servers, file)
        entry = file.entry(url, token)
        if file.is_list:
            servers.append(entry)
        else:
            servers[NAME] = entry
        written.write(_text(content))
    return path


def remove_entry(client: str, folder: Path, url: str) -> bool:
    """Remove the entry of this server from the file of a program; returns whether it was there.

    Raises:
        ConfigurationError: The file cannot be read as JSON, or not be written.
    """
    file = FILES[client]
    path = folder / file.path
    if not path.exists():
        return False
    written = _written(path)
    with written.locked():
        content = _read(path)
        servers = _servers(content, file, path)
        entry = _entry_in(servers, file)
        if entry is None or entry.get("url") != url:
            # It is that of another kernel.
            return False
        _remove(servers, file)
        written.write(_text(content))
    return True


def _entry_in(servers: Any, file: ClientFile) -> dict[str, Any] | None:
    entry: Any = None
    if file.is_list:
        entry = next((each for each in servers if _name(each) == NAME), None)
    else:
        entry = servers.get(NAME)
    if isinstance(entry, dict):
        return entry
    return None


def _name(entry: Any) -> Any:
    if isinstance(entry, dict):
        return entry.get("name")
    return None


def _remove(servers: Any, file: ClientFile) -> None:
    """Remove the entry of a notebook from the servers."""
    if file.is_list:
        servers[:] = [each for each in servers if _name(each) != NAME]
    else:
        servers.pop(NAME, None)


def _written(path: Path) -> OutputFile:
    """The file, which holds a token: a new one is for its owner only."""
    return OutputFile(path, "the file", "Add the entry by hand", is_private=True)


def _text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _servers(content: dict[str, Any], file: ClientFile, path: Path) -> Any:
    kind: type = dict
    if file.is_list:
        kind = list
    servers = content.setdefault(file.key, kind())
    if not isinstance(servers, kind):
        raise ConfigurationError(
            f"{file.key!r} in {str(path)!r} is {servers!r:.60}; expected a JSON "
            f"{'list' if file.is_list else 'object'}: mend or remove the file"
        )
    return servers


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{str(path)!r} cannot be read as JSON ({error}): mend or remove the file"
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(
            f"{str(path)!r} contains {content!r:.60}; expected a JSON object: mend or remove it"
        )
    return content
