// SPDX-License-Identifier: Apache-2.0
#include "sidecar/shell/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "sidecar/shell/log_limiter.h"

namespace kvsidecar {
namespace {

struct LogState {
  std::mutex mutex;
  LogLevel level = LogLevel::kInfo;
  Clock* clock = &real_clock();
  void (*sink)(LogLevel, const std::string&) = nullptr;
  LogLimiter limiter;
  bool journald = std::getenv("JOURNAL_STREAM") != nullptr;
  std::shared_ptr<spdlog::sinks::sink> output = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::shared_ptr<spdlog::details::thread_pool> thread;
  std::shared_ptr<spdlog::logger> logger;
  uint64_t overruns_told = 0;

  LogState() { use(std::make_shared<spdlog::logger>("kvsidecard", output)); }
  void use(std::shared_ptr<spdlog::logger> next) {
    logger = std::move(next);
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
    output->set_pattern(journald ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  }
};

// Never destroyed: threads that outlive main may still log.
LogState& state() {
  static LogState& log = *new LogState;
  return log;
}

spdlog::level::level_enum spdlog_level(LogLevel level) {
  constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kLevels[static_cast<size_t>(level)];
}

const char* journald_priority(LogLevel level) {
  constexpr const char* kPriorities[] = {"<7>", "<6>", "<4>", "<3>"};
  return kPriorities[static_cast<size_t>(level)];
}

void write_line(LogState& log, LogLevel level, const std::string& line) {
  if (log.sink != nullptr)
    log.sink(level, line);
  else
    log.logger->log(spdlog_level(level), log.journald ? journald_priority(level) + line : line);
}

void tell_suppressed(LogState& log, uint64_t now_ns) {
  log.limiter.expire(now_ns, [&](const std::string& cause, uint64_t suppressed) {
    write_line(log, LogLevel::kWarning,
               "log_suppressed cause=" + cause + " lines=" + std::to_string(suppressed));
  });
  if (!log.thread) return;
  const uint64_t overruns = log.thread->overrun_counter();
  if (overruns == log.overruns_told) return;
  write_line(log, LogLevel::kWarning,
             "log_overrun lines=" + std::to_string(overruns - log.overruns_told));
  log.overruns_told = overruns;
}

void append_value(std::string& out, std::string_view text) {
  const bool plain =
      !text.empty() && text.find_first_of(" \"=\\") == std::string_view::npos &&
      std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (plain) {
    out += text;
    return;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

std::string format_fields(std::initializer_list<LogField> fields) {
  std::string out;
  for (const LogField& field : fields) {
    if (!out.empty()) out += ' ';
    out += field.name();
    out += '=';
    append_value(out, field.text());
  }
  return out;
}

void log_line(LogLevel level, std::string_view event, std::string_view fields) {
  LogState& log = state();
  const std::lock_guard guard(log.mutex);
  if (level < log.level) return;
  const uint64_t now_ns = log.clock->now_ns();
  tell_suppressed(log, now_ns);
  if (!log.limiter.admit(event, now_ns)) return;
  std::string line(event);
  if (!fields.empty()) line += ' ';
  line += fields;
  write_line(log, level, line);
}

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  log_line(level, event, format_fields(fields));
}

void start_log_thread() {
  LogState& log = state();
  const std::lock_guard guard(log.mutex);
  log.thread = std::make_shared<spdlog::details::thread_pool>(kLogQueueLines, 1);
  log.use(std::make_shared<spdlog::async_logger>("kvsidecard", log.output, log.thread,
                                                 spdlog::async_overflow_policy::overrun_oldest));
}

void stop_log_thread() {
  LogState& log = state();
  const std::lock_guard guard(log.mutex);
  log.use(std::make_shared<spdlog::logger>("kvsidecard", log.output));
  log.thread.reset();  // writes what waits, then joins
}

void set_log_level(LogLevel level) {
  const std::lock_guard guard(state().mutex);
  state().level = level;
}

void set_log_sink(void (*sink)(LogLevel, const std::string& line), Clock* clock) {
  const std::lock_guard guard(state().mutex);
  state().sink = sink;
  state().clock = clock != nullptr ? clock : &real_clock();
  state().limiter = LogLimiter();
}

void log_suppressed() {
  LogState& log = state();
  const std::lock_guard guard(log.mutex);
  tell_suppressed(log, log.clock->now_ns());
}

}  // namespace kvsidecar
