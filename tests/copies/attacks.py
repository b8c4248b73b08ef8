"""Ways to have an effect outside a copy, or to read there what is not for it, as code that a copy runs.

Each is a row: a name and code. `S` makes a raw system call; the other names are those of `World.names`. An attack may
end as it likes. It has failed if the world is as before and nothing that the copy says has a secret in it.
"""

from __future__ import annotations

import itertools

PRELUDE = """
import asyncio, ctypes, fcntl, glob, io, mmap, os, signal, socket, struct, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def S(number, *args):
    made = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    made += [ctypes.c_long(0)] * (6 - len(made))
    result = libc.syscall(ctypes.c_long(number), *made)
    return result, ctypes.get_errno()
def read(path):
    with open(path, errors="replace") as file:
        return file.read()
def buffer(size=4096):
    return ctypes.create_string_buffer(size)
def run_code(machine_code):
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(machine_code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
"""

_FILES = {"project file": "RAW", "foreign file": "OUTSIDE", "file at home": "NOTES"}

_ON_FILES = {
    "open for writing": "open({p}, 'w').write('x')",
    "append": "open({p}, 'a').write('x')",
    "open r+ and truncate": "open({p}, 'r+').truncate()",
    "raw open write-only": "S(2, {p}.encode(), os.O_WRONLY)",
    "raw openat read-write": "S(257, -100, {p}.encode(), os.O_RDWR)",
    "raw openat2": "S(437, -100, {p}.encode(), struct.pack('QQQ', os.O_RDWR, 0, 0), 24)",
    "raw creat": "S(85, {p}.encode(), 0o600)",
    "open read-only with O_TRUNC": "os.open({p}, os.O_RDONLY | os.O_TRUNC)",
    "raw truncate": "S(76, {p}.encode(), 0)",
    "ftruncate of a read-only descriptor": "S(77, os.open({p}, os.O_RDONLY), 0)",
    "fallocate": "S(285, os.open({p}, os.O_RDONLY), 0, 0, 100)",
    "write to a read-only descriptor": "os.write(os.open({p}, os.O_RDONLY), b'x')",
    "sendfile into it": "S(40, os.open({p}, os.O_RDONLY), os.open(RAW, os.O_RDONLY), 0, 5)",
    "copy_file_range into it": "S(326, os.open(RAW, os.O_RDONLY), 0, os.open({p}, os.O_RDONLY), 0, 5, 0)",
    "map it shared and write": "mmap.mmap(os.open({p}, os.O_RDONLY), 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)[0:1]",
    "map it shared and mprotect": "m = mmap.mmap(os.open({p}, os.O_RDONLY), 0, mmap.MAP_SHARED, mmap.PROT_READ)\na = ctypes.c_void_p()\nS(10, [int(l.split('-')[0], 16) for l in open('/proc/self/maps') if os.path.basename({p}) in l][0], 4096, 3)\nctypes.memset([int(l.split('-')[0], 16) for l in open('/proc/self/maps') if os.path.basename({p}) in l and 'rw-s' in l][0], 65, 1)",
    "remove": "os.remove({p})",
    "raw unlinkat": "S(263, -100, {p}.encode(), 0)",
    "rename": "os.rename({p}, {p} + '.moved')",
    "renameat2 exchange": "S(316, -100, {p}.encode(), -100, SCRATCH_FILE.encode(), 2)",
    "rename over it": "open(SCRATCH_FILE, 'w').write('x')\nos.replace(SCRATCH_FILE, {p})",
    "link over into the scratch folder and write": "os.link({p}, SCRATCH_FILE + 'l')\nopen(SCRATCH_FILE + 'l', 'w').write('x')",
    "symlink in the scratch folder and write": "os.symlink({p}, SCRATCH_FILE + 's')\nopen(SCRATCH_FILE + 's', 'w').write('x')",
    "chmod": "os.chmod({p}, 0o777)",
    "raw fchmod": "S(91, os.open({p}, os.O_RDONLY), 0o777)",
    "raw fchmodat": "S(268, -100, {p}.encode(), 0o777)",
    "raw fchmodat2": "S(452, -100, {p}.encode(), 0o777, 0)",
    "chmod to what it has": "S(90, {p}.encode(), os.stat({p}).st_mode & 0o7777)",
    "chown": "os.chown({p}, 1, 1)",
    "raw fchown": "S(93, os.open({p}, os.O_RDONLY), 1, 1)",
    "raw lchown": "S(94, {p}.encode(), 1, 1)",
    "raw fchownat": "S(260, -100, {p}.encode(), 1, 1, 0)",
    "utime": "os.utime({p}, (0, 0))",
    "raw utime": "S(132, {p}.encode(), 0)",
    "raw utimes": "S(235, {p}.encode(), 0)",
    "raw futimesat": "S(261, -100, {p}.encode(), 0)",
    "raw utimensat": "S(280, -100, {p}.encode(), 0, 0)",
    "setxattr": "os.setxattr({p}, 'user.a', b'1')",
    "raw fsetxattr": "S(190, os.open({p}, os.O_RDONLY), b'user.a', b'1', 1, 0)",
    "raw lsetxattr": "S(189, {p}.encode(), b'user.a', b'1', 1, 0)",
    "raw setxattrat": "S(463, -100, {p}.encode(), 0, b'user.a', struct.pack('QII', 0, 0, 0), 16)",
    "file flags": "S(16, os.open({p}, os.O_RDONLY), 0x40086602, struct.pack('l', 0x40))",
    "fs-verity": "S(16, os.open({p}, os.O_RDONLY), 0x40806685, struct.pack('IIIIQ', 1, 1, 4096, 0, 0) + bytes(100))",
    "clone a range": "S(16, os.open({p}, os.O_RDONLY), 0x40049409, os.open(RAW, os.O_RDONLY))",
    "lease": "fcntl.fcntl(os.open({p}, os.O_RDONLY), 1024, 1)",
    "hold a lock": "fcntl.flock(os.open({p}, os.O_RDONLY), fcntl.LOCK_EX)",
    "hold a record lock": "fcntl.lockf(os.open({p}, os.O_RDONLY), fcntl.LOCK_SH)",
    "watch": "fd = S(294, 0)[0]\nS(254, fd, {p}.encode(), 0xfff)",
    "mknod over it": "S(133, {p}.encode() + b'n', 0o10600, 0)",
    "sqlite": "import sqlite3\nsqlite3.connect({p}).execute('create table t(a)')",
    "reopen by /proc/self/fd for writing": "open(f'/proc/self/fd/{{os.open({p}, os.O_RDONLY)}}', 'w').write('x')",
    "O_PATH and reopen": "open(f'/proc/self/fd/{{os.open({p}, os.O_PATH)}}', 'r+').write('x')",
    "by its folder": "os.open(os.path.basename({p}), os.O_WRONLY, dir_fd=os.open(os.path.dirname({p}), os.O_PATH))",
    "by /proc/self/cwd": "open('/proc/self/cwd/../' + os.path.relpath({p}, os.path.dirname(os.getcwd())), 'w')",
    "by /proc/self/root": "open('/proc/self/root' + {p}, 'w').write('x')",
    "by a pidfd and open_by_handle_at": "S(303, -100, {p}.encode(), buffer(), buffer(), 0)\nS(304, 3, buffer(), os.O_RDWR)",
}  # fmt: skip

