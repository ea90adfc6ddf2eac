# SPDX-License-Identifier: Apache-2.0
"""Goal: of a request exactly the right pages are looked up, loaded and stored, under the right
keys, in models with one kind of layer or several.

Method: block hashes that name their position; groups of full attention, windows and recurrent
states, with equal and with different blocks. Covers O4-01, O4-03, O4-05.
"""
from types import SimpleNamespace

import pytest

from kvsidecar.status import Policy
from kvsidecar.vllm.adapters import USABLE, Adapters
from kvsidecar.vllm.pages import Geometry, Keys, joined_keys, lengths
from kvsidecar.vllm.requests import Requests, offers_still_there, without_null


def space(group, kind="full", size=32, trailing=0):
    policy = Policy.ALL_PAGES if kind == "full" else Policy.TRAILING_PAGES
    return SimpleNamespace(group=group, kind=kind, policy=policy, trailing=trailing,
                           tokens_per_page=size)


FULL, WINDOW, STATE = space(0), space(1, "window", trailing=2), space(2, "state", trailing=1)


def hashes(count):
    return [bytes([i]) * 32 for i in range(count)]


def request(tokens, known=None, name="r", size=32):
    return SimpleNamespace(request_id=name, num_tokens=tokens, lora_request=None,
                           block_hashes=hashes(tokens // size if known is None else known))


def requests(*spaces, hash_block_size=32, positional=False):
    return Requests(Geometry(spaces, hash_block_size), Adapters(), positional)


def keys_of(pages):
    return [pages.keys[i * 32] for i in range(len(pages.blocks))]


# Keys.


def test_a_page_of_several_hashes_has_the_key_of_the_last():
    assert joined_keys(hashes(7), 3, b"", 2) == Keys(bytes([2]) * 32 + bytes([5]) * 32, 32, 2)


def test_no_pages_are_no_keys():
    assert joined_keys(hashes(7), 3, b"", 0).count == 0


def test_an_adapters_content_makes_other_keys():
    plain, folded = joined_keys(hashes(2), 1, b"", 2), joined_keys(hashes(2), 1, b"c" * 16, 2)
    assert folded.count == 2 and folded.one(0) != plain.one(0)


# What a hit may be and what it needs.


@pytest.mark.parametrize("tokens, usable", [(32, 0), (33, 32), (64, 32), (65, 64), (1, 0)])
def test_the_last_token_is_always_computed(tokens, usable):
    assert Geometry([FULL], 32).usable_tokens(tokens, tokens // 32) == usable


def test_a_hit_ends_where_pages_of_all_groups_end():
    geometry = Geometry([space(0, size=32), space(1, size=48)], 16)
    assert geometry.alignment == 96
    assert geometry.usable_tokens(200, 12) == 192


def test_what_vllm_wants_of_a_hits_end_is_kept():
    assert Geometry([FULL], 32, 64).usable_tokens(100, 3) == 64


@pytest.mark.parametrize("which, local, tokens, needed", [
    (FULL, 0, 160, (0, 5)), (FULL, 64, 160, (2, 5)),
    (WINDOW, 0, 160, (3, 5)), (WINDOW, 128, 160, (4, 5)), (WINDOW, 0, 32, (0, 1)),
    (STATE, 0, 160, (4, 5)), (STATE, 128, 160, (4, 5))])
def test_each_group_loads_what_its_layers_read(which, local, tokens, needed):
    assert Geometry([FULL, WINDOW, STATE], 32).needed(which, local, tokens) == needed


def test_groups_that_nothing_is_stored_of_need_nothing():
    assert Geometry([FULL, space(1, "none")], 32).spaces == [FULL]


def test_the_longest_length_that_all_page_sizes_can_restore():
    sizes = {32: (0, [True] * 6), 64: (0, [True, False, True])}
    assert lengths(sizes, 64, 0, 192) == 192
    assert lengths(sizes, 64, 0, 191) == 64
    assert lengths(sizes, 64, 64, 128) == 0


def test_lengths_count_from_where_the_question_began():
    assert lengths({32: (64, [False, True])}, 32, 64, 128) == 128
    assert lengths({32: (64, [True, False])}, 32, 64, 128) == 96
    assert lengths({32: (64, [True])}, 32, 96, 96) == 0


# What a step makes whole.


def whole(asked, track, computed, table):
    return [(pages.group, keys_of(pages), list(pages.blocks), list(which))
            for pages, which in asked.whole_pages(track, computed, table)]


def test_a_page_is_stored_once_when_its_last_token_is_computed():
    asked = requests(FULL)
    track = asked.add(request(100))
    asked.begins(track, 0)
    table = ([11, 12, 13, 14],)
    assert whole(asked, track, 31, table) == []
    assert whole(asked, track, 70, table) == [(0, [0, 1], [11, 12], [0, 1])]
    assert whole(asked, track, 95, table) == []
    assert whole(asked, track, 100, table) == [(0, [2], [13], [2])]


def test_tokens_that_are_only_guessed_store_nothing():
    """Speculation and steps scheduled ahead: computed, but not hashed."""
    asked = requests(FULL)
    track = asked.add(request(96, known=2))
    asked.begins(track, 0)
    assert whole(asked, track, 96, ([11, 12, 13],)) == [(0, [0, 1], [11, 12], [0, 1])]
    track.request.block_hashes = hashes(3)
    assert whole(asked, track, 97, ([11, 12, 13],)) == [(0, [2], [13], [2])]


def test_a_resumed_request_stores_from_its_new_blocks():
    asked = requests(FULL)
    track = asked.add(request(96))
    asked.begins(track, 0)
    whole(asked, track, 96, ([11, 12, 13],))
    asked.begins(track, 32)  # preempted; one page was still there when it came back
    assert whole(asked, track, 96, ([11, 22, 23],)) == [(0, [1, 2], [22, 23], [1, 2])]


def test_what_the_daemon_has_lost_is_stored_again():
    asked = requests(FULL)
    track = asked.add(request(96))
    track.present = {32: 1}
    asked.begins(track, 64)
    assert whole(asked, track, 96, ([11, 12, 13],)) == [(0, [1, 2], [12, 13], [1, 2])]


def test_blocks_that_a_window_has_left_behind_are_not_stored():
    asked = requests(FULL, WINDOW)
    track = asked.add(request(96))
    asked.begins(track, 0)
    assert whole(asked, track, 96, ([11, 12, 13], [0, 22, 23])) == [
        (0, [0, 1, 2], [11, 12, 13], [0, 1, 2]), (1, [1, 2], [22, 23], [1, 2])]


def test_groups_with_larger_blocks_wait_for_theirs():
    asked = requests(space(0, size=32), space(1, size=64))
    track = asked.add(request(96))
    asked.begins(track, 0)
    table = ([11, 12, 13], [21, 22])
    assert whole(asked, track, 32, table) == [(0, [0], [11], [0])]
    assert whole(asked, track, 96, table) == [(0, [1, 2], [12, 13], [1, 2]), (1, [1], [21], [0])]


def test_states_are_stored_where_vllm_offers_them():
    asked = requests(FULL, STATE)
    track = asked.add(request(96))
    asked.begins(track, 0)
    assert [group for group, *_ in whole(asked, track, 96, ([11, 12, 13], [], [0, 0, 31]))] == [0]
    offers = [(2, 41, 64), (2, 0, 64), (2, 42, 70), (2, 43, 128), (7, 44, 64)]
    assert [(pages.group, keys_of(pages), pages.blocks, page)
            for pages, page in asked.boundary_pages(track, offers)] == [(2, [1], [41], 1)]


def test_an_offered_state_whose_block_goes_to_somebody_else_in_the_same_step_is_none():
    table = ([11, 12, 13], [], [0, 41, 31])
    offers = [(2, 41, 64), (2, 44, 32), (2, 45, 32)]
    assert offers_still_there(offers, {41, 45}, table) == [(2, 41, 64), (2, 44, 32)]
    assert offers_still_there(offers, {41}, None) == [(2, 44, 32), (2, 45, 32)]


def test_states_of_every_page_are_stored_like_pages_where_the_engine_keeps_them():
    asked = requests(FULL, STATE, positional=True)
    track = asked.add(request(64))
    asked.begins(track, 0)
    assert [entry[0] for entry in whole(asked, track, 64, ([11, 12], [], [31, 32]))] == [0, 2]


def test_another_request_of_the_same_name_begins_anew():
    asked = requests(FULL)
    first = asked.add(request(64))
    assert asked.add(first.request) is first
    assert asked.add(request(64)) is not first


def test_the_keys_of_a_prompt_grow_with_it():
    asked = requests(FULL)
    track = asked.add(request(65))
    assert asked.keys(track) == (USABLE, {32: joined_keys(hashes(2), 1, b"", 2)})
    track.request.num_tokens, track.request.block_hashes = 97, hashes(3)
    assert asked.keys(track)[1][32].count == 3


def test_a_session_that_takes_its_last_token_back_has_other_keys():
    """vLLM's streaming input: the last block has as many tokens as before, but another one."""
    asked = requests(FULL)
    track = asked.add(request(97))
    before = asked.keys(track)[1][32]
    track.request.block_hashes = hashes(2) + [b"x" * 32]
    after = asked.keys(track)[1][32]
    assert (before.part(0, 2), before.one(2)) == (after.part(0, 2), bytes([2]) * 32)
    assert after.one(2) == b"x" * 32


def test_pages_without_a_block_are_left_out_with_their_keys():
    keys = joined_keys(hashes(3), 1, b"", 3)
    pages, which = without_null(0, keys, [0, 12, 0], 5)
    assert (keys_of(pages), pages.blocks, which) == ([1], [12], [6])
    assert without_null(0, keys, [0, 0, 0], 5) is None


# Blocks that get other content.


def output(new=(), cached=(), resumed=()):
    """new, resumed: (request, computed); cached: (request, computed, new blocks or None)."""
    running = list(cached) + [(name, computed, None) for name, computed in resumed]
    return SimpleNamespace(
        scheduled_new_reqs=[SimpleNamespace(req_id=name, num_computed_tokens=computed)
                            for name, computed in new],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=[entry[0] for entry in running], resumed_req_ids={r[0] for r in resumed},
            num_computed_tokens=[entry[1] for entry in running],
            new_block_ids=[entry[2] for entry in running]))


def touched(asked, told):
    asked.start(told)
    blocks = asked.touched(told)
    asked.fresh.clear()
    return sorted(blocks)


def test_a_running_requests_new_blocks_are_touched():
    asked = requests(FULL, WINDOW)
    told = output(cached=[("a", 40, ([7], [8, 9])), ("b", 40, None)])
    assert touched(asked, told) == [7, 8, 9]


def test_a_local_hit_is_not_touched_and_all_behind_it_is():
    asked = requests(FULL, space(1, size=64))
    track = asked.add(request(200))
    track.local = 64
    asked.given(track, ([1, 2, 3, 4], [5, 6]))
    assert touched(asked, output(new=[("r", 64)])) == [3, 4, 6]
    assert touched(asked, output(cached=[("r", 96, None)])) == []


def test_what_another_connector_loads_at_once_is_touched():
    """Its tokens count as computed, but its bytes come now."""
    asked = requests(FULL)
    track = asked.add(request(200))
    track.local = 32
    asked.given(track, ([1, 2, 3, 4],))
    assert touched(asked, output(new=[("r", 96)])) == [2, 3, 4]


def test_blocks_of_a_load_are_touched_although_nothing_is_computed_in_them():
    asked = requests(FULL)
    track = asked.add(request(200))
    track.local = 32
    asked.given(track, ([1, 2, 3, 4],))
    assert touched(asked, output()) == [2, 3, 4]


def test_a_hit_that_vllm_gave_up_is_touched():
    asked = requests(FULL)
    track = asked.add(request(200))
    track.local = 64
    asked.given(track, ([1, 2, 3],))
    assert touched(asked, output(new=[("r", 0)])) == [1, 2, 3]


def test_a_resumed_request_is_touched_behind_its_new_hit():
    asked = requests(FULL)
    track = asked.add(request(200))
    track.local = 32
    asked.given(track, ([1, 2, 3],))
    assert touched(asked, output(resumed=[("r", 32)])) == [2, 3]


def test_groups_that_are_not_stored_may_be_touched_whole():
    asked = requests(FULL)
    track = asked.add(request(200))
    track.local = 64
    asked.given(track, ([1, 2, 3], [9]))
    assert touched(asked, output(new=[("r", 64)])) == [3, 9]
