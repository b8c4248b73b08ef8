"""The surroundings of a copy in a test of its lock: files, secrets, processes, sockets, objects."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import mmap
import multiprocessing
import os
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np

CANARY = "C4NARY"
"""What no copy may say: it is in every secret."""

_LIBC = ctypes.CDLL(None, use_errno=True)


class World:
    """Made once for many attacks; `state` is equal as long as none had an effect."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.stack = contextlib.ExitStack()
        self.signals: list[int] = []
        self.names: dict[str, Any] = {}
        self._files()
        self._processes()
        self._sockets()
        self._shared()
        self._open()

    def close(self) -> None:
        self.stack.close()

    def _files(self) -> None:
        made = {
            "project/raw.csv": "a,b\n1,2\n", "project/sub/deep/data.txt": "data", "project/.env": f"KEY={CANARY}",
            "project/sub/server.key": CANARY, "foreign/secret.txt": CANARY, "home/notes.txt": CANARY,
            "home/.ssh/id_rsa": CANARY, "project/module.py": "x = 1\n",
        }  # fmt: skip
        for name, text in made.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.project, self.home = self.root / "project", self.root / "home"
        (self.project / "link.txt").symlink_to(self.root / "foreign/secret.txt")
        os.link(self.project / ".env", self.project / "hard.txt")
        self.names |= {
            "PROJECT": str(self.project), "FOREIGN": str(self.root / "foreign"), "HOME": str(self.home),
            "RAW": str(self.project / "raw.csv"), "OUTSIDE": str(self.root / "foreign/secret.txt"),
            "NOTES": str(self.home / "notes.txt"), "ENV": str(self.project / ".env"), "KEY": str(self.project / "sub/server.key"),
            "HARD": str(self.project / "hard.txt"), "LINK": str(self.project / "link.txt"), "SSH": str(self.home / ".ssh/id_rsa"),
        }  # fmt: skip
        before = {name: os.environ.get(name) for name in ("HOME", "ATTACK_API_KEY")}
        os.environ["HOME"], os.environ["ATTACK_API_KEY"] = str(self.home), CANARY
        self.names["ENV_NAME"] = "ATTACK_API_KEY"
        self.stack.callback(
            lambda: [
                os.environ.pop(n, None) if v is None else os.environ.update({n: v})
                for n, v in before.items()
            ]
        )
        folder = Path.cwd()
        os.chdir(self.project)
        self.stack.callback(os.chdir, folder)

    def _processes(self) -> None:
        code = "import signal, sys\nfor s in (10, 12): signal.signal(s, lambda *a: sys.exit(7))\nprint('up', flush=True)\nsys.stdin.read(1)"
        self.victim = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"SECRET": CANARY},
        )
        assert self.victim.stdout is not None
        self.victim.stdout.readline()
        self.stack.enter_context(self.victim)
        self.stack.callback(self.victim.kill)
        self.names |= {"KERNEL": os.getpid(), "VICTIM": self.victim.pid, "PROCESS": self.victim}
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGIO):
            before = signal.signal(number, lambda got, _: self.signals.append(got))
            self.stack.callback(signal.signal, number, before)

    def _sockets(self) -> None:
        def bound(family: int, kind: int, address: Any) -> socket.socket:
            found = self.stack.enter_context(socket.socket(family, kind))
            found.bind(address)
            if kind == socket.SOCK_STREAM:
                found.listen()
            return found

        name = f"attack-{os.getpid()}"
        paths = [str(self.project / each) for each in ("stream.sock", "datagram.sock")]
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        tcp, udp = (
            bound(socket.AF_INET, stream, ("127.0.0.1", 0)),
            bound(socket.AF_INET, datagram, ("127.0.0.1", 0)),
        )
        self.server = bound(socket.AF_INET, stream, ("127.0.0.1", 0))
        waiting = self.stack.enter_context(socket.create_connection(self.server.getsockname()))
        self.listening = [
            tcp, udp, bound(socket.AF_UNIX, stream, paths[0]), bound(socket.AF_UNIX, datagram, paths[1]),
            bound(socket.AF_UNIX, stream, f"\0{name}"), bound(socket.AF_UNIX, datagram, f"\0{name}-d"),
        ]  # fmt: skip
        mine, other = socket.socketpair()
        self.pair = (self.stack.enter_context(mine), self.stack.enter_context(other))
        other.send(b"kept")
        self.names |= {
            "TCP_PORT": tcp.getsockname()[1], "UDP_PORT": udp.getsockname()[1], "UNIX": paths[0], "UNIX_DATAGRAM": paths[1],
            "ABSTRACT": name, "ABSTRACT_DATAGRAM": f"{name}-d", "SOCKET": mine, "SERVER": self.server, "WAITING": waiting,
        }  # fmt: skip

    def _shared(self) -> None:
        memory = SharedMemory(create=True, size=4096)
        self.stack.callback(
            lambda: (
                memory.close(),
                contextlib.suppress(FileNotFoundError).__enter__(),
                memory.unlink(),
            )
        )
        memory.buf[:4] = b"kept"
        _LIBC.shmat.restype = ctypes.c_void_p
        shm = _LIBC.shmget(0, 4096, 0o1600)
        sem, msg = _LIBC.semget(0, 1, 0o1600), _LIBC.msgget(0, 0o1600)
        message = ctypes.create_string_buffer((1).to_bytes(8, "little") + CANARY.encode())
        _LIBC.msgsnd(msg, message, len(CANARY), 0)
        self.stack.callback(
            lambda: (_LIBC.shmctl(shm, 0, 0), _LIBC.semctl(sem, 0, 0), _LIBC.msgctl(msg, 0, 0))
        )
        self.sysv = (shm, sem, msg)
        self.memory = memory
        self.names |= {
            "SHM": memory, "SHM_NAME": memory.name, "SHM_ID": shm, "SEM_ID": sem, "MSG_ID": msg, "SYSV_KEY": 4712,
            "VALUE": multiprocessing.Value("i", 1), "LOCK": multiprocessing.Lock(), "SEMAPHORE": multiprocessing.Semaphore(1),
            "EVENT": multiprocessing.Event(), "CONNECTION": multiprocessing.Pipe()[0],
        }  # fmt: skip

    def _open(self) -> None:
        here = self.project
        log = self.stack.enter_context((here / "log.txt").open("w"))
        reading = self.stack.enter_context((here / "raw.csv").open())
        secret = self.stack.enter_context((here / ".env").open())
        self.database = sqlite3.connect(here / "have.db")
        self.stack.callback(self.database.close)
        self.database.execute("create table t(a)")
        self.database.commit()
        self.database.execute("insert into t values (1)")
        (here / "map.bin").write_bytes(b"kept" * 1024)
        file = self.stack.enter_context((here / "map.bin").open("r+b"))
        shared = mmap.mmap(file.fileno(), 4096)
        array = np.memmap(here / "array.bin", dtype="f8", mode="w+", shape=(512,))
        array[:] = 1
        array.flush()
        self.anonymous = mmap.mmap(-1, 4096)
        self.anonymous[:4] = b"kept"
        self.memfd = os.memfd_create("kept")
        os.write(self.memfd, b"kept" * 1024)
        self.stack.callback(os.close, self.memfd)
        self.pipe = os.pipe()
        os.write(self.pipe[1], b"kept")
        event = os.eventfd(0)
        main, other = os.openpty()
        for each in (*self.pipe, event, main, other):
            self.stack.callback(os.close, each)
        self.event, self.terminal = event, main
        logger = logging.getLogger(f"attack-{id(self)}")
        handler = logging.FileHandler(here / "handler.log")
        logger.addHandler(handler)
        self.stack.callback(handler.close)
        temporary = tempfile.NamedTemporaryFile(dir=here)  # noqa: SIM115
        self.stack.callback(temporary.close)
        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()
        self.stack.callback(pool.shutdown)
        epoll = select.epoll()
        self.stack.callback(epoll.close)
        folder = os.open(here, os.O_RDONLY | os.O_DIRECTORY)
        self.stack.callback(os.close, folder)
        import zmq

        context = zmq.Context()
        push, self.pull = context.socket(zmq.PUSH), context.socket(zmq.PULL)
        port = self.pull.bind_to_random_port("tcp://127.0.0.1")
        push.connect(f"tcp://127.0.0.1:{port}")
        self.stack.callback(lambda: (push.close(0), self.pull.close(0), context.term()))
        self.list: list[int] = []
        self.names |= {
            "LOG": log, "READING": reading, "SECRET": secret, "DB": self.database, "MAP": shared, "ARRAY": array,
            "READ_MAP": np.memmap(here / "map.bin", dtype="u1", mode="r"), "SHARED": self.anonymous, "MEMFD": self.memfd,
            "MEMFD_MAP": mmap.mmap(self.memfd, 4096), "PIPE": self.pipe, "EVENTFD": event, "TERMINAL": other, "ZMQ": push,
            "LOGGER": logger, "TEMPORARY": temporary, "FOLDER": tempfile.TemporaryDirectory(dir=here), "POOL": pool, "EPOLL": epoll,
            "QUEUE": multiprocessing.Queue(), "DIRECTORY": folder, "OBJECT": self.list, "KERNEL_LIST": self.list,
        }  # fmt: skip
        self.stack.callback(self.names["FOLDER"].cleanup)

    def state(self) -> dict[str, Any]:
        """All that an attack could have changed."""
        found: dict[str, Any] = {}
        for path in sorted(self.root.rglob("*")):
            facts = path.lstat()
            content = (
                hashlib.md5(path.read_bytes()).hexdigest()
                if path.is_file() and not path.is_symlink()
                else ""
            )
            kept = (
                facts.st_mode,
                facts.st_uid,
                facts.st_gid,
                facts.st_nlink,
                facts.st_ino,
                facts.st_size,
                facts.st_mtime_ns,
                facts.st_ctime_ns,
            )
            found[str(path.relative_to(self.root))] = (
                *kept,
                content,
                tuple(os.listxattr(path, follow_symlinks=False)),
            )
        found["heard"] = [
            each.fileno() for each in select.select([*self.listening, self.pair[1]], (), (), 0)[0]
        ]
        found["kept for me"] = (
            self.pair[0].recv(10, socket.MSG_PEEK),
            bool(select.select([self.server], (), (), 0)[0]),
        )
        found["shared"] = (
            bytes(self.memory.buf[:4]),
            bytes(self.anonymous[:4]),
            os.pread(self.memfd, 4, 0),
            bytes(self.names["MEMFD_MAP"][:4]),
        )
        found["counters"] = (
            self.names["VALUE"].value,
            self.names["EVENT"].is_set(),
            self.names["QUEUE"].empty(),
            list(self.list),
            self.pull.poll(0),
        )
        found["locks"] = (
            self.names["LOCK"].acquire(block=False),
            self.names["LOCK"].release(),
            self.names["SEMAPHORE"].get_value(),
        )
        found["waiting"] = (
            select.select([self.pipe[0]], (), (), 0)[0] == [self.pipe[0]] and self._waiting()
        )
        found["event"] = select.select([self.event, self.terminal], (), (), 0)[0]
        found["position"] = os.lseek(self.names["READING"].fileno(), 0, os.SEEK_CUR)
        found["transaction"] = (
            self.database.in_transaction,
            self.database.execute("select count(*) from t").fetchone(),
        )
        found["signals"] = list(self.signals)
        found["victim"] = self.victim.poll(), self._of_process(self.victim.pid)
        found["kernel"] = self._of_process(os.getpid())
        found["system"] = (
            socket.gethostname(),
            os.getuid(),
            sorted(each.name for each in Path("/dev/shm").glob("*attack*")),
        )
        buffer = ctypes.create_string_buffer(512)
        found["system V"] = [
            _LIBC.shmctl(self.sysv[0], 2, buffer),
            _LIBC.semctl(self.sysv[1], 0, 12),
            _LIBC.msgctl(self.sysv[2], 2, buffer),
        ]
        found["system V keys"] = [
            _LIBC.shmget(4712, 0, 0),
            _LIBC.semget(4711, 0, 0),
            _LIBC.msgget(4711, 0),
        ]
        return found

    def _waiting(self) -> bytes:
        import array
        import fcntl

        size = array.array("i", [0])
        fcntl.ioctl(self.pipe[0], 0x541B, size)
        return bytes(size)

    @staticmethod
    def _of_process(pid: int) -> tuple[Any, ...]:
        import resource

        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        limit = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        score = Path(f"/proc/{pid}/oom_score_adj").read_text()
        return (
            state[0] == "T",
            os.getpriority(os.PRIO_PROCESS, pid),
            os.sched_getaffinity(pid),
            os.sched_getscheduler(pid),
            limit,
            score,
        )


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {before.get(name)} → {after.get(name)}"
        for name in before.keys() | after.keys()
        if before.get(name) != after.get(name)
    ]
