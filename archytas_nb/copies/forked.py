"""A copy by fork: the kernel as it is, with all its objects, locked before any code runs in it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Mapping
from typing import Any

from archytas_nb.copies.begin import Beginning, serve
from archytas_nb.copies.names import Names


def fork(namespace: Mapping[str, Any], beginning: Beginning, ends: tuple[int, int, int]) -> int:
    """Fork the kernel, and return the process id of the copy.

    Args:
        namespace: The variables of the kernel.
        beginning: The data that the copy needs.
        ends: The descriptors of the copy: where it reads, where it writes, and its life.

    Raises:
        OSError: It cannot be forked.
    """
    is_main = threading.get_native_id() == os.getpid()
    with warnings.catch_warnings():
        # Python warns of threads that a fork does not have; a copy that waits for one is ended.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            # A copy of a copy of the variables would not be what functions of the notebook read.
            held = namespace.held() if isinstance(namespace, Names) else Names(namespace).held()
            serve(beginning, held, *ends, is_main=is_main)
        finally:
            os._exit(1)
    return pid
