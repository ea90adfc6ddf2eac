// SPDX-License-Identifier: Apache-2.0
#include "clients/cli/import/import_plan.h"

#include <algorithm>

#include "clients/cli/import/metadata_json.h"

namespace kvsidecar {
namespace {

constexpr uint64_t kPlacesMax = 1ull << 28;  // of a data file: three bits each

std::string table_name(uint32_t rank, const std::string& pool) {
  return std::to_string(rank) + ":" + pool;
}
std::string table_name(const DataName& name) { return table_name(name.rank, name.pool); }

ImportSource* find_source(ImportPlan& plan, uint32_t rank, const std::string& pool) {
  for (ImportSource& source : plan.sources)
    if (source.file.name().rank == rank && source.file.name().pool == pool) return &source;
  return nullptr;
}

Status add_owner(ImportPlan& plan, ImportSource& source, const Owner& owner) {
  const TargetNamespace& target = plan.targets[owner.target];
  const uint64_t record_bytes = target.layout.record_bytes;
  for (const Owner& other : source.owners)
    if (other.tp == owner.tp)
      return invalid("--namespace " + target.hex + " and --namespace " +
                     plan.targets[other.target].hex + " both take --data " +
                     source.file.name().path + "; import into one of them at a time");
  if (!source.owners.empty() && source.record_bytes != record_bytes)
    return invalid("--data " + source.file.name().path + " would hold records of " +
                   std::to_string(source.record_bytes) + " and of " + std::to_string(record_bytes) +
                   " bytes; the namespaces given aren't of one engine");
  source.record_bytes = record_bytes;
  source.owners.push_back(owner);
  return {};
}

// The file of each part of a namespace.
Status match_target(ImportPlan& plan, uint32_t number) {
  const TargetNamespace& target = plan.targets[number];
  const std::string& pool = target.fields.pool;
  for (size_t part = 0; part < target.fields.parts.size(); ++part) {
    const uint16_t tp = target.fields.parts[part].coordinate.tp;
    ImportSource* source = find_source(plan, tp, pool);
    // Beside a KV cache that all ranks share, HF3FS keeps all ranks' states in rank 0's file.
    if (source == nullptr && pool != "kv") source = find_source(plan, 0, pool);
    if (source == nullptr)
      return invalid("--namespace " + target.hex + " has a part of rank " + std::to_string(tp) +
                     ", pool " + pool + "; add --data PREFIX." + std::to_string(tp) + ".bin" +
                     (pool == "kv" ? "" : "." + pool));
    const Status added = add_owner(plan, *source, {number, static_cast<uint16_t>(part), tp});
    if (!added.ok()) return added;
  }
  return {};
}

Status check_own_pages(const TargetNamespace& target, const ImportOptions& options) {
  if (!target.has_own_pages || options.beside) return {};
  return {Code::kBusy,
          "--namespace " + target.hex + " holds pages of engines in generation " +
              std::to_string(target.generation) +
              ", which the one clear that removes imported pages would remove too; run `kvsidecar "
              "clear " +
              target.hex + "` first, or give --beside"};
}

class Tables final : public MetadataSink {
 public:
  explicit Tables(ImportPlan& plan) : plan_(plan) {}
  Status begin_table(uint32_t rank, const std::string& pool) override;
  void num_pages(uint64_t pages) override {
    if (source_ != nullptr) source_->pages_told = pages;
  }
  void free_page(uint64_t index) override {
    if (source_ != nullptr) plan_.places[number_].release(index);
  }
  void record(std::string_view key, uint64_t index) override;

