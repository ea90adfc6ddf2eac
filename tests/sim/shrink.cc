// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/shrink.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

namespace kvsidecar::sim {
namespace {

// What the child leaves for its parent: the numbers, then violation and story, each with its size.
struct Numbers {
  uint64_t hash, events, restarts, writes, evicted, moves, violation_bytes, story_bytes;
};

void write_outcome(std::FILE* file, const Outcome& o) {
  const Numbers numbers{o.hash,    o.events, o.restarts,         o.writes,
                        o.evicted, o.moves,  o.violation.size(), o.story.size()};
  std::fwrite(&numbers, sizeof numbers, 1, file);
  std::fwrite(o.violation.data(), 1, o.violation.size(), file);
  std::fwrite(o.story.data(), 1, o.story.size(), file);
  std::fflush(file);
}

bool read_outcome(std::FILE* file, Outcome& o) {
  std::rewind(file);
  Numbers n;
  if (std::fread(&n, sizeof n, 1, file) != 1) return false;
  o.hash = n.hash;
  o.events = n.events;
  o.restarts = n.restarts;
  o.writes = n.writes;
  o.evicted = n.evicted;
  o.moves = static_cast<uint32_t>(n.moves);
  o.violation.resize(n.violation_bytes);
  o.story.resize(n.story_bytes);
  return std::fread(o.violation.data(), 1, n.violation_bytes, file) == n.violation_bytes &&
         std::fread(o.story.data(), 1, n.story_bytes, file) == n.story_bytes;
}

std::string first_line_of(std::FILE* file) {
  std::rewind(file);
  char line[512] = {};
  while (std::fgets(line, sizeof line, file) != nullptr) {
    std::string text(line);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (!text.empty()) return text;
  }
  return "it said nothing";
}

bool same_failure(const Outcome& a, const std::string& kind) {
  return !a.violation.empty() && kind_of(a.violation) == kind;
}

Moves without(const Moves& moves, size_t begin, size_t end) {
  Moves rest(moves.begin(), moves.begin() + static_cast<ptrdiff_t>(begin));
  rest.insert(rest.end(), moves.begin() + static_cast<ptrdiff_t>(end), moves.end());
  return rest;
}

}  // namespace

Outcome play_apart(uint64_t seed, const Moves* only) {
  std::FILE* const left = std::tmpfile();
  std::FILE* const said = std::tmpfile();
  KV_CHECK(left != nullptr && said != nullptr);
  std::fflush(nullptr);
  const pid_t child = ::fork();
  KV_CHECK(child >= 0);
  if (child == 0) {
    ::dup2(::fileno(said), 2);
    write_outcome(left, Simulation(seed, only).run());
    ::_exit(0);
  }
  int status = 0;
  KV_CHECK(::waitpid(child, &status, 0) == child);
  Outcome outcome;
  const bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!ended || !read_outcome(left, outcome)) {
    outcome = Outcome{};
    outcome.violation = "the daemon aborts: " + first_line_of(said);
    outcome.moves = only == nullptr ? UINT32_MAX : static_cast<uint32_t>(only->size());
  }
  std::fclose(left);
  std::fclose(said);
  return outcome;
}

std::string kind_of(const std::string& violation) {
  std::string kind;
  for (const char c : violation)
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  return kind;
}

Shrunk shrink(uint64_t seed, const Outcome& failed, int runs_max) {
  Shrunk best;
  best.seed = seed;
  best.moves = first_moves(std::min(failed.moves, kStepsMax));
  best.moves_before = best.moves.size();
  best.outcome = play_apart(seed, &best.moves);
  if (best.outcome.violation.empty()) best.outcome = failed;
  // A run that is told its moves is looked at after each: it may see the same fault earlier, as
  // another sentence.
  const std::string kind = kind_of(best.outcome.violation);
  const auto attempt = [&](const Moves& moves) {
    ++best.runs;
    const Outcome outcome = play_apart(seed, &moves);
    if (!same_failure(outcome, kind)) return false;
    best.moves = moves;
    best.moves.resize(std::min<size_t>(outcome.moves, moves.size()));
    best.outcome = outcome;
    return true;
  };
  for (size_t chunk = std::max<size_t>(1, best.moves.size() / 2); best.runs < runs_max;) {
    bool dropped = false;
    for (size_t begin = 0; begin < best.moves.size() && best.runs < runs_max;) {
      const size_t end = std::min(begin + chunk, best.moves.size());
      if (attempt(without(best.moves, begin, end)))
        dropped = true;
      else
        begin = end;
    }
    if (chunk == 1 && !dropped) break;
    chunk = std::max<size_t>(1, chunk / 2);
  }
  return best;
}

std::string Shrunk::report() const {
  return outcome.violation + "\n" + std::to_string(moves_before) + " moves shrunk to " +
         std::to_string(moves.size()) + " in " + std::to_string(runs) +
         " runs; replay with\nKVSIDECAR_SIM_SEED=" + std::to_string(seed) +
         " KVSIDECAR_SIM_MOVES=" + text_of(moves) +
         "\n(KVSIDECAR_SIM_TRACE=1 prints every event). The last events:\n" + outcome.story;
}

}  // namespace kvsidecar::sim