_FOLDERS = {
    "project": "PROJECT",
    "foreign folder": "FOREIGN",
    "home": "HOME",
    "shared memory": "'/dev/shm'",
}

_IN_FOLDERS = {
    "new file": "open({p} + '/attack', 'w').write('x')",
    "new folder": "os.mkdir({p} + '/attack')",
    "new symlink": "os.symlink('/etc', {p} + '/attack')",
    "new pipe": "os.mkfifo({p} + '/attack')",
    "new socket": "s = socket.socketpair()[0]\nlibc.bind(s.fileno(), struct.pack('H', 1) + ({p} + '/attack').encode() + b'\\0', 3 + len({p} + '/attack'))",
    "new device": "os.mknod({p} + '/attack', 0o20600, os.makedev(1, 3))",
    "unnamed file": "os.open({p}, os.O_TMPFILE | os.O_RDWR, 0o600)",
    "move the scratch folder there": "os.rename(SCRATCH, {p} + '/attack')",
    "move a new file there": "open(SCRATCH_FILE, 'w').write('x')\nos.rename(SCRATCH_FILE, {p} + '/attack')",
    "link a new file there": "open(SCRATCH_FILE, 'w').write('x')\nos.link(SCRATCH_FILE, {p} + '/attack')",
}  # fmt: skip

_SECRETS = {
    "secret of the project": "ENV", "secret below the project": "KEY", "secret by a hard link": "HARD",
    "secret by a symlink": "LINK", "foreign file": "OUTSIDE", "file at home": "NOTES", "key at home": "SSH",
}  # fmt: skip

