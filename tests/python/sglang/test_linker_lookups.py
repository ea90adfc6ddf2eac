# SPDX-License-Identifier: Apache-2.0
"""Goal: a lookup takes its time and no more, offers only what is in the host pool under a lease,
and keeps an answer as long as it can be relied on.

Method: Lookups over answers of the test's making, with a clock of its own that moves on at every
look.
"""
from types import SimpleNamespace

import pytest

from kvsidecar import Status
from kvsidecar.sglang import linker_question
from kvsidecar.sglang.linker_lookups import AGAIN_NS, AVOIDED_NS, SILENT_NS, Lookups
from kvsidecar.sglang.linker_transfers import Asked
from kvsidecar.status import Place

BUDGET_NS = 200_000
LEASE_NS = 10 * 10**9
LOOK_NS = 1_000  # of the clock
HOST, STORE, MISS = bytes((Place.HOST,)), bytes((Place.STORE,)), bytes((Place.MISS,))


class Answer:
    """As a Found. None for the places: it isn't there yet."""

    def __init__(self, places=None, restorable=None, lease=7, status=Status.OK):
        self.text = ""
        self.give(places, restorable, lease, status)

    def give(self, places, restorable=None, lease=7, status=Status.OK):
        self.finished = places is not None or status != Status.OK
        self.places_bytes = places or b""
        lengths = restorable if restorable is not None else \
            range(1, len(self.places_bytes) - self.places_bytes.count(MISS) + 1)
        self.longest = max(lengths, default=0)
        bits = sum(1 << (length - 1) for length in lengths)
        self._restorable = bits.to_bytes(8, "little")
        self.lease = lease if self.longest else 0
        self.status = status


class Scene:
    """A daemon whose next answers, in order of asking, are `answers`."""

    def __init__(self, monkeypatch, *sources):
        self.now = 0
        self.asked, self.released, self.answers = [], [], []
        scene = self

        class Prepared:
            keys_max = 1000

            def __init__(self, client, pools, **options):
                self.options = options

            def begin(self, keys, key_bytes):
                scene.asked.append((keys, self.options))
                return scene.answers.pop(0) if scene.answers else Answer()

        monkeypatch.setattr(linker_question, "PreparedLookup", Prepared)
        self.client = SimpleNamespace(epoch=1, connected=True, release=self.release)
        self.namespaces = {name: SimpleNamespace() for name in ("kv", *sources)}
        pools = {name: SimpleNamespace(name=name, source=name) for name in ("kv", *sources)}
        self.lookups = Lookups(
            SimpleNamespace(client=self.client, namespace=self.namespaces.get), pools,
            LEASE_NS * 1e-9, clock=self.clock)

    def clock(self):
        self.now += LOOK_NS
        return self.now

    def release(self, lease):
        self.released.append(lease)
        return SimpleNamespace(finished=True)

    def lengths(self, pages=4, rid="r", first=0, **trailing):
        keys = b"".join(bytes((page,)) * 32 for page in range(first, pages))
        return self.lookups.lengths(rid, Asked(keys, 32, trailing), self.now + BUDGET_NS)


@pytest.fixture
def scene(monkeypatch):
    return Scene(monkeypatch)


@pytest.fixture
def hybrid(monkeypatch):
    return Scene(monkeypatch, "mamba", "swa")


def test_an_answer_in_time_is_told(scene):
    scene.answers = [Answer(HOST * 4)]
    assert scene.lengths() == [1, 2, 3, 4]
    options = scene.asked[0][1]
    assert options["lease"] == pytest.approx(10) and options["prefetch"]


def test_no_answer_in_time_is_nothing_and_takes_no_longer(scene):
    assert scene.lengths() == []
    assert BUDGET_NS <= scene.now <= BUDGET_NS + 5 * LOOK_NS


def test_a_late_answer_serves_the_next_lookup(scene):
    late = Answer()
    scene.answers = [late]
    assert scene.lengths() == []
    late.give(HOST * 4)
    before = scene.now
    assert scene.lengths() == [1, 2, 3, 4] and len(scene.asked) == 1
    assert scene.now - before < BUDGET_NS // 10


