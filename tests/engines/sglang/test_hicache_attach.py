# SPDX-License-Identifier: Apache-2.0
"""Goal: an operator attaches, clears and detaches the storage of a running engine by SGLang's own
HTTP routes; answers stay the same and nothing is left behind.

Method: whole engines; PUT and DELETE /hicache/storage-backend and POST …/clear as SGLang's server
has them, with and without a daemon; threads, descriptors and mappings of the scheduler counted.
"""
import json
import os

import pytest
from engine import PAGE, prompt, storage
from hicache_bed import HICACHE, extra, flush, same, wait_for_pages
from waiting import eventually

LONG, OTHER = prompt(1, 1000), prompt(2, 700)
HIT = 15 * PAGE
ROUTE = "/hicache/storage-backend"
# Door A's host cache without a storage, and who may change that.
HOST_ONLY = {name: value for name, value in storage(HICACHE).items()
             if not name.startswith("hicache_storage")}
FLAGS = dict(HOST_ONLY, admin_api_key="secret")


def config(daemon, **more):
    module, _, name = HICACHE.partition(":")
    return {"backend_name": name, "module_path": module, "class_name": name, "interface_v1": 1,
            "prefetch_threshold": PAGE, **extra(daemon, **more)}


def attach(engine, daemon, **more):
    return engine.http("PUT", ROUTE, {
        "hicache_storage_backend": "dynamic",
        "hicache_storage_backend_extra_config_json": json.dumps(config(daemon, **more)),
        "hicache_storage_prefetch_policy": "wait_complete"})


def attached(engine, daemon, **more):
    """SGLang takes it only when nothing runs or is on its way."""
    eventually(lambda: attach(engine, daemon, **more)[0] == 200, "it is attached")


def detached(engine):
    eventually(lambda: engine.http("DELETE", ROUTE)[0] == 200, "it is detached")


def belongings(pid):
    """(threads, descriptors, the plug-in's mappings) of a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        mapped = sum("kvsidecar" in line and ".so" not in line and ".py" not in line
                     for line in maps)
    return len(os.listdir(f"/proc/{pid}/task")), len(os.listdir(f"/proc/{pid}/fd")), mapped


@pytest.mark.parametrize("allocator", ["default", "shm"])
def test_a_storage_is_attached_used_cleared_and_detached_while_the_engine_runs(
        engine, reference, start_daemon, allocator):
    want, daemon = reference("llama", [LONG]), start_daemon()
    flags = dict(FLAGS)
    if allocator == "shm":  # of the pools, which are made at the start
        flags.update(storage(HICACHE, **extra(daemon, allocator="shm")))
    scheduler = engine.start(**flags)["schedulers"][0]
    if allocator == "shm":
        detached(engine)
    assert same(engine.generate([LONG]), want)
    flush(engine)
    seen = []
    for round_ in range(3):
        attached(engine, daemon)
        output = engine.generate([LONG])
        assert same(output, want) and output[0].cached == (HIT if round_ else 0)
        wait_for_pages(daemon, 15)
        flush(engine)
        output = engine.generate([LONG])
        assert same(output, want) and output[0].sources["storage"] == HIT
        flush(engine)
        detached(engine)
        output = engine.generate([LONG])
        assert same(output, want) and output[0].cached == 0
        flush(engine)
        seen.append(belongings(scheduler))
    assert seen[1] == seen[2], "threads, descriptors or mappings grow"
    attached(engine, daemon)
    assert engine.http("POST", ROUTE + "/clear")[0] == 200
    output = engine.generate([LONG])
    assert same(output, want) and output[0].cached == 0


def test_what_runs_is_neither_attached_nor_detached_under(engine, reference, start_daemon):
    """SGLang refuses it, and the answers are those of before."""
    prompts = [LONG, OTHER]
    want, daemon = reference("llama", prompts), start_daemon()
    engine.start(**FLAGS)
    for change, then in ((lambda: attach(engine, daemon), lambda: attached(engine, daemon)),
                         (lambda: engine.http("DELETE", ROUTE), lambda: detached(engine))):
        engine.http("GET", ROUTE)  # the first call takes its time
        engine.submit({"runs": prompt(3, 100)}, max_new_tokens=3000)
        engine.submit(dict(zip("ab", prompts)))
        assert "scheduler is not idle" in change()[1]
        engine.abort("runs")
        assert same(engine.collect("a", "b"), want)
        assert engine.collect("runs")[0].reason == "abort"
        then()
        assert same(engine.generate(prompts), want)


def test_a_storage_is_attached_before_there_is_a_daemon(engine, reference, make_daemon):
    want, daemon = reference("llama", [LONG]), make_daemon()
    engine.start(**FLAGS)
    attached(engine, daemon, connect_timeout_s=0.1)
    assert same(engine.generate([LONG]), want)
    assert "serves without it" in engine.log().replace("\n", " ")
    detached(engine)
    attached(engine, daemon, connect_timeout_s=0.1)
    daemon.start().log_has(r"\bchunk_ready\b")
    flush(engine)
    eventually(lambda: flush(engine) or engine.generate([LONG])[0].cached == HIT,
               "pages come from the daemon", seconds=60)


def test_a_wrong_key_is_refused_in_words_that_help_and_the_engine_goes_on(engine, reference,
                                                                         start_daemon):
    want, daemon = reference("llama", [LONG]), start_daemon()
    engine.start(**FLAGS)
    status, text = attach(engine, daemon, sockett="/nowhere")
    assert status == 400 and "did you mean socket?" in text
    attached(engine, daemon)
    assert same(engine.generate([LONG]), want)
