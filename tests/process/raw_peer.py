# SPDX-License-Identifier: Apache-2.0
"""A client made by hand from ipc/handshake.h and ipc/layout.h, which does as it is told, right or
wrong."""
import array
import collections
import contextlib
import mmap
import os
import socket
import struct
import time

from waiting import DEADLINE_S, readable

HELLO_MAGIC = 0x314F4C4C4548564B
WELCOME_MAGIC = 0x31454D4F434C564B
READY_MAGIC = 0x3159444145525645
FD_MAGIC = 0x3144465F5F5F564B
MAJOR, MINOR = 1, 0
HELLO = struct.Struct("<QIIIIQ16s48s")
WELCOME = struct.Struct("<QIIIIQQQ6I16s256s")
RECORD = struct.Struct("<IHHQQII32s")
COMPLETION = struct.Struct("<QIBBHHHIQQQQQ")
CELL_BYTES, ANSWER_BYTES, BLOCK_BYTES = 2048, 4096, 65536
HEAD_BYTES, INFO_BYTES, CELL_PAGE_BYTES = 4096, 16384, 4096
INFO_CONSUMED, INFO_PUBLISHED = 128, 256
SECOND_NS = 1_000_000_000

(ATTACH, REGISTER_REGION, REGISTER_LAYOUT, UNREGISTER, LOOKUP, PUT, GET, RELEASE, CANCEL, DELETE,
 CLEAR, STAT, WHY, NOOP) = range(1, 15)
QUEUED, COPYING, DONE, FAILED, REVOKED, ABANDONED, SKIPPED = range(1, 8)

Welcome = collections.namedtuple(
    "Welcome", "magic bytes status major minor features epoch session submission_cells "
    "arena_blocks completion_cells fences claims progress_words node text")
Answer = collections.namedtuple("Answer", "request status type cell cells handle value payload")


class HungUp(Exception):
    """The daemon has ended the connection."""