def test_a_late_answer_counts_unless_the_request_is_asked_about_again(scene):
    served, lost = Answer(), Answer()
    scene.answers = [served, lost, Answer(HOST * 4)]
    for rid in ("served", "lost", "in time"):
        scene.lengths(rid=rid)
    for answer in (served, lost):
        answer.give(HOST * 4)
    assert scene.lengths(rid="served") == [1, 2, 3, 4]
    scene.lookups.late.look()
    assert scene.lookups.late.count == 1


def test_only_the_first_ask_spins(scene):
    scene.answers = [Answer()]
    scene.lengths()
    before = scene.now
    assert scene.lengths() == [] and scene.now - before < BUDGET_NS // 10


def test_nobody_waits_for_a_silent_daemon(scene):
    silent = Answer()
    scene.answers = [silent, Answer(), Answer()]
    scene.lengths(rid="a")
    scene.now += SILENT_NS
    before = scene.now
    assert scene.lengths(rid="b") == [] and scene.now - before < BUDGET_NS // 10
    silent.give(HOST)
    before = scene.now
    assert scene.lengths(rid="c") == [] and scene.now - before >= BUDGET_NS, "it has answered"


def test_pages_of_the_store_arent_offered(scene):
    scene.answers = [Answer(HOST * 2 + STORE * 2)]
    assert scene.lengths() == [1, 2]


def test_while_pages_are_prefetched_a_later_lookup_asks_again(scene):
    scene.answers = [Answer(HOST * 2 + STORE * 2, lease=7), Answer(HOST * 4, lease=8)]
    assert scene.lengths() == [1, 2]
    assert scene.lengths() == [1, 2] and len(scene.asked) == 1, "too soon"
    scene.now += AGAIN_NS
    assert scene.lengths() == [1, 2, 3, 4]
    assert scene.released == [7] and scene.lookups.taken("r").leases == (8,)


def test_without_a_lease_nothing_is_offered(scene):
    scene.answers = [Answer(HOST * 4, lease=0)]
    assert scene.lengths() == []


def test_pages_that_came_too_late_are_left_alone_for_a_while(scene):
    scene.answers = [Answer(HOST * 4) for _ in range(3)]
    scene.lengths()
    scene.lookups.avoid([bytes((2,)) * 32])
    assert scene.lengths() == [1, 2] and scene.lengths(first=1) == [1]
    assert scene.lengths(rid="b") == [1, 2]
    scene.now += AVOIDED_NS
    assert scene.lengths(rid="b") == [1, 2, 3, 4]


def test_half_of_a_leases_time_is_left_to_the_load(scene):
    scene.answers = [Answer(HOST * 4, lease=7), Answer(HOST * 4, lease=8)]
    assert scene.lengths() == [1, 2, 3, 4]
    scene.now += LEASE_NS // 2 - 10 * LOOK_NS
    assert scene.lengths() and len(scene.asked) == 1
    scene.now += 20 * LOOK_NS
    assert scene.lengths() == [1, 2, 3, 4] and len(scene.asked) == 2
    assert scene.released == [7]


def test_the_lease_of_a_load_is_the_loads(scene):
    scene.answers = [Answer(HOST * 4)]
    scene.lengths()
    assert scene.lookups.taken("r") == ((7,), 1)
    assert scene.lookups.taken("r") == ((), 0)
    scene.now += LEASE_NS
    scene.answers = [Answer()]
    scene.lengths(rid="b")
    assert scene.released == []


@pytest.mark.parametrize("changed", [{"epoch": 2}, {"connected": False}])
def test_an_answer_doesnt_outlive_its_daemon(scene, changed):
    scene.answers = [Answer(HOST * 4), Answer(status=Status.UNAVAILABLE)]
    assert scene.lengths() == [1, 2, 3, 4]
    vars(scene.client).update(changed)
    assert scene.lengths() == [] and len(scene.asked) == 2


def test_an_answer_moves_with_the_tail(scene):
    scene.answers = [Answer(HOST * 4)]
    assert scene.lengths() == [1, 2, 3, 4]
    assert scene.lengths(first=3) == [1]
    assert scene.lengths(first=1) == [1, 2, 3] and len(scene.asked) == 1