_READS = {
    "read": "read({p})",
    "raw open and read": "b = buffer()\nS(0, S(2, {p}.encode(), 0)[0], b, 4096)\nb.raw",
    "relative": "read(os.path.relpath({p}))",
    "after chdir": "os.chdir(os.path.dirname({p}))\nread(os.path.basename({p}))",
    "by a descriptor of its folder": "b = os.read(os.open(os.path.basename({p}), 0, dir_fd=os.open(os.path.dirname({p}), os.O_PATH)), 99)\nb",
    "O_PATH and reopen": "read(f'/proc/self/fd/{{os.open({p}, os.O_PATH)}}')",
    "by /proc/self/root": "read('/proc/self/root' + {p})",
    "by /proc of the kernel": "read(f'/proc/{{KERNEL}}/root' + {p})",
    "map": "mmap.mmap(os.open({p}, 0), 0, prot=1)[:]",
    "copy": "import shutil\nshutil.copy({p}, SCRATCH_FILE)\nread(SCRATCH_FILE)",
    "link": "os.link({p}, SCRATCH_FILE + 'k')\nread(SCRATCH_FILE + 'k')",
    "move": "os.rename({p}, SCRATCH_FILE + 'm')\nread(SCRATCH_FILE + 'm')",
    "numpy": "import numpy\nnumpy.fromfile({p}, dtype='u1').tobytes()",
    "in a thread": "found = []\nt = threading.Thread(target=lambda: found.append(read({p})))\nt.start(); t.join()\nfound",
    "in a process": "subprocess.run(['cat', {p}], capture_output=True)",
    "swap_cred by setuid": "S(105, 0)\nread({p})",
    "by a user namespace": "S(272, 0x10000000 | 0x20000)\nread({p})",
    "by chroot": "S(161, os.path.dirname({p}).encode())\nread('/' + os.path.basename({p}))",
    "by a bind mount": "S(165, {p}.encode(), SCRATCH_FILE.encode(), 0, 4096, 0)\nread(SCRATCH_FILE)",
    "by open_tree": "read(f'/proc/self/fd/{{S(428, -100, {p}.encode(), 1)[0]}}')",
    "by io_uring": "fd = S(425, 8, buffer(200))[0]\nfd > 0 and read({p})",
}  # fmt: skip

_ON_PROCESSES = {
    "kill": "os.kill({p}, 9)",
    "stop": "os.kill({p}, signal.SIGSTOP)",
    "user signal": "os.kill({p}, signal.SIGUSR1)",
    "raw tkill": "S(200, {p}, 10)",
    "raw tgkill": "S(234, {p}, {p}, 10)",
    "raw rt_sigqueueinfo": "S(129, {p}, 10, struct.pack('iiii', 10, 0, -1, 0) + bytes(112))",
    "raw rt_tgsigqueueinfo": "S(297, {p}, {p}, 10, struct.pack('iiii', 10, 0, -1, 0) + bytes(112))",
    "pidfd_send_signal": "fd = S(434, {p}, 0)[0]\nS(424, fd, 10, 0, 0)",
    "pidfd_getfd": "fd = S(434, {p}, 0)[0]\nS(438, fd, 1, 0)",
    "ptrace attach": "S(101, 16, {p}, 0, 0)",
    "ptrace seize": "S(101, 0x4206, {p}, 0, 0)",
    "process_vm_readv": "S(310, {p}, buffer(), 1, buffer(), 1, 0)",
    "process_vm_writev": "S(311, {p}, buffer(), 1, buffer(), 1, 0)",
    "read its memory": "open(f'/proc/{{{p}}}/mem', 'rb').read(1)",
    "write its memory": "open(f'/proc/{{{p}}}/mem', 'wb')",
    "read its environment": "read(f'/proc/{{{p}}}/environ')",
    "read its command line": "read(f'/proc/{{{p}}}/cmdline')",
    "read its maps": "read(f'/proc/{{{p}}}/maps')",
    "list its files": "os.listdir(f'/proc/{{{p}}}/fd')",
    "open its files": "[read(f'/proc/{{{p}}}/fd/{{n}}') for n in range(3, 30)]",
    "its working folder": "os.listdir(f'/proc/{{{p}}}/cwd/..')",
    "limit it": "S(302, {p}, 7, struct.pack('QQ', 5, 5), 0)",
    "nice it": "os.setpriority(os.PRIO_PROCESS, {p}, 19)",
    "pin it": "os.sched_setaffinity({p}, {{0}})",
    "schedule it": "S(144, {p}, 3, struct.pack('i', 0))",
    "ioprio": "S(251, 1, {p}, (3 << 13))",
    "move its pages": "S(279, {p}, 0, 0, 0, 0, 0)",
    "migrate its pages": "S(256, {p}, 64, buffer(), buffer())",
    "its robust list": "S(274, {p}, buffer(), buffer())",
    "kcmp": "S(312, {p}, {p}, 0, 0, 0)",
    "signal when a pipe is written": "r, w = os.pipe()\nfcntl.fcntl(r, 8, {p})\nfcntl.fcntl(r, 10, 10)\nfcntl.fcntl(r, 4, 0o20000)\nos.write(w, b'x')",
    "F_SETOWN_EX": "r, w = os.pipe()\nS(72, r, 15, struct.pack('ii', 1, {p}))\nfcntl.fcntl(r, 4, 0o20000)\nos.write(w, b'x')",
    "FIOSETOWN": "a, b = socket.socketpair()\nS(16, a.fileno(), 0x8901, struct.pack('i', {p}))\nS(16, a.fileno(), 0x5452, struct.pack('i', 1))\nb.send(b'x')",
    "timer for its thread": "S(222, 0, struct.pack('qiii', 0, 10, 4, {p}) + bytes(44), buffer())",
    "its out-of-memory score": "open(f'/proc/{{{p}}}/oom_score_adj', 'w').write('1000')",
    "wait for it": "os.waitpid({p}, os.WNOHANG)",
    "its group": "os.setpgid({p}, {p})",
    "its namespaces": "S(308, os.open(f'/proc/{{{p}}}/ns/mnt', 0), 0)",
}  # fmt: skip
_PROCESSES = {"the kernel": "KERNEL", "a process": "VICTIM"}

