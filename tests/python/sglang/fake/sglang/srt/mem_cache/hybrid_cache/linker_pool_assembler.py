# SPDX-License-Identifier: Apache-2.0
"""Views of device pools for linkers as SGLang 0.5.23 has them, written by hand. Which models it
puts together by itself is the test's to say: kvcache.linker_group, a function, or a ValueError."""


class DevicePoolEntry:
    def __init__(self, *, name, indices_from_pool, device_pool, components, layer_mapping,
                 page_size, rows_are_pages, packed=True, index_mapper=None):
        self.name, self.indices_from_pool = name, indices_from_pool
        self.device_pool, self.packed = device_pool, packed
        self.components = [list(component) for component in components]
        self.layer_mapping, self.page_size = layer_mapping, page_size
        self._mapper = index_mapper
        rows = 1 if rows_are_pages else page_size
        self.buffer_meta = [
            [(buffer.data_ptr(), buffer.stride(0) * buffer.element_size(),
              buffer.nbytes // buffer.shape[0] * rows) for buffer in component]
            for component in self.components]

    def translate_indices(self, indices):
        return self._mapper(indices) if self._mapper else indices


class DevicePoolGroup:
    def __init__(self, entries, num_layers, page_size, *, rank_replicated=False):
        self.entries = list(entries)
        self.entry_map = {entry.name: entry for entry in self.entries}
        self.num_layers, self.page_size = num_layers, page_size
        self.rank_replicated = rank_replicated


def resolve_hybrid_device_pool_group(*, kvcache, page_size, params, components):
    make = getattr(kvcache, "linker_group", None)
    if make is None:
        raise ValueError("The selected hybrid pool strategy does not support the direct external "
                         "linker")
    return make(page_size, params)
