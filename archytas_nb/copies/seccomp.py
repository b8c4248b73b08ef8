"""The system calls that a locked process may make, and the filter that refuses all others.

It is a list of the allowed calls, so one that Linux gets later is refused. Allowed calls act on the
memory and the threads of the process, and on files that Landlock decides about; a call that could
act on something else as well is allowed only with the arguments of `_rules`.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from typing import NamedTuple

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""The column of the numbers below, and the name of the architecture in a filter."""

# name x86_64 aarch64; a dash where the architecture has no such call
_ALLOWED = """
read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69,
pwritev 296 70, preadv2 327 286, pwritev2 328 287, lseek 8 62, close 3 57, close_range 436 436,
dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, pipe2 293 59, stat 4 -, lstat 6 -, fstat 5 80,
newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48,
faccessat2 439 439, readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61,
getcwd 79 17, chdir 80 49, fchdir 81 50, creat 85 -, rename 82 -, renameat 264 38,
renameat2 316 276, unlink 87 -, unlinkat 263 35, mkdir 83 -, mkdirat 258 34, rmdir 84 -,
ftruncate 77 46, fallocate 285 47, fadvise64 221 223, readahead 187 213, fsync 74 82,
fdatasync 75 83, sendfile 40 71, copy_file_range 326 285, umask 95 166,
mmap 9 222, munmap 11 215, mremap 25 216, mprotect 10 226, madvise 28 233, mincore 27 232,
msync 26 227, mlock 149 228, mlock2 325 284, munlock 150 229, brk 12 214, mbind 237 235,
get_mempolicy 239 236, set_mempolicy 238 237, membarrier 324 283, pkey_alloc 330 289,
pkey_free 331 290, pkey_mprotect 329 288, futex 202 98, futex_waitv 449 449, futex_wake 454 454,
futex_wait 455 455, futex_requeue 456 456, set_robust_list 273 99, set_tid_address 218 96,
rseq 334 293, gettid 186 178, getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175,
getgid 104 176, getegid 108 177, getgroups 115 158, getresuid 118 148, getresgid 120 150,
getpgrp 111 -, sched_yield 24 124, sched_get_priority_max 146 125, sched_get_priority_min 147 126,
getcpu 309 168, getrlimit 97 163, getrusage 98 165, times 100 153, sysinfo 99 179, uname 63 160,
arch_prctl 158 -, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
rt_sigpending 127 136, rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132,
restart_syscall 219 128, pause 34 -, nanosleep 35 101, clock_nanosleep 230 115,
clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -, getitimer 36 102,
setitimer 38 103, alarm 37 -, timer_create 222 107, timer_settime 223 110, timer_gettime 224 108,
timer_getoverrun 225 109, timer_delete 226 111, timerfd_create 283 85, timerfd_settime 286 86,
timerfd_gettime 287 87, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -,
epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22, epoll_pwait2 441 441,
eventfd 284 -, eventfd2 290 19, signalfd 282 -, signalfd4 289 74, getsockname 51 204,
getpeername 52 205, getsockopt 55 209, recvfrom 45 207, recvmsg 47 212, recvmmsg 299 243,
sendmsg 46 211, shutdown 48 210, getrandom 318 278, exit 60 93, exit_group 231 94, wait4 61 260,
waitid 247 95, capget 125 90
"""

_BY_ARGUMENT = """
open 2 -, openat 257 56, clone 56 220, fcntl 72 25, ioctl 16 29, kill 62 129, tkill 200 130,
tgkill 234 131, prlimit64 302 261, prctl 157 167, sched_setaffinity 203 122,
sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120, getpgid 121 155,
getsid 124 156, socketpair 53 199, sendto 44 206
"""

_PRETENDED = "flock 73 32"
"""Calls that do nothing and seem to succeed: a lock that others would wait for."""

_ABSENT = "clone3 435 435"
"""Calls that seem to be missing: the C library then makes an older one, which a rule can read."""

_NEWEST = 470
"""The first number that this module does not know; such calls seem to be missing, too."""

_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_FAKE = _ERRNO
_REFUSE = _ERRNO | errno.EPERM
_MISSING = _ERRNO | errno.ENOSYS
_X32 = 0x40000000

_O_TRUNC, _O_ACCMODE = 0o1000, 0o3
_CLONE_THREAD = 0x10100
"""CLONE_VM and CLONE_THREAD: a thread, and no process."""
_CLONE_NEW = 0x7E020080
"""What gives a thread a namespace of its own."""


class _Test(NamedTuple):
    """Whether the bits of an argument are one of some values.

    Attributes:
        argument: The number of the argument, from 0.
        mask: The bits that count, of the lower 32.
        values: The values that they may have.
        result: The filter's result if they have one; None to go on to the next test of the call.
        is_wide: Whether the upper 32 bits must be zero as well.
    """

    argument: int
    mask: int
    values: tuple[int, ...]
    result: int | None = _ALLOW
    is_wide: bool = False


