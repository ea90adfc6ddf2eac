# SPDX-License-Identifier: Apache-2.0
"""Client of kvsidecar, the node-wide KV cache daemon for LLM engines.

Ctypes over the C ABI of libkvsidecar-client; numpy is used where it is installed. Start with
Client; what a page's bytes depend on besides its key is a NamespaceFields.
"""
from ._arguments import Pieces, Pool
from .client import COORDINATOR, Client, Connection
from .errors import LibraryNotFound, Misuse, OpenFailed
from .identity import Coordinate, Description, NamespaceFields, Part, encode_identity
from .ids import namespace_id
from .memory import Fence, Layout, Memory, Namespace, Region, Run
from .operation import Event, Op, Result
from .prepared import Found, PreparedLookup
from .status import EventKind, LogLevel, Place, Policy, Stat, Status

__all__ = [
    "COORDINATOR", "Client", "Connection", "Coordinate", "Description", "Event", "EventKind",
    "Fence", "Found", "Layout", "LibraryNotFound", "LogLevel", "Memory", "Misuse", "Namespace",
    "NamespaceFields", "Op", "OpenFailed", "Part", "Pieces", "Place", "Policy", "Pool",
    "PreparedLookup", "Region", "Result", "Run", "Stat", "Status", "encode_identity",
    "namespace_id",
]
__version__ = "0.1.0"
