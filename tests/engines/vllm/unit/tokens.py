# SPDX-License-Identifier: Apache-2.0
"""The model of rig.py: what a token leaves in the KV cache, and which token is next, are a hash of
all tokens up to it."""
import hashlib

TOKEN_BYTES = 32  # of one token in one layer


class Chain:
    """Hashes of prefixes, each made once."""

    def __init__(self):
        self._next = {}

    def extend(self, parent, token):
        found = self._next.get((parent, token))
        if found is None:
            text = parent + token.to_bytes(4, "little")
            found = self._next[parent, token] = hashlib.blake2b(
                text, digest_size=TOKEN_BYTES).digest()
        return found

    def of(self, tokens, salt=b""):
        hashes, last = [], salt
        for token in tokens:
            last = self.extend(last, token)
            hashes.append(last)
        return hashes


CHAIN = Chain()


def continuation(tokens, count, salt=b""):
    """What the model says after these tokens."""
    tokens = list(tokens)
    for _ in range(count):
        tokens.append(next_token(CHAIN.of(tokens, salt)[-1]))
    return tokens[-count:]


def next_token(digest):
    return 3 + int.from_bytes(digest[:4], "little") % 500