def _rules(pid: int) -> dict[str, tuple[_Test, ...]]:
    """The arguments with which a call is allowed, for the process with this id."""
    all_bits = 0xFFFFFFFF
    own = (0, pid)
    # Without the right to write, O_TRUNC empties a file where Landlock is older than ABI 3.
    opened = tuple(f for f in (*range(4), *range(_O_TRUNC, _O_TRUNC + 4)) if f != _O_TRUNC)
    return {
        "open": (_Test(1, _O_TRUNC | _O_ACCMODE, opened),),
        "openat": (_Test(2, _O_TRUNC | _O_ACCMODE, opened),),
        "clone": (_Test(0, _CLONE_THREAD | _CLONE_NEW, (_CLONE_THREAD,)),),
        "fcntl": (
            # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_GETOWN, F_DUPFD_CLOEXEC,
            # F_GETPIPE_SZ, F_GET_SEALS, F_OFD_GETLK; not what sends signals or holds leases
            _Test(1, all_bits, (0, 1, 2, 3, 4, 5, 9, 1030, 1032, 1034, 36)),
            # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW: others would wait for the lock
            _Test(1, all_bits, (6, 7, 37, 38), _FAKE),
        ),
        # FIOCLEX, FIONCLEX, FIONREAD, FIONBIO, TCGETS, TIOCGWINSZ: none changes a file
        "ioctl": (_Test(1, all_bits, (0x5451, 0x5450, 0x541B, 0x5421, 0x5401, 0x5413)),),
        "kill": (_Test(0, all_bits, (pid,)),),
        "tkill": (_Test(0, all_bits, (pid,)),),
        "tgkill": (_Test(0, all_bits, (pid,)),),
        "prlimit64": (_Test(0, all_bits, own, None), _Test(2, all_bits, (0,), is_wide=True)),
        # PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS,
        # PR_GET_SECCOMP, PR_GET_PDEATHSIG, PR_GET_TIMERSLACK, PR_GET_THP_DISABLE, PR_SET_VMA
        "prctl": (_Test(0, all_bits, (15, 16, 3, 23, 39, 21, 2, 30, 42, 0x53564D41)),),
        "sched_setaffinity": (_Test(0, all_bits, own),),
        "sched_getaffinity": (_Test(0, all_bits, own),),
        "sched_getparam": (_Test(0, all_bits, own),),
        "sched_getscheduler": (_Test(0, all_bits, own),),
        "getpgid": (_Test(0, all_bits, own),),
        "getsid": (_Test(0, all_bits, own),),
        # AF_UNIX and SOCK_STREAM, as event loops need it: it can be sent to no one else
        "socketpair": (_Test(0, all_bits, (1,), None), _Test(1, 0xFF, (1,))),
        "sendto": (_Test(4, all_bits, (0,), is_wide=True),),
    }


def _numbers(table: str, column: int) -> dict[str, int]:
    rows = [row.split() for row in table.replace("\n", " ").split(",")]
    return {row[0]: int(row[1 + column]) for row in rows if row[1 + column] != "-"}


def _instruction(code: int, yes: int, no: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value & 0xFFFFFFFF)


def _load(offset: int) -> bytes:
    return _instruction(0x20, 0, 0, offset)


def _return(value: int) -> bytes:
    return _instruction(0x06, 0, 0, value)


def _if_equal(value: int, then: bytes) -> bytes:
    """Run some instructions if what was loaded is a value; jumps reach 255 instructions."""
    return _instruction(0x15, 0, len(then) // 8, value) + then


def _test(test: _Test, rest: bytes) -> bytes:
    """The instructions of a test, and of what follows if it has no result."""
    low = 16 + 8 * test.argument
    then = rest if test.result is None else _return(test.result)
    if test.is_wide:
        then = _load(low + 4) + _if_equal(0, then) + _return(_REFUSE)
    # The first equal value jumps over the other comparisons to `then`.
    compared = b"".join(
        _instruction(0x15, len(test.values) - index, 0, value)
        for index, value in enumerate(test.values)
    )
    skip = _instruction(0x05, 0, 0, len(then) // 8)
    return _load(low) + _instruction(0x54, 0, 0, test.mask) + compared + skip + then


def _ruled(tests: tuple[_Test, ...]) -> bytes:
    program = _return(_REFUSE)
    for test in reversed(tests):
        # A test without a result needs the next one, and is refused without it.
        program = _test(test, program) + (_return(_REFUSE) if test.result is None else program)
    return program


def _program(pid: int) -> bytes:
    column, architecture = _ARCHITECTURES[platform.machine()]
    parts = [
        _load(4),
        _instruction(0x15, 1, 0, architecture),
        _return(_REFUSE),
        _load(0),
        _instruction(0x35, 0, 1, _X32),
        _return(_REFUSE),
        _instruction(0x35, 0, 1, _NEWEST),
        _return(_MISSING),
    ]
    parts += [_if_equal(n, _return(_ALLOW)) for n in _numbers(_ALLOWED, column).values()]
    rules = _rules(pid)
    parts += [_if_equal(n, _ruled(rules[k])) for k, n in _numbers(_BY_ARGUMENT, column).items()]
    parts += [_if_equal(n, _return(_FAKE)) for n in _numbers(_PRETENDED, column).values()]
    parts += [_if_equal(n, _return(_MISSING)) for n in _numbers(_ABSENT, column).values()]
    return b"".join([*parts, _return(_REFUSE)])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def is_known() -> bool:
    """Whether the numbers of this machine's system calls are known, and it can filter them."""
    if platform.machine() not in _ARCHITECTURES:
        return False
    # PR_GET_SECCOMP fails where the system has no filters.
    return int(ctypes.CDLL(None, use_errno=True).prctl(21, 0, 0, 0, 0)) >= 0


def restrict() -> None:
    """Refuse all other system calls to this process from now on; it cannot be taken back.

    Raises:
        OSError: The system does not take the filter.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    program = _program(os.getpid())
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = _Program(len(program) // 8, ctypes.addressof(buffer))
    number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
    # SECCOMP_SET_MODE_FILTER for all threads (TSYNC).
    if libc.syscall(number, 1, 1, ctypes.byref(filter_)):
        code = ctypes.get_errno()
        raise OSError(code, f"the filter of system calls was refused: {os.strerror(code)}")
