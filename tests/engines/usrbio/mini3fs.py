# SPDX-License-Identifier: Apache-2.0
"""A mini3fs of a test's own, in a process that dies with the test's."""
import os
import shutil
import subprocess
import tempfile


PREFIX = "kvsidecar.test-engines-"


def sweep():
    """Takes away what tests of processes that are gone have left mounted."""
    for name in os.listdir(tempfile.gettempdir()):
        maker = name.removeprefix(PREFIX).split("-")[0]
        if name.startswith(PREFIX) and not os.path.exists(f"/proc/{maker}"):
            remove(os.path.join(tempfile.gettempdir(), name))


def detach(mount):
    subprocess.run(["umount", "-l", mount], check=False, stderr=subprocess.DEVNULL)


def remove(folder):
    """All that a server that is gone has left there, and its named semaphores."""
    detach(os.path.join(folder, "mount"))
    names = os.path.join(folder, "state", "semaphores")
    if os.path.exists(names):
        with open(names, encoding="utf-8") as lines:
            for path in lines.read().split():
                if path.startswith("/dev/shm/sem.hf3fs-submit-ios.") and os.path.exists(path):
                    os.unlink(path)
    if not os.path.ismount(os.path.join(folder, "mount")):  # else data behind it would go
        shutil.rmtree(folder)


class Mini3fs:
    """Mounted at `mount` until `close`. What is behind it lies in `data`."""

    def __init__(self, program, chunk_bytes=1 << 20):
        self._program, self._chunk_bytes = program, chunk_bytes
        sweep()
        self._folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        self.mount, self.data, self._state = (
            os.path.join(self._folder, name) for name in ("mount", "data", "state"))
        for folder in (self.mount, self.data, self._state):
            os.mkdir(folder)
        self._process = None
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", self._program, self.mount, self.data, "--state",
             self._state, "--chunk", str(self._chunk_bytes)], stdout=subprocess.PIPE)
        line = self._process.stdout.readline()
        assert line.startswith(b"ready"), line

    def kill(self):
        """The mount is dead from here on, as after a crash of the fuse daemon."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def restart(self):
        self.kill()
        detach(self.mount)
        self.start()

    def close(self):
        self.kill()
        remove(self._folder)
