// SPDX-License-Identifier: Apache-2.0
// The 21 functions, as this library defines them. None throws, none ends the process: what the
// genuine library dies of is -EINVAL here.
#pragma once
#include "sidecar/store/usrbio/abi.h"

using kvsidecar::usrbio::abi::Cqe;
using kvsidecar::usrbio::abi::Ior;
using kvsidecar::usrbio::abi::Iov;

extern "C" {
bool hf3fs_is_hf3fs(int fd);
int hf3fs_extract_mount_point(char* into, int into_bytes, const char* path);
int hf3fs_reg_fd(int fd, uint64_t flags);
void hf3fs_dereg_fd(int fd);
int hf3fs_hardlink(const char* target, const char* link_name);
int hf3fs_punchhole(int fd, int ranges, const size_t* begins, const size_t* ends, size_t flags);

int hf3fs_iovcreate(Iov* iov, const char* mount_point, size_t bytes, size_t block_bytes, int numa);
int hf3fs_iovopen(Iov* iov, const uint8_t* id, const char* mount_point, size_t bytes,
                  size_t block_bytes, int numa);
void hf3fs_iovunlink(Iov* iov);
void hf3fs_iovdestroy(Iov* iov);
int hf3fs_iovwrap(Iov* iov, void* base, const uint8_t* id, const char* mount_point, size_t bytes,
                  size_t block_bytes, int numa);

size_t hf3fs_ior_size(int entries);
int hf3fs_iorcreate(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                    int numa);
int hf3fs_iorcreate2(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int priority, int numa);
int hf3fs_iorcreate3(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int priority, int timeout_ms, int numa);
int hf3fs_iorcreate4(Ior* ior, const char* mount_point, int entries, bool for_read, int io_depth,
                     int timeout_ms, int numa, uint64_t flags);
void hf3fs_iordestroy(Ior* ior);
int hf3fs_io_entries(const Ior* ior);
int hf3fs_prep_io(const Ior* ior, const Iov* iov, bool read, void* address, int fd, size_t offset,
                  uint64_t bytes, const void* user);
int hf3fs_submit_ios(const Ior* ior);
int hf3fs_wait_for_ios(const Ior* ior, Cqe* into, int into_count, int results_min,
                       const timespec* deadline);
}
