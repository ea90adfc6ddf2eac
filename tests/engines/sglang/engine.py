# SPDX-License-Identifier: Apache-2.0
"""A real SGLang engine, all its processes, told what to do step by step.

Every start is a process of its own: an engine that has ended leaves settings behind in it. A start
takes some two seconds once SGLang has been imported.
"""
import collections
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile

from engine_birth import start_engine_process
from litter import no_litter
from waiting import readable

ANSWER_S = 240
FIRST_WORD, VOCABULARY = 3, 512
PAGE = 64

FLAGS = dict(skip_tokenizer_init=True, device="cpu", attention_backend="torch_native",
             sampling_backend="pytorch", disable_cuda_graph=True, dtype="float32", page_size=PAGE,
             max_total_tokens=4096, max_running_requests=8, mem_fraction_static=0.1,
             random_seed=0, enable_cache_report=True, log_level="info")

# cached: tokens of the prompt that weren't computed; sources: how many from "device", "host" and
# "storage"
Output = collections.namedtuple("Output", "ids logprobs cached sources reason")


class EngineFailed(AssertionError):
    """The engine's process raised, or ended."""


def prompt(seed, tokens):
    """Words of the tiny models' vocabulary, the same for the same seed."""
    words = random.Random(seed)
    return [words.randrange(FIRST_WORD, VOCABULARY) for _ in range(tokens)]


def storage(backend, layout="page_first", io="kernel", prefetch_policy="wait_complete",
            write_policy="write_through", ratio=2.0, **extra):
    """Flags for door A, SGLang's host cache with a storage under it. backend: "module:Class"."""
    module, _, name = backend.partition(":")
    config = {"backend_name": name, "module_path": module, "class_name": name, "interface_v1": 1,
              "prefetch_threshold": PAGE, **extra}
    return dict(enable_hierarchical_cache=True, hicache_ratio=ratio, hicache_mem_layout=layout,
                hicache_io_backend=io, hicache_write_policy=write_policy,
                hicache_storage_backend="dynamic",
                hicache_storage_backend_extra_config=json.dumps(config),
                hicache_storage_prefetch_policy=prefetch_policy)


def linker(backend, **extra):
    """Flags for door B, a storage that reads and writes the device's pages itself."""
    module, _, name = backend.partition(":")
    return dict(enable_unified_cache_external_linker=True,
                unified_cache_external_linker_backend="dynamic",
                unified_cache_external_linker_config={
                    "linker": name, "linker_module_path": module, "linker_extra_config": extra})


def model_path(name):
    return os.path.join(os.environ["KVSIDECAR_MODELS"], name)


def _cores(ranks):
    """SGLang wants a NUMA node for each rank, or to be told its cores."""
    return {"SGLANG_CPU_OMP_THREADS_BIND": "|".join("0" * ranks)} if ranks > 1 else {}


class Engine:
    """As a context it ends with its processes. environment: variables of theirs."""

    def __init__(self, folder, **environment):
        self.folder = str(folder)
        self.environment = environment
        self.process = None
        self.log_path = None
        self._numbers = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Commands.

    def begin(self, name, **arguments):
        """The command runs while the test does something else; answer() waits for its end."""
        assert self.process, "no engine has been started"
        self._lines.write(json.dumps({"name": name, "arguments": arguments}) + "\n")
        self._lines.flush()

    def answer(self):
        try:
            line = self._lines.readline()
        except (TimeoutError, ConnectionResetError) as error:
            raise EngineFailed(f"no answer: {error!r}\n{self.log_tail()}") from error
        if not line:
            raise EngineFailed(f"the engine's process has ended:\n{self.log_tail()}")
        told = json.loads(line)
        if "error" in told:
            raise EngineFailed(told["error"] + self.log_tail())
        return told["value"]

    def wait_for_answer(self):
        """Until the command has ended, or the process."""
        assert readable([self._wire], ANSWER_S), self.log_tail()

    def call(self, name, **arguments):
        self.begin(name, **arguments)
        return self.answer()

    # Life.

    def start(self, model="llama", **flags):
        """Starts an engine, after the end of one that runs. flags: over FLAGS; storage() or
        linker() make those for a door."""
        self.close()
        number = random.getrandbits(32)
        self.log_path = os.path.join(self.folder, f"engine-{number:08x}.log")
        # Of a short name: sockets lie in it.
        self._scratch = tempfile.mkdtemp(prefix="kvs-sglang-")
        self._wire, theirs = socket.socketpair()
        with theirs:
            self.process = start_engine_process(
                self._scratch, {**_cores(flags.get("tp_size", 1)), **self.environment}, theirs,
                self.log_path)
        self._wire.settimeout(ANSWER_S)
        self._lines = self._wire.makefile("rw", encoding="utf-8")
        return self.call("start", flags={
            **FLAGS, "model_path": model if os.path.isabs(model) else model_path(model), **flags})

    def kill(self):
        """SIGKILL to all processes of the engine at once."""
        with self._ending():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self):
        """Ends it in order, if one runs. SGLang itself kills its schedulers then, so that no
        storage is closed."""
        if self.process is None:
            return
        with self._ending():
            self._lines.close()
            self._wire.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # what it has left
            self.process.wait()

    @contextlib.contextmanager
    def _ending(self):
        with no_litter(self.process.pid):
            yield
        self.process = None
        self._lines.close()
        self._wire.close()
        shutil.rmtree(self._scratch)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log_tail(self):
        return f"\n--- end of {self.log_path}\n" + self.log()[-4000:]

    # Requests.

    def generate(self, prompts, max_new_tokens=8, **sampling):
        """[Output] of prompts as lists of tokens, all at once."""
        self.begin_generate(prompts, max_new_tokens, **sampling)
        return self.outputs()

    def begin_generate(self, prompts, max_new_tokens=8, **sampling):
        """As generate(), while the test does something else; outputs() waits for the end."""
        names = [f"request-{next(self._numbers)}" for _ in prompts]
        self.submit(dict(zip(names, prompts)), max_new_tokens, **sampling)
        self.begin("collect", requests=names)

    def outputs(self):
        return [Output(**told) for told in self.answer()]

    def submit(self, requests, max_new_tokens=8, **sampling):
        """{name: prompt}; they are with SGLang's scheduler afterwards."""
        self.call("submit", requests=requests,
                  sampling={"max_new_tokens": max_new_tokens, **sampling})

    def collect(self, *names):
        """[Output], as soon as all of them have ended. Of one that was aborted or refused the
        reason is "abort" or the error."""
        self.begin("collect", requests=names)
        return self.outputs()

    def abort(self, *names):
        self.call("abort", requests=names)

    # The caches.

    def flush_cache(self):
        """SGLang's device and host caches are empty afterwards; storage isn't asked."""
        assert self.call("flush_cache"), "something still runs, or waits for storage"

    def clear_storage(self):
        """SGLang's own command for it."""
        assert self.call("clear_storage"), self.log_tail()

    def http(self, method, path, body=None):
        """(status, text) of a route of SGLang's HTTP server; body: of JSON. Those of an operator
        want the flag admin_api_key at start."""
        return tuple(self.call("http", method=method, path=path, body=body))
