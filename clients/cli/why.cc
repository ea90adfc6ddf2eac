// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "clients/cli/commands.h"
#include "clients/cli/import/imported_page.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

std::string yes_no(const Json& answer, const char* name) {
  return answer.value(name, false) ? "yes" : "no";
}

std::string answer_text(const Json& answer) {
  std::string out =
      line_text("namespace", answer.value("namespace", "?") + " (" + answer.value("model", "?") +
                                 ", " + answer.value("pool", "?") + ", generation " +
                                 std::to_string(answer.value("generation", 0ull)) + ")");
  const std::string place = answer.value("place", "?");
  out += line_text("  place", place);
  std::string why = answer.value("why", "?");
  if (answer.contains("seconds_ago"))
    why += ", " + std::to_string(answer.value("seconds_ago", 0ull)) + " s ago";
  out += line_text("  why", why);
  if (place == "miss") return out;
  out +=
      line_text("  in the store", answer.value("write_queued", false) ? "its write is queued"
                                                                      : yes_no(answer, "stored"));
  out += line_text("  checked", yes_no(answer, "verified"));
  if (answer.value("imported", false)) {
    const std::string origin = answer.value("origin", "");
    out += line_text("  imported", origin.empty() ? "yes" : origin);
  }
  out += line_text("  held by", std::to_string(answer.value("pins", 0ull)));
  return out;
}

// Those that have the page come first; of those that know nothing of it only the number is told.
std::string answers_text(const Json& answers) {
  constexpr const char* kNeverSeen = "never seen here";  // how the daemon begins
  std::string have, have_not, never;
  size_t never_count = 0;
  for (const Json& answer : answers) {
    if (answer.value("place", "?") != "miss") {
      have += answer_text(answer);
    } else if (answer.value("why", "").rfind(kNeverSeen, 0) != 0) {
      have_not += answer_text(answer);
    } else {
      never = answer_text(answer);
      ++never_count;
    }
  }
  if (never_count > 1)
    never = line_text("namespaces",
                      std::to_string(never_count) + ": miss, never seen here, or too long ago");
  return have + have_not + never;
}

// Where a page came from stands beside its bytes: pages that only the store has are read. True: ask
// again.
bool load_origins(const Target& target, Asker& asker, const std::vector<uint8_t>& key,
                  const Json& answers) {
  bool loaded = false;
  for (const Json& answer : answers) {
    if (!answer.value("imported", false) || answer.value("place", "") != "store") continue;
    const auto list = asker.stat(KVS_STAT_NAMESPACES);  // who isn't admin is told less
    if (!list) return loaded;
    loaded |= load_imported(target, *list, answer.value("namespace", ""), key).ok();
  }
  return loaded;
}

}  // namespace

int run_why(const Target& target, const WhyOptions& options) {
  auto key = bytes_of_hex("KEY", options.key);
  if (!key) return fail(target, "why", key.status());
  std::optional<NamespaceId> space;
  if (!options.name_space.empty()) {
    auto id = namespace_of_hex(options.name_space);
    if (!id) return fail(target, "why", id.status());
    space = *id;
  }
  auto asker = Asker::open(target);
  if (!asker) return fail(target, "why", asker.status());
  auto text = asker->why(*key, space);
  if (!text) return fail(target, "why", text.status());
  Json json = Json::parse(*text, nullptr, false);
  if (json.is_object() && json.contains("answers") &&
      load_origins(target, *asker, *key, json["answers"])) {
    text = asker->why(*key, space);
    if (!text) return fail(target, "why", text.status());
    json = Json::parse(*text, nullptr, false);
  }
  if (target.json || !json.is_object() || !json.contains("answers")) {
    std::printf("%s\n", text->c_str());
    return 0;
  }
  if (json["answers"].empty()) std::printf("no namespace is known here\n");
  std::printf("%s", answers_text(json["answers"]).c_str());
  return 0;
}

}  // namespace kvsidecar
