# SPDX-License-Identifier: Apache-2.0
"""Goal: whatever vLLM's scheduler does with requests and the daemon with pages, no request meets a
wrong byte and nothing is left behind.

Method: rig.py with a real daemon. vLLM's own tests of connectors told anew (remote prefill life,
load failure recovery, invalid blocks, cache pollution, output aggregation, reset), and defects 5, 6
and 7 of its HF3FS connector: a failed load taken for a good one, an abort during a load, preemption
with stores under way and block lists of resumed requests. Its tests of error propagation need
kv_load_failure_policy = fail, which is refused at start (test_vllm_settings.py).
"""
import pytest

import kvsidecar
from rig import PAGE, WrongBytes
from scene import (GROUPS, daemon, filled, forget, make_rig, prompt, seed, settle,  # noqa: F401
                   whole)
from tokens import continuation


@pytest.mark.parametrize("specs", GROUPS)
def test_what_one_engine_stored_the_next_one_loads(make_rig, filled, specs):
    prompts = filled([prompt(i, 150 + i) for i in range(4)], specs=specs)
    rig = make_rig(specs=specs)
    rig.generate(prompts)
    assert rig.hits == whole(prompts)
    rig.check_empty()


def test_a_wrong_page_would_be_seen(make_rig, daemon):
    """The rig can fail: the same keys with other bytes."""
    rig = make_rig()
    space, = rig.connector._scheduler._spaces
    size = space.fields.page_bytes
    with kvsidecar.Client(daemon.socket) as client:
        layout = client.register_layout(4, [kvsidecar.Run(
            client.create_memory(4 * size), 0, size, size)])
        keys = rig.request("poisoned", prompt(1, 100)).block_hashes
        put = client.put(client.attach(space.fields), keys, layout, range(len(keys)))
        assert put.result().succeeded == len(keys) == 3
    rig.add("poisoned", prompt(1, 100))
    with pytest.raises(WrongBytes):
        rig.run()
    assert rig.hits == 3 * PAGE


@pytest.mark.parametrize("specs", GROUPS)
def test_a_prompt_that_was_found_to_its_end_computes_its_last_page(make_rig, filled, specs):
    prompts = filled([prompt(1, 4 * PAGE)], specs=specs)
    rig = make_rig(specs=specs)
    rig.generate(prompts)
    assert rig.hits == 3 * PAGE


@pytest.mark.parametrize("budget", [PAGE, 100, 512])
def test_prompts_in_chunks_are_stored_once_each_page(make_rig, settle, budget):
    prompts = [prompt(i, 200) for i in range(3)]
    make_rig(max_num_batched_tokens=budget).generate(prompts)
    counters = settle()
    assert counters["pages_put_stored"] == 3 * 6 and counters["pages_put_exists"] == 0
    rig = make_rig(max_num_batched_tokens=budget)
    rig.generate(prompts)
    assert rig.hits == whole(prompts)


def test_generated_tokens_are_kept_like_prompts(make_rig, filled, settle):
    prompts = filled([prompt(1, 50)])
    more, = make_rig().generate(prompts, max_tokens=100)
    settle()
    rig = make_rig()
    rig.generate([prompts[0] + more])
    assert rig.hits == 4 * PAGE


def test_each_ask_for_the_same_request_has_the_same_answer(make_rig, filled):
    """The scheduler asks again for as long as it finds no blocks."""
    prompts = filled([prompt(i, 10 * PAGE + 1) for i in range(3)])
    rig = make_rig(blocks=13, max_model_len=352)
    rig.generate(prompts)
    for name in "012":
        answers = [tokens for request_id, tokens in rig.asked
                   if request_id == name and tokens is not None]
        assert set(answers) == {10 * PAGE}
    rig.check_empty()


def test_what_is_loaded_goes_on_though_a_request_before_it_finds_no_blocks(make_rig, filled):
    """The scheduler looks at nobody behind such a request: neither would ever have gone on."""
    prompts = filled([prompt(i, 10 * PAGE + 1) for i in range(2)])
    rig = make_rig(blocks=13, max_model_len=352)
    lookups = rig.connector._scheduler._lookups
    matched, late = lookups.matched, ["0"]

    def answer(request_id, *rest, **more):
        if request_id in late:
            late.remove(request_id)
            return None  # the other one overtakes it
        return matched(request_id, *rest, **more)

    lookups.matched = answer
    rig.generate(prompts)
    assert not late and rig.hits == whole(prompts)
    rig.check_empty()


def test_metadata_is_there_only_within_a_step(make_rig):
    rig = make_rig()
    rig.generate([prompt(1, 50)])
    assert not rig.workers[0].connector.has_connector_metadata()


def test_an_idle_engine_needs_no_step_for_its_stores(make_rig, settle):
    rig = make_rig()
    rig.generate([prompt(1, 10 * PAGE)])
    steps = rig.steps
    assert settle()["pages_put_stored"] == 10 and rig.steps == steps
    rig.check_empty()


