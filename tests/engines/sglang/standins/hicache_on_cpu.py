# SPDX-License-Identifier: Apache-2.0
"""A plug-in for SGLang by which its own host pools work where the "device" is the CPU.

What it changes, and why:
  - host pools pin no memory: there is no driver to pin it with;
  - host pools may take all memory: SGLang keeps 10 GB free, more than a machine may have;
  - the copies between device and host pools, which are CUDA kernels, are done by torch;
  - attention in torch reads a sliding window's rows where they are. It writes them there, but reads
    at the places of the other layers' rows: right by chance while nothing has been evicted or
    restored, and never a witness for what a storage gave back;
  - latent attention is always computed on latents. SGLang says nothing about its torch backend and
    so takes what it does for Triton: prompts by heads, for which torch finds latents in the cache.
Nothing else of SGLang is touched: which pages go where, in which layout and when is its own doing.
"""
_MARK = "_copies_by_torch"


def install():
    """Once for each process; again it does nothing."""
    from sglang.srt.mem_cache.pool_host import base, dsa, mamba, mha, mla
    if getattr(base.HostKVCache, _MARK, False):
        return
    base.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
    # Constructors assign it, each with a default of its own.
    base.HostKVCache.pin_memory = property(lambda pool: False, lambda pool, value: None)
    for kind, views in ((mha.MHATokenToKVPoolHost, _mha_views),
                        (mla.MLATokenToKVPoolHost, _mla_views),
                        (mamba.MambaPoolHost, _mamba_views), (dsa.DSAIndexerPoolHost, _dsa_views)):
        kind.backup_from_device_all_layer = _backup_of(views)
        kind.load_to_device_per_layer = _load_of(views)
    _read_windows_where_they_are()
    _attend_to_latents()
    setattr(base.HostKVCache, _MARK, True)


def _read_windows_where_they_are():
    from sglang.srt.layers.attention.torch_native_backend import TorchNativeAttnBackend

    def translating(run):
        def translate_and_run(backend, query, output, keys, values, slots, *rest, **named):
            if named.get("sliding_window_size") is not None and backend.use_sliding_window_kv_pool:
                slots = backend.token_to_kv_pool.translate_loc_from_full_to_swa(slots)
            return run(backend, query, output, keys, values, slots, *rest, **named)

        return translate_and_run

    for name in ("_run_sdpa_forward_extend", "_run_sdpa_forward_decode"):
        setattr(TorchNativeAttnBackend, name, translating(getattr(TorchNativeAttnBackend, name)))


def _attend_to_latents():
    from sglang.srt.models.deepseek_common import attention_backend_handler as handler
    handler.AttentionBackendRegistry.register(
        "torch_native", lambda attention, batch: handler.AttnForwardMethod.MLA)


# Views: [(host tensor, device tensor)] of one layer, and how a slot is found in each of the two.


def _slots(pool, host, device):
    if pool.layout == "page_first_direct":
        return (host // pool.page_size, host % pool.page_size), device
    return host, device


def _mha_views(pool, layer, host, device):
    return [(pool.k_data_refs[layer], pool.device_k_buffers[layer]),
            (pool.v_data_refs[layer], pool.device_v_buffers[layer])], *_slots(pool, host, device)


def _mla_views(pool, layer, host, device):
    pages_first = pool.layout.startswith("page_first")
    rows = (pool.kv_buffer.transpose(0, 1) if pages_first else pool.kv_buffer)[layer]
    return [(rows, pool.device_kv_buffers[layer])], *_slots(pool, host, device)


def _mamba_views(pool, layer, host, device):
    """A slot is a state; layouts don't differ."""
    views = [(buffer[:, layer, 0], layers[layer])
             for buffer, layers in zip(pool.conv_buffer, pool.conv_device_layers)]
    views.append((pool.temporal_buffer[:, layer, 0], pool.temporal_device_layers[layer]))
    return views, host, device


def _dsa_views(pool, layer, host, device):
    """A row is a page."""
    buffer = pool.index_k_with_scale_buffer
    rows = buffer[layer] if pool.layout == "layer_first" else buffer[:, layer, 0]
    return ([(rows, pool.packed_device_index_buffers[layer])],
            host[::pool.page_size] // pool.page_size, device[::pool.page_size] // pool.page_size)


def _layers(pool):
    return pool.num_mamba_layers if hasattr(pool, "num_mamba_layers") else pool.layer_num


def _backup_of(views_of):
    def backup(pool, device_pool, host_indices, device_indices, io_backend="kernel"):
        for layer in range(_layers(pool)):
            views, to, come_from = views_of(pool, layer, host_indices.cpu(), device_indices.cpu())
            for host, device in views:
                host[to] = device[come_from]

    return backup


def _load_of(views_of):
    def load(pool, device_pool, host_indices, device_indices, layer_id, io_backend="kernel", *,
             is_draft=False):
        if is_draft:
            raise NotImplementedError("packed draft layers aren't copied here")
        if not 0 <= layer_id < _layers(pool):
            return
        views, come_from, to = views_of(pool, layer_id, host_indices.cpu(), device_indices.cpu())
        for host, device in views:
            device[to] = host[come_from]

    return load
