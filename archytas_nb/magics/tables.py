"""What ``%%tool`` and ``%tools`` show: text for a terminal, HTML for a notebook."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archytas_nb.tools.tool import Tool

if TYPE_CHECKING:
    from archytas_nb.tools.examples import Example


@dataclass(frozen=True, slots=True, repr=False)
class Registered:
    """The tools that a cell made."""

    tools: tuple[Tool, ...]
    replaced: tuple[str, ...]
    checked: Mapping[str, Sequence[Example]]

    def __repr__(self) -> str:
        lines = []
        for tool in self.tools:
            note = " (replaces the earlier one)" if tool.name in self.replaced else ""
            lines.append(f"tool {tool.name}{note}")
            lines += _first_issue(tool)
            if tool.name in self.checked:
                lines += [_checked(each) for each in self.checked[tool.name]] or [
                    "  ! no examples to check"
                ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, repr=False)
class ToolTable:
    """Every tool on a line of its own."""

    tools: tuple[Tool, ...]
    disabled: tuple[str, ...] = ()

    def __repr__(self) -> str:
        if not self.tools:
            return "no tools yet: write a function in a cell that begins with %%tool"
        width = max(len(tool.name) for tool in self.tools)
        return "\n".join(
            f"{tool.name:<{width}}  {self._what(tool)}".rstrip() for tool in self.tools
        )

    def _what(self, tool: Tool) -> str:
        return f"(disabled) {_summary(tool)}" if tool.name in self.disabled else _summary(tool)

    def _repr_html_(self) -> str:
        from archytas_nb.trace.safe import Html, element, text

        if not self.tools:
            return str(element("p", text(repr(self))))

        def row(tag: str, *cells: Html) -> Html:
            return element("tr", *(element(tag, each, style="text-align:left") for each in cells))

        head = row("th", text("tool"), text("what it does"))
        body = [
            row("td", element("code", text(tool.name)), text(self._what(tool)))
            for tool in self.tools
        ]
        return str(element("table", element("thead", head), element("tbody", *body)))


@dataclass(frozen=True, slots=True, repr=False)
class ToolIssues:
    """What is doubtful in each tool."""

    tools: tuple[Tool, ...]

    def __repr__(self) -> str:
        doubtful = [tool for tool in self.tools if tool.issues]
        if not doubtful:
            return f"no issues in {len(self.tools)} tools"
        return "\n".join("\n  ! ".join([tool.name, *tool.issues]) for tool in doubtful)


@dataclass(frozen=True, slots=True, repr=False)
class ToolPage:
    """One tool as the model reads it: the text, then the JSON schema."""

    tool: Tool

    def __repr__(self) -> str:
        schema: Any = self.tool.schema()
        text = f"{self.tool.text}\n\n{json.dumps(schema, indent=2, ensure_ascii=False)}"
        return f"{text}\n\nabout {self.tool.tokens} tokens in each request"


def _first_issue(tool: Tool) -> list[str]:
    more = len(tool.issues) - 1
    return [
        f"  ! {each}{f' (and {more} more: %tools --check)' * (more > 0)}"
        for each in tool.issues[:1]
    ]


def _summary(tool: Tool) -> str:
    """The first line of the description; tools without one have none."""
    lines = tool.text.split("\n")
    first = lines[1].strip() if len(lines) > 1 else ""
    return "" if first.startswith("_input_") else first


def _checked(example: Example) -> str:
    if example.problem:
        return f"  ✗ {example.source.strip()}: {example.problem}"
    text = example.outcome.text if example.outcome else ""
    return f"  ✓ {example.source.strip()} → {text.splitlines()[0] if text else ''}"
