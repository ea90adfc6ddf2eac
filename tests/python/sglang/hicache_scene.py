# SPDX-License-Identifier: Apache-2.0
"""A backend made as SGLang makes one, with the calls of its controllers."""
import hashlib

from host_pools import Mha
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig

LOADER = {"backend_name": "kvsidecar", "module_path": "kvsidecar.sglang", "class_name": "HiCache",
          "interface_v1": 1}
# A noisy machine is no reason to miss; tests of deadlines set their own.
PATIENT = {"lookup_deadline_ms": 1000, "staging_mib": 1, "connect_timeout_s": 20}


def config(socket, extra=None, revision=True, **changed):
    """revision False: it is found out as for an operator who gives none."""
    told = {"socket": socket, **({"revision": "r1"} if revision else {})}
    values = dict(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
                  is_mla_model=False, enable_storage_metrics=False, is_page_first_layout=True,
                  model_name="org/tiny",
                  extra_config={**LOADER, **PATIENT, **told, **(extra or {})})
    return HiCacheStorageConfig(**{**values, **changed})


def backend(socket, pools=None, extra=None, **changed):
    """pools: {name: host pool}, the KV pool or anchor first; as at an attach. One Mha by
    default."""
    from kvsidecar.sglang import HiCache
    found = HiCache(config(socket, extra, **changed), {})
    pools = {"kv": Mha()} if pools is None else pools
    found.hosts = pools
    if pools:
        found.register_mem_pool_host(pools["kv"])
        for name, pool in pools.items() if len(pools) > 1 else ():
            found.register_mem_host_pool_v2(pool, name)
    found.on_host_pools_registered()
    return found


def hashes(text, count):
    """Page hashes, as SGLang writes them."""
    return [hashlib.sha256(f"{text} {i}".encode()).hexdigest() for i in range(count)]
