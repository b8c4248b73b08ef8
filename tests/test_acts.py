"""Acts that audit events announce, also events that nobody knows yet."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.acts import ACT_KINDS, Act, act_of, announcer
from archytas_nb.effects.ledger import Ledger
from archytas_nb.effects.states import Store

MODULES = (
    "os", "shutil", "socket", "subprocess", "pty", "urllib", "http", "webbrowser", "signal", "open",
    "sqlite3", "import", "builtins", "_posixsubprocess", "ftplib", "of_a_user",
)  # fmt: skip
NAMES = ("remove", "rename", "rmtree", "connect", "bind", "Popen", "kill", "later", "chmod", "link")
EVENTS = st.builds(
    lambda module, name: f"{module}.{name}" if name else module,
    st.sampled_from(MODULES),
    st.sampled_from(("", *NAMES)),
)


class Broken(os.PathLike[str]):
    """A path that raises when it is read."""

    def __fspath__(self) -> str:
        raise RuntimeError


ARGUMENTS = st.lists(
    st.recursive(
        st.one_of(
            st.none(), st.integers(), st.text(), st.binary(), st.booleans(),
            st.just(Path("a")), st.just(Broken()), st.just(object()),
        ),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.tuples(inner, inner)),
        max_leaves=5,
    ),
    max_size=5,
)  # fmt: skip


@given(EVENTS, ARGUMENTS)
def test_no_event_raises_whatever_it_has(event: str, given_args: list[Any]) -> None:
    act = act_of(event, tuple(given_args))
    assert act is None or (act.kind in ACT_KINDS and isinstance(act.target, str))


@given(
    EVENTS.filter(lambda each: not each.startswith(("os", "shutil", "open", "sqlite3"))), ARGUMENTS
)
def test_a_ledger_meets_any_event(event: str, given_args: list[Any]) -> None:
    ledger = Ledger(Store(), ask=lambda *_: False, asks_before=("network", "process", "delete"))
    ledger.meet(event, tuple(given_args), None)


@pytest.mark.parametrize(
    ("event", "args", "act"),
    [
        ("open", ("a", "r", os.O_RDONLY), None),
        ("open", ("a", "w", os.O_WRONLY), Act("write", "a")),
        ("open", (os.devnull, "w", os.O_WRONLY), None),
        ("os.remove", (b"a", -1), Act("delete", "a")),
        ("os.chmod", (3, 0o600, -1), None),
        ("os.kill", (12, 9), Act("signal", "process 12")),
        ("os.later", ("a",), Act("write", "a")),
        ("socket.connect", (None, ("::1", 80, 0, 0)), Act("connect", "::1:80")),
        ("socket.connect", (None, b"/run/x"), Act("connect", "/run/x")),
        ("socket.getaddrinfo", ("a.org", 443, 0, 0, 0), Act("connect", "a.org:443")),
        ("http.client.connect", (None, "a.org", 80), Act("connect", "a.org:80")),
        ("urllib.Request", ("https://a.org/x", None, {}, "GET"), Act("connect", "https://a.org/x")),
        ("subprocess.Popen", ("ls", ["ls", b"-l"], None, None), Act("start", "ls -l")),
        ("subprocess.Popen", ("sh", "ls -l", None, None), Act("start", "ls -l")),
        ("os.system", (b"ls",), Act("start", "ls")),
        ("os.fork", (), Act("start", "a copy of this process")),
        ("os.listdir", ("a",), None),
        ("import", ("os",), None),
        ("of_a_user.event", ("a",), None),
    ],
)
def test_what_an_event_is(event: str, args: tuple[Any, ...], act: Act | None) -> None:
    assert act_of(event, args) == act


def test_only_a_function_of_python_announces() -> None:
    def of_a_user() -> None:
        sys.audit("os.remove", "a")

    assert announcer(sys._getframe()) is None
    frames = []
    assert of_a_user.__code__.co_names[-1] == "audit"
    namespace: dict[str, Any] = {"__name__": "shutil", "sys": sys, "frames": frames}
    exec("def f():\n    frames.append(sys._getframe())\n    sys.audit\nf()", namespace)
    assert announcer(frames[0]) is frames[0]
    namespace["__name__"] = "of_a_user"
    exec("f()", namespace)
    assert announcer(frames[1]) is None
