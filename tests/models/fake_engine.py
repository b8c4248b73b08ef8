"""A stand-in for the engine: parameters, and a server that answers with its key on a port of its own choice.

What it does besides is written in the "weights": ``GGUF <word>``, where the word is one of

- ``works``;
- ``refuses`` the weights, ``ends`` with status 3 while it loads, ``hangs`` while it loads;
- ``crashes`` at its first request (SIGSEGV), ``always-crashes`` at each one, ``crashes-unless-safe``;
- ``start-crashes``, and ``start-crashes-unless-safe``, while it loads;
- ``hangs-unless-safe`` while it loads; ``cannot-import`` its library;
- ``freezes`` in its first reply, is ``slow`` to begin it.

Asked to chat, it says in a stream how many words it was sent. A conversation of more words than its context has
tokens is refused, as the engine does.
"""

import enum
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace


def end_by(number):
    os.kill(os.getpid(), number)
    time.sleep(60)  # it takes a moment until this thread hears of it


class Attention(enum.IntEnum):
    LLAMA_FLASH_ATTN_TYPE_AUTO = -1
    LLAMA_FLASH_ATTN_TYPE_DISABLED = 0


class CommonParams:
    """Takes every parameter that the package sets; any other is an error."""

    def __init__(self):
        self.model = SimpleNamespace(path="")
        self.model_alias = set()
        self.cpuparams, self.cpuparams_batch = (
            SimpleNamespace(n_threads=-1),
            SimpleNamespace(n_threads=-1),
        )
        self.flash_attn_type = Attention.LLAMA_FLASH_ATTN_TYPE_AUTO
        self.api_keys = []
        for name in (
            "n_ctx",
            "n_parallel",
            "n_batch",
            "n_ubatch",
            "n_gpu_layers",
        ):  # and no cache_ram_mib
            setattr(self, name, 0)
        self.ui = self.warmup = True
        self.no_extra_bufts = False


class Server:
    """Loads the weights, and listens."""

    def __init__(self, params):
        path = Path(params.model.path)
        word = path.read_text(encoding="utf-8").split()[1]
        sys.stderr.write(f"fake engine: {word}\n")
        sys.stderr.flush()
        safe = params.no_extra_bufts
        if word == "refuses":
            sys.stderr.write(f"E common_init_: failed to load model '{path}'\n")
            raise RuntimeError("Failed to init server, please check the input params.")
        if word == "ends":
            os._exit(3)
        if word == "hangs" or (word == "hangs-unless-safe" and not safe):
            threading.Event().wait()
        if word == "start-crashes" or (word == "start-crashes-unless-safe" and not safe):
            end_by(signal.SIGSEGV)
        handler = type(
            "Bound", (Handler,), {"params": params, "word": word, "log": path.with_suffix(".asked")}
        )
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{self._http.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.send(b"{}")
            return
        if self.headers.get("Authorization") not in [
            f"Bearer {key}" for key in self.params.api_keys
        ]:
            self.send(b"{}", 401)
            return
        if self.path == "/slots":
            self.send(json.dumps([{"is_processing": self.word == "busy"}] * 2).encode())
            return
        known = {name: value for name, value in vars(self.params).items() if name != "api_keys"}
        facts = {
            "pid": os.getpid(),
            "cwd": str(Path.cwd()),
            "spins": os.environ.get("GOMP_SPINCOUNT"),
            "params": known,
            "modules": sorted(sys.modules),
        }
        plain = json.dumps(
            {"object": "list", **facts},
            default=lambda value: getattr(value, "__dict__", None) or [*value],
        )
        self.send(plain.encode())

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = " ".join(message["content"] for message in asked["messages"]).split()
        with self.log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"pid": os.getpid(), **asked}) + "\n")
        first = len(self.log.read_text(encoding="utf-8").splitlines()) == 1
        context = self.params.n_ctx // self.params.n_parallel
        if len(words) >= context:
            said = f"request ({len(words)} tokens) exceeds the available context size ({context} tokens)"
            error = {"code": 400, "message": said, "type": "exceed_context_size_error"}
            self.send(json.dumps({"error": error}).encode(), 400)
            return
        if self.word == "slow":
            time.sleep(4)
        self.send(b"", whole=False)
        if asked.get("return_progress"):
            read = {"prompt_progress": {"total": len(words), "processed": 1}}
            self.wfile.write(b"data: " + json.dumps({"choices": [], **read}).encode() + b"\n\n")
        self.wfile.write(b'data: {"choices": [{"delta": {"content": "I read "}}]}\n\n')
        self.wfile.flush()
        crash = self.word == "always-crashes" or (self.word == "crashes" and first)
        if crash or (self.word == "crashes-unless-safe" and not self.params.no_extra_bufts):
            end_by(signal.SIGSEGV)
        if self.word == "freezes" and first:
            end_by(signal.SIGSTOP)
        last = {"delta": {"content": f"{len(words)} words."}, "finish_reason": "stop"}
        self.wfile.write(
            b"data: " + json.dumps({"choices": [last]}).encode() + b"\n\ndata: [DONE]\n\n"
        )

    def send(self, body, status=200, whole=True):
        self.send_response(status)
        if whole:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