def test_a_tail_without_its_last_page_is_part_of_the_same_question(scene):
    """With some policies SGLang asks about a whole prompt, and then without the last token."""
    late = Answer()
    scene.answers = [late]
    assert scene.lengths(pages=4) == [] and scene.lengths(pages=3) == []
    late.give(HOST * 4)
    assert scene.lengths(pages=3) == [1, 2, 3]
    assert scene.lengths(pages=4) == [1, 2, 3, 4]
    assert scene.lengths(pages=3, first=1) == [1, 2] and len(scene.asked) == 1


def test_an_answer_that_says_nothing_about_a_part_isnt_asked_for_again(scene):
    scene.answers = [Answer(MISS * 4)]
    assert scene.lengths(pages=4) == [] and scene.lengths(pages=3) == []
    assert len(scene.asked) == 1


def test_a_part_that_ends_before_what_is_held_is_another_question(hybrid):
    beside(hybrid, Answer(HOST * 4, restorable=[2, 4]), Answer(HOST * 4), Answer(HOST * 4))
    assert hybrid.lengths(swa=2, mamba=1) == [2, 4]
    beside(hybrid, Answer(HOST * 3, restorable=[2], lease=8), Answer(HOST * 3), Answer(HOST * 3))
    assert hybrid.lengths(pages=3, swa=2, mamba=1) == [2]
    assert hybrid.released == [7] and hybrid.lookups.taken("r").leases == (8,)


def test_a_longer_window_is_another_question(hybrid):
    beside(hybrid, Answer(HOST * 2, restorable=[2]), Answer(HOST * 2), Answer(MISS + HOST))
    assert hybrid.lengths(pages=2, swa=1, mamba=1) == [2]
    beside(hybrid, Answer(HOST * 2, restorable=[]), Answer(HOST * 2), Answer(MISS + HOST))
    assert hybrid.lengths(pages=2, swa=2, mamba=1) == []


def test_an_idle_engine_sleeps_for_what_it_hasnt_seen(scene):
    slow = Answer()
    slept = []

    def wait(nanoseconds):
        slept.append(nanoseconds)
        slow.give(HOST * 4)

    slow.wait = wait
    scene.answers = [slow, Answer(HOST * 4)]
    keys = b"".join(bytes((page,)) * 32 for page in range(4))
    assert scene.lookups.lengths("r", Asked(keys, 32, {}), scene.now, 10**12) == [1, 2, 3, 4]
    assert len(slept) == 1 and slept[0] <= 10**12
    assert scene.lookups.lengths("s", Asked(keys, 32, {}), scene.now, 0) == [1, 2, 3, 4]
    assert len(slept) == 1, "an engine that computes doesn't"


def test_pages_are_avoided_each_for_its_time(scene):
    scene.answers = [Answer(HOST * 4) for _ in range(3)]
    scene.lookups.avoid([bytes((1,)) * 32])
    scene.now += AVOIDED_NS // 2
    scene.lookups.avoid([bytes((3,)) * 32])
    scene.lookups.avoid([])
    assert scene.lengths(rid="a") == [1]
    scene.now += AVOIDED_NS // 2
    assert scene.lengths(rid="b") == [1, 2, 3]
    scene.now += AVOIDED_NS // 2
    assert scene.lengths(rid="c") == [1, 2, 3, 4]


def test_who_isnt_asked_about_any_more_keeps_no_lease(scene):
    """A request whose answer came too late is computed, and holds up nobody else's lease."""
    late = Answer()
    scene.answers = [late, Answer(HOST * 4, lease=8)]
    assert scene.lengths(rid="computed") == []
    scene.lookups.next_batch()
    assert scene.lengths(rid="waiting") == [1, 2, 3, 4]
    late.give(HOST * 4, lease=7)
    scene.lookups.next_batch()
    assert scene.released == [7]
    assert scene.lengths(rid="waiting") == [1, 2, 3, 4] and len(scene.asked) == 2
    scene.lookups.next_batch()
    assert scene.lengths(rid="waiting") and len(scene.asked) == 2 and scene.released == [7]


