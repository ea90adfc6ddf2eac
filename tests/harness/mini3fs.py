# SPDX-License-Identifier: Apache-2.0
"""A mini3fs of a test's own: a FUSE server that speaks 3FS's protocol, in a process that dies with
the test's. Started, killed, stopped, restarted; told over its control socket what shall go wrong.
"""
import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile

from daemon import built, die_with_parent, proc_text
from waiting import DEADLINE_S, eventually, readable

PREFIX = "kvsidecar.test-mini3fs-"  # and the maker's pid; the C++ fixture sweeps these too
SEMAPHORES = "/dev/shm/sem.hf3fs-submit-ios."
MNT_DETACH, MS_NOSUID, MS_NODEV = 2, 2, 4
CAP_SYS_ADMIN = 21
_libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """Why no mini3fs can run here, or None."""
    capabilities = re.search(r"^CapEff:\s+(\w+)", proc_text("self", "status"), re.MULTILINE)
    if os.geteuid() != 0 or not int(capabilities.group(1), 16) >> CAP_SYS_ADMIN & 1:
        return "mini3fs mounts, which takes root (CAP_SYS_ADMIN)"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"mini3fs needs /dev/fuse: {error.strerror}"
    try:
        built("mini3fs")
    except AssertionError:
        return "mini3fs isn't built: libfuse3 (libfuse3-dev) was missing"
    return None


def detach(mount):
    _libc.umount2(mount.encode(), MNT_DETACH)


def remove_folder(folder):
    """Of a server that is gone. Nothing below what is still mounted is touched."""
    detach(os.path.join(folder, "mount"))
    with contextlib.suppress(FileNotFoundError):
        with open(os.path.join(folder, "state", "semaphores"), encoding="utf-8") as names:
            for path in filter(lambda path: path.startswith(SEMAPHORES), names.read().split()):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(os.path.join(folder, "mount"))
    shutil.rmtree(folder)


def sweep():
    """What tests of processes that are gone have left."""
    for name in os.listdir(tempfile.gettempdir()):
        maker = name[len(PREFIX):].split("-")[0]
        if name.startswith(PREFIX) and not os.path.exists(f"/proc/{maker}"):
            with contextlib.suppress(OSError):  # another test sweeps it
                remove_folder(os.path.join(tempfile.gettempdir(), name))


class Mini3fs:
    """Mounted at `mount` until `close`; what is behind it lies in `data`. More words of the command
    line: see tests/usrbio/mini3fs/main.cc. No fault outlives a server."""

    def __init__(self, *more, chunk_bytes=1 << 20):
        sweep()
        self._more = ["--chunk", str(chunk_bytes), *more]
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        os.chmod(self.folder, 0o755)  # another user's daemon passes it
        self.mount, self.data, self._state = (
            os.path.join(self.folder, name) for name in ("mount", "data", "state"))
        for path in (self.mount, self.data, self._state):
            os.mkdir(path)
            os.chmod(path, 0o777)
        self._process = self._control = None
        self._answers = b""

    def start(self):
        self._process = self._spawn([self.mount])
        assert readable([self._process.stdout]), "mini3fs doesn't say that it is ready"
        said = os.read(self._process.stdout.fileno(), 64)
        assert said.startswith(b"ready"), said
        self._control = socket.socket(socket.AF_UNIX)
        self._control.settimeout(30)
        self._control.connect(os.path.join(self._state, "control"))
        return self

    def _spawn(self, mount, wrapper=(), **more):
        """mount: the words that say where."""
        return subprocess.Popen(
            [*wrapper, built("mini3fs"), *mount, self.data, "--state", self._state, *self._more],
            stdout=subprocess.PIPE, preexec_fn=die_with_parent, **more)

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        """SIGKILL: the mount is dead (ENOTCONN) from here on."""
        if self._process is None:
            return
        self._control.close()
        self._process.kill()
        self._process.wait(DEADLINE_S)
        self._process.stdout.close()
        self._process = None

    def detach(self):
        """Takes the mount away, dead or alive: what is left is a plain folder."""
        detach(self.mount)

    def restart(self):
        """A new server on the same data."""
        self.kill()
        self.detach()
        return self.start()

    def pause(self):
        """SIGSTOP: whoever asks it for something hangs. Returns when it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: re.search(r"^State:\tT", proc_text(self.pid, "status"), re.MULTILINE),
                   "mini3fs stands still")

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def go_on(self):
        """Whatever it was told: nothing stands still any more."""
        if self._process is not None:
            self.resume()
            self.clear()

    def close(self):
        self.kill()
        remove_folder(self.folder)

    def command(self, line):
        """The answer's lines; see tests/usrbio/mini3fs/control.h."""
        self._control.sendall(line.encode() + b"\n")
        text = b""
        while not text.endswith(b"ok\n"):
            part = self._control.recv(65536)
            assert part, f"mini3fs has ended before it answered '{line}'"
            text += part
            assert not (text.startswith(b"error: ") and text.endswith(b"\n")), (line, text)
        return text.decode().splitlines()[:-1]

    def set(self, name, value):
        """A fault, by the names of tests/usrbio/core/faults.h."""
        self.command(f"set {name} {value}")

    def clear(self):
        self.command("clear")

    def count(self, name):
        """Of tests/usrbio/core/counts.h."""
        return int(dict(line.split() for line in self.command("counts")).get(name, 0))

    def wait_for(self, name, at_least):
        self.command(f"wait {name} {at_least}")

    def registered(self):
        """The names of all registered memory and rings."""
        return sorted(os.listdir(os.path.join(self.mount, "3fs-virt", "iovs")))


class OtherUsersMini3fs(Mini3fs):
    """One that runs as another user, who may or may not let others into the mount."""

    def __init__(self, user, allow_other):
        super().__init__()
        self._user, self._allow_other = user, allow_other

    def _spawn(self, mount, wrapper=(), **more):
        fuse = os.open("/dev/fuse", os.O_RDWR)
        try:
            options = f"fd={fuse},rootmode=40000,user_id={self._user},group_id={self._user}," \
                "default_permissions" + ",allow_other" * self._allow_other
            mounted = _libc.mount(b"hf3fs.mini", self.mount.encode(), b"fuse.hf3fs",
                                  MS_NOSUID | MS_NODEV, options.encode())
            assert mounted == 0, os.strerror(ctypes.get_errno())
            as_user = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}",
                       "--clear-groups", "--pdeathsig=KILL"]
            return super()._spawn([f"/dev/fd/{fuse}"], as_user, pass_fds=[fuse])
        finally:
            os.close(fuse)
