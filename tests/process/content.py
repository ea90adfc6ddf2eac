# SPDX-License-Identifier: Apache-2.0
"""The bytes of a page follow from its key, so that any reader can tell a wrong byte."""
import functools
import hashlib

import numpy as np

CANARY = 0xC5  # what a block holds before a get


@functools.lru_cache(maxsize=None)
def _steps(words):
    steps = np.arange(words, dtype=np.uint64)
    steps *= np.uint64(0x9E3779B97F4A7C15)
    return steps


def page(key, bytes_):
    """The page of a key, as bytes in a numpy array."""
    seed = np.uint64(int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "little"))
    words = _steps(bytes_ // 8) + seed
    words ^= words >> np.uint64(29)
    return words.view(np.uint8)


def key(number, salt=b""):
    """A key of 16 bytes."""
    return hashlib.blake2b(salt + number.to_bytes(8, "little"), digest_size=16).digest()


def keys(numbers, salt=b""):
    return [key(number, salt) for number in numbers]
