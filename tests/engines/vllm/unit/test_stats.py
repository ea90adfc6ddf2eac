# SPDX-License-Identifier: Apache-2.0
"""Goal: what the connector counts arrives in vLLM's log and at /metrics once, whole and under its
name.

Method: a Recorder per process, joined as vLLM joins workers and steps, shown in a registry of its
own. The tests of the HF3FS connector's statistics have their counterparts here, with O9-03, O9-07.
"""
import pickle

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorStats

from kvsidecar import Status
from kvsidecar.vllm import Connector, metrics
from kvsidecar.vllm.metrics import COUNTERS, GAUGES, SAMPLES_MAX, TIMES, Recorder
from kvsidecar.vllm.stats import PREFIX, PromMetrics, Stats, percentile
from vllm_fakes import engine


def recorded(process="scheduler", **counts):
    found = Recorder(process)
    for name, amount in counts.items():
        found.count(name, amount)
    return found


def test_at_first_there_is_nothing():
    assert Recorder().take() is None
    assert Stats().is_empty() and Stats().reduce() == {}
    assert Connector.build_kv_connector_stats().is_empty()


@pytest.mark.parametrize("name", TIMES)
def test_a_duration_is_recorded(name):
    found = Recorder()
    found.observe(name, 2.0)
    taken = found.take()
    assert isinstance(taken, KVConnectorStats) and not taken.is_empty()
    assert taken.data["times"] == {name: [1, 2.0, [2.0]]}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_count_is_recorded(name):
    assert recorded(**{name: 3}).take().data["counters"] == {name: 3}


def test_a_name_outside_the_tables_is_a_bug():
    for call in (lambda r: r.count("hits"), lambda r: r.observe("hits", 1),
                 lambda r: r.gauge("hits", 1)):
        with pytest.raises(KeyError):
            call(Recorder())


def test_counters_only_grow():
    with pytest.raises(ValueError):
        Recorder().count("lookups", -1)


def test_what_was_taken_is_apart_from_what_comes_after():
    found = recorded(lookups=1)
    found.observe("lookup_seconds", 1)
    first = found.take()
    assert found.take() is None
    found.count("lookups", 5)
    found.observe("lookup_seconds", 7)
    second = found.take()
    assert first.data["counters"] == {"lookups": 1}
    assert first.data["times"] == {"lookup_seconds": [1, 1, [1]]}
    assert second.data["counters"] == {"lookups": 5}
    assert second.data["times"] == {"lookup_seconds": [1, 7, [7]]}


def test_joining_adds_and_shares_nothing():
    one, two = recorded(loads=1, stores=2).take(), recorded(loads=10).take()
    two.data["times"] = {"load_seconds": [1, 3.0, [3.0]]}
    joined = Stats().aggregate(one).aggregate(two)
    assert joined.data["counters"] == {"loads": 11, "stores": 2}
    joined.aggregate(two)
    assert two.data["times"] == {"load_seconds": [1, 3.0, [3.0]]}
    assert joined.data["times"] == {"load_seconds": [2, 6.0, [3.0, 3.0]]}
    joined.reset()
    assert joined.is_empty() and not one.is_empty()


def test_the_log_line_has_counts_and_milliseconds():
    found = recorded(loads=2)
    for seconds in (1.0, 3.0):
        found.observe("load_seconds", seconds)
    line = found.take().reduce()
    assert line == {"loads": 2, "load avg (ms)": 2000.0, "load P90 (ms)": 3000.0}


@pytest.mark.parametrize("samples, share, expected", [
    ([], 0.9, 0), ([1], 0.9, 1), (list(range(1, 11)), 0.9, 9), (list(range(1, 101)), 0.9, 90)])
def test_percentiles(samples, share, expected):
    assert percentile(samples, share) == expected


def test_durations_are_kept_within_bounds_and_counted_beyond():
    found = Recorder()
    for _ in range(SAMPLES_MAX + 10):
        found.observe("load_seconds", 1.0)
    joined = found.take().aggregate(Stats(data={
        "counters": {}, "times": {"load_seconds": [5, 5.0, [1.0] * 5]}, "gauges": {}}))
    count, total, samples = joined.data["times"]["load_seconds"]
    assert (count, total, len(samples)) == (SAMPLES_MAX + 15, SAMPLES_MAX + 15, SAMPLES_MAX)


