// SPDX-License-Identifier: Apache-2.0
// What the doctor makes of a daemon's account of itself. Pure; any thread.
#pragma once
#include "clients/cli/account.h"
#include "clients/cli/doctor_checks.h"

namespace kvsidecar {

Check check_host_pool(const Account& account);
// Whether what is put gets into the store before it leaves the host pool.
Check check_store_writes(const Account& account);

}  // namespace kvsidecar
