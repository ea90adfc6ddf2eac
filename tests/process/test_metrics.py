# SPDX-License-Identifier: Apache-2.0
"""Goal: what an operator's tools read is there, can be parsed and agrees with the daemon's own
account.

Method: a daemon with a little traffic; its HTTP pages against its status.
"""
import re

import accounts
import content
from engine import Engine
from waiting import eventually

LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{[^}]*\})? (-?[\d.]+(?:[eE][+-]?\d+)?|[+-]Inf|NaN)$')


def parse(text):
    """Prometheus' text format: {name: value}; every sample has its HELP and TYPE before it."""
    samples, helped, typed = {}, set(), {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            typed[line.split()[2]] = line.split()[3]
        elif line:
            found = LINE.match(line)
            assert found, line
            assert found.group(1) in helped and found.group(1) in typed, line
            samples[found.group(1)] = float(found.group(3))
    for name, kind in typed.items():
        assert (kind == "counter") == name.endswith("_total"), name
    return samples


def test_health_and_readiness_are_told_apart(start):
    daemon = start()
    assert daemon.http("/healthz") == (200, "ok\n")
    assert eventually(lambda: daemon.http("/readyz") == (200, "ready\n"), "ready")
    assert daemon.http("/nothing")[0] == 404


def test_metrics_parse_and_agree_with_the_status(start):
    daemon = start()
    keys = content.keys(range(20))
    with Engine(daemon.socket) as engine:
        assert engine.put(keys).result().succeeded == 20
        assert engine.put(keys[:5]).result().succeeded == 5
        assert engine.lookup(keys + content.keys(range(100, 103))).result().longest == 20
        assert engine.get(keys).result().succeeded == 20
        assert engine.get(content.keys(range(200, 204))).result().succeeded == 0
    counters = accounts.status(daemon)["counters"]
    assert counters["pages_put"] == 25 and counters["pages_put_exists"] == 5
    assert counters["pages_looked_up"] == 23 and counters["pages_found_miss"] == 3
    assert counters["pages_get"] == 24 and counters["pages_get_miss"] == 4
    accounts.check_sums(counters)

    def agree():
        samples = parse(daemon.http("/metrics")[1])
        return all(samples[f"kvsidecar_{name}_total"] == value for name, value in counters.items()
                   if name.startswith("pages_")) and samples["kvsidecar_sessions"] == 0

    eventually(agree, "the metrics agree with the status", pid=daemon.pid)