_OTHERS = {
    # sockets
    "TCP": "socket.create_connection(('127.0.0.1', TCP_PORT), 2).send(b'x')",
    "raw TCP socket": "fd = S(41, 2, 1, 0)[0]\nS(42, fd, struct.pack('>HH4s8x', 512, TCP_PORT, b'\\x7f\\0\\0\\1'), 16)",
    "TCP fast open": "fd = S(41, 2, 1, 0)[0]\nS(44, fd, b'x', 1, 0x20000000, struct.pack('>HH4s8x', 512, TCP_PORT, b'\\x7f\\0\\0\\1'))",
    "MPTCP": "socket.socket(2, 1, 262).connect(('127.0.0.1', TCP_PORT))",
    "SCTP": "socket.socket(2, 1, 132)",
    "UDP": "socket.socket(2, 2).sendto(b'x', ('127.0.0.1', UDP_PORT))",
    "UDP by sendmsg": "socket.socket(2, 2).sendmsg([b'x'], [], 0, ('127.0.0.1', UDP_PORT))",
    "IPv6": "socket.socket(10, 1)",
    "raw packets": "socket.socket(17, 3, 0)",
    "ICMP": "socket.socket(2, 3, 1)",
    "netlink": "socket.socket(16, 3, 0)",
    "vsock": "socket.socket(40, 1)",
    "AF_ALG": "socket.socket(38, 5)",
    "bluetooth": "socket.socket(31, 3, 0)",
    "listen": "socket.create_server(('127.0.0.1', 0))",
    "Unix socket by path": "socket.socket(1, 1).connect(UNIX)",
    "Unix datagram by path": "socket.socket(1, 2).sendto(b'x', UNIX_DATAGRAM)",
    "abstract Unix socket": "socket.socket(1, 1).connect('\\0' + ABSTRACT)",
    "abstract Unix datagram": "socket.socket(1, 2).sendto(b'x', '\\0' + ABSTRACT_DATAGRAM)",
    "datagram of a socket pair to a path": "socket.socketpair(1, 2)[0].sendto(b'x', UNIX_DATAGRAM)",
    "datagram of a socket pair by sendmsg": "socket.socketpair(1, 2)[0].sendmsg([b'x'], [], 0, UNIX_DATAGRAM)",
    "seqpacket of a socket pair": "socket.socketpair(1, 5)[0].sendto(b'x', UNIX_DATAGRAM)",
    "stream of a socket pair to a path": "socket.socketpair()[0].sendmsg([b'x'], [], 0, UNIX_DATAGRAM)",
    "connect a socket pair": "libc.connect(socket.socketpair()[0].fileno(), struct.pack('H', 1) + UNIX.encode() + b'\\0', 3 + len(UNIX))",
    "bind a socket pair": "libc.bind(socket.socketpair()[0].fileno(), struct.pack('H', 1) + b'\\0attack', 9)",
    "listen on a socket pair": "socket.socketpair()[0].listen()",
    "X11": "socket.socket(1, 1).connect('/tmp/.X11-unix/X0')",
    "D-Bus": "socket.socket(1, 1).connect('/run/dbus/system_bus_socket')",
    "docker": "socket.socket(1, 1).connect('/var/run/docker.sock')",
    "resolver": "socket.getaddrinfo('example.invalid', 80)",
    "log of the system": "import syslog\nsyslog.syslog('attack')",
    "asyncio client": "async def f():\n    r, w = await asyncio.open_connection('127.0.0.1', TCP_PORT)\n    w.write(b'x'); await w.drain()\nasyncio.run(f())",
    "urllib": "import urllib.request\nurllib.request.urlopen(f'http://127.0.0.1:{TCP_PORT}/')",
    # processes
    "subprocess": "subprocess.run(['touch', PROJECT + '/attack'])",
    "os.system": "os.system('touch ' + PROJECT + '/attack')",
    "posix_spawn": "os.posix_spawn('/bin/touch', ['touch', PROJECT + '/attack'], {})",
    "exec": "os.execv('/bin/touch', ['touch', PROJECT + '/attack'])",
    "execveat": "S(322, -100, b'/bin/touch', 0, 0, 0)",
    "exec in a thread": "t = threading.Thread(target=lambda: os.execv('/bin/touch', ['touch', PROJECT + '/attack']))\nt.start(); t.join()",
    "fork": "os.fork() or (open(PROJECT + '/attack', 'w'), os._exit(0))",
    "raw fork": "S(57)", "raw vfork": "S(58)", "raw clone": "S(56, 17, 0, 0, 0, 0)",
    "raw clone3": "S(435, struct.pack('11Q', 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), 88)",
    "clone without CLONE_THREAD": "S(56, 0x100, 0, 0, 0, 0)",
    "multiprocessing fork": "import multiprocessing as m\nm.get_context('fork').Process(target=print).start()",
    "multiprocessing spawn": "import multiprocessing as m\nm.get_context('spawn').Process(target=print).start()",
    "process pool": "from concurrent.futures import ProcessPoolExecutor as P\nP(1).submit(open, PROJECT + '/attack', 'w').result(5)",
    "pty": "import pty\npty.spawn(['touch', PROJECT + '/attack'])",
    "core dump": "os.chdir(PROJECT); os.abort()",
    "dump for others": "S(157, 4, 1)\nS(157, 0x59616d61, VICTIM)",
    "outlive the kernel": "S(157, 1, 0)",
    "child subreaper": "S(157, 36, 1)",
    "new session": "S(112)",
    # shared objects of the system
    "System V memory": "S(29, SYSV_KEY, 4096, 0o1666)",
    "System V memory attach": "S(30, SHM_ID, 0, 0)",
    "System V memory remove": "S(31, SHM_ID, 0, 0)",
    "System V semaphore": "S(64, 4711, 1, 0o1666)",
    "System V semaphore operation": "S(65, SEM_ID, struct.pack('HhH', 0, 1, 0), 1)",
    "System V semaphore remove": "S(66, SEM_ID, 0, 0)",
    "System V queue": "S(68, 4711, 0o1666)",
    "System V queue send": "S(69, MSG_ID, struct.pack('l', 1) + b'x', 1, 0)",
    "System V queue receive": "b = buffer()\nS(70, MSG_ID, b, 100, 0, 0o4000)\nb.raw",
    "POSIX queue": "S(240, b'attack', os.O_CREAT | os.O_RDWR, 0o600, 0)",
    "POSIX semaphore": "import multiprocessing as m\nm.Semaphore(1)",
    "POSIX shared memory": "from multiprocessing.shared_memory import SharedMemory as M\nM('attack', create=True, size=10)",
    "attach shared memory": "from multiprocessing.shared_memory import SharedMemory as M\nM(SHM_NAME).buf[0] = 9",
    "unlink shared memory": "libc.shm_unlink(('/' + SHM_NAME).encode())",
    "memfd": "os.memfd_create('attack')",
    "secret memory": "S(447, 0)",
    "keyring": "S(248, b'user', b'attack', b'x', 1, -4)",
    "keyctl": "S(250, 0, -3, 0, 0, 0)",
    "userfaultfd": "S(323, 0)", "bpf": "S(321, 0, buffer(), 64)", "perf": "S(298, buffer(), 0, -1, -1, 0)",
    "fanotify": "S(300, 0, 0)", "io_uring": "S(425, 8, buffer(200))", "io_uring register": "S(427, -1, 0, 0, 0)",
    "aio": "S(206, 8, buffer())",
    # the machine
    "mount": "S(165, b'none', PROJECT.encode(), b'tmpfs', 0, 0)", "umount": "S(166, b'/tmp', 2)",
    "new mount api": "S(430, b'tmpfs', 0)", "pivot_root": "S(155, b'/', b'/')", "chroot": "S(161, b'/tmp')",
    "swapon": "S(167, b'/attack', 0)", "reboot": "S(169, 0xfee1dead, 672274793, 0, 0)",
    "host name": "S(170, b'attack', 6)", "domain name": "S(171, b'attack', 6)", "clock": "S(227, 0, bytes(16))",
    "time of day": "S(164, bytes(16), 0)", "adjust the clock": "S(159, buffer(300))", "kernel log": "S(103, 3, buffer(), 4096)",
    "clear the kernel log": "S(103, 5, 0, 0)", "module": "S(175, buffer(), 10, b'')", "kexec": "S(246, 0, 0, 0, 0)",
    "accounting": "S(163, b'/tmp/attack')", "quota": "S(179, 0, b'/', 0, 0)", "unshare": "S(272, 0x7e020000)",
    "unshare the net": "S(272, 0x40000000)", "personality": "S(135, 0x0040000)", "I/O ports": "S(172, 3)", "vhangup": "S(153)",
    "sync": "S(162)", "set user": "S(105, 1)", "set group": "S(106, 1)", "set groups": "S(116, 0, 0)", "capset": "S(126, buffer(), buffer())",
    "raise a limit": "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
    "sysctl": "open('/proc/sys/kernel/hostname', 'w').write('attack')", "sysrq": "open('/proc/sysrq-trigger', 'w').write('h')",
    "cgroup": "open('/sys/fs/cgroup/cgroup.procs', 'w').write('1')", "new cgroup": "os.mkdir('/sys/fs/cgroup/attack')",
    "core pattern": "open('/proc/sys/kernel/core_pattern', 'w').write('/tmp/core')",
    "memory device": "open('/dev/mem', 'rb').read(1)", "disk device": "open('/dev/vda', 'rb').read(1)",
    "kernel messages": "open('/dev/kmsg', 'w').write('attack')", "terminal": "open('/dev/tty', 'w').write('attack')",
    "terminal input": "S(16, 0, 0x5412, b'x')", "entropy": "open('/dev/urandom', 'wb').write(b'x')", "printer": "open('/dev/lp0', 'w')",
    "GPU": "os.open('/dev/dri/card0', os.O_RDWR)", "fuse": "os.open('/dev/fuse', os.O_RDWR)", "net tunnel": "os.open('/dev/net/tun', os.O_RDWR)",
    "shadow": "read('/etc/shadow')", "machine id": "read('/etc/machine-id')", "passwords of ssh": "os.listdir('/etc/ssh')",
    "list the root": "os.listdir('/')", "list home folders": "os.listdir('/home')", "list processes": "[read(f'/proc/{n}/status') for n in os.listdir('/proc') if n.isdigit()]",
    "list the temporary folder": "os.listdir('/tmp')", "list /run": "os.listdir('/run')", "mounts": "read('/proc/mounts')",
    "network of the machine": "read('/proc/net/tcp')", "Unix sockets of the machine": "read('/proc/net/unix')",
    "environment": "ENV_NAME in os.environ and os.environ[ENV_NAME]", "environment of C": "libc.getenv.restype = ctypes.c_char_p\nlibc.getenv(ENV_NAME.encode())",
    "environment by /proc": "read('/proc/self/environ')", "own memory by /proc": "open('/proc/self/mem', 'r+b')",
    "write /proc/self": "open('/proc/self/coredump_filter', 'w').write('7f')", "own id map": "open('/proc/self/uid_map', 'w')",
    # the lock itself
    "another Landlock": "S(444, struct.pack('Q', 1), 8, 0)", "another filter": "S(317, 1, 0, buffer())",
    "old filter": "S(157, 22, 1, 0, 0)", "filter notifications": "S(317, 3, 0, buffer())",
    "x32 numbers": "S(0x40000000 | 2, RAW.encode(), 1, 0)", "x32 kill": "S(0x40000000 | 62, KERNEL, 10)",
    "32-bit calls": "run_code(b'\\xb8\\x05\\x00\\x00\\x00\\xbb\\x00\\x00\\x00\\x00\\xb9\\x41\\x00\\x00\\x00\\xcd\\x80\\xc3')",
    "machine code that kills": "run_code(b'\\xb8\\x3e\\x00\\x00\\x00\\xbf' + struct.pack('i', KERNEL) + b'\\xbe\\x0a\\x00\\x00\\x00\\x0f\\x05\\xc3')",
    "machine code that writes": "open(SCRATCH_FILE, 'wb').write(RAW.encode() + b'\\0')\nb = buffer(); b.raw = RAW.encode() + bytes(4096 - len(RAW))\nrun_code(b'\\xb8\\x02\\x00\\x00\\x00\\x48\\xbf' + struct.pack('Q', ctypes.addressof(b)) + b'\\xbe\\x01\\x02\\x00\\x00\\x0f\\x05\\xc3')",
    "upper half of a number": "S(0x100000000 | 62, KERNEL, 10)",
    "upper half of an argument": "S(62, 0x100000000 | KERNEL, 10)",
    "change arguments while they are checked": "stop = [False]\nb = buffer(4096); b.value = SCRATCH_FILE.encode()\ndef flip():\n    while not stop[0]:\n        b.value = RAW.encode(); b.value = SCRATCH_FILE.encode()\nt = threading.Thread(target=flip); t.start()\nfor _ in range(3000):\n    fd = S(2, b, 0o1101, 0o600)[0]\n    fd >= 0 and os.close(fd)\nstop[0] = True; t.join()",
    "swap a folder while it is opened": "os.mkdir(SCRATCH + '/d')\nopen(SCRATCH + '/d/raw.csv', 'w').close()\nfor _ in range(50):\n    try: os.rename(SCRATCH + '/d', SCRATCH + '/e'); os.symlink(PROJECT, SCRATCH + '/d')\n    except OSError: pass\n    try: open(SCRATCH + '/d/raw.csv', 'a').write('x')\n    except OSError: pass",
    "a thread begun before the next program": "def late():\n    time.sleep(0.05)\n    open(RAW, 'w').write('x')\nthreading.Thread(target=late).start()\ntime.sleep(0.1)",
    "atexit": "import atexit\natexit.register(lambda: open(PROJECT + '/attack', 'w'))\nsys.exit()",
    "own finalizer": "class D:\n    def __del__(self): open(PROJECT + '/attack', 'w')\nd = D()\ndel d",
    "exception hook": "sys.excepthook = lambda *a: open(PROJECT + '/attack', 'w')\n1 / 0",
    "signal handler": "signal.signal(signal.SIGALRM, lambda *a: open(PROJECT + '/attack', 'w'))\nsignal.setitimer(signal.ITIMER_REAL, 0.01)\ntime.sleep(0.05)",
    "frames of the kernel": "f = sys._getframe()\nwhile f: f.f_locals.clear() if 0 else None; f = f.f_back",
    "own audit hook": "sys.addaudithook(lambda e, a: None)\nopen(RAW, 'w')",
    "fill the scratch folder with folders": "p = SCRATCH\nfor n in range(300):\n    p += '/d'\n    os.mkdir(p)",
    # what comes back
    "pickle that runs": "class X:\n    def __reduce__(self): return (os.system, ('touch ' + PROJECT + '/attack',))\nX()",
    "list with a pickle": "class X:\n    def __reduce__(self): return (os.system, ('touch ' + PROJECT + '/attack',))\n[X()]",
    "class named like data": "class list2(list): pass\nlist2.__module__ = 'builtins'; list2.__qualname__ = 'list'\nlist2([1])",
    "array subclass": "import numpy as np\nclass A(np.ndarray): pass\nnp.zeros(3).view(A)",
    "array of objects": "import numpy as np\nnp.array([sys, os], dtype=object)",
    "repr with an effect": "class R:\n    def __repr__(self): open(PROJECT + '/attack', 'w'); return 'r'\nR()",
    "forged report": "import json\nh = json.dumps({'what': 'ok', 'printed': '', 'text': 'x', 'tree': ['pathlib.PosixPath', '/etc/shadow'], 'bound': []}).encode()\n[os.write(fd, struct.pack('<QI', len(h), 0) + h) for fd in range(3, 60) if os.path.exists(f'/proc/self/fd/{fd}')]",
    "forged pickle": "import pickle\nh = pickle.dumps({'what': 'ok'})\nfor fd in range(3, 60):\n    try: os.write(fd, struct.pack('<QI', len(h), 0) + h)\n    except OSError: pass",
    "forged length": "for fd in range(3, 60):\n    try: os.write(fd, struct.pack('<QI', 2**63, 2**31))\n    except OSError: pass",
    "forged depth": "h = b'{\"what\":' + b'[' * 100000\nfor fd in range(3, 60):\n    try: os.write(fd, struct.pack('<QI', len(h), 0) + h)\n    except OSError: pass",
    "forged call": "import json\nh = json.dumps({'what': 'call', 'name': '__import__', 'tree': [[], {}]}).encode()\nfor fd in range(3, 60):\n    try: os.write(fd, struct.pack('<QI', len(h), 0) + h)\n    except OSError: pass",
    "forged program": "import json\nh = json.dumps({'what': 'program', 'texts': ['open(\"x\")']}).encode()\nfor fd in range(3, 60):\n    try: os.write(fd, struct.pack('<QI', len(h), 0) + h)\n    except OSError: pass",
}  # fmt: skip

