// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/metadata_json.h"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

namespace kvsidecar {
namespace {

using Json = nlohmann::json;

constexpr size_t kBufferBytes = 1 << 16;
constexpr size_t kTokenBytesMax = 4096;  // a key is a page's hash and a few characters
constexpr size_t kDepthMax = 16;         // of members that aren't known and are left out

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};

// Bytes of a file; ends early where one token would not end.
class Source {
 public:
  explicit Source(FILE* file) : file_(file), buffer_(kBufferBytes) { fill(); }
  bool ended() const { return at_ == end_; }
  char byte() const { return buffer_[at_]; }
  void next() {
    watch(byte());
    ++at_;
    if (token_bytes_ > kTokenBytesMax) {
      too_long_ = true;
      at_ = end_ = 0;
    } else if (at_ == end_) {
      fill();
    }
  }
  bool too_long() const { return too_long_; }
  bool failed() const { return std::ferror(file_) != 0; }

 private:
  void fill() {
    at_ = 0;
    end_ = std::fread(buffer_.data(), 1, buffer_.size(), file_);
  }
  void watch(char c) {
    ++token_bytes_;
    if (inside_) {
      if (c == '"' && !escaped_) inside_ = false;
      escaped_ = c == '\\' && !escaped_;
    } else if (c == '"' || std::string_view(",:[]{} \t\r\n").find(c) != std::string_view::npos) {
      inside_ = c == '"';
      escaped_ = false;
      token_bytes_ = 0;
    }
  }

  FILE* file_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0, token_bytes_ = 0;
  bool inside_ = false, escaped_ = false, too_long_ = false;
};

class SourceIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;
  explicit SourceIterator(Source* source = nullptr) : source_(source) {}
  char operator*() const { return source_->byte(); }
  SourceIterator& operator++() {
    source_->next();
    return *this;
  }
  bool operator==(const SourceIterator& other) const { return at_end() == other.at_end(); }
  bool operator!=(const SourceIterator& other) const { return !(*this == other); }

 private:
  bool at_end() const { return source_ == nullptr || source_->ended(); }
  Source* source_;
};

// What a value at this place has to be.
enum class Place { kTop, kTables, kTable, kNumPages, kFreePages, kRecords, kRecord, kUnknown };

class Reader {
 public:
  explicit Reader(MetadataSink& sink) : sink_(sink) {}
  Status status;  // why it stopped

  bool null() { return scalar(); }
  bool boolean(bool) { return scalar(); }
  bool number_float(double, const std::string&) { return scalar(); }
  bool binary(std::vector<uint8_t>&) { return scalar(); }
  bool number_integer(int64_t number) {
    return integer(number < 0 ? kImpossibleIndex : static_cast<uint64_t>(number));
  }
  bool number_unsigned(uint64_t number) { return integer(number); }
  bool string(std::string& text) {
    if (place() != Place::kRecord || items_ != 0) return scalar();
    key_ = text;
    ++items_;
    return true;
  }
  bool start_object(size_t) {
    if (place() == Place::kTop) return enter(Place::kTables);
    if (place() == Place::kTables) return enter(Place::kTable);
    return place() == Place::kUnknown ? enter(Place::kUnknown) : wrong("an object");
  }
  bool start_array(size_t) {
    if (place() == Place::kUnknown) return enter(Place::kUnknown);
    if (member_ == Place::kFreePages || member_ == Place::kRecords) {
      const Place list = member_;
      member_ = Place::kTable;
      return enter(list);
    }
    if (place() != Place::kRecords) return wrong("a list");
    items_ = 0;
    return enter(Place::kRecord);
  }
  bool key(std::string& name);
  bool end_object() { return leave(); }
  bool end_array() {
    if (place() == Place::kRecord && items_ != 2) return wrong("a record that isn't [key, index]");
    return leave();
  }
  bool parse_error(size_t position, const std::string&, const Json::exception&) {
    if (status.ok()) status = invalid("isn't JSON at byte " + std::to_string(position));
    return false;
  }
  bool complete() const { return depth_.empty() && seen_; }

