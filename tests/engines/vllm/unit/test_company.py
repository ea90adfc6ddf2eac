# SPDX-License-Identifier: Apache-2.0
"""Goal: what another connector beside this one does wrong never becomes a page.

Method: rig.py under MultiConnector with a child that promises tokens, loads them within the forward
as vLLM's ExampleConnector does, and then tells that it couldn't.
"""
import types

import pytest
from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1, KVConnectorMetadata, SupportsHMA)

import kvsidecar
from rig import PAGE, Rig
from scene import daemon, make_rig, prompt, seed, settle  # noqa: F401
from tokens import continuation

PROMISED = 2 * PAGE


class Promise(KVConnectorMetadata):
    def __init__(self, blocks):
        self.blocks = blocks


class Liar(KVConnectorBase_V1, SupportsHMA):
    """Each request is promised its first pages, once."""

    def __init__(self, vllm_config, role, kv_cache_config):
        super().__init__(vllm_config, role, kv_cache_config)
        self.promised, self.blocks, self.failed = set(), [], set()

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        if request.request_id in self.promised or num_computed_tokens:
            return 0, False
        return PROMISED, False

    def update_state_after_alloc(self, request, blocks, num_external_tokens):
        if num_external_tokens:
            self.promised.add(request.request_id)
            self.blocks += blocks.get_block_ids()[0][:PROMISED // PAGE]

    def build_connector_meta(self, scheduler_output):
        blocks, self.blocks = self.blocks, []
        return Promise(blocks)

    def request_finished_all_groups(self, request, block_ids):
        return False, None

    def start_load_kv(self, forward_context, **kwargs):
        self.failed = set(self._get_connector_metadata().blocks)

    def get_block_ids_with_load_errors(self):
        failed, self.failed = self.failed, set()
        return failed

    def wait_for_layer_load(self, layer_name):
        pass

    def save_kv_layer(self, *arguments, **kwargs):
        pass

    def wait_for_save(self):
        pass


class Believing(Rig):
    """Computes from whatever is in its blocks, as a model does."""

    def _compute(self, worker, plan):
        for _, computed, hashes, tables, _ in plan:
            told = hashes if self.steps else [bytes(len(found)) for found in hashes]
            worker.write(0, tables[0], computed, told[computed:])

    def _see_stats(self, stats):
        pass


def child(name, module, **extra):
    return dict(kv_connector=name, kv_connector_module_path=module, kv_role="kv_both",
                kv_load_failure_policy="recompute", kv_connector_extra_config=extra)


@pytest.mark.parametrize("order", [1, -1])
def test_a_load_within_the_forward_that_fails_leaves_no_page(
        daemon, make_rig, settle, model, order):
    children = [child("Liar", __name__), child("Connector", "kvsidecar.vllm", socket=daemon.socket)]
    rig = Believing(dict(
        kv_connector="MultiConnector", kv_role="kv_both",
        kv_connector_extra_config={"connectors": children[::order]}), model)
    one = prompt(1, 5 * PAGE + 4)
    rig.add("r", one, max_tokens=3)
    rig.run()
    rig.check_output("r", one, 3)
    rig.close()
    settle()
    rig = make_rig()
    rig.generate([one + continuation(one, 3)])  # every byte of what is found is looked at
    assert rig.hits == 5 * PAGE
    rig.check_empty()


class LateLiar(Liar):
    """Lies when it is told to."""

    armed = False

    def get_num_new_matched_tokens(self, request, num_computed_tokens):
        return super().get_num_new_matched_tokens(request, num_computed_tokens) \
            if LateLiar.armed else (0, False)


class BelievingLate(Believing):
    """What is computed in a step in which the liar lies is worth nothing."""

    def _compute(self, worker, plan):
        lying = bool(worker.connector._connectors[0].failed)
        for _, computed, hashes, tables, _ in plan:
            told = [bytes(len(found)) for found in hashes] if lying else hashes
            worker.write(0, tables[0], computed, told[computed:])


def test_a_load_within_the_forward_that_fails_after_one_of_ours_leaves_no_page(
        daemon, make_rig, settle, model, monkeypatch):
    one = prompt(1, 5 * PAGE + 4)
    make_rig().generate([one])
    settle()
    rig = BelievingLate(dict(
        kv_connector="MultiConnector", kv_role="kv_both",
        kv_connector_extra_config={"connectors": [
            child("LateLiar", __name__),
            child("Connector", "kvsidecar.vllm", socket=daemon.socket)]}), model)
    side = rig.connector._connectors[1]._scheduler
    rig.add("r", one, max_tokens=20)
    rig.run(lambda: len(rig.outputs["r"]) > 2)
    track = side._requests.tracks["r"]
    assert track.places  # loaded by us
    keys = track.keys[PAGE]
    side.session.client.delete(side.session.namespaces[0], keys.part(2, keys.count),
                               key_bytes=keys.key_bytes).wait()
    monkeypatch.setattr(LateLiar, "armed", True)
    assert rig.scheduler.reset_prefix_cache(reset_running_requests=True)
    rig.run()
    rig.check_output("r", one, 20)
    rig.close()
    settle()
    make_rig().generate([one + continuation(one, 20)])  # every byte of what is found is looked at


def test_anothers_load_is_seen_while_a_clear_is_under_way(make_rig):
    rig = make_rig()
    side = rig.connector._scheduler
    rig.add("r", prompt(1, 40), 30)
    rig.run(lambda: len(rig.outputs["r"]) > 2)
    side._clearing = [types.SimpleNamespace(finished=False)]
    build = side.build

    def loaded(output):
        output.has_sync_kv_loads = True
        return build(output)

    rig.connector.build_connector_meta = loaded
    side._era = types.SimpleNamespace(**{**vars(side._era),
                                         "loads_in_forward": lambda *_: True})
    rig.step()
    assert side._doubtful_for > 0


def test_the_policy_that_vllm_goes_by_is_the_one_on_top(daemon, model):
    ours = child("Connector", "kvsidecar.vllm", socket=daemon.socket)
    with pytest.raises(kvsidecar.Misuse, match='"kv_load_failure_policy": "recompute".* on top'):
        Rig(dict(kv_connector="MultiConnector", kv_role="kv_both",
                 kv_connector_extra_config={"connectors": [ours]}), model, policy="fail")
