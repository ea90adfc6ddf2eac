# SPDX-License-Identifier: Apache-2.0
"""A real vLLM engine in a child process, told what to do step by step.

By default scheduler and worker live in that one process, so that a test can step the engine and
look into it; split=True gives vLLM's own three processes. A process can have several engines, one
after another, which spares the import.
"""
import collections
import json
import os
import random
import signal
import socket
import subprocess

from engine_birth import start_engine_process
from litter import no_litter
from waiting import readable

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
ANSWER_S = 240
FIRST_WORD, VOCABULARY = 3, 512
MEBIBYTE = 1 << 20

FLAGS = dict(skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=1024,
             max_num_seqs=8, kv_cache_memory_bytes=64 * MEBIBYTE, block_size=32,
             enable_prefix_caching=True, prefix_caching_hash_algo="sha256_cbor",
             generation_config="vllm", seed=0, disable_log_stats=False)

ENVIRONMENT = dict(
    HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1",
    VLLM_CPU_OMP_THREADS_BIND="nobind", PYTHONHASHSEED="0", OMP_NUM_THREADS="1",
    TORCH_COMPILE_DISABLE="1", VLLM_ALLOW_INSECURE_SERIALIZATION="1", PYTHONDONTWRITEBYTECODE="")

# Two engines at a time, and their daemons, share two cores: counts are exact all the same.
PATIENT = dict(lookup_deadline_ms=2000)

# leads: see lead() of engine_process.py; only where logprobs=2 was asked for.
Output = collections.namedtuple("Output", "ids leads cached reasons")

TIE = 0.1  # of leads: bfloat16 knows a logit of 8 to 0.06


class EngineFailed(AssertionError):
    """The child raised, or ended."""


def prompt(seed, tokens):
    """Words of the tiny models' vocabulary, the same for the same seed."""
    words = random.Random(seed)
    return [words.randrange(FIRST_WORD, VOCABULARY) for _ in range(tokens)]


def connector(socket_path, role="kv_both", policy="recompute", patience=PATIENT, **extra):
    """The flag kv_transfer_config. patience {}: lookups have the deadline that users get."""
    return dict(kv_connector="Connector", kv_connector_module_path="kvsidecar.vllm", kv_role=role,
                kv_load_failure_policy=policy,
                kv_connector_extra_config={"socket": socket_path, **patience, **extra})


def environment_folder():
    return os.environ["KVSIDECAR_VLLM"]


def model_path(name):
    return os.path.join(os.environ["KVSIDECAR_MODELS"], name)


def python_of(release):
    """(interpreter, PYTHONPATH) of "0.32" or "0.28"."""
    folder = environment_folder()
    paths = [os.path.join(ROOT, "clients", "python"), HERE]
    if release != "0.32":
        paths.insert(0, os.path.join(folder, f"vllm-{release}"))
    return os.path.join(folder, "bin", "python"), os.pathsep.join(paths)


def child_environment(release="0.32", split=False, **more):
    python, path = python_of(release)
    # What a release has learnt about its model classes: another one would learn it again each time.
    cache = os.path.join(environment_folder(), f"cache-{release}")
    return python, {**os.environ, **ENVIRONMENT, "PYTHONPATH": path, "VLLM_CACHE_ROOT": cache,
                    "VLLM_ENABLE_V1_MULTIPROCESSING": "1" if split else "0", **more}


class Engine:
    """As a context it ends with its process."""

    def __init__(self, folder, release="0.32", split=False, **environment):
        python, variables = child_environment(release, split, **environment)
        self.log_path = os.path.join(folder, f"engine-{random.getrandbits(32):08x}.log")
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = start_engine_process(python, variables, folder, theirs, self.log_path)
        ours.settimeout(ANSWER_S)
        self._wire = ours
        self._lines = ours.makefile("rw", encoding="utf-8")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # Commands.

    def begin(self, name, **arguments):
        """The command runs while the test does something else; answer() waits for its end."""
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

    def start(self, model="llama", transfer=None, **flags):
        """Starts an engine, after the end of one that runs. transfer: of connector()."""
        self.call("stop")
        return self.call("start", flags={
            **FLAGS, "model": model if os.path.isabs(model) else model_path(model),
            **({"kv_transfer_config": transfer} if transfer else {}), **flags})

    def kill(self):
        """SIGKILL to all processes of the engine at once."""
        with no_litter(self.process.pid):
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def close(self):
        with no_litter(self.process.pid):
            self._close()

    def _close(self):
        self._lines.close()
        self._wire.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # what it has left
        except ProcessLookupError:
            pass

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def log_tail(self):
        return f"\n--- end of {self.log_path}\n" + self.log()[-4000:]

    # Requests.

    def generate(self, prompts, max_tokens=16, **sampling):
        self.begin_generate(prompts, max_tokens, **sampling)
        return self.outputs()

    def begin_generate(self, prompts, max_tokens=16, **sampling):
        self.begin("generate", prompts=prompts,
                   sampling=dict(max_tokens=max_tokens, **sampling))

    def outputs(self):
        return [Output(**told) for told in self.answer()]

    def add(self, requests, max_tokens=16, **sampling):
        self.call("add", requests=requests, sampling=dict(max_tokens=max_tokens, **sampling))

    def step(self, until="never", steps=None):
        return self.call("step", until=until, steps=steps)

    def take(self):
        return {name: Output(**told) for name, told in self.call("take").items()}

    def abort(self, *requests):
        self.call("abort", requests=list(requests))

    def states(self):
        return self.call("states")

    def metrics(self):
        return self.call("metrics")

    def check_blocks(self):
        """No block is leaked: all but the null block are free once nothing is left to do."""
        assert self.step("idle") is not None
        free, all_ = self.call("blocks")
        assert free == all_ - 1, f"{all_ - 1 - free} blocks are leaked"


def ids(outputs):
    return [output.ids for output in outputs]


def check_same(outputs, expected):
    """Token ids are equal, but for ties: a model that computes in bfloat16 takes one or the other
    of two tokens that are as likely to its precision, by who else is in the batch."""
    for which, (found, right) in enumerate(zip(outputs, expected, strict=True)):
        for tokens, wanted, leads in zip(found.ids, right.ids, right.leads, strict=True):
            at = next((i for i, pair in enumerate(zip(tokens, wanted, strict=True))
                       if pair[0] != pair[1]), None)
            assert at is None or (leads and leads[at] < TIE), \
                f"prompt {which}, token {at}: {tokens} instead of {wanted}, ahead by {leads}"


def external_hits(metrics):
    """Tokens that vLLM itself counted as found by the connector."""
    return metrics["vllm:external_prefix_cache_hits"]
