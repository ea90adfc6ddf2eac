# SPDX-License-Identifier: Apache-2.0
"""The types of a HiCache storage backend."""
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

STORAGE_BATCH_SIZE = 128


@dataclass
class HiCacheStorageConfig:
    tp_rank: int
    tp_size: int
    pp_rank: int
    pp_size: int
    attn_cp_rank: int
    attn_cp_size: int
    is_mla_model: bool
    enable_storage_metrics: bool
    is_page_first_layout: bool
    model_name: object
    tp_lcm_size: object = None
    should_split_heads: bool = False
    dp_rank: int = 0
    extra_config: object = None
    dcp_size: int = 1
    dcp_rank: int = 0
    logical_page_size: object = None


@dataclass
class HiCacheStorageExtraInfo:
    prefix_keys: object = None
    extra_info: object = None


class PoolName(str, Enum):
    KV = "kv"
    MAMBA = "mamba"
    SWA = "swa"
    INDEXER = "indexer"
    DEEPSEEK_V4_C4 = "deepseek_v4_c4"
    DEEPSEEK_V4_C4_STATE = "deepseek_v4_c4_state"
    DRAFT = "draft"

    def __str__(self):
        return self.value


class PoolHitPolicy(str, Enum):
    ALL_PAGES = "all_pages"
    TRAILING_PAGES = "trailing_pages"
    BLOCK_GROUPS = "block_groups"


@dataclass
class PoolTransfer:
    name: object
    host_indices: object = None
    device_indices: object = None
    keys: object = None
    hit_policy: PoolHitPolicy = PoolHitPolicy.ALL_PAGES
    nodes_to_load: object = None
    indices_from_pool: object = None
    block_pages: int = 0
    group_pages: int = 0


@dataclass
class PoolTransferResult:
    kv_hit_pages: int
    extra_pool_hit_pages: dict
    restorable_prefix_pages: object = None


class HiCacheStorage(ABC):
    def register_mem_pool_host(self, mem_pool_host):
        self.mem_pool_host = mem_pool_host

    def register_mem_host_pool_v2(self, host_pool, host_pool_name):
        if not hasattr(self, "registered_pools"):
            self.registered_pools = {}
        self.registered_pools[host_pool_name] = host_pool

    def on_host_pools_registered(self):
        pass

    def batch_exists_v2(self, keys, pool_transfers=None, extra_info=None):
        raise NotImplementedError

    def batch_get_v2(self, transfers, extra_info=None):
        raise NotImplementedError

    def batch_set_v2(self, transfers, extra_info=None):
        raise NotImplementedError

    def batch_get_v1(self, keys, host_indices, extra_info=None):
        pass

    def batch_set_v1(self, keys, host_indices, extra_info=None):
        pass

    @abstractmethod
    def get(self, key, target_location=None, target_sizes=None):
        pass

    @abstractmethod
    def batch_get(self, keys, target_locations=None, target_sizes=None):
        pass

    @abstractmethod
    def set(self, key, value=None, target_location=None, target_sizes=None):
        pass

    @abstractmethod
    def batch_set(self, keys, values=None, target_locations=None, target_sizes=None):
        pass

    @abstractmethod
    def exists(self, key):
        pass

    def batch_exists(self, keys, extra_info=None):
        for count, key in enumerate(keys):
            if not self.exists(key):
                return count
        return len(keys)

    def clear(self):
        pass

    def get_stats(self):
        return None
