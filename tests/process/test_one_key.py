# SPDX-License-Identifier: Apache-2.0
"""Goal: one key is one page, whole and of one writer, however many write, load and delete it at
once; each request ends once. (Bug reports O1-19, O2-11, O11-02.)

Method: writers that each have another content for the same keys, so that a page of two writers
shows; readers and deleters in between.
"""
import os

import numpy as np

import accounts
import content
from engine import Engine
from kvsidecar import Status

BYTES = 256 * 1024
WRITERS = 4
PUT = {Status.OK, Status.EXISTS, Status.BUSY}


class Writer(Engine):
    """Content of a key: its writer's number in every byte."""

    def __init__(self, socket, number, blocks):
        super().__init__(socket, blocks, BYTES)
        self.number = number

    def fill(self, block, key):
        self.view[:, block] = self.number

    def writer_of(self, block):
        """Whose page it is; None when it isn't one writer's."""
        numbers = np.unique(self.view[:, block])
        return int(numbers[0]) if len(numbers) == 1 and 0 < numbers[0] <= 127 else None


def writers(socket, first, blocks):
    return [Writer(socket, first + i, blocks) for i in range(WRITERS)]


def check_page(reader, block, status):
    if status == Status.OK:
        assert reader.writer_of(block) is not None, reader.view[:, block]
    else:
        assert status in (Status.MISS, Status.BUSY) and reader.is_blank(block), status


def storm(socket, first, turns):
    """Writers, a reader and a deleter on the same keys, all at once."""
    engines = writers(socket, first, 16)
    reader = Writer(socket, 0, 16)
    for turn in range(turns):
        keys = content.keys(range(turn % 4 * 16, turn % 4 * 16 + 16))
        ops = [engine.put(keys) for engine in engines]
        got = reader.get(keys)
        deleted = reader.client.delete(reader.space, keys[turn % 16:turn % 16 + 1])
        ops += [engine.put(keys) for engine in engines]
        result = got.result()
        for block in range(16):
            check_page(reader, block, result.items[block])
        assert deleted.result().ok
        for op in ops:
            assert set(op.result().items) <= PUT
    for engine in engines + [reader]:
        engine.close()


def test_a_page_is_always_one_writers_whole(start):
    """O1-19, O11-02: in four processes of four writers each; nothing temporary stays."""
    daemon = start()
    children = []
    for process in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                storm(daemon.socket, 1 + process * WRITERS, 24)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    keys = content.keys(range(64))
    with Writer(daemon.socket, 0, 64) as reader:
        items = reader.get(keys, timeout=20).result().items
        for block in range(64):
            check_page(reader, block, items[block])
        assert accounts.status(daemon)["index"]["pages"] == list(items).count(Status.OK)
    for _, _, files in os.walk(daemon.path("store")):
        assert [name for name in files if "tmp" in name or "temp" in name] == []


def test_many_writers_of_one_key_make_one_page_and_one_ok(start):
    """O11-02: 32 sessions, and the key twice in each batch, with other bytes."""
    daemon = start()
    engines = [Writer(daemon.socket, 1 + i, 2) for i in range(32)]
    key = content.key(1)
    ops = []
    for engine in engines:
        engine.fill(0, key)
        engine.view[:, 1] = engine.number + 64
        ops.append(engine.client.put(engine.space, [key, key], engine.layout, [0, 1]))
    items = [int(item) for op in ops for item in op.result().items]
    assert items.count(Status.OK) == 1 and items.count(Status.EXISTS) == 63
    now = accounts.status(daemon)
    assert now["index"]["pages"] == now["counters"]["pages_completed"] == 1
    seen = set()
    for engine in engines:
        assert engine.get([key]).result().items[0] == Status.OK
        seen.add(engine.writer_of(0))
        engine.close()
    assert len(seen) == 1 and seen <= set(range(1, 97))


def test_a_get_that_is_cancelled_and_asked_for_again_at_once(start):
    """O2-11: into the same blocks. Each operation ends once and the blocks hold the page."""
    daemon = start(copy={"threads": 1, "inline_bytes": 0})
    with Engine(daemon.socket, 64, BYTES) as engine:
        keys = content.keys(range(64))
        assert set(engine.check_put(keys, timeout=20)) == {Status.OK}
        for turn in range(40):
            first = engine.get(keys, timeout=20)
            if turn % 2:
                first.revoke(range(0, 64, 3))
            free = first.cancel()
            again = [block for block in range(64) if free[block]]
            for block in again:
                engine.blank(block)
            second = engine.client.get(engine.space, [keys[block] for block in again],
                                       engine.layout, again, timeout=20) if again else None
            before = list(first.result().items)
            assert set(before) <= {Status.OK, Status.REVOKED}
            assert all(before[block] == Status.OK for block in range(64) if not free[block])
            if second is not None:
                assert set(second.result().items) == {Status.OK}
            assert all(engine.is_page(block, keys[block]) for block in range(64)
                       if before[block] == Status.OK or block in again)
        counters = accounts.status(daemon)["counters"]
        accounts.check_sums(counters)
        assert accounts.status(daemon)["operations"] <= 1
