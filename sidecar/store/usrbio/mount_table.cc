// SPDX-License-Identifier: Apache-2.0
#include "sidecar/store/usrbio/mount_table.h"

#include <algorithm>

#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

bool is_octal(char c) { return c >= '0' && c <= '7'; }

std::string decoded(std::string_view field) {
  std::string text;
  for (size_t at = 0; at < field.size(); ++at) {
    if (field[at] == '\\' && at + 3 < field.size() && is_octal(field[at + 1]) &&
        is_octal(field[at + 2]) && is_octal(field[at + 3])) {
      text += static_cast<char>((field[at + 1] - '0') * 64 + (field[at + 2] - '0') * 8 +
                                (field[at + 3] - '0'));
      at += 3;
    } else {
      text += field[at];
    }
  }
  return text;
}

std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> found;
  while (!line.empty()) {
    const size_t end = std::min(line.find(' '), line.size());
    if (end > 0) found.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return found;
}

bool is_above(std::string_view point, std::string_view path) {
  if (point == "/") return path.starts_with('/');
  return path.starts_with(point) && (path.size() == point.size() || path[point.size()] == '/');
}

// Where the file system's root would be for this mount, seen from its virtual folder; empty: this
// mount can't show it.
std::string base_of(const MountEntry& entry) {
  if (entry.root == "/") return entry.point;
  const std::string tail = std::string("/") + kVirtualFolder;
  if (entry.root != tail || !entry.point.ends_with(tail)) return "";
  const std::string parent = entry.point.substr(0, entry.point.size() - tail.size());
  return parent.empty() ? "/" : parent;
}

}  // namespace

std::vector<MountEntry> parse_mount_table(std::string_view text) {
  std::vector<MountEntry> table;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const auto fields = words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    // id, parent, device, root, point, options, any number of tags, "-", type, source, options
    const auto dash = std::find(fields.begin() + std::min<ptrdiff_t>(6, std::ssize(fields)),
                                fields.end(), std::string_view("-"));
    if (fields.end() - dash < 2) continue;
    table.push_back(
        {std::string(fields[2]), decoded(fields[3]), decoded(fields[4]), decoded(*(dash + 1))});
  }
  return table;
}

const MountEntry* mount_that_holds(const std::vector<MountEntry>& table, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& entry : table)
    if (is_above(entry.point, path) && (!best || entry.point.size() >= best->point.size()))
      best = &entry;
  return best;
}

std::vector<std::string> ways_to_virtual_folder(const std::vector<MountEntry>& table,
                                                const MountEntry& entry, std::string_view path) {
  std::vector<std::string> above, others;
  for (const MountEntry& other : table) {
    if (other.device != entry.device || other.type != entry.type) continue;
    const std::string base = base_of(other);
    if (!base.empty()) (is_above(base, path) ? above : others).push_back(base);
  }
  std::stable_sort(above.begin(), above.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  above.insert(above.end(), others.begin(), others.end());
  return above;
}

}  // namespace kvsidecar::usrbio
