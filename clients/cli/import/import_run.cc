// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/import_run.h"

#include <algorithm>

#include "clients/cli/import/page_writer.h"
#include "ipc/page_origin.h"

namespace kvsidecar {
namespace {

constexpr size_t kLookupKeys = 4096;

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

// One namespace.
class TargetImport {
 public:
  TargetImport(const ImportPlan& plan, uint32_t number, PageWriter& writer, ImportReport& report,
               const std::function<void()>& show)
      : plan_(plan),
        target_(plan.targets[number]),
        table_(plan.tables[number]),
        writer_(writer),
        report_(report),
        show_(show) {}
  Status run(std::span<const ImportPage> pages);

 private:
  Status chunk(std::span<const ImportPage> pages);
  Status batch(std::span<const ImportPage> pages);
  std::string fill(const ImportPage& page, std::span<std::byte> out) const;
  std::string origin(const ImportPage& page) const;

  const ImportPlan& plan_;
  const TargetNamespace& target_;
  const RecordTable& table_;
  PageWriter& writer_;
  ImportReport& report_;
  const std::function<void()>& show_;
};

std::string TargetImport::origin(const ImportPage& page) const {
  const Record& record = table_.record(page.first);
  const std::string& path = plan_.sources[record.source].file.name().path;
  return "HF3FS record " + std::to_string(record.index) + " of " + path.substr(path.rfind('/') + 1);
}

// Reads all parts of a page. Why it can't be used; empty: it can.
std::string TargetImport::fill(const ImportPage& page, std::span<std::byte> out) const {
  const RecordLayout& layout = target_.layout;
  const size_t parts = target_.fields.parts.size();
  for (size_t part = 0; part < parts; ++part) {
    const std::span<std::byte> bytes =
        out.subspan(writer_.part_offset(part), target_.fields.parts[part].bytes);
    for (const Piece& piece : layout.pieces) {
      const Record& record = table_.record(page.first + part * layout.records + piece.record);
      const uint64_t offset = record.index * layout.record_bytes + piece.record_offset;
      if (!plan_.sources[record.source].file.read(offset,
                                                  bytes.subspan(piece.part_offset, piece.bytes)))
        return "the data file couldn't be read there";
    }
    // A hole reads as zeros.
    const uint64_t record_bytes = bytes.size() / layout.records;
    for (uint32_t i = 0; i < layout.records; ++i)
      if (all_zero(bytes.subspan(i * record_bytes, record_bytes)))
        return "its record is all zeros: it was never written";
  }
  return "";
}

Status TargetImport::batch(std::span<const ImportPage> pages) {
  std::vector<BatchPage> batch;
  for (const ImportPage& page : pages) {
    const std::string why = fill(page, writer_.page(static_cast<uint32_t>(batch.size())));
    if (!why.empty()) {
      ++report_.left_out[why];
      continue;
    }
    batch.push_back({table_.record(page.first).hash, origin_description(origin(page)), "", false});
  }
  if (const std::string path = plan_.changed(); !path.empty())
    return {Code::kBusy, path + " has changed meanwhile; stop who writes it and run it again"};
  if (batch.empty()) return {};
  if (Status status = writer_.write(batch); !status.ok()) return status;
  for (const BatchPage& page : batch) {
    if (!page.left_out.empty()) {
      ++report_.left_out[page.left_out];
    } else if (page.existed) {
      ++report_.there_already;
    } else {
      ++report_.imported;
      report_.bytes += target_.fields.page_bytes();
    }
  }
  return {};
}

Status TargetImport::chunk(std::span<const ImportPage> pages) {
  std::vector<PageKey> keys;
  for (const ImportPage& page : pages) keys.push_back(table_.record(page.first).hash);
  const auto there = writer_.there(keys);
  if (!there) return there.status();
  std::vector<ImportPage> missing;
  for (size_t i = 0; i < pages.size(); ++i)
    if (!(*there)[i]) missing.push_back(pages[i]);
  report_.there_already += pages.size() - missing.size();
  show_();
  std::span<const ImportPage> left(missing);
  while (!left.empty()) {
    const size_t count = std::min<size_t>(left.size(), writer_.capacity());
    if (Status status = batch(left.first(count)); !status.ok()) return status;
    left = left.subspan(count);
    show_();
  }
  return {};
}

Status TargetImport::run(std::span<const ImportPage> pages) {
  while (!pages.empty()) {
    const size_t count = std::min(pages.size(), kLookupKeys);
    if (Status status = chunk(pages.first(count)); !status.ok()) return status;
    pages = pages.subspan(count);
  }
  return {};
}

void add(LeftOut& sum, const LeftOut& more) {
  for (const auto& [why, pages] : more) sum[why] += pages;
}

}  // namespace

uint64_t ImportReport::left_out_pages() const {
  uint64_t sum = 0;
  for (const auto& [why, pages_left] : left_out) sum += pages_left;
  return sum;
}

ImportReport run_import(client::Client& client, ImportPlan& plan, bool durable,
                        const std::function<void(const ImportProgress&)>& show) {
  ImportReport report;
  std::vector<std::vector<ImportPage>> lists;
  for (RecordTable& table : plan.tables) {
    lists.push_back(table.pages(plan.places));
    add(report.left_out, table.left_out());
    report.pages += lists.back().size();
  }
  report.pages += report.left_out_pages();
  const std::function<void()> shown = [&] {
    show({report.imported + report.there_already + report.left_out_pages(), report.pages,
          report.bytes});
  };
  for (uint32_t i = 0; i < lists.size() && report.stopped.empty(); ++i) {
    auto writer = PageWriter::make(client, plan.targets[i], durable);
    const Status status =
        writer ? TargetImport(plan, i, *writer, report, shown).run(lists[i]) : writer.status();
    if (!status.ok()) report.stopped = std::string(code_name(status.code())) + ": " + status.text();
  }
  return report;
}

}  // namespace kvsidecar
