# SPDX-License-Identifier: Apache-2.0
"""What the connector costs and spares, on a real vLLM beside the same vLLM without it, in turns.

    bench_connector.py [--json] [--only TEXT] [--rounds N]

With the variables that run.sh sets; `run.sh vllm bench` calls it. Two engines live at once,
scheduler and worker in one process each. Nothing else should run on the machine.
"""
import argparse
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TESTS, "harness"),
                os.path.join(os.path.dirname(TESTS), "clients", "python")]
sys.path.append(os.path.join(TESTS, "process"))

from daemon import Daemon, built  # noqa: E402

os.environ.setdefault("KVSIDECAR_LIBRARY", built("libkvsidecar-client.so.0"))

import accounts  # noqa: E402
from bench_figures import Figure, as_json, median_with_interval, table  # noqa: E402
from engine import MEBIBYTE, Engine, connector, prompt  # noqa: E402
from waiting import eventually  # noqa: E402

ROUNDS = 12
CACHE = 768 * MEBIBYTE
POOL = {"host_pool": {"bytes": "2GiB", "chunk_bytes": "256MiB", "span_bytes": "16MiB"},
        "store": {"kind": "none", "root": None}}
MODELS = {"llama": dict(kv_cache_memory_bytes=128 * MEBIBYTE),
          "llama-large": dict(kv_cache_memory_bytes=CACHE)}
PREFIX = 1024  # words: 32 blocks
AT_ONCE = 12  # prompts that fit into the cache


class Pair:
    """The same engine without the connector and with it."""

    def __init__(self, folder, daemon, model, **flags):
        self.plain, self.ours = Engine(folder), Engine(folder)
        self.daemon = daemon
        self.seed = 1_000
        flags = {**MODELS[model], "max_model_len": 4096, "max_num_batched_tokens": 4096,
                 "max_num_seqs": 64, **flags}
        self.plain.start(model, **flags)
        self.ours.start(model, connector(daemon.socket, patience={}), **flags)
        for engine in (self.plain, self.ours):
            engine.generate(self.prompts(4, 300))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.plain.close()
        self.ours.close()

    def prompts(self, count, words):
        """Never seen before."""
        self.seed += count
        return [prompt(self.seed + i, words) for i in range(count)]

    def rounds(self, count, make, max_tokens):
        """(without, with) a round, who is first alternates; both get the same prompts."""
        for turn in range(count):
            prompts, told = make(), {}
            for engine in (self.plain, self.ours) if turn % 2 else (self.ours, self.plain):
                told[engine] = engine.call("measured", prompts=prompts, max_tokens=max_tokens)
            yield told[self.plain], told[self.ours]


def told_ratio(values, percent=False):
    middle, low, high = median_with_interval(values)
    return middle, f"{middle:.3f}, {low:.3f} to {high:.3f} of {len(values)} pairs"


def cost(pair, model, rounds):
    """Prompts that never hit: CPU time a token, and the wall."""
    size = dict(count=16, words=256) if model == "llama" else dict(count=4, words=256)
    tokens = 64 if model == "llama" else 32
    told = list(pair.rounds(rounds, lambda: pair.prompts(**size), tokens))
    for what, key in (("CPU time a token", "cpu_us"), ("wall time a token", "wall_us")):
        ratio, note = told_ratio([ours[key] / plain[key] for plain, ours in told])
        plain = statistics.median(one[key] for one, _ in told)
        yield Figure(f"{what}, {model}", plain * ratio, "us", plain, 1.02 if key == "cpu_us" else
                     1 / 0.95, note=f"prompts that never hit, ratio of pairs {note}")


def first_token(pair, model, rounds):
    before = pair.ours.metrics()
    told = list(pair.rounds(3 * rounds, lambda: pair.prompts(1, 256), 1))
    more = [(ours["wall_us"] - plain["wall_us"]) / 1e3 for plain, ours in told]
    middle, low, high = median_with_interval(more)
    yield Figure(f"first token later by, {model}", middle, "ms", value_limit=1,
                 note=f"prompts that never hit, {low:.2f} to {high:.2f} of {len(more)} pairs")
    after = pair.ours.metrics()
    asked, nones = (after[name] - before[name] for name in (
        "vllm:kvsidecar_lookups", "vllm:kvsidecar_lookup_requests_none"))
    yield Figure(f"requests that got None, {model}", 100 * nones / max(asked, 1), "%",
                 value_limit=5, note=f"{nones:.0f} of {asked:.0f}")


