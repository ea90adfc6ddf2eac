// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/account.h"

#include <nlohmann/json.hpp>

#include "clients/cli/dropped_writes.h"
#include "clients/cli/print.h"

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

uint64_t number(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) && json[at].is_number_unsigned() ? json[at].get<uint64_t>() : 0;
}
std::string text(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_string() ? json[name].get<std::string>() : "";
}
bool flag(const Json& json, const char* name) {
  return json.contains(name) && json[name].is_boolean() && json[name].get<bool>();
}

double per_second(const Account& before, const Account& now, const std::string& name,
                  double seconds) {
  return seconds > 0 ? static_cast<double>(grown(before, now, name)) / seconds : 0;
}

std::string amount(uint64_t pages, uint64_t bytes) {
  return count_text(pages) + " pages, " + bytes_text(bytes);
}

std::string dropped_text(const DroppedWrites& dropped) {
  if (dropped.pages == 0) return "0 pages";
  return count_text(dropped.pages) + " pages (" + percent_text(dropped.share()) +
         " of the completed ones), " + reason_text(dropped.reason);
}

std::string of_text(uint64_t part, uint64_t whole) {
  std::string out = bytes_text(part) + " of " + bytes_text(whole);
  if (whole > 0)
    out += " (" + percent_text(static_cast<double>(part) / static_cast<double>(whole)) + ")";
  return out;
}

}  // namespace

uint64_t grown(const Account& before, const Account& now, const std::string& name) {
  const uint64_t was = before.epoch == now.epoch ? before.count(name) : 0, is = now.count(name);
  return is > was ? is - was : 0;
}

uint64_t Account::count(const std::string& name) const {
  const auto found = counters.find(name);
  return found == counters.end() ? 0 : found->second;
}

Result<Account> parse_account(const std::string& text_of_json) {
  const Json json = Json::parse(text_of_json, nullptr, false);
  if (!json.is_object() || !json.contains("counters"))
    return Status(Code::kInternal, "the daemon's account isn't one: " + text_of_json.substr(0, 80));
  Account a;
  a.epoch = number(json, "/epoch");
  a.draining = flag(json, "draining");
  a.scanned = flag(json, "scanned");
  a.device = text(json, "device");
  a.store = text(json, "store");
  a.pool_bytes = number(json, "/host_pool/bytes");
  a.pool_page_bytes = number(json, "/host_pool/page_bytes");
  a.pool_stranded_bytes = number(json, "/host_pool/stranded_bytes");
  a.spans = number(json, "/host_pool/spans");
  a.spans_empty = number(json, "/host_pool/spans_empty");
  a.slots_full = number(json, "/host_pool/slots_full");
  a.slots_filling = number(json, "/host_pool/slots_filling");
  a.slots_quarantined = number(json, "/host_pool/slots_quarantined");
  a.index_pages = number(json, "/index/pages");
  a.index_bytes = number(json, "/index/bytes");
  a.sessions = number(json, "/sessions");
  a.groups = number(json, "/groups");
  a.namespaces = number(json, "/namespaces");
  a.leases = number(json, "/leases/count");
  a.lease_pages = number(json, "/leases/pages");
  a.operations = number(json, "/operations");
  a.write_bytes = number(json, "/write_behind/bytes");
  a.write_pages = number(json, "/write_behind/pages");
  a.segments = number(json, "/segments/count");
  a.segment_bytes = number(json, "/segments/bytes");
  a.capacity_bytes = number(json, "/store_capacity_bytes");
  for (const auto& [name, value] : json["counters"].items())
    if (value.is_number_unsigned()) a.counters[name] = value.get<uint64_t>();
  return a;
}

double hit_share(const Account& before, const Account& now) {
  const uint64_t asked = grown(before, now, "pages_looked_up");
  const uint64_t missed = grown(before, now, "pages_found_miss");
  if (asked == 0) return 0;
  return static_cast<double>(asked - missed) / static_cast<double>(asked);
}

