// SPDX-License-Identifier: Apache-2.0
// The log: one line per event, with named fields, to stderr. Under journald each line begins with
// its priority, else with time and level. Each cause (the event's name) may log kLinesPerWindow
// lines per window; what is beyond is counted and told in one line when the window has passed. Any
// thread; one mutex, here only.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "sidecar/env.h"
#include "sidecar/shell/config.h"

namespace kvsidecar {

// A named value of an event. Lives for the call only: text isn't copied.
class LogField {
 public:
  LogField(std::string_view name, std::string_view text) : name_(name), text_(text) {}
  LogField(std::string_view name, const char* text) : name_(name), text_(text) {}
  LogField(std::string_view name, const std::string& text) : name_(name), text_(text) {}
  LogField(std::string_view name, double number) : name_(name), own_(std::to_string(number)) {}
  template <typename T>
  requires std::is_integral_v<T> LogField(std::string_view name, T number)
      : name_(name), own_(std::to_string(number)) {}
  std::string_view name() const { return name_; }
  std::string_view text() const { return own_.empty() ? text_ : std::string_view(own_); }

 private:
  std::string_view name_, text_;
  std::string own_;
};

// "name=value", the value in quotes and escaped where it holds a blank, a quote, '=' or control
// characters.
std::string format_fields(std::initializer_list<LogField> fields);

void log_event(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});
// With fields that are formatted already.
void log_line(LogLevel level, std::string_view event, std::string_view fields);

// From then on a thread of its own writes the lines, so that a reader of stderr who stalls never
// stalls the conductor: when kLogQueueLines wait, the oldest are lost, counted and told. After a
// fork, once. stop_log_thread() writes what waits; lines after it are written by their caller
// again.
inline constexpr size_t kLogQueueLines = 4096;
void start_log_thread();
void stop_log_thread();

// Before any thread starts. Without it: info, to stderr, real clock.
void set_log_level(LogLevel level);
// Lines go to `sink` instead of stderr, without time and priority; null: back to stderr. Tests.
void set_log_sink(void (*sink)(LogLevel, const std::string& line), Clock* clock);
// Tells what was suppressed in windows that have passed. Called once a second or so.
void log_suppressed();

}  // namespace kvsidecar
