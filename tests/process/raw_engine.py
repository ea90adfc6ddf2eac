# SPDX-License-Identifier: Apache-2.0
"""A hand-made client with a namespace, a region and a layout, so that one thing at a time can be
wrong."""
import mmap
import os
import struct

import kvsidecar
from kvsidecar import Status

import flat
from engine import fields
from raw_peer import ATTACH, GET, PUT, REGISTER_LAYOUT, REGISTER_REGION, RawPeer

PAGE_BYTES = 4096
BLOCKS = 32
ECHO_BYTES = 4096  # behind the blocks
NONCE = 0x1234567


def memfd(bytes_, allocate=True):
    fd = os.memfd_create("region")
    os.ftruncate(fd, bytes_)
    if allocate:
        os.posix_fallocate(fd, 0, bytes_)
    return fd


class RawEngine(RawPeer):
    """`register` False: attached only."""

    def __init__(self, path, register=True, page_bytes=PAGE_BYTES, blocks=BLOCKS):
        super().__init__(path)
        identity = kvsidecar.encode_identity(fields(page_bytes))
        attached = self.call(ATTACH, flat.attach(identity))
        assert attached.status == Status.OK, attached
        self.namespace = attached.handle
        self.page_bytes, self.blocks = page_bytes, blocks
        self.region_fd = self.memory = None
        if register:
            self.region_fd = memfd(blocks * page_bytes + ECHO_BYTES)
            self.memory = mmap.mmap(self.region_fd, 0)
            self.region = self.register(self.region_fd, blocks * page_bytes + ECHO_BYTES).handle
            self.layout = self.make_layout(self.region).handle

    def close(self):
        if self.memory is not None:
            self.memory.close()
            os.close(self.region_fd)
            self.memory = None
        super().close()

    def register(self, fd, bytes_, nonce=NONCE, write_nonce=True, **more):
        """Registers a region whose echo word is its last page's first 8 bytes; the answer."""
        echo = max(bytes_ - ECHO_BYTES, 0)
        if write_nonce:
            os.pwrite(fd, struct.pack("<Q", nonce), echo)
        token = self.offer(fd)
        return self.call(REGISTER_REGION, flat.register_region(
            token, **dict(dict(bytes_=bytes_, echo_offset=echo, nonce=nonce), **more)))

    def make_layout(self, region, blocks=None, stride=None, length=None):
        answer = self.call(REGISTER_LAYOUT, flat.register_layout(
            blocks or self.blocks,
            [(region, 0, stride or self.page_bytes, length or self.page_bytes)]))
        assert answer.status == Status.OK, answer
        return answer

    def begin(self, type_, keys, layout=None, first=0, **lies):
        """Begins a put or get of blocks first…; its request number."""
        for i in range(len(keys)):
            self.queue_claim(first + i, i)
        items = [(layout or self.layout, first + i, first + i) for i in range(len(keys))]
        return self.send_record(type_, flat.transfer(self.namespace, keys, items), **lies)

    def put(self, keys, **more):
        request = self.begin(PUT, keys, **more)
        answer = self.answer()
        assert answer.request == request
        return answer

    def get(self, keys, **more):
        request = self.begin(GET, keys, **more)
        answer = self.answer()
        assert answer.request == request
        return answer
