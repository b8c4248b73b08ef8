"""How the embedded engine is run: which module, with which settings, on how many cores.

Law of this file: it decides and checks, but starts nothing and never imports the engine: that happens in the
child process alone, so that neither a crash nor a gigabyte of the engine's memory is ever the notebook's.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError

# What `pip install llama-cpp-python[server]` brings, by import name. `find_spec` of a dotted name would import
# its parent, so the engine's server is judged by what it needs.
NEEDS = {
    "llama_cpp.server": (
        "llama_cpp",
        "uvicorn",
        "fastapi",
        "pydantic_settings",
        "sse_starlette",
        "starlette_context",
    )
}


@dataclass(frozen=True)
class Engine:
    """The settings of the embedded engine. Notebooks with equal settings and weights share one process.

    Attributes:
        context: Tokens that a conversation and its reply may have together.
        threads: Cores to use; None for all that this process may use.
        gpu_layers: Layers to put on a GPU, where the engine was built for one; -1 for all.
        grace_seconds: How long the model stays loaded after its last notebook is gone.
        startup_seconds: How long a started process waits for its first notebook.
        load_seconds: How long loading may take before we give up.
        module: The module that is run; it takes ``--config_file`` as llama_cpp.server does.
    """

    context: int = 8192
    threads: int | None = None
    gpu_layers: int = -1
    grace_seconds: float = 60.0
    startup_seconds: float = 60.0
    load_seconds: float = 300.0
    module: str = "llama_cpp.server"

    def identity(self, weights: Path) -> str:
        """A short name for one file of weights run with these settings, the same in every notebook."""
        stat = weights.stat()
        facts = [str(weights.resolve()), stat.st_size, stat.st_mtime_ns, asdict(self)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def server_settings(self) -> dict[str, Any]:
        """Settings of the engine's HTTP server, without address and key: the child chooses those."""
        # interrupt_requests (on by default) would cut one notebook's reply when another one asks. Without it they
        # take turns: one reply at a time, the next request waits.
        return {"interrupt_requests": False}

    def model_settings(self, weights: Path) -> dict[str, Any]:
        """Settings of the model, as the engine's configuration file spells them."""
        cores = self.threads or usable_cores()
        return {
            "model": str(weights),
            "model_alias": weights.stem,
            "n_ctx": self.context,
            "n_batch": 512,
            "n_threads": cores,
            "n_threads_batch": cores,
            "n_gpu_layers": self.gpu_layers,
            # The server's default keeps every token's logits: context * vocabulary * 4 bytes, 5 GB for ours.
            "logits_all": False,
            # Its other default pins the whole model in memory, which a laptop may need for the notebook itself.
            "use_mlock": False,
        }

    def require(self) -> None:
        """Check that the engine is installed, without importing it.

        Raises:
            ConfigurationError: Something that it needs is missing.
        """
        missing = [name for name in NEEDS.get(self.module, ()) if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(
                f"The model on this machine needs {', '.join(missing)}, which is not installed. Run: "
                'pip install "archytas-nb[local]" (it compiles the engine: about five minutes, and a C compiler)'
            )


def usable_cores() -> int:
    """How many cores this process may keep busy: its affinity, its container's quota, no hyperthreads."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(ImportError, OSError):
        # ipykernel depends on psutil. Two threads on one core only take turns at its vector unit; but where there
        # are hardly any cores, a virtual machine's word on which are real is not worth much.
        physical = importlib.import_module("psutil").cpu_count(logical=False) or cores
        cores = min(cores, max(physical, 2))
    with contextlib.suppress(OSError, ValueError):
        # More threads than the quota allows all stall together, many times slower than fewer threads.
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" is no int: no quota
    return max(1, cores)
