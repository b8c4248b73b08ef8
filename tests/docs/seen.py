"""The blocks of ``docs/what-the-model-sees.md``, made by the code that sends them.

``python -m tests.docs.seen`` writes the blocks again; those of tables of pyarrow and duckdb only where
these libraries are installed (``pip install pyarrow duckdb``).
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any
from unittest.mock import patch

import pandas as pd
import polars as pl

import archytas_nb as nb
from archytas_nb.kernel import definitions
from archytas_nb.kernel.cards import card
from archytas_nb.kernel.look import look_tools
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.summary import request_for
from archytas_nb.loop.wire import NO_CODE, Wire, code_in_notebook
from archytas_nb.small.checks import fit_request, knowledge_request, known_hint, no_tool_hint
from archytas_nb.testing import ScriptedModel

PAGE = Path(__file__).parent.parent.parent / "docs" / "what-the-model-sees.md"
_BLOCK = re.compile(r"(<!-- (?P<name>[\w-]+) -->\n```\w*\n).*?(\n```\n)", re.DOTALL)


def count_species(species: str, island: str = "all") -> int:
    """Count the penguins of one species.

    Args:
        species: Adelie, Chinstrap or Gentoo
        island: Only penguins of this island

    Returns:
        int: How many there are
    """
    if species not in ("Adelie", "Chinstrap", "Gentoo"):
        raise ValueError(f"unknown species {species!r}")
    return 124


def masses(species: str) -> list[int]:
    """List the body masses of one species.

    Args:
        species: Adelie, Chinstrap or Gentoo
    """
    return list(range(3000, 6000, 5))


def lightest(species: str) -> int:
    """Find the lightest penguin of one species.

    Args:
        species: Adelie, Chinstrap or Gentoo
    """
    print("2 penguins were not weighed")
    return 2850


def mean_mass(penguins: pd.DataFrame, species: str = "Gentoo", *, digits: int = 1) -> float:
    """A function of the notebook."""
    return round(penguins[penguins.species == species].mass.mean(), digits)


def looking() -> dict[str, str]:
    """The text for a model about variables: the question with its digest, and the two tools."""
    names = ["Biscoe", "Dream", "Torgersen"]
    penguins = pd.DataFrame({"species": ["Gentoo"] * 2 + ["Adelie"], "island": names})
    namespace = {
        "penguins": penguins.assign(mass=[5000, None, 3700]),
        "limit": 10,
        "limits": {"Gentoo": 20, "Adelie": 15},
        "islands": pd.DataFrame({"island": names, "area": [120.5, 3.1, 0.4]}),
        "mean_mass": mean_mass,
        "pd": pd,
    }
    call = ("look", {"name": "penguins", "what": "describe"})
    today = lambda: "2026-11-28, Python 3.13.1"  # noqa: E731
    version = {"pandas": "3.0.0"}.get
    with (
        patch.object(definitions, "today", today),
        patch.object(definitions, "_version", version),
    ):
        requests = asked(call, ANSWER, tools=(), namespace=namespace, context="auto")
    return {
        "variables": requests[0].messages[-1]["content"],
        "look": "\n\n".join(tool.text for tool in look_tools()),
        "looked": last(requests[1]),
    }


def tables() -> str:
    """The texts for a model about tables of every kind: below a question, and from `look`."""
    days = pd.to_datetime(["2024-03-01", "2024-03-02"])
    data = {"species": ["Gentoo", "Adelie"], "mass": [5000.5, None]}
    plain = pd.DataFrame(data)
    counts = pd.DataFrame({"island": ["Biscoe", "Dream"], "year": [2024, 2025], "seen": [3, 1]})
    polars = pl.DataFrame(data)
    kinds = {
        "plain": plain,
        "subclass": type("Penguins", (pd.DataFrame,), {})(data),
        "index_of_two": counts.set_index(["island", "year"]),
        "pivot": counts.pivot_table(index="island", columns="year", values="seen"),
        "days": pd.Series([3, 1], index=pd.DatetimeIndex(days, name="day")),
        "categories": plain.astype({"species": "category"}),
        "nested": pl.DataFrame({"tags": [["a", "b"], []], "size": [{"mm": 210}, {"mm": 190}]}),
        "empty": plain.iloc[:0],
        "wide": pd.DataFrame([[0.5] * 60], columns=[f"day_{n}" for n in range(60)]),
        "tall": pd.DataFrame({"mass": [n / 8 for n in range(300)]}),
        "polars": polars,
        "query": polars.lazy(),
    }
    return "\n\n".join(read_of(name, value) for name, value in kinds.items())


def read_of(name: str, value: Any) -> str:
    """The text for a model about one table."""
    [_, look] = look_tools()
    shown = [shorter(card(name, value))]
    for what in ("describe", "head"):
        told = look.call({"name": name, "what": what}, {name: value}).text
        shown.append(f"look({name}, {what}):\n{indent(shorter(told), '    ')}")
    return "\n".join(shown)


def of_pyarrow(pyarrow: Any) -> Any:
    """A table with text, numbers, and a missing value."""
    return pyarrow.table({"species": ["Gentoo", "Adelie"], "mass": [5000.5, None]})


def of_duckdb(duckdb: Any) -> Any:
    """The same as a relation."""
    rows = "values ('Gentoo', 5000.5::double), ('Adelie', null)"
    return duckdb.sql(f"select * from ({rows}) as t(species, mass)")


NOT_EVERYWHERE: dict[str, Callable[[Any], Any]] = {"pyarrow": of_pyarrow, "duckdb": of_duckdb}
"""Tables of libraries without which the page is tested as well: their blocks are then left alone."""


def tables_of_others() -> dict[str, str]:
    """The blocks of the libraries that are there."""
    return {
        f"table-{name}": read_of(name, make(importlib.import_module(name)))
        for name, make in NOT_EVERYWHERE.items()
        if importlib.util.find_spec(name) is not None
    }


def shorter(text: str, lines: int = 10) -> str:
    """A text for the page: its first lines, each not too long."""
    shown = text.splitlines()
    if len(shown) > lines:
        shown = [*shown[: lines - 2], f"[{len(shown) - lines + 1} more lines]", shown[-1]]
    return "\n".join(each if len(each) <= 110 else f"{each[:100]} [and so on]" for each in shown)


QUESTION = "How many Gentoo penguins are there?"
CALL = ("count_species", {"species": "Gentoo"})
ANSWER = ("final_answer", "There are 124 Gentoo penguins.")


def asked(
    *script: Any,
    protocol: Any = "react",
    tools: Any = (count_species,),
    output_type: Any = None,
    model: Any = ScriptedModel,
    **settings: Any,
) -> list[Any]:
    """Every request of a run."""
    scripted: ScriptedModel = model(*script, protocol=protocol)
    settings = {"namespace": {}, "context": "none"} | settings
    nb.Agent(tools, model=scripted, **settings).run(QUESTION, output_type=output_type)
    return scripted.asked


def extended() -> tuple[Any, Any, Any]:
    """The requests of a typed question, of one with other tools than before, and of a row."""
    model = ScriptedModel("3", "Yes.", "124", protocol="native")
    agent = nb.Agent([count_species, masses], model=model, namespace={}, context="none")
    agent.run(QUESTION, output_type=int, until=positive)
    agent.run("And are they heavy?", tools=[count_species])
    rows = nb.Agent([count_species], model=model, namespace={})
    rows.map(["Gentoo"], "How many penguins?", output_type=int, store=None, progress=False)
    return tuple(model.asked)  # type: ignore[return-value]


def positive(number: int) -> bool:
    """The number must be positive."""
    return number > 0


class Small(ScriptedModel):
    """Held for a small model."""

    is_small = True


class Narrow(ScriptedModel):
    """Held for a model that takes short conversations only."""

    context_tokens = 3000


def tools(**options: Any) -> nb.Toolbox:
    """Both tools, with these options."""
    made = nb.Toolbox()
    for each in (count_species, masses):
        made.add(each, **options)
    return made


def last(request: Any) -> str:
    """The last message of a request."""
    return str(request.messages[-1]["content"])


def pretty(value: Any) -> str:
    """JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def blocks() -> dict[str, str]:
    """Every block of the page by its name."""
    react = asked(CALL, ANSWER)
    native = asked(CALL, ANSWER, protocol="native")
    small = asked(CALL, ANSWER, model=Small)
    program = asked(ANSWER, protocol="program", tools=(count_species,))
    constrained = react[0].schema
    typed, news, row = extended()
    weigh = [("masses", {"species": each}) for each in ("Gentoo", "Adelie", "Chinstrap")]
    summary = "The user asks how many Gentoo penguins there are. masses_1 has the masses of Gentoo."
    script = (*weigh[:2], summary, weigh[2], summary, ANSWER)
    long = asked(*script, tools=tools(max_chars=3000), model=Narrow)
    aside = next(str(each.messages[0]["content"]) for each in long if each.about)
    judged = "Which month has 28 days?"
    tool = nb.Agent([count_species], model=ScriptedModel(), namespace={}).tools["count_species"]
    return {
        **looking(),
        "tables": tables(),
        **tables_of_others(),
        "react-system": react[0].messages[0]["content"],
        "react-conversation": pretty(react[1].messages[1:]),
        "react-schema": pretty(
            next(each for each in constrained["oneOf"] if "count_species" in json.dumps(each))
        ),
        "fits": pretty(fit_request(tool, judged).messages),
        "known": pretty(knowledge_request(judged).messages),
        "remarks": f"{no_tool_hint(Wire)}\n{known_hint(Wire)}",
        "native-system": native[0].messages[0]["content"],
        "native-tools": "\n".join(json.dumps(each) for each in native[0].tools),
        "native-typed": last(typed),
        "native-news": last(news),
        "native-row": last(row),
        "native-row-system": row.messages[0]["content"],
        "react-small": small[-1].messages[0]["content"],
        "program-system": indent(program[0].messages[0]["content"], "    "),
        "code-asked": code_in_notebook(asks=True, is_watched=True),
        "no-code": NO_CODE,
        "summary-behind": request_for([Exchange(QUESTION)], (0, 1)),
        "native-conversation": pretty(native[1].messages[1:]),
        "bad-input": last(asked(("count_species", {"kind": "Gentoo"}), ANSWER)[1]),
        "raised": last(asked(("count_species", {"species": "Emperor"}), ANSWER)[1]),
        "unknown-tool": last(asked(("count", {}), ANSWER)[1]),
        "repeated": last(asked(CALL, CALL, ANSWER)[2]),
        "no-action": last(asked("Let me think about penguins.", ANSWER)[1]),
        "bounded": last(asked(weigh[0], ANSWER, tools=tools(max_chars=300))[1]),
        "printed": last(asked(("lightest", {"species": "Adelie"}), ANSWER, tools=[lightest])[1]),
        "ask-user": nb.Agent([], ask_user=True).tools["ask_user"].text,
        "refused": last(asked(CALL, ANSWER, tools=tools(approve=True), approve="deny")[1]),
        "typed": last(
            asked(CALL, ("final_answer", "many"), ("final_answer", 124), output_type=int)[2]
        ),
        "doubt": last(asked(("final_answer", "There are 120."), CALL, ANSWER, model=Small)[1]),
        "summarised": re.sub(r"(?s)(<conversation>\n).*(\n</conversation>)", r"\1…\2", aside),
        "compacted": str(long[-1].messages[1]["content"]),
        "limit": last(asked(CALL, ANSWER, max_steps=1)[1]),
    }


def written(page: str) -> str:
    """The page with its blocks as they should be; a block that nobody makes is an error."""
    made = blocks()

    def block(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in made and name.removeprefix("table-") in NOT_EVERYWHERE:
            return found[0]
        return f"{found[1]}{made.pop(name)}{found[3]}"

    text = _BLOCK.sub(block, page)
    if made:
        raise AssertionError(f"the page has no block for {sorted(made)}")
    return text


def names(page: str) -> Iterator[str]:
    """The names of the page's blocks."""
    return (found["name"] for found in _BLOCK.finditer(page))


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