 private:
  Place place() const {
    if (depth_.empty()) return Place::kTop;
    return member_ == Place::kUnknown && depth_.back() == Place::kTable ? Place::kUnknown
                                                                        : depth_.back();
  }
  bool enter(Place inner) {
    if (depth_.size() >= kDepthMax) return wrong("something nested that deep");
    if (member_ == Place::kUnknown && depth_.back() == Place::kTable) member_ = Place::kTable;
    seen_ = true;
    depth_.push_back(inner);
    return true;
  }
  bool leave() {
    depth_.pop_back();
    return true;
  }
  bool scalar() {
    if (place() != Place::kUnknown) return wrong("a value of another type");
    if (depth_.back() == Place::kTable) member_ = Place::kTable;
    return true;
  }
  bool integer(uint64_t number);
  bool table(const std::string& name);
  bool wrong(const char* what) {
    status = invalid("isn't what HF3FS's metadata server saves: " + std::string(what) +
                     " stands in table \"" + table_ + "\" where it can't");
    return false;
  }

  MetadataSink& sink_;
  std::vector<Place> depth_;
  Place member_ = Place::kTable;  // of the table: the one whose value comes next
  std::string table_, key_;
  uint32_t items_ = 0;  // of a record
  bool seen_ = false;
};

bool Reader::key(std::string& name) {
  if (place() == Place::kTables) return table(name);
  if (depth_.back() != Place::kTable) return true;
  member_ = name == "num_pages"      ? Place::kNumPages
            : name == "free_pages"   ? Place::kFreePages
            : name == "key_to_index" ? Place::kRecords
                                     : Place::kUnknown;
  return true;
}

bool Reader::integer(uint64_t number) {
  if (place() == Place::kUnknown) return scalar();
  if (place() == Place::kTable && member_ == Place::kNumPages) {
    member_ = Place::kTable;
    sink_.num_pages(number);
  } else if (place() == Place::kFreePages) {
    sink_.free_page(number);
  } else if (place() == Place::kRecord && items_ == 1) {
    ++items_;
    sink_.record(key_, number);
  } else {
    return wrong("a number");
  }
  return true;
}

bool Reader::table(const std::string& name) {
  table_ = name.substr(0, 64);
  for (char& c : table_)
    if (c < ' ' || c > '~') c = '?';  // it may be shown on a terminal
  const size_t colon = name.find(':');
  const std::string digits = name.substr(0, colon);
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
    return wrong("a name without a rank");
  const std::string pool = colon == std::string::npos ? "kv" : name.substr(colon + 1);
  status = sink_.begin_table(rank, pool);
  member_ = Place::kTable;
  return status.ok();
}

Result<std::unique_ptr<FILE, CloseFile>> open_metadata(const std::string& path) {
  std::unique_ptr<FILE, CloseFile> file(std::fopen(path.c_str(), "re"));
  if (!file) return os_error("--metadata " + path, errno, Code::kInvalid);
  struct stat facts {};
  if (fstat(fileno(file.get()), &facts) != 0) return os_error("--metadata " + path, errno);
  if (!S_ISREG(facts.st_mode)) return invalid("--metadata " + path + " isn't a regular file");
  if (static_cast<uint64_t>(facts.st_size) > kMetadataBytesMax)
    return invalid("--metadata " + path + " has " + std::to_string(facts.st_size) +
                   " bytes, over 1 GiB; a million pages take 38 MB, so it is another file");
  return file;
}

}  // namespace

Status read_metadata(const std::string& path, MetadataSink& sink) {
  auto file = open_metadata(path);
  if (!file) return file.status();
  Source source(file->get());
  Reader reader(sink);
  const bool whole = Json::sax_parse(SourceIterator(&source), SourceIterator(), &reader);
  const std::string remedy = "; give the file of the server's --persistence-path";
  if (source.failed()) return os_error("--metadata " + path, EIO);
  if (source.too_long())
    return invalid("--metadata " + path + " has a text or number of more than " +
                   std::to_string(kTokenBytesMax) + " bytes in it" + remedy);
  if (whole && reader.complete()) return {};
  if (reader.status.ok()) reader.status = invalid("isn't JSON");
  return {reader.status.code(), "--metadata " + path + " " + reader.status.text() + remedy};
}

}  // namespace kvsidecar
