# SPDX-License-Identifier: Apache-2.0
"""The process that engines are forked from: it has imported vLLM, which takes ten seconds, once
for all of them.

Each message over the descriptor in argv[1] is JSON {"folder", "environment"} with two descriptors,
the engine's wire and its log; the answer is the engine's pid. An engine is in a session of its own,
and dies with this process. Variables that an interpreter or an import looks at must be this
process's own.
"""
import ctypes
import gc
import json
import os
import signal
import socket
import sys

MESSAGE_MAX = 1 << 16
PR_SET_PDEATHSIG = 1


def import_what_engines_need():
    import vllm.v1.worker.cpu_worker  # noqa: F401
    from vllm import LLM, SamplingParams  # noqa: F401

    import kvsidecar.vllm  # noqa: F401
    import probes  # noqa: F401
    # vLLM collects garbage ten times from an engine's start to its end, a second each time: never
    # among what has been imported. What it would freeze itself are engines, which shall go.
    gc.collect()
    gc.freeze()
    gc.freeze = gc.unfreeze = lambda: None


def become_engine(parent, wire, log, told):
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    parent.close()
    os.setsid()
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    os.chdir(told["folder"])
    os.environ.update(told["environment"])
    import engine_process
    engine_process.serve(socket.socket(fileno=wire))


def main():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the tests wait for engines, not this process
    import_what_engines_need()
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
