# SPDX-License-Identifier: Apache-2.0
"""Goal: each question to the daemon has time of its own, is counted and measured once, and says as
much as it can about the daemon; a request that waits for blocks neither floods nor slanders it.

Method: rig.py with a real daemon; how late its answers are seen is the test's choice.
"""
import time
import types

import pytest
from vllm.lora.request import LoRARequest

from kvsidecar.vllm import lookups, question
from kvsidecar.vllm.adapters import PENDING, Adapters
from rig import HYBRID, PAGE
from scene import SEVERAL_MAY_FAIL, daemon, filled, make_rig, prompt, seed, settle  # noqa: F401

MINUTE_NS = 60_000_000_000


class Slower(question.Question):
    """Its answer is seen a few looks after it was sent: within any spin, never at the first."""

    __slots__ = ("looks",)

    @property
    def finished(self):
        self.looks = getattr(self, "looks", 0) + 1
        return self.looks > 2 and question.Question.finished.fget(self)


@pytest.fixture
def sent(monkeypatch):
    """All questions."""
    found = []

    class Counted(question.Question):
        __slots__ = ()

        def __init__(self, *rest):
            super().__init__(*rest)
            found.append(self)

    monkeypatch.setattr(lookups, "Question", Counted)
    return found


@pytest.fixture
def late_adapters(monkeypatch):
    """An adapter's files are read for two asks."""
    content_id, late = Adapters.content_id, [1, 1]
    monkeypatch.setattr(Adapters, "content_id", lambda self, lora: (PENDING, None) if late and
                        late.pop() else content_id(self, lora))


def waiting_for_blocks(make_rig, **extra):
    """(rig, ask) of a request that was told 0 a minute ago and waits for another one's blocks."""
    rig = make_rig(extra, blocks=13, max_model_len=352)
    rig.add("0", prompt(0, 10 * PAGE + 1), max_tokens=30)
    rig.run(lambda: rig.outputs["0"])
    rig.add("1", prompt(1, 10 * PAGE + 1), max_tokens=2)
    rig.run(lambda: ("1", 0) in rig.asked)
    ask = rig.connector._scheduler._lookups._asks["1"]
    ask.first_ns -= MINUTE_NS
    return rig, ask


def test_a_miss_that_waits_for_blocks_is_no_late_answer(make_rig):
    rig, ask = waiting_for_blocks(make_rig, spin_us=0)
    ask.scout.sent_ns -= MINUTE_NS
    rig.run()
    assert rig.counts()["lookup_late"] == 0


def test_a_miss_that_waits_for_blocks_is_not_asked_about_in_each_step(make_rig, sent):
    rig, ask = waiting_for_blocks(make_rig, spin_us=10_000)
    ask.scout.sent_ns -= MINUTE_NS
    before, asked = len(sent), len(rig.asked)
    rig.run()
    assert len(rig.asked) - asked > 10 and len(sent) - before <= 2


def test_a_request_that_waited_over_a_reset_has_time_for_its_answer(make_rig):
    rig, _ = waiting_for_blocks(make_rig, spin_us=0)
    rig.scheduler.reset_prefix_cache(reset_connector=True)
    rig.run()
    assert rig.counts()["lookup_late"] == 0


def test_a_daemon_that_was_late_once_is_listened_to_again(
        make_rig, filled, daemon, settle, monkeypatch):
    prompts = filled([prompt(i, 4 * PAGE + 1) for i in range(12)])
    monkeypatch.setattr(lookups, "Question", Slower)
    rig = make_rig({"lookup_deadline_ms": 20})
    daemon.pause()
    rig.generate(prompts[:1], name="late")
    assert rig.counts()["lookup_late"] == 1
    daemon.resume()
    settle()
    monkeypatch.setattr(rig.connector._scheduler._lookups, "_settings", types.SimpleNamespace(
        **{**vars(rig.connector._scheduler._lookups._settings), "lookup_deadline_s": 10}))
    for i, one in enumerate(prompts[1:]):
        rig.generate([one], name=f"later{i}")
        settle()
    assert rig.hits >= 4 * PAGE * 9


