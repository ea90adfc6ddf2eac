// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/replay/report.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace kvsidecar {
namespace {

double ratio(double part, double whole) { return whole == 0 ? 0 : part / whole; }
double percent(uint64_t part, uint64_t whole) {
  return 100 * ratio(static_cast<double>(part), static_cast<double>(whole));
}
unsigned long long n(uint64_t value) { return value; }

class Table {
 public:
  __attribute__((format(printf, 3, 4))) void row(const char* name, const char* format, ...) {
    char value[128];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    char line[192];
    std::snprintf(line, sizeof line, "  %-38s %s\n", name, value);
    text_ += line;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void restart_rows(const ReplayReport& r, Table& table) {
  table.row("daemon away after SIGKILL", "%.0f ms, %llu requests found no daemon", r.outage_ms,
            n(r.outage_requests));
  table.row("hits in the first second after it", "%llu of %llu pages: %llu host pool, %llu store",
            n(r.restart_host + r.restart_store), n(r.restart_looked_up), n(r.restart_host),
            n(r.restart_store));
  table.row("hits after it", "%llu", n(r.after_restart_hits));
}

void capacity_rows(const ReplayReport& r, Table& table) {
  if (r.pool_capacity_pages != 0)
    table.row("best of any cache, host pool alone", "%.2f %%  (%llu pages)",
              percent(r.best_pool_hits, r.pages_looked_up), n(r.pool_capacity_pages));
  if (r.total_capacity_pages > r.pool_capacity_pages)
    table.row("best of any cache, with the store", "%.2f %%  (%llu pages)",
              percent(r.best_total_hits, r.pages_looked_up), n(r.total_capacity_pages));
}

bool is_refusal(const Cause& cause) {
  return cause.kind == RequestKind::kPut && is_refused(cause.status);
}

// ": put DENIED, 1234 pages; …" of the most frequent refusal, or of the most frequent failure.
std::string main_cause(const ReplayReport& r, bool refusal) {
  const auto found = std::find_if(r.causes.begin(), r.causes.end(), [refusal](const Cause& cause) {
    return is_refusal(cause) == refusal;
  });
  if (found == r.causes.end()) return "";
  const std::string remedy = cause_remedy(*found);
  return ": " + cause_name(*found) + ", " + cause_count(*found) +
         (remedy.empty() ? "" : "; " + remedy);
}

}  // namespace

ReplayReport report_of(const Scoreboard& board) {
  using Score = EngineScore;
  ReplayReport r;
  r.requests = board.sum(&Score::requests);
  r.failed_requests = board.sum(&Score::failed_requests);
  r.pages_looked_up = board.sum(&Score::pages_looked_up);
  r.pages_host = board.sum(&Score::pages_host);
  r.pages_store = board.sum(&Score::pages_store);
  r.pages_remote = board.sum(&Score::pages_remote);
  r.pages_missed = board.sum(&Score::pages_missed);
  r.pages_put = board.sum(&Score::pages_put);
  r.pages_put_refused = board.sum(&Score::pages_put_refused);
  r.causes = board.causes.list();
  r.bytes_loaded = board.sum(&Score::bytes_loaded);
  r.bytes_stored = board.sum(&Score::bytes_stored);
  r.bytes_wrong = board.sum(&Score::bytes_wrong);
  r.load_gb_per_s =
      ratio(static_cast<double>(r.bytes_loaded), static_cast<double>(board.sum(&Score::load_ns)));
  r.store_gb_per_s =
      ratio(static_cast<double>(r.bytes_stored), static_cast<double>(board.sum(&Score::store_ns)));
  LatencyHistogram lookups;
  for (const EngineScore& engine : board.engines) lookups.merge(engine.lookup);
  r.lookup_p50_us = static_cast<double>(lookups.percentile(0.5)) / 1000;
  r.lookup_p99_us = static_cast<double>(lookups.percentile(0.99)) / 1000;
  const uint64_t killed = board.killed_ns.load(), restored = board.restored_ns.load();
  r.restarted = killed != 0;
  if (restored > killed) r.outage_ms = static_cast<double>(restored - killed) / 1e6;
  r.outage_requests = board.sum(&Score::outage_requests);
  r.restart_host = board.sum(&Score::restart_host);
  r.restart_store = board.sum(&Score::restart_store);
  r.restart_looked_up = board.sum(&Score::restart_looked_up);
  r.after_restart_hits = board.sum(&Score::after_restart_hits);
  return r;
}

std::string report_table(const ReplayReport& r) {
  Table table;
  table.row("requests", "%llu in %.1f s, %llu failed", n(r.requests), r.seconds,
            n(r.failed_requests));
  table.row("pages looked up", "%llu of %llu bytes", n(r.pages_looked_up), n(r.page_bytes));
  table.row("  hits from host pool", "%llu", n(r.pages_host));
  table.row("  hits from store", "%llu", n(r.pages_store));
  if (r.pages_remote != 0) table.row("  hits from other nodes", "%llu", n(r.pages_remote));
  table.row("  misses", "%llu", n(r.pages_missed));
  table.row("pages put", "%llu, %llu refused", n(r.pages_put), n(r.pages_put_refused));
  for (const Cause& cause : r.causes)
    table.row(("  " + cause_name(cause)).c_str(), "%s", cause_count(cause).c_str());
  table.row("bytes compared", "%llu", n(r.bytes_loaded));
  table.row("bytes wrong", "%llu", n(r.bytes_wrong));
  table.row("loads", "%.2f GB/s", r.load_gb_per_s);
  table.row("stores", "%.2f GB/s", r.store_gb_per_s);
  table.row("lookup", "p50 %.0f us, p99 %.0f us", r.lookup_p50_us, r.lookup_p99_us);
  table.row("hit rate", "%.2f %%", percent(r.hits(), r.pages_looked_up));
  capacity_rows(r, table);
  if (r.restarted) restart_rows(r, table);
  return table.take();
}

std::string report_json(const ReplayReport& r) {
  nlohmann::ordered_json causes = nlohmann::ordered_json::array();
  for (const Cause& cause : r.causes)
    causes.push_back({{"request", kind_name(cause.kind)},
                      {"status", std::string(code_name(cause.status))},
                      {"count", cause.count}});
  nlohmann::ordered_json json = {
      {"trace", r.trace},
      {"page_bytes", r.page_bytes},
      {"seconds", r.seconds},
      {"requests", r.requests},
      {"failed_requests", r.failed_requests},
      {"pages_looked_up", r.pages_looked_up},
      {"pages_host", r.pages_host},
      {"pages_store", r.pages_store},
      {"pages_remote", r.pages_remote},
      {"pages_missed", r.pages_missed},
      {"pages_put", r.pages_put},
      {"pages_put_refused", r.pages_put_refused},
      {"causes", causes},
      {"bytes_loaded", r.bytes_loaded},
      {"bytes_stored", r.bytes_stored},
      {"bytes_wrong", r.bytes_wrong},
      {"load_gb_per_s", r.load_gb_per_s},
      {"store_gb_per_s", r.store_gb_per_s},
      {"lookup_p50_us", r.lookup_p50_us},
      {"lookup_p99_us", r.lookup_p99_us},
      {"pool_capacity_pages", r.pool_capacity_pages},
      {"total_capacity_pages", r.total_capacity_pages},
      {"best_pool_hits", r.best_pool_hits},
      {"best_total_hits", r.best_total_hits},
      {"restarted", r.restarted},
      {"outage_ms", r.outage_ms},
      {"outage_requests", r.outage_requests},
      {"restart_looked_up", r.restart_looked_up},
      {"restart_host", r.restart_host},
      {"restart_store", r.restart_store},
      {"after_restart_hits", r.after_restart_hits},
      {"passed", failure_of(r).empty()},
      {"verdict", verdict(r)},
  };
  return json.dump(2) + "\n";
}

std::string failure_of(const ReplayReport& r) {
  if (r.bytes_wrong != 0) return std::to_string(r.bytes_wrong) + " bytes were wrong";
  if (r.failed_requests != 0)
    return std::to_string(r.failed_requests) + " requests failed" + main_cause(r, false);
  if (r.engines_failed != 0) return std::to_string(r.engines_failed) + " engines could not go on";
  if (r.pages_looked_up != r.hits() + r.pages_missed) return "the counts don't add up";
  if (r.pages_put == 0 && r.pages_put_refused != 0)
    return "no page could be put" + main_cause(r, true);
  if (r.hits() == 0) return "nothing hit";
  if (r.restarted && r.after_restart_hits == 0) return "nothing hit after the restart";
  return "";
}

std::string verdict(const ReplayReport& r) {
  if (const std::string failure = failure_of(r); !failure.empty()) return "FAILED: " + failure;
  const uint64_t pages = r.page_bytes == 0 ? 0 : r.bytes_loaded / r.page_bytes;
  std::string text = "PASSED: " + std::to_string(pages) + " pages compared, 0 bytes wrong";
  if (r.pages_put_refused != 0)
    text += ", " + std::to_string(r.pages_put_refused) + " not taken in";
  if (!r.restarted) return text;
  char away[64];
  std::snprintf(away, sizeof away, "; daemon killed, back after %.0f ms, ", r.outage_ms);
  const bool warm = r.restart_host + r.restart_store != 0;
  return text + away + (warm ? "cache warm" : "cold at first, then hit");
}

}  // namespace kvsidecar
