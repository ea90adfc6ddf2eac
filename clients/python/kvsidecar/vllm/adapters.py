# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters by their content: vLLM's block hashes know an adapter by name and path only.

A content id is made from all bytes of the adapter's files, by a thread of its own, and is appended
to each key of the adapter's requests. Needs no vLLM.
"""
from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

PENDING = "pending"  # being read; ask again at the next step
USABLE = "usable"  # `content_id` is it
UNCLEAR = "unclear"  # files missing or changed since: neither load nor store


class Adapters:
    """One per scheduler. prepare() and content_id() never touch a file and never wait."""

    def __init__(self) -> None:
        """Starts no thread before the first adapter is seen."""

    def prepare(self, lora_request: Any) -> None:
        """On arrival of a request with an adapter: has its files read or looked at again."""

    def content_id(self, lora_request: Any) -> Tuple[str, Optional[bytes]]:
        """(PENDING, USABLE or UNCLEAR, 16 bytes if USABLE). For lora_request None: (USABLE, b""),
        so that the caller needs no special case."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the thread. Idempotent."""


def fold(block_hashes: Sequence[bytes], content_id: bytes) -> Sequence[bytes]:
    """The keys of these block hashes under an adapter; unchanged for content_id b"". Keys of
    different lengths never equal each other, and a key is at most 64 bytes."""
    raise NotImplementedError
