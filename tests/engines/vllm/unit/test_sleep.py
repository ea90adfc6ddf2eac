# SPDX-License-Identifier: Apache-2.0
"""Goal: around sleep, when the KV cache's memory goes, the daemon maps it no more; after it all
goes on as before.

Method: rig.py and the two hooks that vLLM 0.33 calls, which every release's connector has.
"""
import pytest

from kvsidecar.vllm import worker as worker_module
from scene import GROUPS, daemon, filled, make_rig, prompt, seed, settle, whole  # noqa: F401


def regions(daemon):
    with open(f"/proc/{daemon.pid}/maps", encoding="utf-8") as maps:
        return sum("kvsidecar-vllm" in line for line in maps)


@pytest.mark.parametrize("specs", GROUPS)
def test_sleep_and_wake(make_rig, filled, settle, daemon, specs):
    prompts = filled([prompt(i, 150) for i in range(3)], specs=specs)
    rig = make_rig(specs=specs)
    connector = rig.workers[0].connector
    rig.generate(prompts + [prompt(9, 150)])
    assert regions(daemon) > 0
    for _ in range(2):  # idempotent
        connector.unregister_kv_caches()
        assert regions(daemon) == 0
    rig.generate([prompt(8, 150)], name="asleep")  # nothing is stored, nothing breaks
    assert rig.scheduler.reset_prefix_cache()
    for _ in range(2):
        connector.restore_kv_caches()
    before = rig.hits
    rig.generate(prompts + [prompt(7, 150)], name="awake")
    assert rig.hits - before == whole(prompts)
    settle()
    rig = make_rig(specs=specs)
    rig.generate([prompt(7, 150), prompt(9, 150)])
    assert rig.hits == 8 * 32


def test_sleep_is_refused_until_the_daemon_has_let_go(make_rig, daemon, monkeypatch):
    monkeypatch.setattr(worker_module, "CLOSE_S", 0.1)
    rig = make_rig({"lookup_deadline_ms": 1})
    connector = rig.workers[0].connector
    rig.generate([prompt(1, 150)])
    daemon.pause()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ask for sleep again"):
            connector.unregister_kv_caches()
    daemon.resume()
    monkeypatch.setattr(worker_module, "CLOSE_S", 10)
    connector.unregister_kv_caches()
    assert regions(daemon) == 0
    connector.restore_kv_caches()
    rig.generate([prompt(1, 150)], name="awake")
    rig.check_empty()
