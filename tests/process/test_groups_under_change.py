# SPDX-License-Identifier: Apache-2.0
"""Goal: the ranks of a group get one answer however late they ask and whatever becomes of the pages
meanwhile; what has gone is a miss of the get, and no rank gets another's bytes. (Bug reports O2-01,
O4-02.)

Method: two groups of four ranks, one model. Each round every rank asks once for its group's ticket,
all in a random order; between them pages are evicted, deleted, put again, and sometimes cleared.
Each rank then loads what the answer said it may.
"""
import os
import random

import pytest

import accounts
import content
from engine import Engine, fields
from kvsidecar import Coordinate, Part, Place, Status

RANKS, PAGES, ROUNDS = 4, 24, 40
PART_BYTES = 16384
POOL = {"host_pool": {"bytes": "16MiB", "chunk_bytes": "8MiB", "span_bytes": "2MiB"},
        "store": {"kind": "none", "root": ""}, "limits": {"parts_timeout_s": 1}}
FILLER_BYTES, FILLERS = 65536, 240  # as much as the pool
LEASE_S = 30
PUT = {Status.OK, Status.OK_PART, Status.EXISTS, Status.BUSY}  # BUSY: all room is leased
# After a clear: the others' attach is over, and the clearer's question isn't the ticket's any more.
NOTHING = {Status.STALE_NAMESPACE, Status.INVALID}


class Group:
    """The ranks of one engine."""

    def __init__(self, daemon, number, seed):
        self.uuid = seed.to_bytes(8, "little") + bytes([number] * 8)
        self.space = fields(RANKS * PART_BYTES, tp_size=RANKS,
                            parts=[Part(Coordinate(tp, 0, 0), PART_BYTES) for tp in range(RANKS)])
        self.ranks = [Engine(daemon.socket, PAGES, PART_BYTES, namespace=self.space,
                             part=b"%d" % rank, attach=self.place(rank)) for rank in range(RANKS)]
        self.answers = []

    def place(self, rank):
        return dict(group=self.uuid, group_size=RANKS, rank=rank,
                    coordinate=Coordinate(rank, 0, 0))

    def attach_again(self):
        """What an engine with new weights does: after a clear nobody may use what he had."""
        for rank, engine in enumerate(self.ranks):
            engine.space = engine.client.attach(self.space, timeout=10, **self.place(rank))

    def put(self, keys):
        for engine in self.ranks:
            statuses = engine.check_put(keys, timeout=10)
            assert set(statuses) <= PUT, statuses

    def ask(self, rank, keys, ticket, lease, cleared):
        found = self.ranks[rank].lookup(keys, ticket=ticket, lease=lease, timeout=10).result()
        if cleared and found.status in NOTHING:
            return None
        assert found.ok, found
        self.answers.append((found.longest, found.places.tolist()))
        return found

    def load(self, rank, keys, found):
        """Each page that the answer names is exact or a miss; a cleared one can't be asked for."""
        named = [i for i in range(PAGES) if found.places[i] != Place.MISS]
        if not named:
            return []
        engine = self.ranks[rank]
        got = engine.get([keys[i] for i in named], lease=found.lease, timeout=10).result()
        assert engine.wrong([keys[i] for i in named], got) == []
        if got.status == Status.STALE_NAMESPACE:
            return []
        statuses = {Status(int(item)) for item in got.items}
        assert statuses <= {Status.OK, Status.MISS, Status.EXPIRED}, statuses
        return [named[i] for i in range(len(named)) if got.items[i] == Status.OK]

    def close(self):
        for engine in self.ranks:
            engine.close()


class World:
    """Everything that happens to the pages between two ranks' questions."""

    def __init__(self, daemon, groups, chance):
        self.groups, self.chance = groups, chance
        self.filler = Engine(daemon.socket, FILLERS, FILLER_BYTES, model="filler")
        self.turn = 0
        self.cleared = False

    def evict(self, _):
        self.turn += 1
        keys = content.keys(range(FILLERS), b"filler%d" % self.turn)
        assert self.filler.client.put(self.filler.space, keys, self.filler.layout, range(FILLERS),
                                      timeout=10).result().ok

    def delete(self, keys):
        engine = self.chance.choice(self.chance.choice(self.groups).ranks)
        some = self.chance.sample(keys, PAGES // 3)
        engine.client.delete(engine.space, some, timeout=10).result()

    def put_again(self, keys):
        if not self.cleared:
            self.chance.choice(self.groups).put(self.chance.sample(keys, PAGES // 2))

    def clear(self, _):
        engine = self.chance.choice(self.chance.choice(self.groups).ranks)
        if not self.cleared:
            assert engine.client.clear(engine.space, timeout=10).result().ok
        self.cleared = True

    def goes_on(self, keys):
        what = self.chance.choices([None, self.evict, self.delete, self.put_again, self.clear],
                                   [10, 3, 3, 3, 0.3])[0]
        if what:
            what(keys)
        return what


def play_round(world, groups, keys, ticket, lease):
    """True when a page had gone between the answer and the load."""
    chance = world.chance
    asks = [(group, rank) for group in groups for rank in range(RANKS)]
    chance.shuffle(asks)
    found, lost = [], False
    for group, rank in asks:
        answer = group.ask(rank, keys, ticket, lease, world.cleared)
        if answer is not None:
            found.append((group, rank, answer))
        world.goes_on(keys)
    for group in groups:
        assert all(answer == group.answers[0] for answer in group.answers), group.answers
        assert world.cleared or len(group.answers) == RANKS
    for group, rank, answer in found:
        loaded = group.load(rank, keys, answer)
        lost |= any(i not in loaded for i in range(answer.longest))
    return lost


@pytest.mark.parametrize("lease", [0, LEASE_S], ids=["without_lease", "with_lease"])
def test_ranks_that_ask_at_different_times_get_one_answer(start, lease):
    seed = int(os.environ.get("KVSIDECAR_SEED", random.SystemRandom().getrandbits(32)))
    print(f"KVSIDECAR_SEED={seed}")
    chance = random.Random(seed)
    daemon = start(**POOL)
    groups = [Group(daemon, number, seed) for number in range(2)]
    world = World(daemon, groups, chance)
    lost = 0
    for number in range(1, ROUNDS + 1):
        keys = content.keys(range(PAGES), b"round%d" % (number // 4))
        groups[number % 2].put(keys)
        lost += play_round(world, groups, keys, number, lease)
        for group in groups:
            group.answers.clear()
            if world.cleared:
                group.attach_again()
        world.cleared = False
    assert lost, "no page had gone between an answer and its load"
    for group in groups:
        group.close()
    world.filler.close()
    accounts.check_sums(accounts.status(daemon)["counters"])
