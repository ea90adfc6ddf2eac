# SPDX-License-Identifier: Apache-2.0
"""Goal: whole engines answer with door A as they do without it, compute less, and lose nothing but
cached tokens when the daemon goes.

Method: the same prompts with and without the backend, tokens and logprobs compared; that a changed
byte changes them is shown as well.
"""
import shutil

import pytest
from engine import PAGE, model_path, prompt, storage
from hicache_bed import HICACHE, extra, flush, same, wait_for_pages
from waiting import eventually

import kvsidecar

LONG, RELATED = prompt(1, 1000), prompt(1, 500) + prompt(2, 300)
HIT = 15 * PAGE  # of LONG: its last page isn't whole


@pytest.mark.parametrize("allocator", ["default", "shm"])
def test_an_engine_continues_from_the_daemon(make_engine, reference, start_daemon, tmp_path,
                                             allocator):
    want = reference("llama", [LONG])
    daemon, poison = start_daemon(), tmp_path / "poison"
    engine = make_engine(KVSIDECAR_POISON=str(poison))
    flags = storage("poisoned_hicache:Poisoned", **extra(daemon, allocator=allocator))
    engine.start(**flags)
    cold = engine.generate([LONG])
    assert same(cold, want) and cold[0].cached == 0
    wait_for_pages(daemon, 15)
    flush(engine)
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == warm[0].cached == HIT
    assert engine.generate([RELATED])[0].cached == 7 * PAGE
    assert ("can't be shared" in engine.log()) == (allocator == "default")
    engine.start(**flags)  # another process, the same pages
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == HIT
    flush(engine)
    poison.touch()
    assert not same(engine.generate([LONG]), want), "the oracle doesn't see a wrong byte"


def test_an_engine_with_a_sliding_window_continues_from_the_daemon(engine, reference, start_daemon):
    want, daemon = reference("mellum", [LONG]), start_daemon()
    engine.start("mellum", **storage(HICACHE, **extra(daemon, allocator="shm")))
    assert same(engine.generate([LONG]), want)
    wait_for_pages(daemon, 16)
    flush(engine)
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == HIT


def test_new_weights_under_the_old_path_load_no_old_page(engine, reference, start_daemon, tmp_path):
    daemon, path = start_daemon(), str(tmp_path / "model")
    shutil.copytree(model_path("llama"), path)
    flags = storage(HICACHE, **extra(daemon, allocator="shm"))
    engine.start(path, **flags)
    engine.generate([LONG])
    wait_for_pages(daemon, 15)
    engine.close()
    shutil.rmtree(path)
    shutil.copytree(model_path("llama-other"), path)
    engine.start(path, **flags)
    other = engine.generate([LONG])
    assert other[0].cached == 0 and same(other, reference("llama-other", [LONG]))
    wait_for_pages(daemon, 30)
    flush(engine)
    engine.clear_storage()
    cleared = engine.generate([LONG])
    assert cleared[0].cached == 0 and same(cleared, other)


def test_a_daemon_that_is_killed_under_requests_costs_no_token(engine, reference, start_daemon):
    prompts = [prompt(seed, 700) for seed in range(6)]
    want, daemon = reference("llama", prompts), start_daemon()
    engine.start(**storage(HICACHE, **extra(daemon, allocator="shm", get_timeout_s=1,
                                            set_timeout_s=1)))
    assert same(engine.generate(prompts), want)
    wait_for_pages(daemon, 60)
    flush(engine)
    engine.begin_generate(prompts)
    daemon.kill()
    assert same(engine.outputs(), want)
    assert same(engine.generate(prompts), want)
    daemon.start().log_has(r"\bchunk_ready\b")
    flush(engine)
    assert same(engine.generate(prompts), want)


def test_an_engine_goes_on_while_the_daemon_stands_still(engine, reference, start_daemon):
    prompts = [prompt(seed, 300) for seed in range(3)]
    want, daemon = reference("llama", prompts), start_daemon()
    engine.start(**storage(HICACHE, **extra(daemon, allocator="shm", lookup_deadline_ms=20,
                                            set_timeout_s=1)))
    daemon.pause()
    assert same(engine.generate(prompts), want)
    daemon.resume()
    assert same(engine.generate(prompts), want)


