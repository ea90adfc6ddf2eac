# SPDX-License-Identifier: Apache-2.0
"""Door A with a control: while a file exists, every byte of KV that it brings is another one."""
import ctypes
import os

from kvsidecar.sglang.hicache import HiCache


class Poisoned(HiCache):
    def batch_get_v1(self, keys, host_indices, extra_info=None):
        done = super().batch_get_v1(keys, host_indices, extra_info)
        if os.path.exists(os.environ["KVSIDECAR_POISON"]):
            for address, size in zip(*self.mem_pool_host.get_page_buffer_meta(host_indices)[:2]):
                page = (ctypes.c_ubyte * size).from_address(address)
                page[:] = bytes(page).translate(bytes(i ^ 0x81 for i in range(256)))
        return done
