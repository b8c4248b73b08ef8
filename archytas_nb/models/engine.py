"""How the embedded engine is run: with which settings, on how many cores.

The engine is never imported here, only in its own process (`serve`), so that neither its crash nor the gigabyte
that it takes is ever the notebook's.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError


@dataclass(frozen=True)
class Engine:
    """The settings of the embedded engine. Notebooks with equal settings and weights share one process.

    Attributes:
        context: Tokens that a conversation and its reply may have together.
        threads: Cores to use; None for all that this process may use.
        gpu_layers: Layers to put on a GPU, where the engine was built for one; -1 for all.
        slots: Replies that are written at the same time; each has a context of its own.
        safe: Whether to avoid everything that is known to crash on some machines: slower, with less memory.
        grace_seconds: How long the model stays loaded after its last notebook is gone.
        startup_seconds: How long a started process waits for its first notebook.
        load_seconds: How long loading may take.
        module: The engine.
    """

    context: int = 8192
    threads: int | None = None
    gpu_layers: int = -1
    slots: int = 2
    safe: bool = False
    grace_seconds: float = 60.0
    startup_seconds: float = 60.0
    load_seconds: float = 300.0
    module: str = "xllamacpp"

    def in_safe_mode(self) -> Engine:
        """The same engine with everything avoided that is known to crash on some machines."""
        return replace(self, safe=True)

    def identity(self, weights: Path) -> str:
        """A short name for one file of weights run with these settings, the same in every notebook."""
        stat = weights.stat()
        facts = [str(weights.resolve()), stat.st_size, stat.st_mtime_ns, asdict(self), self.version]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def version(self) -> str:
        """The engine's version; empty where it is not installed."""
        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def settings(self, weights: Path) -> dict[str, Any]:
        """The engine's parameters that are not left at their defaults, by dotted name."""
        cores = 1 if self.safe else self.threads or usable_cores()
        settings: dict[str, Any] = {
            "model.path": str(weights),
            "model_alias": [weights.stem],
            "n_ctx": self.context * self.slots,
            "n_parallel": self.slots,
            # Reading a prompt scales with the cores. Writing does not, and its threads wait for each other in a
            # busy loop: one thread too many, beside anything else that runs, makes it many times slower.
            "cpuparams_batch.n_threads": cores,
            "cpuparams.n_threads": max(1, cores - 1),
            # A request that is given up is noticed only between two batches; smaller ones read no slower.
            "n_batch": 256,
            "n_ubatch": 256,
            "n_gpu_layers": self.gpu_layers,
            # Memory for what earlier prompts left behind; the engine's default is 8 GB.
            "cache_ram_mib": 256,
            "ui": False,
        }
        if self.safe:
            settings |= {
                "no_extra_bufts": True,
                "n_gpu_layers": 0,
                "flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
                "warmup": False,
            }
        return settings

    def require(self) -> None:
        """Check that the engine is installed, without importing it.

        Raises:
            ConfigurationError: It is not.
        """
        if importlib.util.find_spec(self.module) is None:
            raise ConfigurationError(
                f"The model on this machine needs {self.module}, which is not installed. Run: "
                'pip install "archytas-nb[local]"'
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
