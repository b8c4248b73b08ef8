"""The commands of ``python -m archytas_nb``, each with its own home folder."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from archytas_nb.command import COMMANDS, main
from archytas_nb.models.embedded.process import Engine
from archytas_nb.models.embedded.weights import EMBEDDED
from tests.live_kernel import NO_ENDPOINT, live_kernel
from tests.models.fake_machine import weights
from tests.servers.plays import Say, Status
from tests.servers.server import Server

KEY = "sk-canary-4711"


def environment_of(folder: Path, variables: dict[str, str]) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if name not in NO_ENDPOINT}
    return env | {"IPYTHONDIR": str(folder / "ipython"), "ARCHYTAS_NB_DISCOVER": "0", **variables}


def run(folder: Path, *args: str, **variables: str) -> tuple[int, str]:
    printed = io.StringIO()
    env = environment_of(folder, variables)
    with mock.patch.dict(os.environ, env, clear=True), contextlib.redirect_stdout(printed):
        return main(args), printed.getvalue()


def run_process(folder: Path, *args: str) -> tuple[int, str]:
    command = [sys.executable, "-W", "error", "-m", "archytas_nb", *args]
    env = environment_of(folder, {})
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" or done.returncode == 2, done.stderr
    return done.returncode, done.stdout + done.stderr


def startup(folder: Path) -> Path:
    return folder / "ipython" / "profile_default" / "startup" / "50-archytas_nb.py"


def configure(folder: Path, text: str) -> Path:
    path = folder / "ipython" / "profile_default" / "ipython_config.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_enable_loads_the_extension_in_kernels_until_disable(tmp_path: Path) -> None:
    assert run_process(tmp_path, "enable")[0] == 0
    with live_kernel(tmp_path) as kernel:
        assert "Ask a question" in kernel.run("%agent --help").printed
    assert run_process(tmp_path, "disable")[0] == 0
    with live_kernel(tmp_path) as kernel:
        assert "%agent` not found" in kernel.run("%agent --help").printed


def test_enable_and_disable_can_be_repeated_and_change_no_other_file(tmp_path: Path) -> None:
    for command, first, again in (
        ("enable", "enabled", "already enabled"),
        ("disable", "disabled", "not enabled"),
    ):
        for begin in (first, again):
            status, text = run(tmp_path, command)
            assert (status, text.startswith(begin)) == (0, True)
    path = startup(tmp_path)
    path.write_text("print('mine')\n", encoding="utf-8")
    for command in ("enable", "disable"):
        status, text = run(tmp_path, command)
        assert (status, str(path) in text) == (1, True)
        assert path.read_text(encoding="utf-8") == "print('mine')\n"
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("a file where the folder should be", encoding="utf-8")
    status, text = run(tmp_path, "enable")
    assert (status, f"{str(path)!r} cannot be written" in text) == (1, True)


def test_doctor_names_the_model_of_the_endpoint(tmp_path: Path) -> None:
    with Server() as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        status, text = run(tmp_path, "doctor", **environment)
        assert status == 0, text
        assert server.url in text
        assert "is available; " in text
        assert not server.chats  # it asked for the list of models, and for nothing else
        configure(tmp_path, "c.ArchytasNB.model = 'no-such-model'\n")
        status, text = run(tmp_path, "doctor", **environment)
    assert (status, "'no-such-model'" in text, "is not available there" in text) == (1, True, True)


def test_doctor_names_what_is_misspelled_and_what_cannot_be_read(tmp_path: Path) -> None:
    configure(tmp_path, "c.ArchytasNB.max_stpes = 7\n")
    with Server() as server:
        endpoint = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        status, text = run(tmp_path, "doctor", **endpoint, ARCHYTAS_NB_DISCOVR="0")
        assert "'ARCHYTAS_NB_DISCOVR' does not belong to a setting, did you mean" in text
        assert "'ARCHYTAS_NB_DISCOVER'?" in text
        assert "'max_stpes', which is not a setting, did you mean 'max_steps'?" in text
        assert status == 0  # it has no effect, and nothing is missing
        status, text = run(
            tmp_path, "doctor", **endpoint, ARCHYTAS_NB_MAX_STEPS="many", ARCHYTAS_NB_QUIET="?"
        )
    assert "ARCHYTAS_NB_MAX_STEPS: 'many' is not a whole number" in text
    assert "ARCHYTAS_NB_QUIET: '?' is not" in text
    assert status == 1


def test_doctor_says_nothing_of_mistakes_where_there_are_none(tmp_path: Path) -> None:
    assert "mistakes" not in run(tmp_path, "doctor", OPENAI_BASE_URL="http://127.0.0.1:9")[1]


@pytest.mark.parametrize(
    ("config", "variables", "reason"),
    [
        ("", ("OPENAI_BASE_URL",), "chosen by the environment variable OPENAI_BASE_URL"),
        ("base_url", (), "chosen by ArchytasNB.base_url in the configuration"),
        ("base_url", ("ARCHYTAS_NB_MODEL",), "by the environment variable ARCHYTAS_NB_MODEL"),
    ],
)
def test_doctor_says_why_a_model_was_chosen(
    tmp_path: Path, config: str, variables: tuple[str, ...], reason: str
) -> None:
    with Server() as server:
        if config:
            configure(tmp_path, f"c.ArchytasNB.{config} = {server.url!r}\n")
        values = {"OPENAI_BASE_URL": server.url, "ARCHYTAS_NB_MODEL": "tiny-1"}
        status, text = run(
            tmp_path, "doctor", **{name: values[name] for name in variables}, OPENAI_API_KEY=KEY
        )
    assert status == 0, text
    assert reason in text


def test_doctor_shows_no_secrets(tmp_path: Path) -> None:
    configure(
        tmp_path,
        f"c.ArchytasNB.api_key = '{KEY}'\nc.ArchytasNB.base_url = 'http://me:{KEY}@127.0.0.1:9/v1'\n",
    )
    address = f"http://me:{KEY}@127.0.0.1:9/v1?key={KEY}"
    _, text = run(tmp_path, "doctor", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=address)
    assert KEY not in text
    assert "api_key = (set, not shown)" in text


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_ACCESS_TOKEN", "OPENAI_WEBHOOK_SECRET", "OPENAI_KEYS_OLD_API_KEY", "OPENAI_PASSWORD",
        "OPENAI_CUSTOM_HEADERS", "ARCHYTAS_NB_REQUEST", "ARCHYTAS_NB_API_KEYS",
    ],
)  # fmt: skip
def test_doctor_hides_the_value_of_every_name_that_is_one_of_a_secret(
    tmp_path: Path, name: str
) -> None:
    value = '{"headers": {"X-Team": "hunter2"}}'
    _, text = run(tmp_path, "doctor", **{name: value, "OPENAI_BASE_URL": "http://127.0.0.1:9"})
    assert f"{name} = (set, not shown)" in text
    assert "hunter2" not in text


def test_doctor_hides_a_key_in_a_setting_that_is_not_named_like_a_secret(tmp_path: Path) -> None:
    key = "sk-canary-4711-4711-4711"
    _, text = run(tmp_path, "doctor", OPENAI_ORGANIZATION=key, OPENAI_BASE_URL="http://127.0.0.1:9")
    assert key not in text
    assert "OPENAI_ORGANIZATION" in text
    _, text = run(tmp_path, "doctor", ARCHYTAS_NB_REQUEST=f"headers = {key}")  # cannot be read
    assert key not in text


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1"),
        ({"ARCHYTAS_NB_LOCAL_MODEL": "/none.gguf"}, "none.gguf"),
        ({"ARCHYTAS_NB_LOCAL_MODEL": "hf:foo"}, "hf:foo"),
    ],
)
def test_doctor_reports_the_rest_if_no_model_is_available(
    tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    path = configure(tmp_path, "c.ArchytasNB.model = 1 / 0\n")
    for options in ((), ("--try",)):
        status, text = run(tmp_path, "doctor", *options, **variables)
        assert (status, said in text, "Traceback" in text) == (1, True, False)
        assert all(each in text for each in (str(path), "ZeroDivisionError", "startup"))


def test_doctor_try_asks_one_question(tmp_path: Path) -> None:
    with Server(Say("Yes."), Status(401, "no such key")) as server:
        environment = {"OPENAI_BASE_URL": server.url, "ARCHYTAS_NB_MODEL": "tiny-1"}
        status, text = run(tmp_path, "doctor", "--try", **environment)
        assert (status, "'tiny-1' answered 'Yes.' after" in text) == (0, True)
        assert server.chats[0].body["max_tokens"] == 64
        status, text = run(tmp_path, "doctor", "--try", **environment)
        assert (status, "OPENAI_API_KEY" in text) == (1, True)


def test_doctor_reports_a_crash_of_the_model(tmp_path: Path) -> None:
    gguf = weights(tmp_path)
    home = {"XDG_RUNTIME_DIR": str(tmp_path), "ARCHYTAS_NB_LOCAL_MODEL": str(gguf)}
    status, text = run(tmp_path, "doctor", **home)
    if importlib.util.find_spec("xllamacpp") is None:
        assert "pip install" in text
        return
    assert (status, "(to try it" in text, "after a crash" in text) == (0, True, False)
    process_dir = tmp_path / "archytas-nb"
    process_dir.mkdir(exist_ok=True)
    (process_dir / f"{Engine().identity(gguf)}.crash").write_text("SIGSEGV")
    assert "in safe mode after a crash (SIGSEGV)" in run(tmp_path, "doctor", **home)[1]


def test_clean_removes_weights_after_a_dry_run(
    tmp_path: Path,
) -> None:
    homes = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    model = tmp_path / "cache" / "archytas-nb" / "models" / EMBEDDED.name
    model.parent.mkdir(parents=True)
    model.write_bytes(b"0" * 20_000_000)
    state = tmp_path / "state" / "archytas-nb"
    kept = [state / "servers.json", state / "endpoints.json", state / "log" / "local-1.log"]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    own = model.with_name("mine.gguf")
    own.write_bytes(b"GGUF")
    status, text = run(tmp_path, "clean", "--dry-run", **homes)
    assert (
        status,
        f"{str(model)!r}, 20.0 MB, would be removed" in text,
        model.exists(),
    ) == (
        0,
        True,
        True,
    )
    status, text = run(tmp_path, "clean", **homes)
    assert (status, "20.0 MB, removed" in text, model.exists()) == (0, True, False)
    assert own.exists()
    assert not [path for path in kept if path.exists()]
    assert "20.0 MB" not in run(tmp_path, "clean", **homes)[1]


def test_an_unknown_command_lists_the_commands(tmp_path: Path) -> None:
    status, text = run_process(tmp_path, "heal")
    assert status == 2
    assert all(name in text for name in ("enable", "disable", "doctor", "clean"))


def test_the_sample_on_the_page_has_the_items_of_a_report(tmp_path: Path) -> None:
    page = Path(__file__).parents[1].joinpath("docs", "command-line.md").read_text("utf-8")
    with Server() as server:
        _, text = run(tmp_path, "doctor", OPENAI_BASE_URL=server.url, OPENAI_API_KEY="")
    items = re.findall(r"^(\w+) {2,}\S", text, re.MULTILINE)
    assert "model" in items
    assert re.findall(r"^    (\w+) {2,}\S", page, re.MULTILINE) == items


def test_the_help_of_a_command_names_magics_as_they_are_written(tmp_path: Path) -> None:
    for command in COMMANDS:
        status, text = run_process(tmp_path, command, "--help")
        assert status == 0
        assert "%%" not in text
