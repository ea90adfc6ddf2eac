// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/namespaces_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

// Have columns of their own, or aren't part of what a namespace is.
const std::set<std::string> kShown = {
    "namespace",       "generation", "model", "revision",   "pool",     "dtype",        "adapter",
    "tokens_per_page", "page_bytes", "parts", "pages_host", "identity", "has_own_pages"};
const std::set<std::string> kNoIdentity = {"namespace", "generation", "pages_host", "identity",
                                           "has_own_pages"};

bool same_model(const Json& a, const Json& b) {
  return a.value("model", "") == b.value("model", "");
}

// A text with a space in it is quoted: others follow it.
std::string plain(const Json& value) {
  const bool one_word =
      value.is_string() && value.get_ref<const std::string&>().find(' ') == std::string::npos;
  return one_word ? value.get<std::string>() : value.dump();
}

bool same_identity(const Json& a, const Json& b) {
  for (const auto& [name, value] : a.items())
    if (kNoIdentity.count(name) == 0 && b.value(name, Json()) != value) return false;
  return true;
}

// Fields without a column in which this namespace differs from another one of its model, whatever
// fields the daemon knows.
std::string differences(const Json& row, const Json& list) {
  std::string text;
  for (const auto& field : row.items()) {
    const std::string& name = field.key();
    const Json& value = field.value();
    if (kShown.count(name) != 0) continue;
    const bool differs = std::any_of(list.begin(), list.end(), [&](const Json& other) {
      return same_model(row, other) && other.value(name, Json()) != value;
    });
    if (differs) text += (text.empty() ? "" : " ") + name + "=" + plain(value);
  }
  const auto alike =
      std::count_if(list.begin(), list.end(), [&](const Json& o) { return same_identity(row, o); });
  if (alike > 1) text += std::string(text.empty() ? "" : " ") + "a field that isn't told";
  return text;
}

std::string number(const Json& row, const char* name) {
  return count_text(row.value(name, uint64_t{0}));
}

}  // namespace

Result<std::string> namespaces_text(const std::string& json) {
  const Json answer = Json::parse(json, nullptr, false);
  if (!answer.is_object() || !answer.contains("namespaces"))
    return Status(Code::kInternal, "the daemon's list isn't one: " + json.substr(0, 80));
  const Json& list = answer["namespaces"];
  Columns table({"namespace", "generation", "model", "revision", "pool", "dtype", "adapter",
                 "tokens", "page", "parts", "in host pool", "differs in"});
  for (const Json& row : list)
    table.add({row.value("namespace", "?"), std::to_string(row.value("generation", uint64_t{0})),
               row.value("model", "?"), row.value("revision", "?"), row.value("pool", "?"),
               row.value("dtype", "?"), row.value("adapter", ""), number(row, "tokens_per_page"),
               bytes_text(row.value("page_bytes", uint64_t{0})), number(row, "parts"),
               number(row, "pages_host"), differences(row, list)});
  return table.text();
}

}  // namespace kvsidecar
