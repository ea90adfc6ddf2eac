# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters by their content: vLLM's block hashes know an adapter by its name (and path) only.

A content id is made from all bytes of the adapter's files, by a thread of its own, and is appended
to each key of the adapter's requests. Files that change while vLLM may have either version of them
in memory make an adapter unclear: its requests neither load nor store until it comes under another
number. Needs no vLLM.
"""
from __future__ import annotations

import hashlib
import queue
import threading
from collections import OrderedDict
from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

from ..plugin.adapter_files import CONTENT_ID_BYTES, Stamp, content_of, find_folder, stamp_of

PENDING = "pending"  # being read; ask again at the next step
USABLE = "usable"  # `content_id` is it
UNCLEAR = "unclear"  # files missing or changed since: neither load nor store

KEY_BYTES_MAX = 64  # of the daemon
WAITING_MAX = 256  # adapters whose files wait to be looked at
ADAPTERS_MAX = 4096  # far more than vLLM keeps in memory


class Known(NamedTuple):
    """What the thread found out; replaced as a whole."""

    looks: int  # of prepare() that are answered
    state: str
    content_id: Optional[bytes]
    stamp: Stamp


def examine(known: Optional[Known], path: str, looks: int) -> Known:
    """What is to be believed about the adapter at a path, given what was before."""
    unclear = Known(looks, UNCLEAR, None, ())
    if known is not None and known.state == UNCLEAR:
        return unclear
    try:
        folder = find_folder(path)
        stamp = () if folder is None else stamp_of(folder)
        if folder is None or not stamp:
            return unclear
        if known is not None:
            return known._replace(looks=looks) if known.stamp == stamp else unclear
        content_id = content_of(folder, stamp)
        if stamp_of(folder) != stamp:
            return unclear
    except OSError:
        return unclear
    return Known(looks, USABLE, content_id, stamp)


class _Entry:
    """One adapter number of vLLM, as the scheduler's thread sees it."""

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.looks = 0  # asked for so far
        self.queued = False  # the latest of them has reached the thread
        self.replaced = False  # vLLM may have other weights in memory under this number
        self.told = False


class Adapters:
    """One per scheduler, used by its thread. prepare() and content_id() never touch a file and
    never wait."""

    def __init__(self, log: Callable[[str], None] = lambda text: None,
                 choices: bytes = b"") -> None:
        """Starts no thread before the first adapter is seen. `log` gets a sentence, once for each
        adapter that is unclear. choices: how this engine applies adapters, see
        identity.adapter_choices."""
        self._log = log
        self._choices = choices
        self._entries: "OrderedDict[int, _Entry]" = OrderedDict()  # least recently used first
        self._known: Dict[int, Known] = {}  # written by the thread
        self._work: "queue.Queue[Optional[Tuple[int, str, int]]]" = queue.Queue(WAITING_MAX)
        self._thread: Optional[threading.Thread] = None

    def prepare(self, lora_request: Any) -> None:
        """On arrival of a request with an adapter: has its files read or looked at again."""
        if lora_request is None:
            return
        number = lora_request.lora_int_id
        entry = self._entries.get(number)
        if entry is None:
            entry = self._enter(number, lora_request)
        self._entries.move_to_end(number)
        # Weights replaced in place, or two adapters under one number: vLLM may have either in
        # memory, and its own cache pages of both.
        if (entry.name, entry.path) != (lora_request.lora_name, lora_request.lora_path) or (
                getattr(lora_request, "load_inplace", False)):
            entry.replaced = True
        if entry.replaced or (entry.queued and self._outstanding(number, entry)):
            return
        entry.looks += 1
        try:
            self._work.put_nowait((number, entry.path, entry.looks))
            entry.queued = True
        except queue.Full:
            entry.queued = False  # pending until a later request's look gets through
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kvsidecar-adapters",
                                            daemon=True)
            self._thread.start()

    def content_id(self, lora_request: Any) -> Tuple[str, Optional[bytes]]:
        """(PENDING, USABLE or UNCLEAR, 16 bytes if USABLE). For lora_request None: (USABLE, b""),
        so that the caller needs no special case."""
        if lora_request is None:
            return USABLE, b""
        number = lora_request.lora_int_id
        entry = self._entries.get(number)
        if entry is None:
            self.prepare(lora_request)
            return PENDING, None
        if entry.replaced or (entry.name, entry.path) != (
                lora_request.lora_name, lora_request.lora_path):
            return self._unclear(entry, "other weights came under its name or number")
        if self._outstanding(number, entry):
            return PENDING, None
        known = self._known[number]
        if known.state == UNCLEAR:
            return self._unclear(entry, "its files are missing or have changed")
        if self._choices and known.content_id is not None:
            return USABLE, hashlib.blake2b(known.content_id, digest_size=CONTENT_ID_BYTES,
                                           key=self._choices).digest()
        return USABLE, known.content_id

    def close(self) -> None:
        """Ends the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        while True:  # what still waits isn't wanted any more
            try:
                self._work.get_nowait()
            except queue.Empty:
                break
        self._work.put(None)
        thread.join(timeout=1)  # a file system that hangs keeps only this daemon thread

    def _enter(self, number: int, lora_request: Any) -> _Entry:
        """vLLM has let go of an adapter long before so many others were used."""
        if len(self._entries) >= ADAPTERS_MAX:
            oldest, _ = self._entries.popitem(last=False)
            self._known.pop(oldest, None)
        entry = _Entry(lora_request.lora_name, lora_request.lora_path)
        self._entries[number] = entry
        return entry

    def _outstanding(self, number: int, entry: _Entry) -> bool:
        known = self._known.get(number)
        return known is None or known.looks < entry.looks

    def _unclear(self, entry: _Entry, reason: str) -> Tuple[str, Optional[bytes]]:
        if not entry.told:
            entry.told = True
            self._log(f"adapter {entry.name} ({entry.path}): {reason}, so its requests are "
                      "computed each time; load it under a name of its own to have them kept")
        return UNCLEAR, None

    def _run(self) -> None:
        while True:
            work = self._work.get()
            if work is None:
                return
            number, path, looks = work
            self._known[number] = examine(self._known.get(number), path, looks)
            self._work.task_done()


def fold(block_hashes: Sequence[bytes], content_id: bytes) -> Sequence[bytes]:
    """The keys of these block hashes under an adapter; unchanged for content_id b"". Keys of
    different lengths never equal each other, and a key is at most 64 bytes."""
    if not content_id:
        return block_hashes
    if block_hashes and len(block_hashes[0]) + len(content_id) > KEY_BYTES_MAX:
        return [hashlib.blake2b(key, digest_size=48, key=content_id).digest()
                for key in block_hashes]
    return [key + content_id for key in block_hashes]
