# SPDX-License-Identifier: Apache-2.0
"""One rank of several with SGLang's real HiCache controller over door A, told over stdin what to do
and answering over stdout, both in lines of JSON:   hicache_worker.py RANK SIZE STORE
"""
import hashlib
import json
import sys

import torch
from controllers import Rig, tokens_of
from sglang.srt.runtime_context import get_context

HICACHE = "kvsidecar.sglang:HiCache"


class Worker:
    """Pages 1 and on hold what is stored, pages FIRST_BACK and on what comes back."""

    FIRST_BACK = 20

    def __init__(self, rank, ranks, kinds, extra):
        self.rig = Rig(HICACHE, tuple(kinds), rank=rank, ranks=ranks, extra=extra,
                       allocator="shm", hybrid=True)
        self.rig.fill(seed=1 + rank)

    def close(self):
        self.rig.close()

    def _digests(self, first, pages, state):
        layers = self.rig.read(self.rig.slots(first, pages, state))
        return {str(name.value): hashlib.sha256(b"".join(found)).hexdigest()
                for name, found in layers.items()}

    def backup(self, pages):
        """Digests of what was stored."""
        here = self.rig.slots(1, pages)
        self.rig.backup(tokens_of(1, pages), here)
        return self._digests(1, pages, 1)

    def wipe(self):
        self.rig.wipe()

    def query(self, pages):
        """Tokens that all ranks find."""
        self.asked = self.rig.query(tokens_of(1, pages))
        return self.asked.storage_hit_count

    def end_session(self):
        """What comes next misses here, and here alone."""
        self.rig.backend.session.close(1)

    def prefetch(self, pages):
        """[tokens found, tokens that came, what they are now]."""
        got = self.rig.prefetch(tokens_of(1, pages))
        if got.tokens:
            self.rig.load(got, self.rig.slots(self.FIRST_BACK, pages, state=7))
        return [got.hit_tokens, got.tokens, self._digests(self.FIRST_BACK, pages, 7)]

    def prefetch_found(self):
        """As prefetch, of what query has found: tokens that came on all ranks."""
        asked, controller = self.asked, self.rig.controller
        asked.host_indices = controller.alloc_prefetch_host_buffers(asked, asked.storage_hit_count)
        controller.prefetch_buffer.put(asked)
        tokens, whole = 0, False
        while not whole:
            ack = self.rig._answer(controller.ack_prefetch_queue, "acknowledgement")
            tokens, whole = max(tokens, ack.completed_tokens or 0), bool(ack.completed_req)
        return tokens

    def exists(self, pages):
        """What this rank's own backend finds, without SGLang's reduction."""
        return self.rig.backend.batch_exists(self.rig.hashes(tokens_of(1, pages)))


def main():
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    get_context().override_server_args(device="cpu").install()
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.FileStore(sys.argv[3], ranks), rank=rank,
        world_size=ranks)
    worker = None
    for line in sys.stdin:
        command = json.loads(line)
        name, arguments = command["name"], command["arguments"]
        if name == "make":
            if worker is not None:
                worker.close()
            worker = Worker(rank, ranks, **arguments)
            answer = True
        else:
            answer = getattr(worker, name)(**arguments)
        print(json.dumps({"value": answer}), flush=True)


if __name__ == "__main__":
    main()