 private:
  ImportPlan& plan_;
  ImportSource* source_ = nullptr;  // null: of a table that nobody asked for
  uint32_t number_ = 0, order_ = 0;
};

Status Tables::begin_table(uint32_t rank, const std::string& pool) {
  source_ = find_source(plan_, rank, pool);
  if (source_ != nullptr) {
    number_ = static_cast<uint32_t>(source_ - plan_.sources.data());
    if (source_->in_metadata) return invalid("has the table " + table_name(rank, pool) + " twice");
    source_->in_metadata = true;
    return {};
  }
  ++plan_.tables_not_asked;
  for (const TargetNamespace& target : plan_.targets)
    for (const PartSpec& part : target.fields.parts)
      if (target.fields.pool == pool && part.coordinate.tp == rank)
        return invalid("has the table " + table_name(rank, pool) + " of --namespace " + target.hex +
                       ", but no --data is given for it");
  return {};
}

void Tables::record(std::string_view key, uint64_t index) {
  if (source_ == nullptr) return;
  plan_.places[number_].claim(index);
  const DataName& name = source_->file.name();
  const auto parsed = parse_record_key(key, name.pool);
  for (const Owner& owner : source_->owners) {
    if (!parsed) break;
    const uint16_t tp_size = plan_.targets[owner.target].fields.tp_size;
    const bool own =
        parsed->tp ? *parsed->tp == owner.tp && *parsed->tp_size == tp_size : name.rank == owner.tp;
    if (!own) continue;
    return plan_.tables[owner.target].add(
        {parsed->hash, index, ++order_, number_, owner.part, parsed->half});
  }
  plan_.tables[source_->owners[0].target].leave_out(
      parsed ? "its key is of a rank that the namespace hasn't"
             : "its key isn't that of a page in this pool");
}

Status check_sizes(const ImportPlan& plan, const ImportOptions& options) {
  for (size_t i = 0; i < plan.sources.size(); ++i) {
    const ImportSource& source = plan.sources[i];
    const std::string what = "--data " + source.file.name().path;
    if (!source.in_metadata)
      return invalid(what + ": --metadata has no table " + table_name(source.file.name()) +
                     "; give the data files of that server's engines");
    if (options.accept_size || source.pages_told == plan.places[i].places()) continue;
    return invalid(what + " has room for " + std::to_string(plan.places[i].places()) +
                   " records of " + std::to_string(source.record_bytes) +
                   " bytes, its metadata counts " + std::to_string(source.pages_told) +
                   ": the pages have another size or layout than the namespace's, or the file was "
                   "cut; if you know that it was cut, give --accept-size");
  }
  return {};
}

}  // namespace

std::string ImportPlan::changed() const {
  const auto now = facts_of("--metadata", metadata);
  if (!now || !same_facts(*now, metadata_facts)) return metadata;
  for (const ImportSource& source : sources)
    if (source.file.changed()) return source.file.name().path;
  return "";
}

Result<ImportPlan> open_files(const ImportOptions& options) {
  ImportPlan plan;
  plan.metadata = options.metadata;
  const auto facts = facts_of("--metadata", options.metadata);
  if (!facts) return facts.status();
  plan.metadata_facts = *facts;
  for (const std::string& text : options.data) {
    const auto name = parse_data_name(text);
    if (!name) return name.status();
    auto file = DataFile::open(*name);
    if (!file) return file.status();
    for (const ImportSource& other : plan.sources)
      if (other.file.same_file(*file) || table_name(other.file.name()) == table_name(*name))
        return invalid("--data " + name->path + " and --data " + other.file.name().path +
                       " are one file, or both of " + table_name(*name) + "; give each once");
    if (file->newer_than(plan.metadata_facts.st_mtim) && !options.accept_stale)
      return Status(Code::kBusy,
                    "--data " + name->path + " is newer than --metadata " + options.metadata +
                        ", so pages may have been used anew since it was saved; stop the server, "
                        "which saves at its end (copies must keep their times: cp -p), or give "
                        "--accept-stale");
    plan.sources.push_back({file.take(), {}, 0, false, 0});
  }
  return plan;
}

Status match(ImportPlan& plan, const ImportOptions& options, const std::string& list) {
  for (const std::string& hex : options.name_spaces) {
    auto target = find_target(list, hex);
    if (!target) return target.status();
    if (Status status = check_own_pages(*target, options); !status.ok()) return status;
    const auto parts = static_cast<uint16_t>(target->fields.parts.size());
    plan.tables.emplace_back(parts, target->layout.records == 2);
    plan.targets.push_back(target.take());
    const auto number = static_cast<uint32_t>(plan.targets.size() - 1);
    if (Status status = match_target(plan, number); !status.ok()) return status;
  }
  for (const ImportSource& source : plan.sources) {
    const std::string what = "--data " + source.file.name().path;
    if (source.owners.empty())
      return invalid(what + " is of " + table_name(source.file.name()) +
                     ", which no --namespace takes; name the namespace of that pool and rank too");
    const uint64_t places = source.file.bytes() / source.record_bytes;
    if (places > kPlacesMax)
      return invalid(what + " has room for " + std::to_string(places) + " records of " +
                     std::to_string(source.record_bytes) + " bytes, more than " +
                     std::to_string(kPlacesMax) + "; the namespace isn't the one of its engine");
    plan.places.emplace_back(places);
  }
  return {};
}

Status read_tables(ImportPlan& plan, const ImportOptions& options) {
  Tables tables(plan);
  if (Status status = read_metadata(plan.metadata, tables); !status.ok()) return status;
  return check_sizes(plan, options);
}

}  // namespace kvsidecar
