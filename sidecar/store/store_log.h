// SPDX-License-Identifier: Apache-2.0
// Where the store says what an operator should know: one finished sentence per event. The daemon
// puts its logger behind it, which limits the rate per `cause`. Called on the store worker's thread
// and on those that open the store: it must bear several at once.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace kvsidecar {

enum class StoreLogLevel { kInfo, kWarning, kError };
using StoreLog =
    std::function<void(StoreLogLevel level, std::string_view cause, const std::string& text)>;

}  // namespace kvsidecar
