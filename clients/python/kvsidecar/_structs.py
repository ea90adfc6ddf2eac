# SPDX-License-Identifier: Apache-2.0
"""The structs and functions of the C ABI, as kvsidecar*.h declares them."""
import ctypes
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint8, c_uint16, c_uint32
from ctypes import c_uint64, c_void_p
from typing import Any, Type, TypeVar

LOG_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
ECHO_AUTO = (1 << 64) - 1
FOREVER_NS = (1 << 64) - 1


class Options(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("socket_path", c_char_p), ("name", c_char_p),
                ("connect_timeout_ns", c_uint64), ("default_timeout_ns", c_uint64),
                ("spin_ns", c_uint64), ("reconnect_min_ns", c_uint64),
                ("reconnect_max_ns", c_uint64), ("staging_bytes", c_uint64),
                ("operations_max", c_uint32), ("allow_disconnected", c_uint32),
                ("no_reconnect", c_uint32), ("reserved", c_uint32), ("log", LOG_FUNCTION),
                ("log_context", c_void_p)]


class Connection(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("connected", c_uint32), ("daemon_pid", c_int32),
                ("connects", c_uint64), ("epoch", c_uint64), ("session", c_uint64),
                ("node", c_uint8 * 16)]


class Coordinate(ctypes.Structure):
    _fields_ = [("tp", c_uint16), ("pp", c_uint16), ("cp", c_uint16), ("reserved", c_uint16)]


class Part(ctypes.Structure):
    _fields_ = [("coordinate", Coordinate), ("bytes", c_uint64)]


class Extra(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p), ("value_bytes", c_size_t)]


class NamespaceFields(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("model", c_char_p), ("revision", c_char_p),
                ("dtype", c_char_p), ("quantization", c_char_p), ("layout", c_char_p),
                ("pool", c_char_p), ("draft_model", c_char_p), ("adapter", c_char_p),
                ("tenant_salt", c_char_p), ("key_scheme", c_char_p),
                ("tokens_per_page", c_uint32), ("tp_size", c_uint16), ("pp_size", c_uint16),
                ("cp_size", c_uint16), ("slice", c_uint16), ("slices", c_uint16),
                ("reserved", c_uint16), ("parts", POINTER(Part)), ("part_count", c_size_t),
                ("extras", POINTER(Extra)), ("extra_count", c_size_t)]


class AttachArgs(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("fields", POINTER(NamespaceFields)),
                ("group", c_char_p), ("group_size", c_uint16), ("rank", c_uint16),
                ("coordinate", Coordinate), ("description_bytes_max", c_uint32),
                ("detach", c_uint32), ("timeout_ns", c_uint64)]


class Memory(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("base", c_void_p), ("bytes", c_uint64),
                ("fd", c_int32), ("reserved", c_int32)]


class LayoutRun(ctypes.Structure):
    _fields_ = [("region", c_uint64), ("base", c_uint64), ("block_stride", c_uint64),
                ("run_length", c_uint64)]


class Keys(ctypes.Structure):
    _fields_ = [("bytes", c_void_p), ("key_bytes", c_uint32), ("count", c_uint32)]


class BytesKeys(ctypes.Structure):
    """Keys, of a bytes object: taken without a cast."""
    _fields_ = [("bytes", c_char_p), ("key_bytes", c_uint32), ("count", c_uint32)]


class PoolPolicy(ctypes.Structure):
    _fields_ = [("ns", c_uint64), ("policy", c_uint32), ("pages", c_uint32)]


class LookupArgs(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("keys", Keys), ("pools", POINTER(PoolPolicy)),
                ("pool_count", c_size_t), ("ticket", c_uint64), ("lease_ms", c_uint32),
                ("prefetch", c_uint32), ("timeout_ns", c_uint64)]


class Items(ctypes.Structure):
    _fields_ = [("layout", c_uint64), ("layouts", c_void_p), ("blocks", c_void_p),
                ("runs", c_void_p), ("run_counts", c_void_p)]


