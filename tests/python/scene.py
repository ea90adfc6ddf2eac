# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: fields, keys, and an engine's memory whose bytes are known."""
import numpy

import kvsidecar

PAGE_BYTES = 16 * 1024
KEY_BYTES = 16


def fields(**changed):
    values = dict(
        model="m", revision="r1", dtype="uint8", quantization="none", layout="flat", pool="kv",
        draft_model="none", tokens_per_page=16, tp_size=1, pp_size=1, cp_size=1, slice=0, slices=1,
        parts=[kvsidecar.Part(kvsidecar.Coordinate(), PAGE_BYTES)])
    values.update(changed)
    return kvsidecar.NamespaceFields(**values)


def random_keys(count, seed):
    """count keys, a row each."""
    return numpy.random.default_rng(seed).integers(0, 256, (count, KEY_BYTES), dtype=numpy.uint8)


class Engine:
    """Blocks 0 .. pages - 1 hold random bytes, the other half is where gets go."""

    def __init__(self, client, pages, seed=1, **changed):
        self.client, self.pages = client, pages
        self.memory = client.create_memory(2 * pages * PAGE_BYTES)
        self.layout = client.register_layout(
            2 * pages, [kvsidecar.Run(self.memory, 0, PAGE_BYTES, PAGE_BYTES)])
        self.namespace = client.attach(fields(**changed))
        self.keys = random_keys(pages, seed)
        random = numpy.random.default_rng(seed)
        self.from_blocks = numpy.arange(pages, dtype=numpy.uint32)
        self.to_blocks = self.from_blocks + numpy.uint32(pages)
        self.bytes()[:pages] = random.integers(0, 256, (pages, PAGE_BYTES), dtype=numpy.uint8)

    def bytes(self):
        return self.memory.array("u1", (2 * self.pages, PAGE_BYTES))

    def put(self, **more):
        return self.client.put(self.namespace, self.keys, self.layout, self.from_blocks, **more)

    def get(self, **more):
        return self.client.get(self.namespace, self.keys, self.layout, self.to_blocks, **more)

    def loaded_bytes_are_right(self):
        both = self.bytes()
        return bool((both[:self.pages] == both[self.pages:]).all())

    def forget_loaded(self):
        self.bytes()[self.pages:] = 0
