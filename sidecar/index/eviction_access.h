// SPDX-License-Identifier: Apache-2.0
//
// What the owner of the host pool tells Eviction about an access, and what it may refuse. Plain
// values; any thread.
#pragma once

#include <cstdint>
#include <type_traits>

namespace kvsidecar {

struct PageAccess {
  uint64_t page = 0;          // low 64 bits of the page hash
  uint32_t position = 0;      // index of the page in its prompt
  uint32_t prompt_pages = 0;  // pages of the whole prompt, 0 = unknown
  uint64_t request = 0;       // grows with every lookup or put; equal for the pages of one request
};

// A reference to a callable bool(uint32_t slot). Lives only during the call it is passed to.
class MayEvict {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, MayEvict>>>
  MayEvict(const F& f)  // implicit: callers pass a lambda
      : object_(&f), call_([](const void* o, uint32_t slot) -> bool {
          return (*static_cast<const F*>(o))(slot);
        }) {}
  bool operator()(uint32_t slot) const { return call_(object_, slot); }

 private:
  const void* object_;
  bool (*call_)(const void*, uint32_t);
};

}  // namespace kvsidecar
