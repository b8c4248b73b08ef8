"""The documented Python functions of the Berkeley function-calling leaderboard."""

from __future__ import annotations

import copy
import inspect

import pytest

from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox
from tests.bfcl import APIS, api, call_of, data, rows

pytest.importorskip("bfcl_eval", reason="needs: pip install --no-deps bfcl-eval")
pytest.importorskip("mpmath", reason="bfcl-eval's MathAPI needs mpmath")


def documented() -> list[tuple[type, dict]]:
    return [
        (api(name), row)
        for name, file in APIS.items()
        for row in rows(data() / "multi_turn_func_doc" / f"{file}.json")
    ]


def test_all_documented_functions_build_with_every_description_and_the_exact_required_set():
    described = 0
    functions = documented()
    for cls, row in functions:
        schema = Tool.from_function(getattr(cls(), row["name"])).schema()
        wanted = row["parameters"]
        assert set(schema["properties"]) == set(wanted["properties"]), row["name"]
        assert set(schema.get("required", [])) == set(wanted["required"]), row["name"]
        described += sum(bool(each.get("description")) for each in schema["properties"].values())
    assert (len(functions), described) == (128, 185)


def test_every_dotted_name_becomes_legal_and_is_found_again_by_its_own_name():
    names = set()
    for path in data().glob("BFCL_v4_*.json"):
        if path.name == "BFCL_v4_format_sensitivity.json":
            continue  # an index of the other files
        for row in rows(path):
            functions = row.get("function", [])
            names |= {
                each["name"] for each in (functions if isinstance(functions, list) else [functions])
            }
    dotted = sorted(name for name in names if "." in name)
    assert len(dotted) >= 612

    def f() -> None:
        """Do nothing."""

    box = Toolbox(*(Tool.from_function(f, name=name) for name in dotted))
    assert len(box) == len(dotted)
    assert [box[name].source_name for name in dotted] == dotted
    assert [tool.source_name for tool in box.values()] == dotted


def world(row: dict) -> dict:
    """Make fresh stateful objects for one conversation and return their public methods by name."""
    functions = {}
    for name in row["involved_classes"]:
        instance = api(name)()
        if name != "MathAPI":
            instance._load_scenario(
                copy.deepcopy(row["initial_config"].get(name, {})), long_context=False
            )
        found = inspect.getmembers(instance, inspect.ismethod)
        functions |= {key: method for key, method in found if not key.startswith("_")}
    return functions


# The one ground-truth call that contradicts its own function: ``close_ticket(ticket_id: int)``.
ILL_TYPED = {("multi_turn_base_173", "close_ticket(ticket_id='ticket_001')")}


@pytest.mark.slow
def test_the_ground_truth_conversations_replay_through_the_json_boundary():
    conversations = {row["id"]: row for row in rows(data() / "BFCL_v4_multi_turn_base.json")}
    count = 0
    refused = set()
    for truth in rows(data() / "possible_answer" / "BFCL_v4_multi_turn_base.json"):
        row = conversations[truth["id"]]
        ours, theirs = world(row), world(row)
        tools: dict[str, Tool] = {}
        for source in (call for turn in truth["ground_truth"] for call in turn):
            count += 1
            name, arguments = call_of(source, ours)
            if name not in tools:
                tools[name] = Tool.from_function(ours[name])
            outcome = tools[name].call(arguments)
            if outcome.status != "done":
                refused.add((truth["id"], source))
                assert "expected an integer" in outcome.text
            else:
                assert outcome.value == theirs[name](**arguments), (truth["id"], source)
    assert count == 1142
    assert refused == ILL_TYPED
