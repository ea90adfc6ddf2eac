// SPDX-License-Identifier: Apache-2.0
// What is imported from where: data files, namespaces and metadata brought together, and all that
// speaks against it. Blocks on files. One thread.
#pragma once
#include <vector>

#include "clients/cli/import/data_file.h"
#include "clients/cli/import/import.h"
#include "clients/cli/import/record_table.h"
#include "clients/cli/import/target_namespace.h"

namespace kvsidecar {

// Whose share of a page the records of a data file are.
struct Owner {
  uint32_t target = 0;  // of the plan's namespaces
  uint16_t part = 0, tp = 0;
};

struct ImportSource {
  DataFile file;
  std::vector<Owner> owners;  // several where ranks share a file: their records name the rank
  uint64_t record_bytes = 0;
  bool in_metadata = false;
  uint64_t pages_told = 0;  // the metadata's num_pages
};

struct ImportPlan {
  std::string metadata;
  struct stat metadata_facts {};
  std::vector<ImportSource> sources;
  std::vector<PlaceMap> places;  // of each source
  std::vector<TargetNamespace> targets;
  std::vector<RecordTable> tables;  // of each namespace
  uint64_t tables_not_asked = 0;    // of the metadata, for which no data is given

  // Somebody has written to the files since the plan was begun: the path; empty: nobody.
  std::string changed() const;
};

// Opens the files and finds out whether they may be read at all.
Result<ImportPlan> open_files(const ImportOptions& options);
// Brings files and namespaces together. list: the JSON of KVS_STAT_NAMESPACES.
Status match(ImportPlan& plan, const ImportOptions& options, const std::string& list);
// Reads the metadata into the plan's tables.
Status read_tables(ImportPlan& plan, const ImportOptions& options);

}  // namespace kvsidecar
