# SPDX-License-Identifier: Apache-2.0
"""Goal: vLLM's OpenAI server, with the flags of the README, answers over HTTP as it does without
the connector, hits after a restart, and tells both by its own metrics.

Method: the real server in processes of its own, a real client over HTTP; prompts as words and as
token ids, several at once.
"""
import concurrent.futures
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import urllib.request

import pytest

import workload
from daemon import die_with_parent
from engine import PATIENT, ROOT, child_environment, ids, model_path
from litter import no_litter
from test_outputs import restorable
from waiting import eventually

SERVER = "vllm.entrypoints.openai.api_server"
SMALL = ["--dtype", "float32", "--max-model-len", "1024", "--max-num-seqs", "8", "--block-size",
         "32", "--kv-cache-memory-bytes", str(64 << 20), "--enforce-eager", "--seed", "0",
         "--generation-config", "vllm"]
READY_S = 180


def flags_of_the_readme(socket_path):
    """Those that README.md gives to vLLM, with this test's socket and patience."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        command = re.search(r"^vllm serve [^`]*", file.read(), re.MULTILINE)
    flags = shlex.split(command.group(0))[len(["vllm", "serve", "MODEL"]):]
    at = flags.index("--kv-transfer-config") + 1
    transfer = json.loads(flags[at])
    transfer.setdefault("kv_connector_extra_config", {}).update(PATIENT, socket=socket_path)
    flags[at] = json.dumps(transfer)
    return flags


class Server:
    """As a context it is ready, and ends with all its processes."""

    def __init__(self, folder, flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        python, environment = child_environment(split=True, VLLM_SERVER_DEV_MODE="1")
        self.log_path = os.path.join(folder, f"server-{self.port}.log")
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [python, "-m", SERVER, "--model", model_path("llama"), "--port", str(self.port),
                 "--host", "127.0.0.1", "--served-model-name", "tiny", *SMALL, *flags],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, env=environment,
                preexec_fn=die_with_parent, start_new_session=True)

    def __enter__(self):
        eventually(self.is_ready, "the server is ready", pid=self.process.pid, seconds=READY_S,
                   look=0.2)
        return self

    def __exit__(self, *_):
        with no_litter(self.process.pid):
            self._end()

    def _end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def is_ready(self):
        try:
            return self.get("/health") is not None
        except OSError:
            return False

    def get(self, path, body=None):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", None if body is None else json.dumps(body)
            .encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    def complete(self, prompt):
        told = json.loads(self.get("/v1/completions", {
            "model": "tiny", "prompt": prompt, "max_tokens": 16, "temperature": 0,
            "ignore_eos": True, "return_token_ids": True}))
        return told["choices"][0]["token_ids"]

    def complete_all(self, prompts):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            return list(pool.map(self.complete, prompts))

    def metric(self, name):
        found = re.findall(r"^%s(?:\{[^}]*\})? (\S+)$" % re.escape(name), self.get("/metrics"),
                           re.MULTILINE)
        return sum(map(float, found)) if found else None


@pytest.fixture
def serve(tmp_path):
    return lambda flags: Server(str(tmp_path), flags)


def test_the_server_answers_as_without_the_connector(serve, daemon, reference, settle):
    prompts = workload.chats(12)
    expected = [answer[0] for answer in ids(reference("llama", prompts))]
    words = [" ".join(f"w{token}" for token in prompt) for prompt in prompts[:3]]
    flags = flags_of_the_readme(daemon.socket)
    with serve([]) as plain:  # without it
        assert plain.complete_all(prompts) == expected
        assert plain.complete_all(words) == expected[:3]
    with serve(flags) as server:
        assert server.complete_all(prompts) == expected
        settle(daemon)
    with serve(flags) as server:
        assert server.complete_all(prompts) == expected
        whole = sum(restorable(prompt, 32) for prompt in prompts)
        eventually(lambda: server.metric("vllm:external_prefix_cache_hits_total") == whole,
                   "the server tells the hits")
        assert server.complete_all(words) == expected[:3]
        places = eventually(lambda: server.metric("vllm:kvsidecar_hit_tokens_total"),
                            "the connector tells the hits")
        assert places == whole
        assert server.metric("vllm:kvsidecar_connected") >= 1
