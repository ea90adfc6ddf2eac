// SPDX-License-Identifier: Apache-2.0
#include "tests/usrbio/abi/traits.h"

namespace kvsidecar::abi {

Traits traits_of_genuine() {
  Traits traits;
  traits.name = "the genuine library";
  traits.dies = traits.throws = traits.poisons = traits.duplicates = true;
  traits.leaks_rings_of_higher_flags = traits.leaves_shm_after_failed_map = true;
  traits.opened_iov_unregisters = traits.takes_wrapping_lengths = traits.shows_shm_names = true;
  traits.ends_on_malformed_log = traits.allocates_per_descriptor = true;
  traits.folds_holes_wrongly = true;
  return traits;
}

Traits traits_of_builtin() {
  Traits traits;
  traits.name = "the builtin client";
  traits.shows_shm_names = true;
  traits.folds_holes_wrongly = true;  // by the daemon, whichever client asks
  return traits;
}

}  // namespace kvsidecar::abi
