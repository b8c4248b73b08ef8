"""The descriptors 1 and 2 are led to us while a call runs, and are as before afterwards, whatever holds them."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from archytas_nb.kernel.descriptors import SUPPORTED, Redirection
from tests.kernel.tools import run_one, text_of

pytestmark = pytest.mark.skipif(
    not SUPPORTED, reason="descriptors are redirected on POSIX systems only"
)


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_joins_the_bytes_of_a_character_that_are_written_separately() -> None:
    seen: list[tuple[str, str]] = []
    redirection = Redirection(lambda kind, text: seen.append((kind, text)))
    try:
        os.write(1, "Grü".encode()[:-1])
        redirection.drain()
        os.write(1, "ü".encode()[1:] + b"n\n")
        os.write(2, b"bad \xff\n")
    finally:
        redirection.end()
    assert "".join(text for kind, text in seen if kind == "stdout") == "Grün\n"
    assert (
        "".join(text for kind, text in seen if kind == "stderr")
        == "bad \N{REPLACEMENT CHARACTER}\n"
    )


def test_more_output_than_a_pipe_holds_does_not_block() -> None:
    def flood() -> None:
        subprocess.run([sys.executable, "-c", "print('x' * 3_000_000)"], check=True)

    outcome = run_one(flood, timeout=60)
    assert outcome.status == "done"
    assert "characters left out" in outcome.text


def test_output_of_a_long_call_is_reported_while_it_runs() -> None:
    seen = threading.Event()

    def wait() -> bool:
        os.write(1, b"progress\n")
        return seen.wait(20)

    assert run_one(wait, on_output=lambda text: seen.set()).value is True


def run_script(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_leftover_process_continues_writing_to_the_original_descriptor() -> None:
    done = run_script("""
        import subprocess, sys, time
        from tests.kernel.tools import run_one, text_of

        server = []
        def leave() -> None:
            code = (
                "import os; print('begun', flush=True); os.close(2); input();"
                " print('x' * 200_000, flush=True)"
            )
            pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
            server.append(subprocess.Popen([sys.executable, "-c", code], **pipes))
            server[0].stderr.read()  # until it has begun
        outcome = run_one(leave)
        server[0].communicate(b'end\\n', 20)
        assert server[0].returncode == 0
        time.sleep(0.5)
        print("captured", repr(text_of(outcome.outputs)))
    """)
    assert "captured 'begun\\n'" in done.stdout
    assert "x" * 200_000 in done.stdout


def test_a_descriptor_that_is_closed_is_left_alone() -> None:
    done = run_script("""
        import os, sys
        from tests.kernel.tools import run_one
        os.close(1)
        def work() -> int:
            os.write(2, b"seen\\n")
            return 1
        sys.stderr.write(run_one(work).text)
    """)
    assert "seen\n\nReturned: 1" in done.stderr


def test_no_descriptor_and_no_thread_is_left_behind() -> None:
    def shout() -> None:
        os.system("echo shout")

    assert text_of(run_one(shout).outputs) == "shout\n"
    descriptors, threads = open_descriptors(), threading.active_count()
    for _ in range(30):
        run_one(shout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        # The thread that empties the pipes of a longer call closes them and ends a moment later.
        if open_descriptors() <= descriptors and threading.active_count() <= threads:
            break
        time.sleep(0.05)
    assert open_descriptors() <= descriptors
    assert threading.active_count() <= threads