class Door:
    """The socket, and what goes over it."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def send(self, data, fds=()):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], ancillary)

    def send_hello(self, magic=HELLO_MAGIC, bytes_=HELLO.size, major=MAJOR, minor=MINOR, size=None,
                   fds=()):
        hello = HELLO.pack(magic, bytes_, major, minor, 0, 0, os.urandom(16), b"by hand")
        self.send(hello if size is None else (hello + bytes(4096))[:size], fds)

    def receive_welcome(self, seconds=DEADLINE_S):
        """The WELCOME, also one that refuses. HungUp when there is none."""
        assert readable([self.socket], seconds), "the daemon neither answers nor hangs up"
        try:
            message, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
        except ConnectionResetError:
            message, fds = b"", []
        self.fds += fds
        if not message:
            raise HungUp
        assert len(message) == WELCOME.size
        return Welcome(*WELCOME.unpack(message))

    def refusal(self):
        """(status, sentence) of a daemon that says no."""
        welcome = self.receive_welcome()
        assert welcome.status != 0 and not self.fds, welcome
        return welcome.status, welcome.text.rstrip(b"\0").decode()

    def send_ready(self, magic=READY_MAGIC):
        self.send(struct.pack("<Q", magic))

    def send_fd(self, token, fd, magic=FD_MAGIC):
        self.send(struct.pack("<QQ", magic, token), [fd])

    def hung_up(self, seconds=DEADLINE_S):
        """True when the daemon ends the connection in that time."""
        end = time.monotonic() + seconds
        while readable([self.socket], end - time.monotonic()):
            try:
                message, fds, _, _ = socket.recv_fds(self.socket, 4096, 16)
            except ConnectionResetError:
                return True
            self.fds += fds
            if not message:
                return True
        return False


class RawPeer(Door):
    """A session whose rings are written by hand."""

    def __init__(self, path):
        super().__init__(path)
        self.send_hello()
        self.geometry = g = self.receive_welcome()
        assert g.status == 0 and len(self.fds) == 6, g
        self.arena = HEAD_BYTES + g.submission_cells * CELL_BYTES
        submission_bytes = self.arena + g.arena_blocks * BLOCK_BYTES
        completion_bytes = INFO_BYTES + g.completion_cells * ANSWER_BYTES
        cells_bytes = -(-(CELL_PAGE_BYTES + 8 * (g.fences + g.claims)) // 4096) * 4096
        self.submission = mmap.mmap(self.fds[0], submission_bytes)
        self.completion = mmap.mmap(self.fds[1], completion_bytes, prot=mmap.PROT_READ)
        self.cells = mmap.mmap(self.fds[2], cells_bytes)
        self.kick, self.notify = self.fds[3], self.fds[4]
        self.cells[128:132] = struct.pack("<I", 2)  # wake by the notify descriptor, always
        self.position = self.read = self.request = self.token = 0
        self.send_ready()

    def close(self):
        for mapped in (self.submission, self.completion, self.cells):
            mapped.close()
        super().close()

    # Records.

    def write(self, type_, payload, *, flags=0, length=None, arena=None, deadline_ns=None):
        """Writes one record into the next cell and doesn't publish it; its request number.
        length: a lie about the payload; arena: (offset, length) of a payload that lies there."""
        self.request += 1
        if deadline_ns is None:
            deadline_ns = time.monotonic_ns() + 10 * SECOND_NS
        if arena is None and len(payload) > CELL_BYTES - RECORD.size:
            self.submission[self.arena:self.arena + len(payload)] = payload
            arena, payload = (0, len(payload)), b""
        if length is None:
            length = len(payload)
        head = RECORD.pack(length, type_, flags, self.request, deadline_ns, *(arena or (0, 0)),
                           bytes(32))
        cell = HEAD_BYTES + self.position % self.geometry.submission_cells * CELL_BYTES
        data = (head + payload)[:CELL_BYTES]
        self.submission[cell:cell + len(data)] = data
        self.position += 1
        return self.request

    def publish(self, position=None):
        self.submission[0:8] = struct.pack("<Q", self.position if position is None else position)
        os.write(self.kick, struct.pack("<Q", 1))

    def send_record(self, type_, payload, **lies):
        request = self.write(type_, payload, **lies)
        self.publish()
        return request

    def call(self, type_, payload, **lies):
        """Sends a record and waits for its answer."""
        request = self.send_record(type_, payload, **lies)
        answer = self.answer()
        assert answer.request == request
        return answer

    # Answers.

    def published(self):
        return struct.unpack_from("<Q", self.completion, INFO_PUBLISHED)[0]

    def consumed(self):
        """Records that the daemon has taken."""
        return struct.unpack_from("<Q", self.completion, INFO_CONSUMED)[0]

    def set_read(self, position):
        self.cells[0:8] = struct.pack("<Q", position)

    def answer(self, seconds=DEADLINE_S):
        """The next answer's cell. HungUp when the daemon ends the session instead."""
        end = time.monotonic() + seconds
        while self.published() == self.read:
            ready = readable([self.notify, self.socket], end - time.monotonic())
            assert ready, f"no answer in {seconds} s"
            if self.notify in ready:
                with contextlib.suppress(BlockingIOError):  # it was rung once more just now
                    os.read(self.notify, 8)
            elif self.published() == self.read and self.hung_up(0):
                raise HungUp
        place = INFO_BYTES + self.read % self.geometry.completion_cells * ANSWER_BYTES
        (request, length, status, type_, cell, cells, _, _, handle, value, _, _, _) = \
            COMPLETION.unpack_from(self.completion, place)
        start = place + COMPLETION.size
        payload = self.completion[start:start + length]
        self.read += 1
        self.set_read(self.read)
        return Answer(request, status, type_, cell, cells, handle, value, payload)

    # Claims.

    def _claim_place(self, index):
        return CELL_PAGE_BYTES + 8 * (self.geometry.fences + index)

    def queue_claim(self, index, tag, request=None):
        """Before the request is written: `request` None names the next one."""
        sequence = self.request + 1 if request is None else request
        struct.pack_into("<Q", self.cells, self._claim_place(index),
                         sequence << 24 | tag << 8 | QUEUED)

    def claim_state(self, index):
        return struct.unpack_from("<Q", self.cells, self._claim_place(index))[0] & 0xFF

    # The usual beginnings.

    def offer(self, fd):
        """Sends a region's descriptor and gives its token."""
        self.token += 1
        self.send_fd(self.token, fd)
        return self.token
