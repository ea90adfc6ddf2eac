# SPDX-License-Identifier: Apache-2.0
"""The part of 3FS's Python binding that SGLang's and vLLM's clients use.

Shared memory is the caller's: it is registered by a link in the mount's folder of iovs, then
wrapped. Not reentrant, as the binding isn't.
"""
import ctypes
import multiprocessing.shared_memory  # noqa: F401: users reach it through this import
import os
import time
import uuid

from hf3fs_fuse import abi


def _checked(answer, what):
    if answer < 0:
        raise OSError(-answer, f"{what}: {os.strerror(-answer)}")
    return answer


def register_fd(fd):
    answer = abi.reg_fd(fd, 0)
    if answer > 0:
        raise OSError(answer, f"register_fd({fd}): {os.strerror(answer)}")


def deregister_fd(fd):
    abi.dereg_fd(fd)


def extract_mount_point(path):
    found = ctypes.create_string_buffer(256)
    if abi.extract_mount_point(found, len(found), os.fsencode(path)) < 0:
        raise ValueError(f"{path} lies on no 3FS mount")
    return os.fsdecode(found.value)


class _Registration:
    """The link that makes a file of /dev/shm known, and the mapping for as long as it is used."""

    def __init__(self, shm, mount_point, block_size, numa):
        key = uuid.uuid4()
        self.shm = shm
        self.link = os.path.join(mount_point, "3fs-virt", "iovs", str(key))
        if block_size:
            self.link += f".b{block_size}"
        os.symlink("/dev/shm/" + shm.name.lstrip("/"), self.link)
        self.iov = abi.Iov()
        pinned = (ctypes.c_char * shm.size).from_buffer(shm.buf)
        self.base = ctypes.addressof(pinned)
        del pinned  # a reference would keep shm from being closed
        _checked(abi.iovwrap(ctypes.byref(self.iov), self.base,
                             (ctypes.c_uint8 * 16)(*key.bytes), os.fsencode(mount_point), shm.size,
                             block_size, numa), "iovwrap")

    def __del__(self):
        os.unlink(self.link)


class Iovec:
    """Bytes [begin, end) of registered memory."""

    def __init__(self, registration, begin, end):
        self.registration, self.begin, self.end = registration, begin, end
        self.result, self.userdata = None, None

    def __len__(self):
        return self.end - self.begin

    def __getitem__(self, part):
        begin, end, step = part.indices(len(self))
        if step != 1:
            raise ValueError(f"a slice of memory has step 1, not {step}")
        return Iovec(self.registration, self.begin + begin, self.begin + end)


def make_iovec(shm, mount_point, block_size=0, numa=-1):
    return Iovec(_Registration(shm, mount_point, block_size, numa), 0, shm.size)


class IoRing:
    def __init__(self, mount_point, entries, for_read, io_depth, timeout, numa, flags):
        self.ior = abi.Ior()
        self.prepared = {}
        _checked(abi.iorcreate4(ctypes.byref(self.ior), os.fsencode(mount_point), entries, for_read,
                                io_depth, timeout, numa, flags), "iorcreate4")

    def __del__(self):
        abi.iordestroy(ctypes.byref(self.ior))

    def prepare(self, iov, is_read, fd, offset, userdata=None):
        registration = iov.registration
        slot = abi.prep_io(ctypes.byref(self.ior), ctypes.byref(registration.iov), is_read,
                           registration.base + iov.begin, fd, offset, len(iov), None)
        _checked(slot, "prep_io")
        iov.userdata = userdata
        self.prepared[slot] = iov

    def submit(self):
        _checked(abi.submit_ios(ctypes.byref(self.ior)), "submit_ios")
        return self

    def wait(self, max_results=0, min_results=0, timeout=None):
        """Slices that ended, with their results, in the order in which they ended."""
        room = max_results or max(len(self.prepared), 1)
        done = (abi.Cqe * room)()
        until = None
        if timeout is not None:
            at = time.time() + timeout.total_seconds()
            until = ctypes.byref(abi.Timespec(int(at), int(at % 1 * 1e9)))
        count = _checked(abi.wait_for_ios(ctypes.byref(self.ior), done, room, min_results, until),
                         "wait_for_ios")
        ended = []
        for each in done[:count]:
            iov = self.prepared.pop(each.index)
            iov.result = each.result
            ended.append(iov)
        return ended


def make_ioring(mount_point, entries, for_read=True, io_depth=0, priority=None, timeout=None,
                numa=-1, flags=0):
    """priority is ignored, as by the binding."""
    return IoRing(mount_point, entries, for_read, io_depth, timeout or 0, numa, flags)
