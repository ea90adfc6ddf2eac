# SPDX-License-Identifier: Apache-2.0
"""Goal: a load that fails costs a recomputation, never an answer.

Method: pages are stored, the daemon ends, its memory is taken away and its store's files are
damaged; a fresh engine is promised the pages and can't have them. With kv_load_failure_policy
recompute its outputs equal those of an engine without a connector. (Bug reports O1-17, O2-10.)
"""
import os

import pytest

import workload
from engine import connector, external_hits, ids
from test_outputs import MODELS

FEW, ALL = 7, 1


def damage(daemon, every):
    """Overwrites some bytes in every n-th piece of 64 KiB of each segment. Its first quarter, with
    the directory in it, stays as it is."""
    harmed = 0
    for folder, _, files in os.walk(daemon.path("store")):
        for name in files:
            path = os.path.join(folder, name)
            size = os.path.getsize(path)
            if size < 1 << 20:
                continue
            with open(path, "r+b") as file:
                for start in range(size // 4, size, every << 16):
                    file.seek(start)
                    file.write(os.urandom(4096))
                    harmed += 1
    assert harmed


@pytest.mark.parametrize("model, every", [(model, FEW) for model in MODELS] + [("llama", ALL)])
def test_failed_loads_are_recomputed(model, every, engine, start_daemon, reference, settle):
    flags = MODELS[model]
    prompts = workload.shared_prefixes(24)
    expected = ids(reference(model, prompts, **flags))
    daemon = start_daemon(store={"segment_bytes": "4MiB"})
    begin = dict(model=model, transfer=connector(daemon.socket, durable=True), **flags)
    engine.start(**begin)
    assert ids(engine.generate(prompts)) == expected
    settle(daemon, engine)
    assert daemon.terminate() == 0
    daemon.forget_pool()
    damage(daemon, every)
    daemon.start().log_has(r"\bchunk_ready\b")

    engine.start(**begin)
    assert ids(engine.generate(prompts)) == expected
    assert external_hits(engine.metrics()) > 0
    # Whether a page fails before its request was promised it, or after, is a race in the daemon.
    assert settle(daemon, engine)["pages_corrupt"] > 0
    # What was computed anew was stored anew: the next engine finds it whole.
    engine.start(**begin)
    assert ids(engine.generate(prompts)) == expected
