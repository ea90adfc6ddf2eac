# SPDX-License-Identifier: Apache-2.0
"""What an engine does with a client: blocks of device memory, and put, lookup and get of pages
whose content follows from their key."""
import numpy as np

import kvsidecar
from kvsidecar import Coordinate, NamespaceFields, Part, Run, Status

import content


def fields(page_bytes, model="model", **more):
    """A namespace of one part."""
    given = dict(model=model, revision="r1", dtype="bf16", quantization="none",
                 layout="kv-split", pool="kv", draft_model="none", tokens_per_page=16,
                 tp_size=1, pp_size=1, cp_size=1, slice=0, slices=1,
                 parts=[Part(Coordinate(), page_bytes)])
    given.update(more)
    return NamespaceFields(**given)


class Engine:
    """One session with `blocks` blocks of one namespace's pages; each block is two runs."""

    def __init__(self, socket, blocks=64, page_bytes=65536, model="model", namespace=None,
                 attach=None, part=b"", **options):
        """`part` enters the content: another rank's share of a page has other bytes."""
        self.part = part
        self.client = kvsidecar.Client(socket, **options)
        self.page_bytes = page_bytes
        half = page_bytes // 2
        self.memory = self.client.create_memory(blocks * page_bytes, timeout=10)
        assert self.memory.ok, self.memory.text
        self.view = self.memory.array(shape=(2, blocks, half))
        self.layout = self.client.register_layout(
            blocks, [Run(self.memory, 0, half, half), Run(self.memory, blocks * half, half, half)],
            timeout=10)
        assert self.layout.ok, self.layout.text
        self.space = self.client.attach(
            namespace or fields(page_bytes, model), timeout=10, **(attach or {}))
        self.blocks = blocks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.view = None
        return self.client.close()

    def fill(self, block, key):
        page = content.page(key + self.part, self.page_bytes).reshape(2, -1)
        self.view[0, block], self.view[1, block] = page[0], page[1]

    def blank(self, block):
        self.view[:, block] = content.CANARY

    def is_page(self, block, key):
        page = content.page(key + self.part, self.page_bytes).reshape(2, -1)
        return np.array_equal(self.view[0, block], page[0]) and \
            np.array_equal(self.view[1, block], page[1])

    def is_blank(self, block):
        return bool((self.view[:, block] == content.CANARY).all())

    def holds_only(self, block, key):
        """No byte of it is of anything but this key's page or the canary."""
        page = content.page(key + self.part, self.page_bytes).reshape(2, -1)
        block_now = self.view[:, block]
        return bool(((block_now == page) | (block_now == content.CANARY)).all())

    def put(self, keys, first_block=0, **options):
        """Fills blocks from first_block on and begins to put them."""
        for i, key in enumerate(keys):
            self.fill(first_block + i, key)
        return self.client.put(self.space, keys, self.layout,
                               range(first_block, first_block + len(keys)), **options)

    def get(self, keys, first_block=0, **options):
        """Blanks blocks from first_block on and begins to load them."""
        for i in range(len(keys)):
            self.blank(first_block + i)
        return self.client.get(self.space, keys, self.layout,
                               range(first_block, first_block + len(keys)), **options)

    def lookup(self, keys, **options):
        return self.client.lookup(keys, self.space, **options)

    def wrong(self, keys, result, first_block=0):
        """Items of a get whose block holds what it must not."""
        return [i for i, key in enumerate(keys)
                if not (self.is_page(first_block + i, key) if result.items[i] == Status.OK
                        else self.holds_only(first_block + i, key))]

    def check_get(self, keys, first_block=0, **options):
        """Loads, compares every byte, and gives the items' statuses."""
        result = self.get(keys, first_block, **options).result()
        assert self.wrong(keys, result, first_block) == [], result
        return [Status(int(item)) for item in result.items]

    def check_put(self, keys, first_block=0, **options):
        result = self.put(keys, first_block, **options).result()
        return [Status(int(item)) for item in result.items]