def test_an_engine_starts_without_a_daemon(engine, reference, make_daemon):
    want, daemon = reference("llama", [LONG]), make_daemon()
    engine.start(**storage(HICACHE, **extra(daemon, allocator="shm", connect_timeout_s=0.1,
                                            attach_timeout_s=0.1)))
    assert same(engine.generate([LONG]), want)
    assert "serves without it" in engine.log().replace("\n", " ")
    daemon.start().log_has(r"\bchunk_ready\b")
    eventually(lambda: "HiCache stores" in engine.log(), "its log tells", seconds=60)
    assert engine.log().count("connected to the daemon at") == 1
    flush(engine)
    # What is stored when it is computed anew tells that the engine has attached by itself.
    eventually(lambda: flush(engine) or engine.generate([LONG])[0].cached == HIT,
               "pages come from the daemon", seconds=60)


def test_random_faults_around_the_backend_cost_no_token(make_engine, reference, start_daemon):
    """SGLang's own fault injector."""
    prompts = [prompt(seed, 500) for seed in range(4)]
    want, daemon = reference("llama", prompts), start_daemon()
    engine = make_engine(SGLANG_TEST_HICACHE_BACKEND_RANDOM_DELAY="0.01",
                         SGLANG_TEST_HICACHE_BACKEND_RANDOM_FAILURE="0.3")
    engine.start(log_level="debug", **storage(HICACHE, **extra(daemon, allocator="shm")))
    for _ in range(4):
        assert same(engine.generate(prompts), want)
        flush(engine)
    assert "Inject delay" in engine.log() and "Inject failure in batch_" in engine.log()


def test_two_ranks_restore_what_both_have_stored(engine, reference, start_daemon):
    want, daemon = reference("llama", [LONG]), start_daemon()
    engine.start(tp_size=2, **storage(HICACHE, **extra(daemon, allocator="shm", get_timeout_s=1,
                                                       set_timeout_s=1)))
    assert same(engine.generate([LONG]), want)
    wait_for_pages(daemon, 15)
    flush(engine)
    warm = engine.generate([LONG])
    assert same(warm, want) and warm[0].sources["storage"] == HIT
    flush(engine)
    engine.begin_generate([LONG, RELATED])
    daemon.kill()  # no rank waits for another's answer, whatever each has got
    assert same(engine.outputs()[:1], want)
    flush(engine)
    assert same(engine.generate([LONG]), want)


def metrics(folder):
    """{(name, cache_source or None): value} of all processes of an engine."""
    from prometheus_client import CollectorRegistry, multiprocess
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, str(folder))
    found = {}
    for family in registry.collect():
        for sample in family.samples:
            key = sample.name, sample.labels.get("cache_source")
            found[key] = found.get(key, 0) + sample.value
    return found


def test_sglangs_metrics_tell_what_the_daemon_has_given(make_engine, reference, start_daemon,
                                                        tmp_path):
    want, daemon, folder = reference("llama", [LONG]), start_daemon(), tmp_path / "metrics"
    folder.mkdir()
    engine = make_engine(PROMETHEUS_MULTIPROC_DIR=str(folder))
    engine.start(enable_metrics=True, **storage(HICACHE, **extra(daemon, allocator="shm")))
    assert same(engine.generate([LONG]), want)
    wait_for_pages(daemon, 15)
    flush(engine)
    assert same(engine.generate([LONG]), want)
    with kvsidecar.Client(daemon.socket, name="asker") as client:
        account = client.stat(kvsidecar.Stat.STATUS, timeout=10).result().json()["counters"]
    told = metrics(folder)
    assert told["sglang:cached_tokens_total", "storage"] == HIT == \
        PAGE * (account["pages_get_host"] + account["pages_get_store"])
    assert told["sglang:prefetch_pgs_sum", None] == account["pages_get"] == 15
    assert told["sglang:prefetch_bandwidth_count", None] == told["sglang:prefetch_pgs_count", None]
    eventually(lambda: metrics(folder)["sglang:backup_pgs_sum", None] == 15, "SGLang has looked")
