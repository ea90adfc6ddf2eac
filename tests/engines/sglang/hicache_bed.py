# SPDX-License-Identifier: Apache-2.0
"""What the tests of door A share."""
import pytest
from waiting import eventually

import kvsidecar

HICACHE = "kvsidecar.sglang:HiCache"


def extra(daemon, **more):
    """Keys of the extra config: patience for a noisy machine, over which `more` goes."""
    return {"socket": daemon.socket, "lookup_deadline_ms": 1000, "staging_mib": 8,
            "connect_timeout_s": 20, "attach_timeout_s": 20, **more}


def same(outputs, reference):
    """Tokens and logprobs."""
    return [output.ids for output in outputs] == [output.ids for output in reference] and all(
        got == pytest.approx(want, abs=1e-4)
        for output, wanted in zip(outputs, reference)
        for got, want in zip(output.logprobs, wanted.logprobs))


def flush(engine):
    """The engine's own caches are empty afterwards. It refuses while a backup is on its way."""
    eventually(lambda: engine.call("flush_cache"), "nothing is on its way to storage")


def stored(daemon):
    """Pages that the daemon knows."""
    with kvsidecar.Client(daemon.socket, name="asker") as client:
        return client.stat(kvsidecar.Stat.STATUS, timeout=10).result().json()["index"]["pages"]


def wait_for_pages(daemon, count):
    eventually(lambda: stored(daemon) >= count, f"{count} pages are stored", seconds=60)
