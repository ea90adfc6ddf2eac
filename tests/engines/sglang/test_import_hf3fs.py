# SPDX-License-Identifier: Apache-2.0
"""Goal: what SGLang's own HF3FS backend has stored, an engine finds through door A after `kvsidecar
import-hf3fs`, byte for byte.

Method: the real backend with its file client and its metadata server's own state, over real host
pools; the real command line; then kvsidecar.sglang.HiCache over the same pools, wiped.
"""
import atexit
import hashlib
import json
import os
import signal
import socket
import subprocess

import pools
import pytest
import torch
from daemon import Daemon, built
from pools import PoolName
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig, PoolTransfer
from sglang.srt.mem_cache.storage.hf3fs.mini_3fs_metadata_server import (GlobalMetadataState,
                                                                       Hf3fsLocalMetadataClient)
from sglang.srt.mem_cache.storage.hf3fs.storage_hf3fs import HiCacheHF3FS
from sglang.srt.runtime_context import get_context, get_parallel

PAGES = 5
FILE_BYTES = 4 << 20
CASES = [(("mha",), layout) for layout in pools.LAYOUTS]
CASES += [(("mla",), layout) for layout in pools.LAYOUTS]
CASES += [(("mla+indexer",), layout) for layout in pools.PAGE_FIRST]
CASES += [((anchor, "mamba"), layout) for anchor in ("mha", "mla") for layout in pools.PAGE_FIRST]


class Hf3fs:
    """The backend as its factory makes it, but for metadata that can be saved without a server."""

    def __init__(self, folder, host, mla):
        handlers = {number: signal.getsignal(number)
                    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)}
        self.path = os.path.join(folder, "hicache.0.bin")
        self.saved = os.path.join(folder, "metadata.json")
        tokens = host.get_size_per_token() if host.layout == "layer_first" else \
            host.get_ksize_per_token()
        self.metadata = Hf3fsLocalMetadataClient()
        self.backend = HiCacheHF3FS(
            rank=0, file_path=self.path, file_size=FILE_BYTES, numjobs=2,
            bytes_per_page=tokens * host.page_size, entries=4, client_timeout=5, dtype=host.dtype,
            metadata_client=self.metadata, is_mla_model=mla, use_mock_client=True)
        for number, handler in handlers.items():  # it replaces them by its own
            signal.signal(number, handler)
        self.backend.register_mem_pool_host(host)

    def close(self):
        atexit.unregister(self.backend.close)
        self.backend.close()
        state = GlobalMetadataState(self.saved, 60)
        state.ranks = self.metadata._metadata
        state.save_to_disk()


def hosts_of(parts):
    return {name: part.host for name, part in parts.items()}


def slots_of(host, first):
    return torch.arange(first * host.page_size, (first + PAGES) * host.page_size)


def keys_of(name):
    return [hashlib.sha256(f"{name} {page}".encode()).hexdigest() for page in range(PAGES)]


def buffers_of(part):
    if part.name == PoolName.MAMBA:
        return [part.host.temporal_buffer, *part.host.conv_buffer]
    return part.host_buffers()


def pages_of(part, first):
    return part.host_pages(slots_of(part.host, first))


def side_pools(parts):
    return [part for name, part in parts.items() if name != PoolName.KV]


def transfers(parts, keys, first):
    return [PoolTransfer(part.name, slots_of(part.host, first), keys=keys)
            for part in side_pools(parts)]


def import_all(daemon, hf3fs, parts):
    """The report of the command; namespaces are those that engines have attached to."""
    common = ["--socket", daemon.socket, "--json"]
    listed = json.loads(subprocess.run([built("kvsidecar"), "ls", *common], check=True,
                                       stdout=subprocess.PIPE).stdout)["namespaces"]
    command = [built("kvsidecar"), "import-hf3fs", *common, "--metadata", hf3fs.saved]
    for name in parts:
        command += ["--data", hf3fs.path + ("" if name == PoolName.KV else f".{name}")]
    for row in listed:
        command += ["--namespace", row["namespace"]]
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        command += ["--server", f"127.0.0.1:{silent.getsockname()[1]}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


@pytest.fixture
def door(tmp_path):
    """door(parts, mla): (daemon, HiCache over those host pools)."""
    from kvsidecar.sglang import HiCache
    made = []

    def make(parts, mla):
        daemon = Daemon(tmp_path / "node")
        made.append(daemon)
        daemon.start().log_has(r"\bchunk_ready\b")
        backend = HiCache(HiCacheStorageConfig(
            tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
            is_mla_model=mla, enable_storage_metrics=False, is_page_first_layout=False,
            model_name="org/tiny", extra_config={
                "interface_v1": 1, "socket": daemon.socket, "lookup_deadline_ms": 1000,
                "revision": "r1", "staging_mib": 8}), {})
        made.append(backend)
        backend.register_mem_pool_host(parts[PoolName.KV].host)
        for name, host in hosts_of(parts).items():
            backend.register_mem_host_pool_v2(host, name)
        return daemon, backend

    yield make
    for one in reversed(made):
        one.remove() if isinstance(one, Daemon) else one.close()


@pytest.fixture
def one_rank():
    """What SGLang's pools ask of the process that makes them."""
    get_context().override_server_args(device="cpu").install()
    with get_parallel().override(tp_rank=0, tp_size=1, attn_tp_rank=0, attn_tp_size=1, pp_rank=0,
                                 pp_size=1, attn_dp_rank=0, attn_dcp_rank=0, attn_dcp_size=1):
        yield


@pytest.mark.parametrize("kinds, layout", CASES)
def test_what_hf3fs_has_stored_is_found_through_door_a(tmp_path, door, one_rank, kinds, layout):
    mla = kinds[0].startswith("mla")
    parts = pools.build(kinds, 2 * PAGES + 2, layout)
    for number, part in enumerate(parts.values()):
        for buffer in buffers_of(part):
            buffer.view(torch.uint8).random_(0, 256,
                                             generator=torch.Generator().manual_seed(number))
    keys, hf3fs = keys_of(f"{kinds} {layout}"), Hf3fs(str(tmp_path), parts[PoolName.KV].host, mla)
    for part in side_pools(parts):
        hf3fs.backend.register_mem_host_pool_v2(part.host, part.name)
    assert all(hf3fs.backend.batch_set_v1(keys, slots_of(parts[PoolName.KV].host, 1)))
    for transfer in transfers(parts, keys, 1):
        assert all(hf3fs.backend.batch_set_v2([transfer])[transfer.name])
    hf3fs.close()

    daemon, backend = door(parts, mla)
    report = import_all(daemon, hf3fs, parts)
    assert (report["imported"], report["left_out"]) == (PAGES * len(parts), {})
    want = {name: pages_of(part, 1) for name, part in parts.items()}
    for part in parts.values():
        for buffer in buffers_of(part):
            buffer.view(torch.uint8).fill_(0x5A)
    there = 1 + PAGES
    assert backend.batch_exists(keys) == PAGES
    assert backend.batch_get_v1(keys, slots_of(parts[PoolName.KV].host, there)) == [True] * PAGES
    for transfer in transfers(parts, keys, there):
        assert backend.batch_get_v2([transfer]) == {transfer.name: [True] * PAGES}
    assert {name: pages_of(part, there) for name, part in parts.items()} == want
