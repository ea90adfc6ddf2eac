// SPDX-License-Identifier: Apache-2.0
// The conformance suite's subjects on the usrbio store: what they share. Each names a root on some
// 3FS, real or made up, and how clients of it are opened.
#pragma once
#include <memory>
#include <string>

#include "sidecar/store/usrbio/usrbio_store.h"
#include "tests/conformance/store/store_subject.h"

namespace kvsidecar {

// Options as StoreSubject::open() wants them. The pool's name is this process's own.
UsrbioStoreOptions usrbio_subject_options(const std::string& root, const std::string& state,
                                          UsrbioOpeners openers);
std::unique_ptr<Store> open_usrbio_subject(const UsrbioStoreOptions& options);

}  // namespace kvsidecar
