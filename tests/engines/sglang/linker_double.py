# SPDX-License-Identifier: Apache-2.0
"""kvsidecar's linker in an engine's process, with a window and a gate for tests. Keys of its own in
linker_extra_config, all of them paths:

counts: what the linker has counted, as JSON, written anew when it has changed.
poison: while this file exists every byte that was loaded is changed before the forward reads it.
armed, reached, open: while `armed` exists a load stops before it begins: it writes into
`reached` how many requests it is for, and goes on as soon as somebody opens the pipe `open`.
"""
import json
import os

import torch

from kvsidecar.sglang import Linker


class WatchedLinker(Linker):
    def __init__(self, server_args, params, *, components, extra_config=None, forward_stream=None):
        extra = dict(extra_config)
        self._paths = {name: extra.pop(name, "") for name in
                       ("counts", "poison", "armed", "reached", "open")}
        self._told = None
        super().__init__(server_args, params, components=components, extra_config=extra,
                         forward_stream=forward_stream)
        self._tell()

    def _there(self, name):
        return os.path.exists(self._paths[name])

    def _tell(self):
        if self._told != self.counts and self._paths["counts"]:
            self._told = dict(self.counts)
            with open(self._paths["counts"] + ".new", "w", encoding="utf-8") as file:
                json.dump(self._told, file)
            os.rename(file.name, self._paths["counts"])

    def lookup(self, rid, transfers):
        lengths = super().lookup(rid, transfers)
        self._tell()
        return lengths

    def start_layer_wise_loading(self):
        if self._side._loads._queued and self._there("armed"):
            with open(self._paths["reached"] + ".new", "w", encoding="utf-8") as file:
                file.write(str(len(self._side._loads._queued)))
            os.rename(file.name, self._paths["reached"])
            with open(self._paths["open"], "rb") as gate:
                gate.read()
        index = super().start_layer_wise_loading()
        if index >= 0 and self._there("poison"):
            batch = self._side._loads._batches[index]
            batch.ended.wait()
            for part in batch.parts:
                for block in part.pages.blocks:
                    self._change(part.pool, block)
        return index

    @staticmethod
    def _change(pool, block):
        for piece in pool.pieces:
            rows = slice(block * pool.slots, (block + 1) * pool.slots)
            piece.tensor[rows].view(torch.uint8).bitwise_xor_(0x15)

    def finish_layer_wise_loading(self, counter_index):
        landed = super().finish_layer_wise_loading(counter_index)
        self._tell()
        return landed

    def num_completed_offloads(self):
        completed = super().num_completed_offloads()
        self._tell()
        return completed
