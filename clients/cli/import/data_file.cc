// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/data_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

namespace kvsidecar {
namespace {

constexpr std::string_view kBin = ".bin";

bool read_rank(std::string_view text, uint32_t& rank) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// "RANK:POOL=PATH"; false: it isn't of that form.
bool read_named(const std::string& text, DataName& name) {
  const size_t colon = text.find(':'), equals = text.find('=');
  if (colon == std::string::npos || equals == std::string::npos || equals < colon + 2) return false;
  if (!read_rank(std::string_view(text).substr(0, colon), name.rank)) return false;
  name.pool = text.substr(colon + 1, equals - colon - 1);
  name.path = text.substr(equals + 1);
  return true;
}

bool read_path(const std::string& path, DataName& name) {
  const std::string file = path.substr(path.rfind('/') + 1);
  const size_t bin = file.rfind(kBin);
  if (bin == std::string::npos || bin == 0) return false;
  const size_t dot = file.rfind('.', bin - 1);
  const std::string rest = file.substr(bin + kBin.size());
  if (dot == std::string::npos || (!rest.empty() && (rest[0] != '.' || rest.size() < 2)))
    return false;
  name.pool = rest.empty() ? "kv" : rest.substr(1);
  name.path = path;
  return read_rank(std::string_view(file).substr(dot + 1, bin - dot - 1), name.rank);
}

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

Result<DataName> parse_data_name(const std::string& text) {
  DataName name;
  if (read_named(text, name) || read_path(text, name)) return name;
  return invalid("--data " + text +
                 " names neither rank nor pool; HF3FS's files end in .RANK.bin or .RANK.bin.POOL, "
                 "else write RANK:POOL=PATH");
}

Result<DataFile> DataFile::open(const DataName& name) {
  UniqueFd fd(::open(name.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_error("--data " + name.path, errno, Code::kInvalid);
  struct stat facts {};
  if (fstat(fd.get(), &facts) != 0) return os_error("--data " + name.path, errno);
  if (!S_ISREG(facts.st_mode)) return invalid("--data " + name.path + " isn't a regular file");
  return DataFile(name, std::move(fd), facts);
}

bool DataFile::newer_than(const timespec& time) const {
  const timespec& own = facts_.st_mtim;
  return own.tv_sec > time.tv_sec || (own.tv_sec == time.tv_sec && own.tv_nsec > time.tv_nsec);
}

bool DataFile::changed() const {
  struct stat now {};
  return fstat(fd_.get(), &now) != 0 || !same_facts(now, facts_);
}

bool DataFile::read(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    offset += static_cast<uint64_t>(got);
    out = out.subspan(static_cast<size_t>(got));
  }
  return true;
}

Result<struct stat> facts_of(const std::string& what, const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return os_error(what + " " + path, errno, Code::kInvalid);
  return facts;
}

bool same_facts(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && same_time(a.st_mtim, b.st_mtim);
}

}  // namespace kvsidecar