std::string status_text(const Account& a, int daemon_pid) {
  std::string out;
  out += line_text("daemon", (daemon_pid > 0 ? "pid " + std::to_string(daemon_pid) + ", " : "") +
                                 "epoch " + std::to_string(a.epoch) +
                                 (a.draining ? ", draining" : ""));
  out += line_text("device", a.device);
  out += line_text("host pool", of_text(a.pool_page_bytes, a.pool_bytes));
  out += line_text("  slots", count_text(a.slots_full) + " full, " + count_text(a.slots_filling) +
                                  " filling, " + count_text(a.slots_quarantined) + " set aside");
  out += line_text("  spans", count_text(a.spans) + ", " + count_text(a.spans_empty) + " empty");
  std::string store = a.store;
  if (a.store != "none") {
    store += ", " + (a.capacity_bytes > 0 ? of_text(a.segment_bytes, a.capacity_bytes)
                                          : bytes_text(a.segment_bytes));
    store += " in " + count_text(a.segments) + " segments";
    if (!a.scanned) store += ", still being read";
  }
  out += line_text("store", store);
  out += line_text("  waiting to be written", " " + amount(a.write_pages, a.write_bytes));
  out += line_text("  writes dropped", dropped_text(dropped_writes(a)));
  out += line_text("index", amount(a.index_pages, a.index_bytes));
  out += line_text("sessions", count_text(a.sessions) + ", groups " + count_text(a.groups) +
                                   ", namespaces " + count_text(a.namespaces));
  out += line_text("leases", count_text(a.leases) + " on " + count_text(a.lease_pages) + " pages");
  out += line_text("operations", count_text(a.operations));
  const Account nothing;
  out += line_text("looked up", count_text(a.count("pages_looked_up")) +
                                    " pages: " + count_text(a.count("pages_found_host")) +
                                    " host, " + count_text(a.count("pages_found_store")) +
                                    " store, " + count_text(a.count("pages_found_remote")) +
                                    " remote, " + count_text(a.count("pages_found_miss")) +
                                    " miss (" + percent_text(hit_share(nothing, a)) + " found)");
  out += line_text("put", amount(a.count("pages_put"), a.count("bytes_put")));
  out += line_text("got", amount(a.count("pages_get"), a.count("bytes_get")));
  out += line_text("corrupt", count_text(a.count("pages_corrupt")) + " pages");
  return out;
}

std::string top_text(const Account& before, const Account& now, double seconds) {
  const auto rate = [&](const char* name) { return per_second(before, now, name, seconds); };
  const auto bytes_rate = [&](const char* name) {
    return bytes_text(static_cast<uint64_t>(rate(name))) + "/s";
  };
  Columns table({"", "pages", "bytes"});
  table.add({"put", rate_text(rate("pages_put")), bytes_rate("bytes_put")});
  table.add({"get", rate_text(rate("pages_get")), bytes_rate("bytes_get")});
  table.add({"store write", rate_text(rate("writes_done")), bytes_rate("bytes_written")});
  table.add({"store read", rate_text(rate("store_reads")), bytes_rate("bytes_read")});
  table.add({"evicted", rate_text(rate("pages_evicted")), ""});
  std::string out = line_text(
      "daemon", "epoch " + std::to_string(now.epoch) + (now.draining ? ", draining" : ""));
  out += line_text("host pool", of_text(now.pool_page_bytes, now.pool_bytes) + ", " +
                                    count_text(now.slots_full) + " pages");
  out += line_text("store", bytes_text(now.segment_bytes) + ", waiting " +
                                amount(now.write_pages, now.write_bytes));
  out +=
      line_text("sessions", count_text(now.sessions) + ", operations " +
                                count_text(now.operations) + ", leases " + count_text(now.leases));
  out += line_text("requests", rate_text(rate("requests")));
  out += line_text("looked up", rate_text(rate("pages_looked_up")) + " pages, " +
                                    percent_text(hit_share(before, now)) + " found");
  const DroppedWrites dropped = dropped_writes(before, now);
  std::string drops = rate_text(seconds > 0 ? static_cast<double>(dropped.pages) / seconds : 0);
  if (dropped.pages > 0) drops += ", " + reason_text(dropped.reason);
  out += line_text("writes dropped", drops);
  return out + "\n" + table.text();
}

std::string top_json(const Account& before, const Account& now, double seconds,
                     const std::string& status_json) {
  Json rates = Json::object();
  for (const auto& [name, value] : now.counters)
    rates[name] = per_second(before, now, name, seconds);
  const Json json = {{"seconds", seconds},
                     {"hit_share", hit_share(before, now)},
                     {"rates", rates},
                     {"status", Json::parse(status_json, nullptr, false)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kvsidecar