def test_counts_add_up(make_rig, filled):
    prompts = filled([prompt(i, 100 + 40 * i) for i in range(4)])
    rig = make_rig()
    rig.on_load.append(lambda request: request.request_id == "1" and forget(rig, "1", keep=1))
    rig.generate(prompts + [prompt(9, 200)])
    counts = rig.counts()
    found = sum(counts[f"hit_tokens_{place}"] for place in ("host", "store", "remote"))
    assert found == rig.hits == whole(prompts)
    loaded = sum(count for name, count in counts.items() if name.startswith("load_pages_"))
    assert loaded * PAGE == rig.hits and counts["load_pages_miss"] == 3
    assert counts["loads"] == 4 and counts["failed_loads"] == 1
    assert counts["lookups"] == 5
    assert counts["scheduler_steps"] > 0 and counts["scheduler_ns"] > 0


# A failed load (defect 5).

@pytest.mark.parametrize("specs", GROUPS)
@pytest.mark.parametrize("keep", [0, 1, 5])
def test_pages_that_go_between_lookup_and_load_are_computed(make_rig, filled, specs, keep):
    prompts = filled([prompt(i, 220) for i in range(2)], specs=specs)
    rig = make_rig(specs=specs)
    rig.on_load.append(lambda request: forget(rig, request.request_id, keep))
    rig.generate(prompts)
    counts = rig.counts()
    assert counts["loads"] == counts["failed_loads"] == 2
    for name in "01":  # and nobody runs into the same again
        answers = [tokens for request_id, tokens in rig.asked
                   if request_id == name and tokens is not None]
        assert answers[0] == 6 * PAGE and set(answers[1:]) <= {0}
    rig.check_empty()


@pytest.mark.parametrize("specs", GROUPS)
def test_a_failed_load_pollutes_nobody_elses_prefix(make_rig, filled, specs):
    prompts = filled([prompt(1, 220)] * 1, specs=specs)
    rig = make_rig(specs=specs)
    rig.on_load.append(lambda request: forget(rig, request.request_id, 2))
    for name in "abc":  # at once: whoever shares blocks with the failed one
        rig.add(name, prompts[0] + [5] * ord(name))
    rig.run()
    for name in "abc":
        rig.check_output(name, prompts[0] + [5] * ord(name))
    rig.generate([prompts[0] + prompt(3, 40)], name="later")
    rig.check_empty()


def test_a_page_that_was_computed_again_is_found_again(make_rig, filled, settle):
    """At the latest when the room of what was lost is nobody's any more: until its lease is over
    the daemon may refuse the new page."""
    prompts = filled([prompt(1, 220)])
    rig = make_rig()
    rig.on_load.append(lambda request: forget(rig, request.request_id))
    rig.generate(prompts)
    for _ in range(20):
        settle()
        rig = make_rig()
        rig.generate(prompts)
        if rig.hits == whole(prompts):
            break
    assert rig.hits == whole(prompts) and rig.counts()["failed_loads"] == 0


@pytest.mark.parametrize("specs", GROUPS)
def test_a_load_that_never_begins_ends_with_its_deadline(make_rig, filled, daemon, specs):
    prompts = filled([prompt(1, 220)], specs=specs)
    rig = make_rig({"load_timeout_s": 0.2, "lookup_deadline_ms": 50}, specs=specs)
    rig.on_load.append(lambda request: daemon.pause())
    rig.add("loads", prompts[0])
    rig.run(lambda: rig.asked and rig.asked[-1][1])
    rig.add("others", prompt(2, 100))
    rig.run()  # the daemon stands still all the time
    daemon.resume()
    rig.check_output("loads", prompts[0])
    rig.check_output("others", prompt(2, 100))
    assert rig.counts()["load_pages_timeout"] > 0
    rig.check_empty()


@pytest.mark.parametrize("specs", GROUPS)
def test_nobody_waits_for_anothers_load(make_rig, filled, daemon, specs):
    prompts = filled([prompt(1, 220)], specs=specs)
    rig = make_rig({"load_timeout_s": 60, "lookup_deadline_ms": 50}, specs=specs)
    rig.on_load.append(lambda request: daemon.pause())
    loading = rig.add("loads", prompts[0])
    rig.run(lambda: loading.status.name == "WAITING_FOR_REMOTE_KVS")
    rig.add("other", prompt(2, 100))
    rig.run(lambda: "other" in rig.reasons)
    assert loading.status.name == "WAITING_FOR_REMOTE_KVS"
    daemon.resume()
    rig.run()
    rig.check_output("other", prompt(2, 100))
    rig.check_output("loads", prompts[0])
    assert rig.hits == whole(prompts) and not rig.counts()["failed_loads"]


# Aborts (defect 6).

@pytest.mark.parametrize("specs", GROUPS)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_an_abort_during_a_load_gives_all_blocks_back(make_rig, filled, daemon, specs, steps):
    prompts = filled([prompt(1, 300)], specs=specs)
    rig = make_rig(specs=specs)
    rig.on_load.append(lambda request: daemon.pause())
    request = rig.add("aborted", prompts[0])
    rig.run(lambda: request.status.name == "WAITING_FOR_REMOTE_KVS")
    for _ in range(steps):
        rig.step()
    rig.abort("aborted")
    rig.run(lambda: not rig.scheduler.has_requests() or free_blocks(rig) == 63)
    daemon.resume()
    rig.on_load.clear()
    rig.generate([prompt(2, 300)], name="after")
    rig.check_empty()


