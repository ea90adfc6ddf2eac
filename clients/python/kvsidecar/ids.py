# SPDX-License-Identifier: Apache-2.0
"""Ids that need XXH3: computed by the client library."""
from __future__ import annotations

import ctypes
from typing import Optional, Union

from ._library import library
from .errors import Misuse
from .identity import NamespaceFields, encode_identity


def namespace_id(identity: Union[NamespaceFields, bytes], detach: Optional[bytes] = None) -> bytes:
    """The 128-bit id of a namespace, 16 bytes as stored; of fields or of their canonical form."""
    if isinstance(identity, NamespaceFields):
        identity = encode_identity(identity, detach)
    raw = ctypes.create_string_buffer(16)
    code = library().kvs_namespace_id(identity, len(identity), raw)
    if code != 0:
        raise Misuse(library().kvs_last_error().decode("utf-8", "replace"))
    return raw.raw
