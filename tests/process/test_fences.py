# SPDX-License-Identifier: Apache-2.0
"""Goal: no copy begins before its fence, and one whose fence never comes ends at its deadline.
(Bug report O1-01.)

Method: puts and gets submitted first; the blocks are written, slice by slice, only then, and the
fence is signalled last, by several clients at once.
"""
import content
from engine import Engine
from kvsidecar import Status

ROUNDS = 60
SLICES = 8


def fill_in_slices(engine, block, key):
    page = content.page(key, engine.page_bytes).reshape(2, -1)
    step = page.shape[1] // SLICES
    for slice_ in range(SLICES):
        where = slice(slice_ * step, (slice_ + 1) * step)
        engine.view[:, block, where] = page[:, where]
        engine.client.stat().result()  # gives the daemon its turn


def test_a_put_waits_for_its_fence(start):
    daemon = start()
    with Engine(daemon.socket, 4) as one, Engine(daemon.socket, 4) as two:
        fences = [engine.client.create_fence() for engine in (one, two)]
        for turn in range(1, ROUNDS + 1):
            ops = []
            for number, engine in enumerate((one, two)):
                engine.blank(0)
                key = content.key(turn, b"fence%d" % number)
                ops.append((engine, key, fences[number], engine.client.put(
                    engine.space, [key], engine.layout, [0], fence=fences[number],
                    fence_value=turn, timeout=10)))
            for engine, key, fence, op in ops:
                fill_in_slices(engine, 0, key)
                assert not op.finished
                fence.signal(turn)
            for engine, key, _, op in ops:
                assert op.result().items[0] == Status.OK
                assert engine.check_get([key], 1) == [Status.OK]


def test_a_get_waits_for_its_fence(start):
    """The engine's kernels may still read the blocks that a get writes."""
    daemon = start()
    key = content.key(1)
    with Engine(daemon.socket, 4) as engine:
        assert engine.check_put([key]) == [Status.OK]
        fence = engine.client.create_fence()
        for turn in range(1, ROUNDS + 1):
            op = engine.get([key], 1, fence=fence, fence_value=turn, timeout=10)
            assert engine.client.stat().result().ok
            assert engine.is_blank(1) and not op.finished
            fence.signal(turn)
            assert op.result().items[0] == Status.OK and engine.is_page(1, key)


def test_a_fence_that_never_comes_costs_its_request(start):
    daemon = start()
    keys = content.keys(range(4))
    with Engine(daemon.socket, 8) as engine:
        fence = engine.client.create_fence()
        put = engine.put(keys, fence=fence, fence_value=1, timeout=0.1)
        get = engine.get(keys, 4, fence=fence, fence_value=1, timeout=0.1)
        assert set(put.result().items) == {Status.TIMEOUT}
        assert set(get.result().items) <= {Status.TIMEOUT, Status.MISS}
        fence.signal(1)  # too late: the blocks are the engine's
        assert engine.lookup(keys).result().longest == 0
        assert all(engine.is_blank(block) for block in range(4, 8))
        assert set(engine.check_put(keys)) == {Status.OK}
