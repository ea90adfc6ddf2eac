# SPDX-License-Identifier: Apache-2.0
"""The C interface by ctypes, from KVSIDECAR_USRBIO_LIBRARY or else as the loader finds it."""
import ctypes
import os
from ctypes import POINTER, c_bool, c_char, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint64
from ctypes import c_void_p


class Iov(ctypes.Structure):
    _fields_ = [("base", c_void_p), ("handle", c_void_p), ("id", c_uint8 * 16),
                ("mount_point", c_char * 256), ("size", c_size_t), ("block_size", c_size_t),
                ("numa", c_int)]


class Ior(ctypes.Structure):
    _fields_ = [("iov", Iov), ("handle", c_void_p), ("mount_point", c_char * 256),
                ("for_read", c_bool), ("io_depth", c_int), ("priority", c_int),
                ("timeout", c_int), ("flags", c_uint64)]


class Cqe(ctypes.Structure):
    _fields_ = [("index", c_int32), ("reserved", c_int32), ("result", c_int64),
                ("userdata", c_void_p)]


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


assert [ctypes.sizeof(each) for each in (Iov, Ior, Cqe)] == [312, 600, 24]

library = ctypes.CDLL(os.environ.get("KVSIDECAR_USRBIO_LIBRARY", "libhf3fs_api_shared.so"))


def _declare(name, result, *arguments):
    function = getattr(library, "hf3fs_" + name)
    function.restype, function.argtypes = result, arguments
    return function


extract_mount_point = _declare("extract_mount_point", c_int, ctypes.c_char_p, c_int,
                               ctypes.c_char_p)
iovwrap = _declare("iovwrap", c_int, POINTER(Iov), c_void_p, POINTER(c_uint8), ctypes.c_char_p,
                   c_size_t, c_size_t, c_int)
iorcreate4 = _declare("iorcreate4", c_int, POINTER(Ior), ctypes.c_char_p, c_int, c_bool, c_int,
                      c_int, c_int, c_uint64)
iordestroy = _declare("iordestroy", None, POINTER(Ior))
prep_io = _declare("prep_io", c_int, POINTER(Ior), POINTER(Iov), c_bool, c_void_p, c_int, c_size_t,
                   c_uint64, c_void_p)
submit_ios = _declare("submit_ios", c_int, POINTER(Ior))
wait_for_ios = _declare("wait_for_ios", c_int, POINTER(Ior), POINTER(Cqe), c_int, c_int,
                        POINTER(Timespec))
reg_fd = _declare("reg_fd", c_int, c_int, c_uint64)
dereg_fd = _declare("dereg_fd", None, c_int)