INHERITED = {
    "log file": "LOG.write('x'); LOG.flush()",
    "its descriptor": "os.write(LOG.fileno(), b'x')",
    "reopen its descriptor": "open(f'/proc/self/fd/{LOG.fileno()}', 'w').write('x')",
    "truncate by its descriptor": "os.ftruncate(LOG.fileno(), 0)",
    "position of an open file": "READING.read(3); READING.seek(0, 2); os.lseek(READING.fileno(), 0, 2)",
    "lock of an open file": "fcntl.flock(READING.fileno(), fcntl.LOCK_UN)",
    "close an open file": "LOG.close(); READING.close()",
    "secret that is open": "SECRET.seek(0)\nSECRET.read()",
    "descriptor of a secret": "os.pread(SECRET.fileno(), 100, 0)",
    "database": "DB.execute('insert into t values (9)'); DB.commit()",
    "open transaction": "DB.commit()", "roll back": "DB.rollback()", "close the database": "DB.close()",
    "shared map": "MAP[0:4] = b'evil'; MAP.flush()",
    "shared map by address": "ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(MAP)), 65, 4)",
    "numpy map": "ARRAY[:] = 9; ARRAY.flush()",
    "map for reading made writable": "a = READ_MAP.__array_interface__['data'][0] & ~4095\nS(10, a, 4096, 3)\nctypes.memset(a, 65, 4)",
    "anonymous shared memory": "SHARED[0:4] = b'evil'",
    "shared memory": "SHM.buf[0:4] = b'evil'", "unlink shared memory": "SHM.unlink()",
    "memfd": "os.pwrite(MEMFD, b'evil', 0)", "memfd map": "MEMFD_MAP[0:4] = b'evil'",
    "multiprocessing value": "VALUE.value = 9", "multiprocessing lock": "LOCK.acquire(timeout=0.1)", "semaphore": "SEMAPHORE.release()",
    "event": "EVENT.set()", "queue": "QUEUE.put('evil'); time.sleep(0.1)", "pipe": "os.write(PIPE[1], b'evil')",
    "read from a pipe": "os.read(PIPE[0], 4)", "connection": "CONNECTION.send('evil')", "eventfd": "os.eventfd_write(EVENTFD, 5)",
    "socket": "SOCKET.sendall(b'evil')", "socket by its descriptor": "os.write(SOCKET.fileno(), b'evil')",
    "receive from a socket": "SOCKET.recv(4)", "shut a socket": "SOCKET.shutdown(2)", "accept": "SERVER.settimeout(0.1); SERVER.accept()",
    "zmq": "ZMQ.send(b'evil')", "log handler": "LOGGER.warning('evil')", "finalizer of a temporary file": "TEMPORARY.close()",
    "temporary folder": "FOLDER.cleanup()", "process": "PROCESS.kill()", "process by its input": "PROCESS.stdin.write(b'x'); PROCESS.stdin.flush()",
    "thread pool": "POOL.submit(open, PROJECT + '/attack', 'w').result(0.2)", "epoll": "EPOLL.register(PIPE[0], 1)", "wakeup": "signal.set_wakeup_fd(PIPE[1])",
    "terminal": "os.write(TERMINAL, b'evil')", "directory": "os.open('attack', os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=DIRECTORY)",
    "remove by a directory": "os.unlink('raw.csv', dir_fd=DIRECTORY)", "own variable": "OBJECT.append(9)", "kernel's frame": "KERNEL_LIST.clear()",
    "standard output": "os.write(1, b'evil'); sys.__stdout__.write('evil'); sys.__stdout__.flush()",
}  # fmt: skip
"""What a forked copy has from the kernel: files, connections, memory and objects."""


def attacks() -> dict[str, str]:
    """All attacks that need nothing of the kernel but names."""
    found = {}
    for table, targets in (
        (_ON_FILES, _FILES), (_IN_FOLDERS, _FOLDERS), (_READS, _SECRETS), (_ON_PROCESSES, _PROCESSES),
    ):  # fmt: skip
        for (name, code), (target, path) in itertools.product(table.items(), targets.items()):
            found[f"{name}: {target}"] = code.format(p=path)
    return found | _OTHERS


def ways() -> int:
    """How many ways there are, each counted once, whatever it is tried on."""
    return sum(map(len, (_ON_FILES, _IN_FOLDERS, _READS, _ON_PROCESSES, _OTHERS, INHERITED)))
