// SPDX-License-Identifier: Apache-2.0
// The library client: the site's libhf3fs_api_shared.so speaks the protocol.
#include <fcntl.h>

#include <cerrno>

#include "sidecar/store/usrbio/client.h"
#include "sidecar/store/usrbio/library_ring.h"
#include "sidecar/store/usrbio/mount.h"
#include "sidecar/store/usrbio/protocol.h"

namespace kvsidecar::usrbio {
namespace {

class LibraryClient final : public Client {
 public:
  LibraryClient(std::shared_ptr<LoadedLibrary> library, std::shared_ptr<Mount> mount,
                UniqueFd folder)
      : library_(std::move(library)), mount_(std::move(mount)), folder_(std::move(folder)) {}

  std::string describe() const override { return "library " + library_->functions.path; }
  const std::string& mount_point() const override { return mount_->point(); }
  std::string notes() const override { return library_->functions.notes; }

  Result<std::unique_ptr<Memory>> register_memory(const std::string& path,
                                                  std::span<std::byte> mapped) override {
    return LibraryMemory::make(*library_, mount_, path, mapped);
  }
  Result<std::unique_ptr<Ring>> make_ring(const RingOptions& options) override {
    return LibraryRing::make(library_, *mount_, options);
  }
  Result<std::unique_ptr<File>> register_file(int fd) override {
    return LibraryFile::make(library_, *mount_, fd);
  }
  bool alive() override {
    return mount_->alive() &&
           guarded(false, [this] { return library_->functions.is_hf3fs(folder_.get()); });
  }

 private:
  const std::shared_ptr<LoadedLibrary> library_;
  const std::shared_ptr<Mount> mount_;
  const UniqueFd folder_;  // of data: the virtual folder may not answer as 3FS
};

// What the library takes for 3FS though the kernel's mount table doesn't say so. It throws at a
// path that doesn't exist.
std::string point_by_library(const LibraryFunctions& functions, const std::string& folder) {
  char point[abi::kMountPointBytes] = {};
  const int bytes = guarded(
      -1, [&] { return functions.extract_mount_point(point, sizeof point, folder.c_str()); });
  if (bytes <= 1 || static_cast<size_t>(bytes) > sizeof point) return "";
  return std::string(point, static_cast<size_t>(bytes) - 1);
}

}  // namespace

Result<std::unique_ptr<Client>> open_library(const std::string& path, const std::string& library) {
  auto point = mount_point_of(path);
  if (!point) return point.status();
  auto functions = load_library(library);
  if (!functions) return functions.status();
  const auto folder_path = existing_folder(path);
  if (!folder_path) return folder_path.status();
  if (point->empty()) *point = point_by_library(*functions, *folder_path);
  if (point->empty())
    return invalid(path + " doesn't lie on 3FS (no mount of type " + kFileSystemType +
                   " holds it): name a folder of a 3FS mount, or use the file store");
  UniqueFd folder(::open(folder_path->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return os_error("opening " + *folder_path, errno, Code::kUnavailable);
  auto mount = Mount::open(*point, no_faults());
  if (!mount) return mount.status();
  const std::string file = functions->path;
  auto loaded = std::make_shared<LoadedLibrary>(LoadedLibrary{functions.take(), {}});
  std::unique_ptr<Client> client(
      new LibraryClient(std::move(loaded), mount.take(), std::move(folder)));
  if (!client->alive())
    return invalid(file + " doesn't take " + *point +
                   " for 3FS: mount 3FS (hf3fs_fuse) there, or use the file store");
  return client;
}

}  // namespace kvsidecar::usrbio
