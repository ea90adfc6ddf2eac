# SPDX-License-Identifier: Apache-2.0
"""kvsidecar's linker in an engine's process, with a window and a gate for tests. Keys of its own in
linker_extra_config, all of them paths:

counts: what the linker has counted, as JSON, written anew when it has changed.
poison: while this file exists every byte that was loaded is changed before the forward reads it.
armed, reached, open: while `armed` exists a load stops before it begins: it writes into
`reached` how many requests it is for, and goes on as soon as somebody opens the pipe `open`.
blind, mute, broken: while it exists lookups find nothing, offloads store nothing, loads fail.

Of several ranks each has paths of its own, with its number behind them.
"""
import json
import os

import torch
from linker_names import NAMES, of_rank

from kvsidecar.sglang import Linker


class WatchedLinker(Linker):
    def __init__(self, server_args, params, *, components, extra_config=None, forward_stream=None):
        extra = dict(extra_config)
        given = {name: extra.pop(name, "") for name in NAMES}
        self._told = None
        super().__init__(server_args, params, components=components, extra_config=extra,
                         forward_stream=forward_stream)
        ranks = self._side.ranks
        self._paths = {name: of_rank(path, ranks.tp_rank, ranks.tp_size)
                       for name, path in given.items()}
        self._fail_at("_put", "mute")
        self._fail_at("_get", "broken")
        self._tell()

    def _fail_at(self, call, name):
        """Nobody is there to ask for it while that file exists."""
        begin = getattr(self._side, call)
        setattr(self._side, call,
                lambda *arguments: None if self._there(name) else begin(*arguments))

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
        return [] if self._there("blind") else lengths

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
