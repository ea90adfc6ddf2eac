# SPDX-License-Identifier: Apache-2.0
"""The process that engines are forked from: it has imported SGLang, which takes ten seconds, once
for all of them.

Each message over the descriptor in argv[1] is JSON {"folder", "environment"} with two descriptors,
the engine's wire and its log; the answer is the engine's pid. An engine is in a session of its own,
and dies with this process.
"""
import ctypes
import gc
import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile

MESSAGE_MAX = 1 << 16
PR_SET_PDEATHSIG = 1


def import_what_engines_need():
    import sglang.srt.entrypoints.engine  # noqa: F401
    import sglang.srt.managers.detokenizer_manager  # noqa: F401
    import sglang.srt.managers.scheduler  # noqa: F401
    import sglang.srt.models.registry  # noqa: F401  # and by it all models
    gc.collect()
    gc.freeze()


def fork_workers():
    """SGLang spawns its scheduler and detokenizer, each of which would import everything again.
    Without a GPU nothing forbids to fork them: they are made before any thread is."""
    choose = multiprocessing.set_start_method
    multiprocessing.set_start_method = lambda *_, **__: choose("fork", force=True)


def live_in(folder):
    """What the engine's processes leave when they are killed goes with that folder: their sockets,
    and the file in which schedulers tell their load."""
    from sglang.srt.managers import load_snapshot
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    load_snapshot.shm_path_for = lambda name: os.path.join(folder, "loads-" + name)


def become_engine(parent, wire, log, told):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent.close()
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    live_in(told["folder"])
    os.environ.update(told["environment"])
    import engine_process
    engine_process.serve(socket.socket(fileno=wire))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the tests wait for engines, not this process
    import_what_engines_need()
    fork_workers()
    parent = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, fds, _, _ = socket.recv_fds(parent, MESSAGE_MAX, 2)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            try:
                become_engine(parent, *fds, json.loads(message))
            finally:
                os._exit(0)  # threads of libraries may not hold up the end
        for fd in fds:
            os.close(fd)
        parent.send(b"%d" % pid)


if __name__ == "__main__":
    main()
