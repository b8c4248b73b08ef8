"""Stands where llama_cpp.server stands: takes ``--config_file``, answers ``GET /v1/models`` with a key.

What it does besides is written in the "weights": ``GGUF <word>``, where the word is one of ``works``,
``refuses``, ``crashes``, ``hangs``, ``busy``, ``taken`` (the port, the first time).

Asked to chat, it says in a stream how many words it was sent. A conversation of more words than its context has
tokens gets an empty stream with status 200, as llama_cpp.server sends it. ``dies`` and ``freezes`` do so in the
first reply, ``always-dies`` in each, ``drops`` ends its first stream at once, ``always-drops`` each.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if word == "busy":
            time.sleep(30)
        good = self.headers.get("Authorization") == f"Bearer {config['api_key']}"
        known = {"environment": dict(os.environ), "config": config, "cwd": str(Path.cwd()), "argv": sys.argv}
        body = json.dumps({"object": "list", "pid": os.getpid(), **known} if good else {}).encode()
        self.send(body, 200 if good else 401)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/extras/tokenize/count":
            self.send(json.dumps({"count": len(asked["input"].split())}).encode())
            return
        words = " ".join(message["content"] for message in asked["messages"]).split()
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"pid": os.getpid(), **asked}) + "\n")
        first = len(log.read_text(encoding="utf-8").splitlines()) == 1
        if len(words) >= config["models"][0]["n_ctx"] or word == "always-drops" or (word == "drops" and first):
            self.send(b"")
            return
        self.send(b'data: {"choices": [{"delta": {"content": "I read "}}]}\n\n', whole=False)
        ends = {"always-dies": signal.SIGKILL}
        if first:
            ends |= {"dies": signal.SIGKILL, "freezes": signal.SIGSTOP}
        if word in ends:
            os.kill(os.getpid(), ends[word])
            time.sleep(60)  # it takes a moment until this thread hears of it
        last = {"delta": {"content": f"{len(words)} words."}, "finish_reason": "stop"}
        self.wfile.write(b"data: " + json.dumps({"choices": [last]}).encode() + b"\n\ndata: [DONE]\n\n")

    def send(self, body, status=200, whole=True):
        self.send_response(status)
        if whole:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()


if __name__ == "__main__":
    config = json.loads(Path(sys.argv[sys.argv.index("--config_file") + 1]).read_text(encoding="utf-8"))
    model = Path(config["models"][0]["model"])
    word = model.read_text(encoding="utf-8").split()[1]
    sys.stdout.write(f"fake engine: {word}\n")
    mark, log = model.with_suffix(".mark"), model.with_suffix(".asked")
    if word == "refuses":
        raise ValueError(f"Failed to load model from file: {model}")
    if word == "crashes":
        os._exit(3)
    if word == "taken" and not mark.exists():
        mark.touch()
        raise OSError(98, "Address already in use")
    if word == "hangs":
        threading.Event().wait()
    ThreadingHTTPServer((config["host"], config["port"]), Handler).serve_forever()