def test_an_old_answer_ends_no_silence(make_rig, filled, daemon):
    """A request that has its answer and waits for blocks tells nothing about the daemon now."""
    prompts = filled([prompt(i, 10 * PAGE + 1) for i in range(2)])
    rig = make_rig({"lookup_deadline_ms": 20}, blocks=13, max_model_len=352)
    found = rig.connector._scheduler._lookups
    rig.add("0", prompts[0], max_tokens=30)
    rig.run(lambda: rig.outputs["0"])
    rig.add("1", prompts[1], max_tokens=2)
    rig.run(lambda: ("1", 10 * PAGE) in rig.asked)
    daemon.pause()
    found._silent = True  # another one's deadline has passed
    rig.step()
    assert found._silent
    daemon.resume()
    rig.run()


def test_a_lookup_is_measured_once(make_rig, filled, sent):
    prompts = filled([prompt(i, 10 * PAGE + 1) for i in range(2)])
    rig = make_rig(blocks=13, max_model_len=352)
    rig.generate(prompts, 20)
    assert 0 < rig.stats.data["times"]["lookup_seconds"][0] <= len(sent)


def adapted(folder):
    (folder / "adapter_config.json").write_text("{}")
    return LoRARequest("adapter", 1, str(folder))


def test_requests_whose_adapter_was_read_are_counted_as_looked_up(
        make_rig, tmp_path, late_adapters):
    rig = make_rig(enable_lora=True, max_loras=1, max_lora_rank=8)
    rig.add("r", prompt(1, 4 * PAGE + 1), 2, salt=b"a", lora_request=adapted(tmp_path))
    rig.run()
    assert rig.counts()["lookups"] == 1


def test_a_request_whose_adapter_took_long_has_time_for_its_answer(
        make_rig, tmp_path, late_adapters, monkeypatch):
    monkeypatch.setattr(lookups, "Question", Slower)
    rig = make_rig({"spin_us": 0}, enable_lora=True, max_loras=1, max_lora_rank=8)
    rig.add("r", prompt(1, 4 * PAGE + 1), 2, salt=b"a", lora_request=adapted(tmp_path))
    rig.run(lambda: ("r", None) in rig.asked)
    rig.connector._scheduler._lookups._asks["r"].first_ns -= MINUTE_NS
    rig.run()
    assert rig.counts()["lookup_late"] == 0


def test_failures_that_are_forgiven_cost_nothing_more(make_rig, filled, monkeypatch):
    prompts = filled([prompt(i, 4 * PAGE + 1) for i in range(2)])
    rig = make_rig()
    found = rig.connector._scheduler._lookups
    found.forget_pages([rig.request("x", prompts[0]).block_hashes[0]])
    monkeypatch.setattr(lookups, "time", types.SimpleNamespace(
        monotonic_ns=lambda: time.monotonic_ns() + lookups.FORGIVEN_NS + 1,
        perf_counter_ns=time.perf_counter_ns))
    rig.generate(prompts[1:])
    assert not found._failed  # else each ask would look at each page for ever


@pytest.mark.skipif(not SEVERAL_MAY_FAIL,
                    reason="before 0.30 models with several groups only store")
def test_what_lies_before_a_failed_page_is_loaded_only_where_it_restores(make_rig, filled):
    one = prompt(1, 10 * PAGE + 1)
    filled([one], specs=HYBRID)
    rig = make_rig(specs=HYBRID)
    side = rig.connector._scheduler
    hashes = rig.request("x", one).block_hashes
    window = next(space for space in side._spaces if space.kind == "window")
    side.session.client.delete(side.session.namespaces[window.group], b"".join(hashes[:8]),
                               key_bytes=len(hashes[0])).wait()  # only the last ones are there
    side._lookups.forget_pages([hashes[5]])
    rig.add("r", one, 2)
    rig.run()
    assert rig.counts()["failed_loads"] == 0
