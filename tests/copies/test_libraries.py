"""Each library and kind of object works in a copy, or is refused in one line, after the kernel has used it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from archytas_nb.copies import lock
from tests.copies.libraries import KINDS, Kind

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    lock.machine().kind != "locked", reason="needs a machine that can lock"
)

_KERNEL = """
import json, pathlib, sys
import __main__
sys.path.insert(0, sys.argv[1])

def in_a_copy(programs, way):
    from archytas_nb.copies.limits import CopyLimits
    from archytas_nb.copies.place import Copy, CopyError

    results = {}
    for name, program in programs.items():
        with Copy(vars(__main__), folder=pathlib.Path.cwd(), limits=CopyLimits(seconds=60)) as copy:
            if way:
                copy._ways = lambda: [(way, 20.0)]
            try:
                report = copy.run(program)
            except CopyError as error:
                results[name] = ["refused", str(error)]
                continue
        last = report.statements[-1]
        error = last.error and f"{last.error.type}: {last.error.message}"
        results[name] = [last.status, last.value.text if last.value else error]
    return results

for _setup in json.loads(sys.argv[2]):
    exec(compile(_setup, "<cell>", "exec"), vars(__main__))
print(json.dumps(in_a_copy(json.loads(sys.argv[3]), sys.argv[4])))
"""


def _is_installed(kind: Kind) -> bool:
    return all(importlib.util.find_spec(each) for each in kind.modules)


def _ran(kinds: dict[str, Kind], way: str, folder: Path) -> dict[str, list[str]]:
    """How a program on each kind ended, in a kernel that has used them all."""
    programs = {name: kind.program for name, kind in kinds.items()}
    setups = [kind.setup for kind in kinds.values()]
    arguments = [str(ROOT), json.dumps(setups), json.dumps(programs), way]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _KERNEL, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return results


_OF_PYTHON = {name: kind for name, kind in KINDS.items() if not kind.modules}


def _apart(kinds: dict[str, Kind]) -> list[tuple[str, Kind]]:
    return list(kinds.items())


@pytest.mark.parametrize("name", ["class", "sqlite connection"])
def test_an_object_of_python_is_in_a_copy(name: str, tmp_path: Path) -> None:
    [(status, text)] = _ran({name: KINDS[name]}, "", tmp_path).values()
    assert (status, text) == ("ok", KINDS[name].result)


def test_there_are_many_kinds() -> None:
    assert len(KINDS) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("way", ["", "fork", "message"])
@pytest.mark.parametrize(("name", "kind"), _apart(KINDS), ids=list(KINDS))
def test_each_kind_works_or_is_refused_in_one_line(
    name: str, kind: Kind, way: str, tmp_path: Path
) -> None:
    if not _is_installed(kind):
        pytest.skip(f"needs {', '.join(kind.modules)}")
    [(status, text)] = _ran({name: kind}, way, tmp_path).values()
    if status == "ok":
        assert kind.result is None or text == kind.result
    elif way:
        # One way alone may not do; then it says so, and does not hang.
        assert text
        assert "\n" not in text
    else:
        assert kind.result is None, text


@pytest.mark.slow
def test_all_kinds_work_in_a_kernel_that_has_used_all_their_thread_pools(tmp_path: Path) -> None:
    # One after the other in one kernel, with a namespace of its own for each: names are used twice.
    kinds = {name: kind for name, kind in KINDS.items() if kind.modules and _is_installed(kind)}
    if not kinds:
        pytest.skip("needs libraries")
    renamed = {}
    for number, (name, kind) in enumerate(kinds.items()):
        setup = f"space{number} = {{'__name__': '__main__'}}\nexec({kind.setup!r}, space{number})"
        program = f"globals().update(space{number})\n{kind.program}"
        renamed[name] = Kind(setup, program, kind.result)
    results = _ran(renamed, "", tmp_path)
    wrong = {n: r for n, r in results.items() if r[0] != "ok" and kinds[n].result is not None}
    assert wrong == {}
