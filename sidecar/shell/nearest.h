// SPDX-License-Identifier: Apache-2.0
// "Did you mean …": the edit distance between two words, and the nearest of several. Pure.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace kvsidecar {

// Insertions, deletions, substitutions and swaps of neighbours that turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b);
// The nearest known word; the first of equals; empty when `known` is empty.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace kvsidecar