def free_blocks(rig):
    return rig.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()


def test_an_abort_during_a_lookup_leaves_nothing(make_rig, daemon):
    rig = make_rig()
    daemon.pause()
    rig.add("aborted", prompt(1, 300))
    for _ in range(3):
        rig.step()
    assert {tokens for _, tokens in rig.asked} == {None}
    rig.abort("aborted")
    daemon.resume()
    rig.generate([prompt(2, 300)])
    rig.check_empty()


@pytest.mark.parametrize("after", range(0, 8))
def test_an_abort_at_any_step_leaves_nothing(make_rig, filled, after):
    prompts = filled([prompt(i, 130) for i in range(2)])
    rig = make_rig(max_num_batched_tokens=64)
    rig.add("aborted", prompts[0] + prompt(5, 100), max_tokens=30)
    rig.add("other", prompts[1])
    for _ in range(after):
        rig.step()
    rig.abort("aborted")
    rig.run()
    rig.check_output("other", prompts[1])
    rig.generate([prompts[0] + prompt(5, 100)], name="again")
    rig.check_empty()


# Preemption (defect 7).

@pytest.mark.parametrize("specs", GROUPS)
@pytest.mark.parametrize("still", [False, True])
def test_preempted_and_resumed_requests_store_their_own_pages(
        make_rig, settle, daemon, specs, still):
    prompts = [prompt(i, 90) for i in range(5)]
    rig = make_rig({"lookup_deadline_ms": 20}, blocks=24, max_model_len=256,
                   specs=specs)
    preempted = set()
    for i, one in enumerate(prompts):
        rig.add(str(i), one, max_tokens=90)
    if still:
        daemon.pause()  # stores wait while their blocks go to others
    while rig.scheduler.has_requests():
        preempted |= set(rig.step().preempted_req_ids or ())
    if still:
        daemon.resume()
    assert preempted
    for i, one in enumerate(prompts):
        rig.check_output(str(i), one, 90)
    rig.check_empty()
    settle()
    rig = make_rig(specs=specs)
    rig.generate([one + continuation(one, 90) for one in prompts])
    assert rig.hits > 0 or still
    rig.check_empty()


# Resets.

@pytest.mark.parametrize("on_reset", ["detach", "clear", "keep"])
@pytest.mark.parametrize("running", [False, True])
def test_after_a_reset_nothing_of_before_is_found(make_rig, filled, settle, on_reset, running):
    prompts = filled([prompt(i, 200) for i in range(3)])
    rig = make_rig({"on_reset": on_reset})
    for i, one in enumerate(prompts):
        rig.add(f"before{i}", one, max_tokens=20)
    if running:
        rig.run(lambda: rig.scheduler.running)
        rig.run(lambda: not any(r.status.name == "WAITING_FOR_REMOTE_KVS"
                                for r in rig.scheduler.requests.values()))
    else:
        rig.run()
    before = rig.hits
    assert rig.scheduler.reset_prefix_cache(
        reset_running_requests=running, reset_connector=True)
    rig.run()
    for i, one in enumerate(prompts):
        rig.check_output(f"before{i}", one, 20)
    rig.generate(prompts, name="after")
    if on_reset != "keep":
        assert rig.hits == before
    rig.check_empty()
    for again in range(100):  # the daemon may have been asked to attach only now
        settle()
        assert rig.scheduler.reset_prefix_cache()
        rig.generate(prompts, name=f"again{again}.")
        if rig.hits > before:
            break
    assert rig.hits > before


# Ranks.

@pytest.mark.parametrize("specs", GROUPS)
def test_ranks_store_and_load_their_own_parts(make_rig, filled, specs):
    prompts = filled([prompt(i, 150) for i in range(3)], specs=specs, ranks=2)
    rig = make_rig(specs=specs, ranks=2)
    rig.generate(prompts)
    assert rig.hits == whole(prompts)
    rig.check_empty()
    one = make_rig(specs=specs)  # another geometry shares nothing
    one.generate(prompts)
    assert one.hits == 0


@pytest.mark.parametrize("specs", GROUPS)
def test_a_load_that_fails_on_one_rank_fails(make_rig, filled, specs):
    prompts = filled([prompt(i, 150) for i in range(2)], specs=specs, ranks=2)
    rig = make_rig(specs=specs, ranks=2)
    rig.on_load.append(lambda request: rig.workers[1].connector._worker.session.close(1))
    rig.generate(prompts)
    assert rig.counts()["failed_loads"] > 0
    rig.check_empty()


# What else names a page.

def test_requests_of_another_salt_share_nothing(make_rig, filled):
    one = prompt(1, 150)
    filled([one])
    rig = make_rig()
    rig.add("salted", one, cache_salt="s", salt=b"s")
    rig.run()
    rig.check_output("salted", one)
    assert rig.hits == 0