class TransferArgs(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("ns", c_uint64), ("keys", Keys), ("items", Items),
                ("has_coordinate", c_uint32), ("coordinate", Coordinate), ("durable", c_uint32),
                ("fence", c_uint64), ("fence_value", c_uint64), ("timeout_ns", c_uint64),
                ("position", c_uint32), ("prompt_pages", c_uint32), ("descriptions", c_char_p),
                ("description_ends", c_void_p), ("lease", c_uint64), ("layered", c_uint32),
                ("reserved", c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [("op", c_uint64), ("kind", c_uint32), ("reserved", c_uint32)]


class Result(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("status", c_int32), ("flags", c_uint32),
                ("items", c_void_p), ("item_count", c_size_t), ("places", c_void_p),
                ("restorable", c_void_p), ("restorable_bytes", c_size_t), ("longest", c_uint64),
                ("lease", c_uint64), ("generation", c_uint64), ("text", c_void_p),
                ("text_bytes", c_size_t), ("submitted_ns", c_uint64), ("finished_ns", c_uint64),
                ("served_ns", c_uint64)]


Struct = TypeVar("Struct", bound=ctypes.Structure)


def sized(kind: Type[Struct], **values: Any) -> Struct:
    """A struct with its size filled in and the rest zero."""
    return kind(struct_size=ctypes.sizeof(kind), **values)


_U64 = POINTER(c_uint64)
_STATUS_FUNCTIONS = {
    "kvs_open": (POINTER(Options), POINTER(c_void_p)),
    "kvs_close": (c_void_p, c_uint64),
    "kvs_connection_get": (c_void_p, POINTER(Connection)),
    "kvs_wait_connected": (c_void_p, c_uint64),
    "kvs_namespace_id": (c_char_p, c_size_t, c_char_p),
    "kvs_attach": (c_void_p, POINTER(AttachArgs), _U64),
    "kvs_detach": (c_void_p, c_uint64),
    "kvs_namespace_get": (c_void_p, c_uint64, c_char_p, _U64),
    "kvs_memory_create": (c_void_p, c_uint64, c_uint64, POINTER(Memory), _U64),
    "kvs_region_register_fd":
        (c_void_p, c_int, c_uint64, c_uint64, c_void_p, c_uint64, c_uint64, _U64),
    "kvs_region_register_staged": (c_void_p, c_void_p, c_uint64, c_uint64, _U64),
    "kvs_region_unregister": (c_void_p, c_uint64, c_uint64),
    "kvs_layout_register":
        (c_void_p, c_uint32, POINTER(LayoutRun), c_size_t, c_uint64, _U64),
    "kvs_layout_unregister": (c_void_p, c_uint64, c_uint64),
    "kvs_fence_create": (c_void_p, _U64),
    "kvs_fence_signal": (c_void_p, c_uint64, c_uint64),
    "kvs_fence_destroy": (c_void_p, c_uint64),
    "kvs_lookup": (c_void_p, POINTER(LookupArgs), _U64),
    "kvs_put": (c_void_p, POINTER(TransferArgs), _U64),
    "kvs_get": (c_void_p, POINTER(TransferArgs), _U64),
    "kvs_release": (c_void_p, c_uint64, c_uint64, _U64),
    "kvs_delete": (c_void_p, c_uint64, POINTER(Keys), c_uint64, _U64),
    "kvs_clear": (c_void_p, c_uint64, c_uint64, _U64),
    "kvs_clear_id": (c_void_p, c_char_p, c_uint64, _U64),
    "kvs_stat": (c_void_p, c_uint32, c_uint64, _U64),
    "kvs_why": (c_void_p, c_char_p, c_char_p, c_size_t, c_uint64, _U64),
    "kvs_wait": (c_void_p, c_uint64, c_uint64),
    "kvs_wait_all": (c_void_p, _U64, c_size_t, c_uint64),
    "kvs_result_get": (c_void_p, c_uint64, POINTER(Result)),
    "kvs_progress": (c_void_p, c_uint64, _U64),
    "kvs_cancel": (c_void_p, c_uint64, c_void_p),
    "kvs_revoke": (c_void_p, c_uint64, c_void_p, c_size_t, c_void_p),
    "kvs_op_free": (c_void_p, c_uint64),
}
_OTHER_FUNCTIONS = {
    "kvs_version": (c_uint32,),
    "kvs_status_name": (c_char_p, c_int32),
    "kvs_last_error": (c_char_p,),
    "kvs_event_fd": (c_int, c_void_p),
    "kvs_connected": (c_int, c_void_p),
    "kvs_epoch": (c_uint64, c_void_p),
    "kvs_poll": (c_size_t, c_void_p, POINTER(Event), c_size_t),
}


def declare(library: ctypes.CDLL) -> None:
    for name, arguments in _STATUS_FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_int32, list(arguments)
    for name, (result, *more) in _OTHER_FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, more
