# SPDX-License-Identifier: Apache-2.0
"""Goal: a release of vLLM that asks something new of a connector is noticed before it runs.

Method: the installed base class against lists of what is overridden and of what is left to the base
class, each with the reason; signatures of what is overridden; KV cache specs against the kinds that
are known. Run against every installed release.
"""
import inspect

import pytest
from vllm.distributed.kv_transfer.kv_connector.v1 import base
from vllm.distributed.kv_transfer.kv_connector.v1.base import (KVConnectorBase_V1, KVConnectorRole,
                                                               SupportsHMA)
from vllm.v1 import kv_cache_interface

from kvsidecar.vllm import Connector
from kvsidecar.vllm.groups import KINDS

OURS = {
    "__init__", "requires_kv_delivery", "shutdown", "get_kv_connector_stats",
    "build_kv_connector_stats", "build_prom_metrics", "on_new_request",
    "get_num_new_matched_tokens", "update_state_after_alloc", "get_external_cache_hit_sources",
    "build_connector_meta", "update_connector_output", "request_finished",
    "request_finished_all_groups", "take_events", "reset_cache", "get_finished_count",
    "get_mem_pool_context", "register_kv_caches", "unregister_kv_caches", "restore_kv_caches",
    "supports_sleep_mode", "register_cross_layers_kv_cache", "handle_preemptions",
    "start_load_kv", "wait_for_layer_load", "save_kv_layer", "wait_for_save", "get_finished",
    "get_transfer_results", "get_block_ids_with_load_errors", "build_connector_worker_meta",
    "set_xfer_handshake_metadata_pp_aware", "bind_gpu_block_pool",
}
BASE = {
    "role": "says which side an object is",
    "bind_connector_metadata": "keeps the step's metadata",
    "clear_connector_metadata": "lets it go",
    "has_connector_metadata": "whether there is any",
    "supports_divergent_local_hybrid_hits": "False: a hit begins where all groups' local ones end",
    "prefer_cross_layer_blocks": "False: layers are mapped one by one (before 0.30)",
    "get_required_kvcache_layout": "None: whatever layout the engine has is mapped",
    "requires_piecewise_for_cudagraph": "False: nothing happens between layers",
    "set_host_xfer_buffer_ops": "for connectors that copy through buffers of their own",
    "finish_forward": "for loads into blocks that the running forward still reads; ours wait",
    "reset_capture_state": "nothing is counted while graphs are captured",
    "get_kv_connector_kv_cache_events": "pages are announced by the scheduler's side",
    "get_handshake_metadata": "None: a sibling under MultiConnector needs the only answer",
    "set_xfer_handshake_metadata": "nothing is handed over between engines",
    "bind_kv_cache_manager": "hands over the block pool, which is all that is wanted",
    "get_loaded_kv_cache_group_ids": "the prefix-cacheable groups: those that are stored",
    "register_finished_partial_tail": "False: only whole pages have keys",
    "has_pending_block_frees": "False: no block is kept after its request",
    "has_pending_push_work": "False: the daemon works without the engine's steps",
}


def names(cls):
    """All that it offers or lets be overridden."""
    return {name for klass in cls.__mro__ if klass not in (object,) and klass.__module__.startswith(
        "vllm.") for name in vars(klass)
        if name == "__init__" or (not name.startswith("_") and name != "abc")}


def test_every_hook_of_the_installed_release_is_known():
    unknown = (names(KVConnectorBase_V1) | names(SupportsHMA)) - OURS - set(BASE)
    assert not unknown, f"new in this release: decide what each should do: {sorted(unknown)}"


def test_every_hook_that_is_called_ours_is_overridden_where_the_release_has_it():
    there = names(KVConnectorBase_V1) | names(SupportsHMA)
    missing = {name for name in OURS & there if not defined_here(name)}
    assert not missing


def test_what_is_left_to_the_base_class_is_not_overridden_unnoticed():
    assert not {name for name in BASE if defined_here(name)}
    assert all(len(reason) > 8 for reason in BASE.values())


def defined_here(name):
    return any(name in vars(klass) for klass in Connector.__mro__
               if klass.__module__.startswith("kvsidecar."))


def test_nothing_abstract_is_left():
    assert not Connector.__abstractmethods__
    assert issubclass(Connector, SupportsHMA)


def overridden():
    there = names(KVConnectorBase_V1) | names(SupportsHMA)
    return sorted(name for name in OURS & there if name != "__init__" and callable(
        getattr(KVConnectorBase_V1, name, getattr(SupportsHMA, name, None))))


@pytest.mark.parametrize("name", overridden())
def test_an_overridden_hook_takes_what_the_base_class_does(name):
    """By position and by name: vLLM does both."""
    theirs = inspect.signature(getattr(KVConnectorBase_V1, name, getattr(SupportsHMA, name, None)))
    ours = inspect.signature(getattr(Connector, name))
    mine, rest = list(ours.parameters.values()), list(theirs.parameters.values())
    assert [p.name for p in mine][:len(rest)] == [p.name for p in rest]
    assert all(p.default is not p.empty or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
               for p in mine[len(rest):])
    for one, other in zip(mine, rest):
        assert one.kind == other.kind, one
        assert other.default is other.empty or one.default is not one.empty, one


def test_the_constructor_names_its_three_arguments():
    """vLLM looks for kv_cache_config by name."""
    assert list(inspect.signature(Connector.__init__).parameters) == [
        "self", "vllm_config", "role", "kv_cache_config"]


def test_the_newer_runners_keyword_arguments_are_taken():
    found = inspect.signature(Connector.start_load_kv).parameters.values()
    assert any(p.kind is p.VAR_KEYWORD for p in found)
    found = inspect.signature(Connector.save_kv_layer).parameters.values()
    assert any(p.kind is p.VAR_KEYWORD for p in found)


def test_there_are_two_roles():
    assert {role.name for role in KVConnectorRole} == {"SCHEDULER", "WORKER"}


@pytest.mark.skipif(not hasattr(base, "KVConnectorTransferResults"), reason="since 0.30")
def test_transfer_results_say_no_more_than_is_known():
    assert set(vars(base.KVConnectorTransferResults())) == {
        "finished_sending", "finished_recving", "failed_recving"}


# KV cache specs: what a page of each kind needs is decided in groups.py.

REFUSED = {
    "KVCacheSpec": "only a base class", "AttentionSpec": "only a base class",
    "EncoderOnlyAttentionSpec": "holds nothing between steps",
    "CrossAttentionSpec": "vLLM has no connectors for encoder-decoder models",
    "UniformTypeKVCacheSpecs": "a wrapper, looked into",
    "HiSparseHotSpec": "a replica that vLLM makes again",
    "HiSparseResidentSpec": "a replica that vLLM makes again",
    "CircularBufferSpec": "scratch memory that vLLM keeps no prefix of",
}


def specs():
    return [cls for cls in vars(kv_cache_interface).values() if inspect.isclass(cls) and issubclass(
        cls, kv_cache_interface.KVCacheSpec)]


@pytest.mark.parametrize("cls", specs(), ids=lambda cls: cls.__name__)
def test_every_kind_of_cache_of_the_installed_release_is_known(cls):
    known = [klass.__name__ for klass in cls.__mro__ if klass.__name__ in KINDS]
    if cls.__name__ in REFUSED:
        assert not known or "prefix_cacheable" in vars(cls)
        return
    assert known
    # A subclass of a known kind that isn't looked at by itself must only add fields.
    if cls.__name__ not in KINDS:
        assert cls.__name__ in ("HiddenStateCacheSpec", "RSWASpec")
