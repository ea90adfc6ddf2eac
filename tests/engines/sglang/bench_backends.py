# SPDX-License-Identifier: Apache-2.0
"""Storage backends side by side: each with a host pool of its own, made by SGLang's factory, and
moved by the very functions of SGLang's controller that it chooses for that backend."""
import json
import os
import signal
import time
from types import SimpleNamespace

from bench_pages import LAYOUT, TOKENS, HostPages
from sglang.srt.managers.cache_controller import HiCacheController
from sglang.srt.mem_cache.hicache_storage import HiCacheStorageConfig
from sglang.srt.mem_cache.storage import StorageBackendFactory
from waiting import eventually

OURS, LOCAL, HTTP, FILE = EVERY = "kvsidecar", "HF3FS in process", "HF3FS over HTTP", "file"
NUMJOBS, ENTRIES = 4, 8  # HF3FS' best setting on two cores
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)


def cpu_s(pid):
    """User and system time of a process, its ended threads included."""
    return time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3), which Python hasn't


class Operation:
    """Stands for SGLang's: of a prefetch that nobody ends early."""

    request_id = "bench"

    @staticmethod
    def is_terminated():
        return False


class Backend:
    """processes: that work for it beside this one. pages: a pool to share with another backend;
    None: one of its own."""

    def __init__(self, name, kind, shape, extra, rank=0, ranks=1, pages=None, allocator="default",
                 processes=()):
        self.name, self.shape, self.processes = name, shape, tuple(processes)
        self.pages = pages or HostPages(shape, allocator)
        host = self.pages.host
        self.storage = StorageBackendFactory.create_backend(kind, HiCacheStorageConfig(
            tp_rank=rank, tp_size=ranks, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1,
            is_mla_model=False, enable_storage_metrics=False,
            is_page_first_layout=LAYOUT == "page_first", model_name="org/bench",
            extra_config=extra), host)
        self.storage.register_mem_pool_host(host)
        in_place = kind == "hf3fs" or extra.get("interface_v1")
        self._set = getattr(HiCacheController,
                            "_page_set_zero_copy" if in_place else "_generic_page_set")
        self._get = getattr(HiCacheController,
                            "_page_get_zero_copy" if in_place else "_generic_page_get")
        self._controller = SimpleNamespace(storage_backend=self.storage, storage_host_pool=host,
                                           page_size=TOKENS)

    def query(self, keys):
        """Pages that are stored, from the first on."""
        return self.storage.batch_exists(keys)

    def set(self, keys, slots):
        assert self._set(self._controller, keys, slots), f"{self.name} didn't store"

    def set_until_stored(self, keys, slots):
        self.set(keys, slots)  # acknowledged once the file has it

    def get(self, keys, slots):
        got = self._get(self._controller, Operation, keys, slots)
        assert got == len(keys), f"{self.name} got {got} of {len(keys)} pages"

    def settle(self):
        """Nothing is left to do from earlier calls."""

    def forget(self, keys):
        """Pages that nobody asks for any more may go."""

    def restarted(self):
        """What it stored is all that it has; it has none of it in memory of its own."""

    def cpu_s(self):
        """Of the engine and of all that works for it."""
        return time.process_time() + sum(map(cpu_s, self.processes))

    def close(self):
        if hasattr(self.storage, "close"):
            self.storage.close()
        self.pages.close()


class Sidecar(Backend):
    """kvsidecar, with host pools that are shared with the daemon. durable: a second attachment,
    which stores until the store has the pages."""

    EXTRA = {"backend_name": "kvsidecar", "module_path": "kvsidecar.sglang",
             "class_name": "HiCache", "interface_v1": 1, "allocator": "shm", "revision": "bench",
             "lookup_deadline_ms": 1000}

    def __init__(self, node, shape, revision, rank=0, ranks=1, durable=False):
        extra = {**self.EXTRA, "socket": node.daemon.socket, "revision": revision}
        super().__init__(OURS, "dynamic", shape, extra, rank, ranks, allocator="shm",
                         processes=[node.daemon.pid])
        self.node = node
        self._durable = Backend(OURS, "dynamic", shape, {**extra, "durable": True}, rank, ranks,
                                pages=self.pages) if durable else None

    def set_until_stored(self, keys, slots):
        self._durable.set(keys, slots)

    def settle(self):
        self.node.settle()

    def restarted(self):
        clients = [one.storage.session.client for one in (self, self._durable)]
        before = [client.connection().connects for client in clients]
        self.node.restart_without_pool()
        self.processes = (self.node.daemon.pid,)
        for client, connects in zip(clients, before):
            eventually(lambda: client.connected and client.connection().connects > connects,
                       "the engine is connected again")

    def close(self):
        if self._durable:
            self._durable.storage.close()
        super().close()


def hf3fs(name, folder, shape, file_bytes, server=None, rank=0):
    """SGLang's own, with its client for files; metadata in this process or of a server."""
    config = {"file_path_prefix": os.path.join(folder, f"hf3fs-{name.rpartition(' ')[2]}", "data"),
              "file_size": file_bytes, "numjobs": NUMJOBS, "entries": ENTRIES}
    if server:
        config["metadata_server_url"] = server.url
    path = os.path.join(folder, f"hf3fs-{name.rpartition(' ')[2]}-{rank}.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    os.environ["SGLANG_HICACHE_HF3FS_CONFIG_PATH"] = path
    handlers = [(number, signal.getsignal(number)) for number in SIGNALS]
    made = Backend(name, "hf3fs", shape, {"use_mock_hf3fs_client": True}, rank,
                   processes=[server.pid] if server else ())
    for number, handler in handlers:  # it takes them, and then the process can't be ended
        signal.signal(number, handler)
    return made


class Files(Backend):
    """SGLang's own, a file a page."""

    def __init__(self, folder, shape, rank=0, ranks=1):
        self._folder = os.path.join(folder, "files")
        super().__init__(FILE, "file", shape, {"file_storage_path": self._folder}, rank, ranks)

    def forget(self, keys):
        for key in keys:
            os.unlink(os.path.join(
                self._folder, f"{self.storage._get_suffixed_key(key)}.bin"))
