# SPDX-License-Identifier: Apache-2.0
"""Files as SGLang's HF3FS backend leaves them, and the namespaces that its engines would attach to.
Written by hand from their description; the layout's words come from the plug-in itself."""
import json
import os
from types import SimpleNamespace

import numpy

import kvsidecar
from kvsidecar.sglang.host_layout import Segment, describe

LAYERS = 3
PIECE_BYTES = 1024  # K or V of one layer of one page
HALF_BYTES = LAYERS * PIECE_BYTES
SAVED_S = 1_700_000_000  # when the metadata was saved; data is older


def hash_of(number):
    return f"{number:064x}"


def key_of(number):
    return bytes.fromhex(hash_of(number))


class Table:
    """One rank's data file of one pool, with its part of the metadata."""

    def __init__(self, path, record_bytes, records=32):
        self.path, self.record_bytes, self.records = path, record_bytes, records
        self.free = list(range(records))
        self.keys = []  # [key, index], oldest first
        with open(path, "wb") as file:
            file.truncate(records * record_bytes)

    def write(self, key, content):
        """Pages are handed out from the top."""
        assert len(content) == self.record_bytes
        index = self.free.pop()
        with open(self.path, "r+b") as file:
            file.seek(index * self.record_bytes)
            file.write(content)
        self.keys.append([key, index])
        return index

    def json(self):
        return {"num_pages": self.records, "free_pages": self.free, "key_to_index": self.keys}


class Backend:
    """A stopped backend's files in `folder`."""

    def __init__(self, folder, prefix="hicache"):
        self.folder, self.prefix = str(folder), prefix
        self.metadata = os.path.join(self.folder, "metadata.json")
        self.tables = {}

    def table(self, rank, pool, record_bytes, **more):
        name = f"{self.prefix}.{rank}.bin" + ("" if pool == "kv" else f".{pool}")
        table = self.tables[(rank, pool)] = Table(os.path.join(self.folder, name), record_bytes,
                                                  **more)
        return table

    def save(self, text=None, old=False):
        """As the server does at its end. old: a file of a time without pools."""
        whole = {f"{rank}" if old else f"{rank}:{pool}": table.json()
                 for (rank, pool), table in self.tables.items()}
        with open(self.metadata, "w", encoding="utf-8") as file:
            file.write(json.dumps(whole, indent=4) if text is None else text)
        for table in self.tables.values():
            os.utime(table.path, (SAVED_S - 1, SAVED_S - 1))
        os.utime(self.metadata, (SAVED_S, SAVED_S))

    def arguments(self):
        found = ["--metadata", self.metadata]
        for table in self.tables.values():
            found += ["--data", table.path]
        return found


def random_bytes(size, *seed):
    return numpy.random.default_rng(seed).integers(1, 256, size, dtype=numpy.uint8).tobytes()


class Shape:
    """How one kind of pool lies in records and in parts."""

    def __init__(self, order, kind, segments, flat=False, dealt=False, halves=False, pool="kv"):
        self.order, self.kind, self.segments, self.flat = order, kind, segments, flat
        self.dealt, self.halves, self.pool = dealt, halves, pool
        self.part_bytes = sum(segments)

    @property
    def record_bytes(self):
        return self.part_bytes // 2 if self.halves else self.part_bytes

    def layout(self):
        """As the plug-in names it."""
        if self.flat:
            return f"flat, {self.order}, {self.kind}"
        pool = type(self.kind, (), {})()
        pool.layout, pool.start_layer, pool.end_layer, pool.layer_num = self.order, 0, 3, LAYERS
        return describe(pool, [Segment(0, length, length) for length in self.segments])

    def write(self, table, number, part, suffix=""):
        """The record or records of a page whose part's bytes are those."""
        key = hash_of(number) + suffix
        if self.halves:
            table.write(key + "-k", part[:self.record_bytes])
            table.write(key + "-v", part[self.record_bytes:])
        elif self.dealt:  # K and V of each layer in turn; the record has all K first
            pieces = [part[i:i + PIECE_BYTES] for i in range(0, len(part), PIECE_BYTES)]
            table.write(key, b"".join(pieces[0::2] + pieces[1::2]))
        else:
            table.write(key, part)


MHA, MLA = "MHATokenToKVPoolHost", "MLATokenToKVPoolHost"
SHAPES = {
    "mha page_first": Shape("page_first", MHA, [HALF_BYTES] * 2, halves=True),
    "mha page_first_direct": Shape("page_first_direct", MHA, [HALF_BYTES] * 2, halves=True),
    "mha page_first flat": Shape("page_first", MHA, [HALF_BYTES] * 2, halves=True, flat=True),
    "mha layer_first": Shape("layer_first", MHA, [PIECE_BYTES] * 2 * LAYERS, dealt=True),
    "mha layer_first flat": Shape("layer_first", MHA, [PIECE_BYTES] * 2 * LAYERS, flat=True),
    "mla page_first": Shape("page_first", MLA, [HALF_BYTES]),
    "mla layer_first": Shape("layer_first", MLA, [PIECE_BYTES] * LAYERS),
    "indexer": Shape("page_first", "DSAIndexerPoolHost", [HALF_BYTES], pool="indexer"),
    "mamba": Shape("page_first", "MambaPoolHost", [2048, 512, 512], pool="mamba"),
}


def fields_of(shape, ranks=1, **changed):
    values = dict(
        model="m", revision="r1", dtype="bfloat16", quantization="none", layout=shape.layout(),
        pool=shape.pool, draft_model="none", tokens_per_page=64, tp_size=ranks, pp_size=1,
        cp_size=1, slice=0, slices=1, key_scheme="sglang sha256",
        extra=(("engine", "sglang 0.5.23"),),
        parts=[kvsidecar.Part(kvsidecar.Coordinate(tp), shape.part_bytes) for tp in range(ranks)])
    values.update(changed)
    return kvsidecar.NamespaceFields(**values)


def read_pages(client, space, shape, numbers, rank=0):
    """The part of that rank of each page, or None where the daemon hasn't got it."""
    memory = client.create_memory(len(numbers) * shape.part_bytes)
    layout = client.register_layout(
        len(numbers), [kvsidecar.Run(memory, 0, shape.part_bytes, shape.part_bytes)])
    result = client.get(space, [key_of(number) for number in numbers], layout,
                        list(range(len(numbers))), coordinate=kvsidecar.Coordinate(rank),
                        timeout=20).result()
    rows = memory.array("u1", (len(numbers), shape.part_bytes))
    return [rows[i].tobytes() if result.items[i] == kvsidecar.Status.OK else None
            for i in range(len(numbers))]


def scene(**values):
    return SimpleNamespace(**values)


def put_own_page(client, space, number):
    """As an engine of "mla page_first" stores one."""
    size = SHAPES["mla page_first"].part_bytes
    memory = client.create_memory(size)
    layout = client.register_layout(1, [kvsidecar.Run(memory, 0, size, size)])
    assert client.put(space, [key_of(number)], layout, [0]).result().succeeded == 1


def filled(folder, shape, pages, ranks):
    """A backend with those pages and the bytes of each (rank, page)."""
    backend, parts = Backend(folder), {}
    for rank in range(ranks):
        table = backend.table(rank, shape.pool, shape.record_bytes)
        suffix = "" if shape.pool == "kv" else f"_{shape.pool}"
        for number in range(pages):
            parts[rank, number] = random_bytes(shape.part_bytes, rank, number)
            shape.write(table, number, parts[rank, number], suffix)
    backend.save()
    return backend, parts
