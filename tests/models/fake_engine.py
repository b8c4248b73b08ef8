"""Stands where llama_cpp.server stands: takes ``--config_file``, answers ``GET /v1/models`` with a key.

What it does besides is written in the "weights": ``GGUF <word>``, where the word is one of ``works``,
``refuses``, ``crashes``, ``hangs``, ``busy``, ``taken`` (the port, the first time).
"""

import json
import os
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
        self.send_response(200 if good else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    config = json.loads(Path(sys.argv[sys.argv.index("--config_file") + 1]).read_text(encoding="utf-8"))
    model = Path(config["models"][0]["model"])
    word = model.read_text(encoding="utf-8").split()[1]
    sys.stdout.write(f"fake engine: {word}\n")
    mark = model.with_suffix(".mark")
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
