# SPDX-License-Identifier: Apache-2.0
"""Goal: requests with adapters wait for nobody without need, and load nothing of weights that may
not be the adapter's any more.

Method: rig.py with a real daemon; the model's values are salted with the adapter's weights.
"""
from vllm.lora.request import LoRARequest

from kvsidecar.vllm.adapters import USABLE
from rig import PAGE
from scene import daemon, make_rig, prompt, seed, settle  # noqa: F401
from test_sharing import adapter
from waiting import eventually


def test_a_request_that_waits_for_a_slot_of_its_adapter_holds_up_nobody_else(
        make_rig, daemon, settle, tmp_path):
    running = adapter(tmp_path / "running", b"a")
    waits = adapter(tmp_path / "waits", b"b", 2)
    rig = make_rig(enable_lora=True, max_loras=1, max_lora_rank=8)
    one = prompt(1, 4 * PAGE + 1)
    rig.add("fill", one, 2, **waits)
    rig.run()
    settle()
    assert rig.scheduler.reset_prefix_cache()
    rig.on_load.append(lambda request: daemon.pause())
    rig.add("loaded", one, 2, **waits)
    rig.run(lambda: rig.scheduler.requests["loaded"].status.name == "WAITING_FOR_REMOTE_KVS")
    rig.add("long", prompt(2, 5), 200, **running)
    rig.run(lambda: len(rig.outputs["long"]) > 2)
    daemon.resume()
    side = rig.connector._scheduler
    eventually(lambda: rig.step() and "loaded" in side._returned, "its load is over")
    rig.add("other", prompt(3, 5), 2)
    rig.run(lambda: rig.reasons.get("other") or rig.reasons.get("long"))
    assert "long" not in rig.reasons


def test_a_waiting_request_loads_nothing_of_an_adapter_that_became_unclear(
        make_rig, settle, tmp_path):
    held = adapter(tmp_path / "adapter", b"a")
    one = prompt(1, 10 * PAGE + 1)
    rig = make_rig()
    rig.add("fill", one, 2, **held)
    rig.run()
    settle()
    rig = make_rig(blocks=13, max_model_len=352)
    lora, adapters = held["lora_request"], rig.connector._scheduler._adapters
    adapters.prepare(lora)
    eventually(lambda: adapters.content_id(lora)[0] == USABLE, "its files are read")
    rig.add("first", prompt(2, 10 * PAGE + 1), max_tokens=20)
    rig.run(lambda: rig.outputs["first"])
    rig.add("waits", one, 2, **held)
    rig.run(lambda: ("waits", 10 * PAGE) in rig.asked)
    adapters.prepare(LoRARequest(  # somebody's request replaces the weights in place
        lora.lora_name, lora.lora_int_id, lora.lora_path, load_inplace=True))
    rig.run()
    assert rig.hits == 0