def test_other_keys_are_another_question(scene):
    scene.answers = [Answer(HOST * 4, lease=7), Answer(HOST * 5, lease=8)]
    scene.lengths()
    assert scene.lengths(pages=5) == [1, 2, 3, 4, 5] and scene.released == [7]


def test_what_lies_beyond_the_longest_question_isnt_asked_about(scene, monkeypatch):
    monkeypatch.setattr(linker_question.PreparedLookup, "keys_max", 4)
    scene.answers = [Answer(HOST * 4)]
    assert scene.lengths(pages=6) == [1, 2, 3, 4]
    assert scene.lengths(pages=6) == [1, 2, 3, 4] and len(scene.asked) == 1
    assert len(scene.asked[0][0]) == 4 * 32


@pytest.mark.parametrize("status", [Status.TIMEOUT, Status.INTERNAL])
def test_a_failed_lookup_is_asked_again_later(scene, status):
    scene.answers = [Answer(status=status), Answer(HOST * 4)]
    assert scene.lengths() == []
    assert scene.lengths() == [] and len(scene.asked) == 1
    scene.now += AGAIN_NS
    assert scene.lengths() == [1, 2, 3, 4]


def test_nobody_to_ask_is_nothing(scene):
    scene.namespaces.pop("kv")
    assert scene.lengths() == [] and not scene.asked
    unavailable = Answer(status=Status.UNAVAILABLE)
    scene.namespaces["kv"] = SimpleNamespace()
    scene.answers = [unavailable]
    before = scene.now
    assert scene.lengths() == [] and scene.now - before < BUDGET_NS // 10


def test_a_clear_by_others_is_noticed(scene):
    scene.answers = [Answer(status=Status.STALE_NAMESPACE)]
    assert scene.lengths() == [] and scene.lookups.stale


def test_other_namespaces_are_other_questions(scene):
    scene.answers = [Answer(HOST * 4), Answer(HOST * 4)]
    scene.lengths()
    scene.namespaces["kv"] = SimpleNamespace()
    scene.lookups.drop_all()
    assert scene.lengths() == [1, 2, 3, 4] and len(scene.lookups._prepared) == 1


# Windows and states: the whole answer, then where mamba's and swa's pages are.


def beside(hybrid, whole, mamba, swa):
    hybrid.answers = [whole, mamba, swa]


def test_every_restorable_length_is_told_at_once_and_later_the_leased_one(hybrid):
    beside(hybrid, Answer(HOST * 4, restorable=[2, 4]), Answer(HOST * 4), Answer(HOST * 4))
    assert hybrid.lengths(swa=2, mamba=1) == [2, 4]
    assert hybrid.lengths(swa=2, mamba=1) == [4]


def test_a_state_in_the_store_isnt_offered_yet(hybrid):
    beside(hybrid, Answer(HOST * 4, restorable=[2, 4]), Answer(HOST * 3 + STORE), Answer(HOST * 4))
    assert hybrid.lengths(swa=2, mamba=1) == [2]
    hybrid.now += AGAIN_NS
    beside(hybrid, Answer(HOST * 4, restorable=[2, 4]), Answer(HOST * 4), Answer(HOST * 4))
    assert hybrid.lengths(swa=2, mamba=1) == [2, 4]


@pytest.mark.parametrize("swa, mamba, told", [
    # swa whole at the ends of 1 and 3 pages, states at 1 and 2: 1, not 2
    (HOST + STORE + HOST * 2, HOST * 2 + STORE * 2, [1]),
    (HOST * 4, HOST * 4, [1, 2, 3, 4]), (STORE * 4, HOST * 4, []), (HOST * 4, STORE * 4, []),
    (STORE * 2 + HOST * 2, STORE * 3 + HOST, [4])])
def test_what_all_pools_have_at_the_same_end_is_told(hybrid, swa, mamba, told):
    beside(hybrid, Answer(HOST * 4), Answer(mamba), Answer(swa))
    assert hybrid.lengths(swa=2, mamba=1) == told


def test_a_window_counts_from_its_first_page(hybrid):
    beside(hybrid, Answer(HOST * 4, restorable=[1, 3, 4]), Answer(HOST * 4),
           Answer(HOST + STORE + HOST * 2))
    assert hybrid.lengths(swa=2, mamba=1) == [1, 4]