def hit(pair, model, rounds):
    """Time to the first token of a prefix in the host pool, against computing it."""
    ours, plain = [], []
    for _ in range(rounds):
        words = pair.prompts(1, PREFIX + 20)
        for engine, times in ((pair.plain, plain), (pair.ours, ours)):
            engine.call("measured", prompts=words, max_tokens=1)
            eventually(lambda: not accounts.status(pair.daemon)["operations"], "all is stored")
            engine.call("reset_prefix_cache", connector=False)
            told = engine.call("measured", prompts=words, max_tokens=1)
            assert told["cached"] == [PREFIX if engine is pair.ours else 0], told
            times.append(told["wall_us"] / 1e3)
            engine.call("reset_prefix_cache", connector=False)
    yield Figure(f"first token of a hit, {model}", statistics.median(ours), "ms",
                 statistics.median(plain), 0.4,
                 note=f"{PREFIX // 32} blocks in the host pool, against computing them")


def scheduler(pair, rounds):
    """By the connector's own metric; medians."""
    def reports(prompts, max_tokens=1):
        return pair.ours.call("scheduler_us", prompts=prompts, max_tokens=max_tokens)

    def a_request(blocks, at_once):
        """(work, spinning), microseconds each."""
        told = [reports(pair.prompts(at_once, blocks * 32 + 1)) for _ in range(rounds)]
        return [statistics.median(sum(report[which] for report in one) / at_once for one in told)
                for which in (0, 1)]

    def told(what, blocks, at_once):
        work, spun = a_request(blocks, at_once)
        return Figure(f"scheduler a request{what}", work, "us", value_limit=50,
                      note=f"{blocks} blocks, {at_once} at once, its steps included, beside "
                           f"{spun:.0f} us of spinning")

    yield told(", forward on its core", 64, 1)
    pair.ours.call("skip_forward")
    yield told("", 64, 1)
    few, many = told(" of several", 64, AT_ONCE), a_request(124, AT_ONCE)[0]
    yield few
    yield Figure("scheduler a further block", (many - few.value) * 1e3 / 60, "ns", value_limit=20,
                 note=f"of 124 blocks against 64, {AT_ONCE} at once")
    steps = [us / count for us, _, count in reports(pair.prompts(64, 40), 32 * rounds)
             if count][1:]
    yield Figure("scheduler a step", statistics.median(steps), "us", value_limit=20,
                 note=f"64 running requests, {len(steps)} reports of some steps each")


def stopped(pair):
    """Steps of an engine whose daemon stands still."""
    prompts = pair.prompts(16, 200)
    plain = pair.plain.call("timed_steps", prompts=prompts, max_tokens=32)
    pair.daemon.pause()
    try:
        ours = pair.ours.call("timed_steps", prompts=prompts, max_tokens=32)
    finally:
        pair.daemon.resume()
    longest = max(plain["step_ms"]) + 20  # a hiccup of the machine isn't a wait for the daemon
    yield Figure("steps that wait", sum(step > longest for step in ours["step_ms"]), "steps",
                 value_limit=0, note=f"daemon under SIGSTOP, {len(ours['step_ms'])} steps, the "
                                     f"longest {max(ours['step_ms']):.1f} ms, without the "
                                     f"connector {max(plain['step_ms']):.1f} ms")
    yield Figure("last request scheduled after", ours["scheduled_ms"], "ms",
                 plain["scheduled_ms"], note="daemon under SIGSTOP, 16 requests at once, deadline "
                                             "20 ms")


def measure(folder, rounds, wants):
    with Daemon(os.path.join(folder, "node"), **POOL) as daemon:
        for model in MODELS:
            parts = [("token", lambda: cost(pair, model, rounds)),
                     ("first token later by requests that got None",
                      lambda: first_token(pair, model, rounds))]
            if model == "llama":
                parts += [("scheduler", lambda: scheduler(pair, rounds)),
                          ("steps that wait last request scheduled after", lambda: stopped(pair))]
            else:
                parts.append(("first token of a hit", lambda: hit(pair, model, rounds)))
            if not any(wants(names) for names, _ in parts):
                continue
            with Pair(folder, daemon, model) as pair:
                for names, part in parts:
                    if wants(names):
                        yield from part()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = []
        for figure in measure(folder, asked.rounds, lambda names: asked.only in names):
            figures.append(figure)
            print(f"{figure.name}: {figure.value:.4g} {figure.unit}", file=sys.stderr)
    print(as_json(figures) if asked.json else table(figures))


if __name__ == "__main__":
    main()
