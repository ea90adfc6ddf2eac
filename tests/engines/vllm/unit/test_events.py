# SPDX-License-Identifier: Apache-2.0
"""Goal: routers hear of pages in the daemon in vLLM's own words.

Method: real requests; the events are compared with what vLLM's block pool says of the same blocks,
and encoded as the publisher does.
"""
import msgspec
import pytest
from vllm.distributed.kv_events import BlockRemoved, BlockStored, KVEventBatch
from vllm.lora.request import LoRARequest
from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import maybe_convert_block_hash

from kvsidecar.vllm import events as events_module
from kvsidecar.vllm.adapters import fold
from kvsidecar.vllm.events import Events
from vllm_fakes import (FullAttentionSpec, MambaSpec, SlidingWindowSpec, cache, config, engine,
                        group, settings, spaces)

PAGE = 32
ON = config(enable_kv_cache_events=True)


def make(how="engine", wanted=ON, groups=None, hash_block_size=None):
    found = spaces(None, cache(*(groups or [group(FullAttentionSpec())])))
    return Events(engine(kv_events_config=wanted), settings(events=how), found, hash_block_size)


def converted(hashes):
    return [maybe_convert_block_hash(found) for found in hashes]


@pytest.mark.parametrize("how, wanted, active", [
    ("engine", ON, True), ("off", ON, False), ("engine", None, False),
    ("engine", config(enable_kv_cache_events=False), False)])
def test_nothing_is_said_unless_both_want_it(make_request, how, wanted, active):
    events = make(how, wanted)
    assert events.active is active
    events.stored(make_request(), 0, [0, 1])
    events.gone(make_request(), [(0, make_request().block_hashes[0])])
    assert bool(events.take()) is active


def test_a_page_is_told_as_vllm_tells_of_a_block(make_request):
    request = make_request(
        lora_request=LoRARequest("adapter", 3, "/nowhere"), cache_salt="salt",
        mm_features=[MultiModalFeatureSpec(data=None, modality="image", identifier="i" * 64,
                                           mm_position=PlaceholderRange(offset=40, length=80))])
    pool = BlockPool(num_gpu_blocks=8, enable_caching=True, hash_block_size=PAGE,
                     enable_kv_cache_events=True)
    pool.cache_full_blocks(request=request, blocks=pool.get_new_blocks(4), num_cached_blocks=0,
                           num_full_blocks=4, block_size=PAGE, kv_cache_group_id=0)
    theirs, = pool.take_events()
    events = make()
    events.stored(request, 0, range(4))
    ours, = events.take()
    assert isinstance(ours, BlockStored)
    said = msgspec.structs.asdict(theirs)
    differing = {name for name, value in msgspec.structs.asdict(ours).items()
                 if value != said[name]}
    assert differing <= {"medium", "kv_cache_spec_kind", "kv_cache_spec_sliding_window",
                         "locality"}
    assert (ours.medium, ours.kv_cache_spec_kind) == ("CPU", "full_attention")


def test_pages_apart_are_told_apart_with_their_parents(make_request):
    request, events = make_request(), make()
    events.stored(request, 0, [3, 1, 1])
    hashes = converted(request.block_hashes)
    one, other = events.take()
    assert (one.parent_block_hash, one.block_hashes) == (hashes[0], [hashes[1]])
    assert (other.parent_block_hash, other.block_hashes) == (hashes[2], [hashes[3]])
    assert other.token_ids == list(request.all_token_ids[3 * PAGE:4 * PAGE])
    assert events.take() == []


def test_a_page_is_told_once_until_it_is_gone_or_all_of_it_is(make_request):
    request, events = make_request(), make()
    hashes = converted(request.block_hashes)

    def told(pages):
        events.stored(request, 0, pages)
        return [found for event in events.take() for found in event.block_hashes]

    assert told([0, 1]) == hashes[:2]
    assert told([0, 1, 2]) == hashes[2:3]
    events.gone(request, [(0, request.block_hashes[1])])
    events.take()
    assert told([0, 1, 2]) == hashes[1:2]
    events.forget()
    assert told([0, 1, 2]) == hashes[:3]


def test_a_coarser_group_is_told_in_its_own_pages(make_request):
    request = make_request()
    events = make(groups=[group(FullAttentionSpec()), group(MambaSpec(block_size=64))])
    events.stored(request, 1, [1])
    told, = events.take()
    assert (told.group_idx, told.block_size, told.kv_cache_spec_kind) == (1, 64, "mamba")
    hashes = converted(request.block_hashes)
    assert (told.parent_block_hash, told.block_hashes) == (hashes[1], [hashes[3]])
    assert told.token_ids == list(request.all_token_ids[64:128])


def test_the_hashes_may_be_finer_than_every_page(make_request):
    request = make_request(page=16)
    events = make(hash_block_size=16)
    events.stored(request, 0, [1])
    told, = events.take()
    hashes = converted(request.block_hashes)
    assert (told.parent_block_hash, told.block_hashes) == (hashes[1], [hashes[3]])


def test_a_window_says_how_far_it_reaches(make_request):
    events = make(groups=[group(SlidingWindowSpec(sliding_window=100))])
    events.stored(make_request(), 0, [0])
    told, = events.take()
    assert (told.kv_cache_spec_kind, told.kv_cache_spec_sliding_window) == ("sliding_window", 100)


def test_a_page_that_is_gone_is_told(make_request):
    request, events = make_request(), make()
    events.gone(request, [(0, found) for found in request.block_hashes[:2]])
    told, = events.take()
    assert isinstance(told, BlockRemoved)
    assert (told.medium, told.block_hashes) == ("CPU", converted(request.block_hashes[:2]))


def test_a_page_of_an_adapter_that_is_gone_is_told(make_request):
    request, events = make_request(lora_request=LoRARequest("adapter", 3, "/nowhere")), make()
    events.stored(request, 0, [0, 1])
    events.take()
    content_id = b"c" * 16
    keys = fold(request.block_hashes[:2], content_id)  # by which they are loaded
    events.gone(request, [(0, key) for key in keys], content_id)
    told, = events.take()
    assert told.block_hashes == converted(request.block_hashes[:2])


def test_events_travel_as_vllm_sends_them(make_request):
    request, events = make_request(), make()
    events.stored(request, 0, range(4))
    events.gone(request, [(0, request.block_hashes[0])])
    told = events.take()
    sent = msgspec.msgpack.encode(KVEventBatch(ts=1.0, events=told))
    assert msgspec.msgpack.decode(sent, type=KVEventBatch).events == told


def test_what_waits_to_be_told_is_bounded(make_request, monkeypatch):
    monkeypatch.setattr(events_module, "EVENTS_MAX", 3)
    request, events = make_request(), make()
    for _ in range(10):
        events.stored(request, 0, [0])
        events.gone(request, [(0, request.block_hashes[0])])
    assert len(events.take()) == 3
