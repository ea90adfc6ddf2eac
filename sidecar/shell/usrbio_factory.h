// SPDX-License-Identifier: Apache-2.0
// Which client of USRBIO a Config means, and what is known of how the last ones ended. Start-up.
#pragma once
#include <memory>
#include <string>

#include "sidecar/shell/config.h"
#include "sidecar/shell/usrbio_trial.h"
#include "sidecar/store/usrbio/usrbio_store.h"

namespace kvsidecar {

// All but what a FileStore takes too. The trial notes each client before it is opened.
UsrbioStoreOptions usrbio_options(const Config& config, std::shared_ptr<UsrbioTrial> trial);
// Why "auto" takes no client at all; empty: it may.
std::string usrbio_is_avoided(const Config& config, const UsrbioTrial& trial);
// What "auto" does otherwise than usual, for the log and status: empty, or "; …".
std::string usrbio_switch(const Config& config, const UsrbioTrial& trial);
// Buffers that a dead daemon with this pool's name has left.
void sweep_usrbio_leftovers(const Config& config);

}  // namespace kvsidecar
