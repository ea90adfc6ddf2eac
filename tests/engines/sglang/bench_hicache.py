# SPDX-License-Identifier: Apache-2.0
"""SGLang's storage backends side by side, in turns: kvsidecar.sglang.HiCache, SGLang's own HF3FS
backend with its client for files (4 jobs; metadata in the process, and over HTTP), its file
backend. Every file is on tmpfs, so that no disk decides; every byte that is got is compared. Host
pools are SGLang's for keys and values in their default layout (page_first), of 512 KiB a page;
ours alone are of its shm allocator. All are warm; HF3FS' files and the daemon's pool are full, so
that old pages go for new ones. The daemon chooses its number of copy threads itself.

    bench_hicache.py [--rounds N] [--only ROW] [--json] [--pages N] [--seed N]

With the variables that run.sh sets; `run.sh sglang bench` calls it. Nothing else should run on the
machine. Exit code 1: wrong bytes.
"""
import argparse
import logging
import os
import shutil
import signal
import sys
import tempfile
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(TESTS, "harness")]
sys.path += [os.path.join(TESTS, "process"), os.path.join(TESTS, "engines", "vllm")]

from daemon import built  # noqa: E402

os.environ.setdefault("KVSIDECAR_LIBRARY", built("libkvsidecar-client.so.0"))

import torch  # noqa: E402
from bench_backends import EVERY, FILE, HTTP, LOCAL, OURS, Files, Sidecar, hf3fs  # noqa: E402
from bench_figures import as_json, table  # noqa: E402
from bench_node import MetadataServer, Node  # noqa: E402
from bench_pages import Inputs, Shape  # noqa: E402
from bench_queries import alone, together  # noqa: E402
from bench_ranks import HF3FS_BYTES, SHAPE, Ranks, store  # noqa: E402
from bench_rows import ROWS, figures_of  # noqa: E402
from bench_transfers import Times, WrongBytes, from_store, in_memory, warm  # noqa: E402
from sglang.srt.runtime_context import get_context  # noqa: E402

ROUNDS = 12
SEED = 20
PAGES = 64  # of a set or get
LARGE = Shape(layers=8, heads=2, head_dim=128, pages=96)  # 512 KiB a page
POOL_MIB, STORE_MIB = 256, 512
HF3FS_LARGE_BYTES = POOL_MIB << 20
QUERIES = (64, 512, 2000)  # keys
RANKS, RANK_KEYS, RANK_QUESTIONS = 8, 512, 60
# Numbers of ranks by which the metadata server tells apart what isn't of the same engine.
SMALL_RANK, LARGE_RANK = RANKS, RANKS + 1


class Bench:
    """Everything that runs for it; gone with it, however it ends. asked: as arguments() tells.
    names: of the backends that take part."""

    def __init__(self, asked, names=EVERY):
        self.asked, self.names, self.times = asked, names, Times()
        self.inputs = Inputs(asked.seed)
        self._open = []
        self.folder = tempfile.mkdtemp(prefix="kvsidecar-bench-", dir="/dev/shm")
        self.node = self.server = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            for one in reversed(self._open):
                one.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def opened(self, thing):
        self._open.append(thing)
        return thing

    def start(self):
        if HTTP in self.names:
            self.server = self.opened(MetadataServer(self.folder))
        self.node = self.opened(Node(self.folder, POOL_MIB, STORE_MIB))
        self.node.start()
        if self.server:
            self.server.wait_ready()

    def backends(self, shape, revision, hf3fs_bytes, rank):
        folder = os.path.join(self.folder, revision)
        os.mkdir(folder)
        make = {
            OURS: lambda: Sidecar(self.node, shape, revision, durable=True),
            LOCAL: lambda: hf3fs(LOCAL, folder, shape, hf3fs_bytes, rank=rank),
            HTTP: lambda: hf3fs(HTTP, folder, shape, hf3fs_bytes, self.server, rank),
            FILE: lambda: Files(folder, shape)}
        return [self.opened(make[name]()) for name in self.names]

    def rounds(self, what):
        for number in range(self.asked.rounds):
            print(f"{what}: round {number + 1} of {self.asked.rounds}", file=sys.stderr)
            yield number

    def measure(self, rows):
        ranks = self.opened(Ranks(RANKS)) if "ranks" in rows else None
        self.start()
        if "query" in rows:
            self.queries()
        if ranks:
            self.at_once(ranks)
        if rows & {"set", "store", "get", "cpu", "read"}:
            self.transfers(rows)

    def queries(self):
        backends = self.backends(SHAPE, "small", HF3FS_BYTES, SMALL_RANK)
        keys = self.inputs.keys(max(QUERIES))
        for backend in backends:
            store(backend, self.inputs, keys)
        keys_of = {count: keys[:count] for count in QUERIES}
        alone(Times(), backends, self.inputs, keys_of)
        for _ in self.rounds("query"):
            alone(self.times, backends, self.inputs, keys_of)

    def at_once(self, ranks):
        folder = os.path.join(self.folder, "ranks")
        os.mkdir(folder)
        ranks.prepare(seed=self.asked.seed, keys=RANK_KEYS, folder=folder,
                      daemon={"socket": self.node.daemon.socket, "pid": self.node.daemon.pid},
                      server={"url": self.server.url, "pid": self.server.pid})
        together(Times(), ranks, self.names, self.inputs, RANK_QUESTIONS // 4)
        for _ in self.rounds("ranks"):
            together(self.times, ranks, self.names, self.inputs, RANK_QUESTIONS)

    def transfers(self, rows):
        backends = self.backends(LARGE, "large", HF3FS_LARGE_BYTES, LARGE_RANK)
        shape, pages = LARGE, self.asked.pages
        for _ in range(HF3FS_LARGE_BYTES // (2 * pages * shape.page_bytes)):
            warm(backends, self.inputs, shape, pages)
        if rows - {"read"}:
            for _ in self.rounds("set, store, get, cpu"):
                in_memory(self.times, backends, self.inputs, shape, pages)
        if "read" in rows:
            for _ in self.rounds("read"):
                from_store(self.times, backends, self.inputs, shape, pages)


def arguments(given):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=ROWS, help="one row instead of all")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--pages", type=int, default=PAGES, help="of a set or get")
    parser.add_argument("--seed", type=int, default=SEED)
    return parser.parse_args(given)


def be_a_worker():
    """What SGLang's workers have set up, and one thread for what torch computes."""
    torch.set_num_threads(1)
    get_context().override_server_args(device="cpu").install()


def main(given=None):
    asked = arguments(given)
    rows = {asked.only} if asked.only else set(ROWS)
    try:
        with Bench(asked) as bench:
            bench.measure(rows)
    except WrongBytes as error:
        print(f"bench_hicache: {error}", file=sys.stderr)
        return 1
    figures = figures_of(bench.times, rows, asked.pages)
    print(as_json(figures) if asked.json else table(figures))
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    be_a_worker()
    sys.exit(main())
