// SPDX-License-Identifier: Apache-2.0
// What happens inside dlopen. The real library parses its log's configuration there and ends the
// process if it can't; it also allocates for every possible descriptor, which is only counted here.
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "tests/usrbio/emulator/export.h"
#include "tests/usrbio/emulator/shared_memory.h"

namespace kvsidecar::emulator {
namespace {

// CATEGORY=LEVEL, or LEVEL alone, separated by commas; what follows ';' names handlers.
bool is_log_configuration(const std::string& text) {
  if (text.find('{') != std::string::npos) return text.back() == '}';
  std::istringstream list(text.substr(0, text.find(';')));
  for (std::string part; std::getline(list, part, ',');) {
    std::string level = part.substr(part.find('=') == std::string::npos ? 0 : part.find('=') + 1);
    level = level.substr(0, level.find(':'));
    for (char& letter : level) letter = static_cast<char>(std::toupper(letter));
    bool known = false;
    for (const char* name : {"NONE", "DEBUG", "DBG", "INFO", "WARN", "WARNING", "ERR", "ERROR",
                             "CRITICAL", "DFATAL", "FATAL"}) {
      known = known || level == name || (level.rfind("DBG", 0) == 0 && level.size() <= 4);
    }
    if (!known) return false;
  }
  return true;
}

__attribute__((constructor)) void load() {
  const char* const log = std::getenv("HF3FS_USRBIO_LIB_LOG");
  if (log != nullptr && log[0] != 0 && !is_log_configuration(log)) {
    std::fprintf(stderr, "error parsing HF3FS_USRBIO_LIB_LOG: %s\n", log);
    std::exit(1);
  }
  if (const char* die = std::getenv("KVSIDECAR_EMULATOR_CRASH"); die != nullptr) {
    calls().set_deadly(std::string(die) != "0");
  }
  const char* const faults = std::getenv("KVSIDECAR_EMULATOR_FAULTS");
  if (faults != nullptr && state().set_faults(faults) != 0) {
    std::fprintf(stderr, "KVSIDECAR_EMULATOR_FAULTS is '%s', which isn't understood\n", faults);
    std::exit(1);
  }
  sweep_shared();
  static_cast<void>(state());
}

}  // namespace
}  // namespace kvsidecar::emulator
