# SPDX-License-Identifier: Apache-2.0
"""The files of a LoRA adapter, and what is in them."""
from __future__ import annotations

import hashlib
import os
from typing import List, Optional, Tuple

CONTENT_ID_BYTES = 16
READ_BYTES = 1 << 20
ENDINGS = (".json", ".safetensors", ".bin", ".pt")

Stamp = Tuple[Tuple[str, int, int, int, int], ...]  # per file: name, size, mtime, ctime, inode


def find_folder(path: str) -> Optional[str]:
    """Where an adapter's files lie: the path itself, or the hub's cache; never a download."""
    expanded = os.path.expanduser(path)
    if os.path.isdir(expanded):
        return expanded
    try:
        from huggingface_hub import snapshot_download
        return str(snapshot_download(path, local_files_only=True))
    except Exception:  # not installed, not a hub id, not in the cache: the files are elsewhere
        return None


def stamp_of(folder: str) -> Stamp:
    """The files of an adapter, as engines read them: beside each other, whatever lies below the
    folder is somebody else's. Raises OSError."""
    found: List[Tuple[str, int, int, int, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(ENDINGS) and entry.is_file():
                at = os.stat(entry.path)
                found.append((entry.name, at.st_size, at.st_mtime_ns, at.st_ctime_ns, at.st_ino))
    return tuple(sorted(found))


def content_of(folder: str, stamp: Stamp) -> bytes:
    """16 bytes over the names and bytes of these files. Raises OSError."""
    digest = hashlib.blake2b(digest_size=CONTENT_ID_BYTES, person=b"kvs-adapter")
    for name, size, *_ in stamp:
        encoded = name.encode("utf-8", "surrogateescape")
        digest.update(len(encoded).to_bytes(4, "little") + encoded + size.to_bytes(8, "little"))
        with open(os.path.join(folder, name), "rb") as file:
            for piece in iter(lambda: file.read(READ_BYTES), b""):
                digest.update(piece)
    return digest.digest()
