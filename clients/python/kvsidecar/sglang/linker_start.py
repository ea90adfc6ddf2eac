# SPDX-License-Identifier: Apache-2.0
"""What the linker does once, when its worker starts: which rank this is, the memory it registers,
the namespaces it attaches to."""
from __future__ import annotations

import logging
import uuid
from typing import Any, Dict, List, Optional

from .. import Layout, Region, Run
from ..plugin.connection import accepted, group_uuid
from .facts import Facts
from .identity import engine_of, space_of
from .linker_memory import Device, follow, storages_of
from .linker_pools import DevicePool, layout_text
from .linker_settings import LinkerSettings
from .ranks import Ranks
from .session import Group, Session

logger = logging.getLogger("sglang.kvsidecar")


def ranks_of(params: Any, facts: Facts) -> Ranks:
    """Of this worker, from SGLang's CacheInitParams. tp is the attention group's."""
    rank, size = 0, 1
    group = tp_group(params)
    if group is not None:
        import torch.distributed
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            rank = torch.distributed.get_rank(group=group)
            size = torch.distributed.get_world_size(group=group)
    return Ranks(tp_rank=rank, tp_size=size, pp_rank=params.pp_rank, pp_size=params.pp_size,
                 cp_rank=params.attn_cp_rank, cp_size=params.attn_cp_size,
                 several_nodes=int(facts.get("nnodes", 1) or 1) > 1)


def tp_group(params: Any) -> Any:
    """Of the ranks that hold shares of the same pages; None: there is only this one."""
    return params.attn_tp_cache_group or params.tp_cache_group


def own_id(ranks: Ranks, params: Any) -> str:
    """Names this start of the worker and no other: by it goes what nobody else may find. All tp
    ranks take the first one's; they call this at the same moment of their start."""
    told: List[Any] = [uuid.uuid4().hex]
    if ranks.tp_size > 1:
        import torch.distributed
        group = tp_group(params)
        torch.distributed.broadcast_object_list(
            told, src=torch.distributed.get_global_rank(group, 0), group=group)
    return str(told[0])


def session_of(settings: LinkerSettings, ranks: Ranks, own: str, version: str) -> Session:
    """May wait for the daemon, connect_timeout at most. version: of the weights, as SGLang calls
    it."""
    group: Optional[Group] = None
    if ranks.tp_size > 1:
        group = Group(group_uuid(own), ranks.tp_size, ranks.tp_rank)
    return Session(settings, f"sglang linker {ranks.tp_rank}", group, version, "/flush_cache",
                   spin=0)


def shared(group: Any, device: Device) -> None:
    """Brings the memory of SGLang's DevicePoolGroup into a form that the daemon can map. Addresses
    change: afterwards the group has to be made anew."""
    moved = device.share(tensors_by_pool(group))
    for pool in {id(entry.device_pool): entry.device_pool for entry in group.entries}.values():
        follow(pool, moved)


def tensors_by_pool(group: Any) -> Dict[str, List[Any]]:
    return {str(entry.name): [buffer for component in entry.components for buffer in component]
            for entry in group.entries}


class Registered:
    """The pools' memory and layouts in the daemon."""

    def __init__(self) -> None:
        self.regions: List[Region] = []
        self.layouts: Dict[str, Layout] = {}

    def register(self, session: Session, device: Device, pools: Dict[str, DevicePool],
                 timeout_s: float) -> bool:
        """Waits for the daemon's answers, timeout_s each; without a daemon all of it is made as
        soon as there is one. False: refused, said in the log."""
        client = session.client
        if client is None:
            return False
        storages = {storage.data_ptr(): storage for storage in storages_of(
            piece.tensor for pool in pools.values() for piece in pool.pieces)}
        regions = device.register(client, storages, timeout_s)
        self.regions = list(regions.values())
        for region in self.regions:
            if not accepted(region, f"the KV cache's memory ({region.bytes} bytes)", logger):
                return False
        for pool in pools.values():
            runs = [Run(regions[piece.tensor.untyped_storage().data_ptr()], piece.base,
                        piece.stride, piece.length) for piece in pool.pieces]
            layout = client.register_layout(pool.blocks, runs, timeout=timeout_s)
            if not accepted(layout, f"the layout of pool {pool.name}", logger):
                self.layouts.clear()
                return False
            self.layouts[pool.name] = layout
        return True


def attach(session: Session, facts: Facts, ranks: Ranks, settings: LinkerSettings,
           pools: Dict[str, DevicePool], tokens: int) -> Dict[str, bool]:
    """Attaches to every pool's namespace; whether this rank writes it, by pool."""
    engine = engine_of(facts, ranks, settings, "linker")
    for hint in engine.hints:
        session.say_once(hint)
    session.announce(f"the linker stores {engine.common['model']}, revision "
                     f"{engine.common['revision']}")
    writes: Dict[str, bool] = {}
    for pool in pools.values():
        space = space_of(
            engine, pool.name, tokens=tokens, page_bytes=pool.part_bytes,
            layout=layout_text(pool), dtype=dtype_text(pool), replicated=pool.replicated)
        session.attach(pool.name, space)
        writes[pool.name] = space.writes
    return writes


def dtype_text(pool: DevicePool) -> str:
    kinds = sorted({str(piece.tensor.dtype).replace("torch.", "") for piece in pool.pieces})
    return "/".join(kinds)
