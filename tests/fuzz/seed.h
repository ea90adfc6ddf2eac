// SPDX-License-Identifier: Apache-2.0
// One input of the seed corpus, put together piece by piece.
#pragma once
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace kvsidecar::fuzz {

inline std::string seed_folder;  // make_corpus's argument

class Seed {
 public:
  template <typename T>
  Seed& add(const T& value) {
    const auto* at = reinterpret_cast<const char*>(&value);
    out_.append(at, sizeof value);
    return *this;
  }
  Seed& add(std::span<const std::byte> bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return *this;
  }
  Seed& text(std::string_view text) {
    out_.append(text);
    return *this;
  }
  void write(const std::string& target, const std::string& name) const {
    const std::string at = seed_folder + "/" + target;
    std::filesystem::create_directories(at);
    std::ofstream(at + "/" + name, std::ios::binary) << out_;
  }

 private:
  std::string out_;
};

// More of make_corpus: what a start, a client and the metrics server read.
void chunks();
void adoptions();
void completions();
void requests_over_http();
void states();
void pool_plans();

}  // namespace kvsidecar::fuzz
