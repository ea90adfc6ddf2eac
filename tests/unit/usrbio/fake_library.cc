// SPDX-License-Identifier: Apache-2.0
// A library with the names that the client looks for, less one if FAKE_WITHOUT_SUBMIT is defined.
// Does nothing.
extern "C" {
bool hf3fs_is_hf3fs(int) { return false; }
int hf3fs_extract_mount_point(char*, int, const char*) { return -1; }
int hf3fs_iovwrap() { return -1; }
int hf3fs_iorcreate4() { return -1; }
void hf3fs_iordestroy() {}
int hf3fs_reg_fd(int, unsigned long) { return 1; }
void hf3fs_dereg_fd(int) {}
int hf3fs_prep_io() { return -1; }
int hf3fs_wait_for_ios() { return -1; }
#ifndef FAKE_WITHOUT_SUBMIT
int hf3fs_submit_ios() { return -1; }
#endif
}