def test_counts_travel_between_processes():
    found = recorded("worker 0", loads=1)
    found.observe("load_seconds", 0.5)
    found.gauge("connected", 1)
    taken = found.take()
    assert pickle.loads(pickle.dumps(taken)).data == taken.data
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(taken.data))
    assert Connector.build_kv_connector_stats(sent).reduce() == taken.reduce()


def test_each_process_says_whether_it_is_connected():
    scheduler, worker = Recorder(), Recorder("worker 0")
    scheduler.gauge("connected", 1)
    worker.gauge("connected", 0)
    joined = worker.take().aggregate(scheduler.take())
    assert joined.data["gauges"]["connected"] == {"scheduler": 1, "worker 0": 0}
    scheduler.gauge("connected", 1)
    assert scheduler.take() is None  # nothing new


def test_every_status_of_a_page_counts_once():
    for status in Status:
        found = Recorder()
        found.count_load(status, 2)
        found.count_store(status, 3)
        counts = found.take().data["counters"]
        assert sorted(counts.values()) == [2, 3], status
    assert metrics.LOADED[Status.MISS] == "miss" and metrics.STORED[Status.OK_PART] == "ok"
    assert "ok" not in {metrics.LOADED.get(s) for s in Status if s != Status.OK}
    stored = {Status.OK, Status.OK_PART}
    assert "ok" not in {metrics.STORED.get(s) for s in Status if s not in stored}


@pytest.fixture
def shown():
    """(PromMetrics of two engines, what a scrape of them says)."""
    registry = CollectorRegistry()

    def kind(cls):
        return lambda **values: cls(registry=registry, **values)

    found = PromMetrics(engine(), {cls: kind(cls) for cls in (Counter, Gauge, Histogram)},
                        ["model_name", "engine"], {0: ["m", "0"], 1: ["m", "1"]})

    def value(name, engine_index=0, **labels):
        return registry.get_sample_value(
            PREFIX + name, {"model_name": "m", "engine": str(engine_index), **labels})

    return found, value


def test_all_that_is_counted_shows_from_the_start_as_0(shown):
    _, value = shown
    for family, label, _ in COUNTERS.values():
        labels = {metrics.LABELS[family]: label} if label else {}
        assert value(family + "_total", **labels) == 0, (family, label)
    for name in TIMES:
        assert value(name + "_count", 1) == 0


def test_each_step_is_added_to_its_engine(shown):
    prom, value = shown
    found = recorded("worker 0", hit_tokens_host=32, hit_tokens_store=64, scheduler_ns=1500)
    found.count_load(Status.CORRUPT, 2)
    found.observe("store_seconds", 0.3)
    found.gauge("connected", 1)
    data = found.take().data
    prom.observe(data, 1)
    prom.observe(data, 1)
    assert value("hit_tokens_total", 1, place="host") == 64
    assert value("hit_tokens_total", 1, place="store") == 128
    assert value("hit_tokens_total", 0, place="host") == 0
    assert value("load_pages_total", 1, outcome="corrupt") == 4
    assert value("scheduler_ns_total", 1) == 3000
    assert value("store_seconds_count", 1) == 2
    assert value("store_seconds_sum", 1) == pytest.approx(0.6)
    assert value("connected", 1, process="worker 0") == 1


def test_what_shows_has_its_help_and_one_kind_of_label():
    families = {}
    for family, label, text in COUNTERS.values():
        families.setdefault(family, text)
        assert bool(label) == (family in metrics.LABELS)
    assert all(len(text) > 10 for text in list(families.values()) + list(TIMES.values()))
    assert all(len(text) > 10 for text in GAUGES.values())


def test_every_metric_of_the_hf3fs_connector_names_one_that_exists():
    table = [line.split("|")[1:3] for line in metrics.__doc__.splitlines()
             if line.startswith("|")][2:]
    assert len(table) == 5
    ours = {family for family, _, _ in COUNTERS.values()} | set(TIMES)
    for _, replacement in table:
        named = [word.strip(" ,") for word in replacement.split() if word.startswith(PREFIX)]
        assert named and all(word[len(PREFIX):] in ours for word in named)
