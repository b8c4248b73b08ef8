"""The commands of ``python -m archytas_nb``, each with a home folder of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from archytas_nb._version import __version__
from archytas_nb.command.main import main
from archytas_nb.models.process import Engine
from archytas_nb.models.weights import EMBEDDED
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


def test_enable_and_disable_may_be_repeated(tmp_path: Path) -> None:
    run(tmp_path, "enable")
    assert run(tmp_path, "enable") == (
        0, f"already enabled: {str(startup(tmp_path))!r} loads the extension\n"
    )  # fmt: skip
    run(tmp_path, "disable")
    status, text = run(tmp_path, "disable")
    assert (status, text.startswith("not enabled")) == (0, True)


@pytest.mark.parametrize("command", ["enable", "disable"])
def test_does_not_touch_another_startup_file(tmp_path: Path, command: str) -> None:
    path = startup(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text("print('mine')\n", encoding="utf-8")
    status, text = run(tmp_path, command)
    assert status == 1
    assert str(path) in text
    assert path.read_text(encoding="utf-8") == "print('mine')\n"


def test_enable_names_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "ipython").mkdir()
    (tmp_path / "ipython" / "profile_default").write_text(
        "a file where the folder should be", encoding="utf-8"
    )
    status, text = run(tmp_path, "enable")
    assert status == 1
    assert text.startswith(f"cannot write {str(startup(tmp_path))!r}")


def test_doctor_names_the_model_of_the_endpoint(tmp_path: Path) -> None:
    with Server() as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY}
        status, text = run(tmp_path, "doctor", **environment)
        assert status == 0, text
        assert server.url in text
        assert "answers; " in text
        assert not server.chats  # it asked for the list of models, and for nothing else


def test_doctor_fails_where_the_endpoint_does_not_serve_the_model(
    tmp_path: Path,
) -> None:
    configure(tmp_path, "c.ArchytasNB.model = 'no-such-model'\n")
    with Server() as server:
        status, text = run(tmp_path, "doctor", OPENAI_BASE_URL=server.url)
    assert status == 1
    assert "'no-such-model'" in text
    assert "is not served there" in text


def test_doctor_fails_where_no_server_answers(tmp_path: Path) -> None:
    status, text = run(tmp_path, "doctor", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert status == 1
    assert "http://127.0.0.1:9/v1" in text


def test_doctor_offline_sends_no_request(tmp_path: Path) -> None:
    with Server() as server:
        status, text = run(tmp_path, "doctor", "--offline", OPENAI_BASE_URL=server.url)
        assert (status, "(not asked)" in text) == (0, True)
        assert not server.asked


def test_doctor_shows_no_secrets(tmp_path: Path) -> None:
    configure(
        tmp_path,
        f"c.ArchytasNB.api_key = '{KEY}'\nc.ArchytasNB.base_url = 'http://me:{KEY}@127.0.0.1:9/v1'\n",
    )
    address = f"http://me:{KEY}@127.0.0.1:9/v1?key={KEY}"
    _, text = run(tmp_path, "doctor", OPENAI_API_KEY=KEY, OPENAI_BASE_URL=address)
    assert KEY not in text
    assert "api_key = (set, not shown)" in text


def test_doctor_reports_a_broken_configuration_file(tmp_path: Path) -> None:
    path = configure(tmp_path, "c.ArchytasNB.model = 1 / 0\n")
    _, text = run(tmp_path, "doctor", "--offline")
    assert str(path) in text
    assert "ZeroDivisionError" in text
    assert "startup" in text


def test_doctor_names_missing_weights(tmp_path: Path) -> None:
    status, text = run(tmp_path, "doctor", ARCHYTAS_NB_LOCAL_MODEL=str(tmp_path / "none.gguf"))
    assert status == 1
    assert "none.gguf" in text
    assert "Expected the path of a GGUF file" in text


def test_doctor_distinguishes_installed_from_tried_models(tmp_path: Path) -> None:
    gguf = weights(tmp_path)
    home = {"XDG_RUNTIME_DIR": str(tmp_path), "ARCHYTAS_NB_LOCAL_MODEL": str(gguf)}
    status, text = run(tmp_path, "doctor", **home)
    if importlib.util.find_spec("xllamacpp") is None:
        assert "pip install" in text
        return
    assert (status, "not tried" in text, "ready" in text) == (0, True, False)
    process_dir = tmp_path / "archytas-nb"
    process_dir.mkdir(exist_ok=True)
    record = {"version": __version__, "seconds": 3.25, "crash": "SIGSEGV"}
    (process_dir / f"{Engine().identity(gguf)}.tried.json").write_text(json.dumps(record))
    assert (
        "its first reply took 3.2 s, in safe mode after a crash (SIGSEGV)"
        in run(tmp_path, "doctor", **home)[1]
    )


def test_doctor_try_asks_one_question_with_a_schema(tmp_path: Path) -> None:
    with Server(Say('{"answer": "yes"}')) as server:
        status, text = run(
            tmp_path, "doctor", "--try", OPENAI_BASE_URL=server.url, ARCHYTAS_NB_MODEL="tiny-1"
        )
        assert (status, """answered '{"answer": "yes"}' after""" in text) == (0, True)
        [asked] = [each.body for each in server.asked if each.method == "POST"]
        assert asked["max_tokens"] == 64
        assert asked["response_format"]["json_schema"]["schema"]["properties"]["answer"][
            "enum"
        ] == ["yes", "no"]


@pytest.mark.parametrize("reply", ["Yes.", '"yes"', '["yes"]', '{"Answer": "yes"}'])
def test_doctor_reports_a_reply_that_does_not_follow_the_schema(tmp_path: Path, reply: str) -> None:
    with Server(then=Say(reply)) as server:
        status, text = run(
            tmp_path, "doctor", "--try", OPENAI_BASE_URL=server.url, ARCHYTAS_NB_MODEL="tiny-1"
        )
        assert (status, "does not follow the schema" in text) == (0, True)


def test_doctor_try_reports_the_rest_where_no_server_answers(tmp_path: Path) -> None:
    status, text = run(tmp_path, "doctor", "--try", OPENAI_BASE_URL="http://127.0.0.1:9/v1")
    assert (status, "gives no answer" in text, "kernelspec" in text) == (1, True, True)


@pytest.mark.parametrize("setting", ["hf:foo", "hf:a b/c/d.gguf"])
def test_doctor_reports_the_rest_where_a_hub_name_is_wrong(tmp_path: Path, setting: str) -> None:
    status, text = run(tmp_path, "doctor", ARCHYTAS_NB_LOCAL_MODEL=setting)
    assert (status in (0, 1), "kernelspec" in text, "Traceback" in text) == (True, True, False)


def test_doctor_try_reports_an_error_of_the_endpoint(tmp_path: Path) -> None:
    with Server(Status(401, "no such key")) as server:
        status, text = run(
            tmp_path, "doctor", "--try", OPENAI_BASE_URL=server.url, ARCHYTAS_NB_MODEL="tiny-1"
        )
        assert (status, "gives no answer" in text, "OPENAI_API_KEY" in text) == (1, True, True)


def test_clean_removes_weights_after_a_dry_run(
    tmp_path: Path,
) -> None:
    homes = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "XDG_STATE_HOME": str(tmp_path / "state")}
    model = tmp_path / "cache" / "archytas-nb" / "models" / EMBEDDED.name
    model.parent.mkdir(parents=True)
    model.write_bytes(b"0" * 20_000_000)
    own = model.with_name("mine.gguf")
    own.write_bytes(b"GGUF")
    status, text = run(tmp_path, "clean", "--dry-run", **homes)
    assert (
        status,
        f"{str(model)!r}, 0.02 GB, would be removed" in text,
        model.exists(),
    ) == (
        0,
        True,
        True,
    )
    status, text = run(tmp_path, "clean", **homes)
    assert (status, "0.02 GB, removed" in text, model.exists()) == (0, True, False)
    assert own.exists()
    assert "0.02 GB" not in run(tmp_path, "clean", **homes)[1]


def test_doctor_passes_settings_that_are_false_or_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    from archytas_nb.command import doctor

    taken = []
    monkeypatch.setattr(
        doctor, "choose_model", lambda settings: taken.append(settings) or doctor.choose
    )
    monkeypatch.setattr(
        doctor, "choose", SimpleNamespace(base_url="http://127.0.0.1:9/v1"), raising=False
    )
    doctor._model({"discover": False, "max_retries": 0, "model": ""}, ask=False)
    assert taken == [doctor.ModelSettings(discover=False, max_retries=0)]


def test_an_unknown_command_lists_the_commands(tmp_path: Path) -> None:
    status, text = run_process(tmp_path, "heal")
    assert status == 2
    assert all(name in text for name in ("enable", "disable", "doctor", "clean"))
