#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "alloc/result.h"
#include "swap/device/device.h"

namespace penstock {

class DirectStorage;

/// What moves bytes between drives and a runtime's devices, as it is on this machine.
struct DirectStorageFacts {
  std::string_view runtime;  ///< whose devices: `cuda`, `hip`, as Device::runtime() says
  std::string_view library;  ///< `cuFile`, `hipFile`
  std::string version;       ///< 1.15; empty where it is not known
  bool is_present = false;   ///< the library is here and has every function that is called
  /// Transfers bypass host memory or fail: the library has no way to fall back to a copy through
  /// it. A file system that cannot do so is refused when its file is registered.
  bool is_direct = false;
  std::string reason;  ///< why it is not; empty where it is
};

/// A file that a library knows. Move-only; gone before its descriptor is closed, and when no
/// transfer is under way there.
class DirectFile {
 public:
  const std::string& path() const noexcept { return path_; }

 private:
  friend class DirectStorage;
  struct Remove {
    std::shared_ptr<DirectStorage> storage;
    void operator()(void* handle) const noexcept;
  };
  using Handle = std::unique_ptr<void, Remove>;
  DirectFile(Handle handle, std::string path)
      : handle_(std::move(handle)), path_(std::move(path)) {}

  Handle handle_;
  std::string path_;
};

/// Moves bytes between files and the memory of one device without host memory. Thread-safe: each
/// thread has a transfer of its own, and leaves with the current device that it came with.
class DirectStorage : public std::enable_shared_from_this<DirectStorage> {
 public:
  virtual ~DirectStorage() = default;
  DirectStorage(const DirectStorage&) = delete;
  DirectStorage& operator=(const DirectStorage&) = delete;

  virtual std::string_view library() const noexcept = 0;

  /// Makes a descriptor known to the library; it stays the caller's and is opened with O_DIRECT.
  /// `path` is for errors. Errors: the library's, by name: the file system cannot do so
  /// (kUnsupported), the descriptor is known already.
  Result<DirectFile> register_file(int descriptor, std::string path);

  /// Both BLOCK until all of it is moved, and so belong on threads of ours, never on the loop's.
  /// What was begun on the device is not waited for: who calls has seen an event behind the last
  /// use of `target`, or behind what fills `source`. Whole blocks of 4 KiB go straight; for what is
  /// not aligned so cuFile uses memory of the device, and hipFile refuses.
  ///
  /// Errors: errno and path of the drive, ENODATA where the file ends, or the library's by name.
  /// The device's memory then holds anything.
  Result<void> read(const DirectFile& file, std::uint64_t offset, DeviceSpan target) {
    return transfer(Direction::kRead, file, offset, target);
  }
  Result<void> write(const DirectFile& file, std::uint64_t offset, DeviceSpan source) {
    return transfer(Direction::kWrite, file, offset, source);
  }

 protected:
  enum class Direction { kRead, kWrite };
  /// What one call of the library came to.
  struct Step {
    std::int64_t moved = 0;  ///< bytes; -1: `error_number`; less: the library's own number, negated
    int error_number = 0;    ///< the errno of that very call
  };
  DirectStorage() = default;

  virtual Result<void*> add(int descriptor, const std::string& path) = 0;
  virtual void remove(void* handle) noexcept = 0;
  /// Calls the library once. Errors: the device cannot be made current.
  virtual Result<Step> step(Direction direction, void* handle, std::uint64_t offset,
                            DeviceSpan memory) = 0;
  /// What the library means by its own number, after `doing`.
  virtual Error refusal(std::int64_t number, const std::string& doing) const = 0;

 private:
  friend class DirectFile;
  Result<void> transfer(Direction direction, const DirectFile& file, std::uint64_t offset,
                        DeviceSpan memory);
  std::string describe(Direction direction, const DirectFile& file, std::uint64_t offset,
                       std::uint64_t bytes) const;
};

/// Looks for the library of `runtime` (`cuda`, `hip`). What is asked of it is asked once a process,
/// and only where the runtime shows a device. What a machine has not is no error.
DirectStorageFacts look_for_direct_storage(std::string_view runtime);

/// For the memory of `device`, whose runtime's context is kept until it goes. Errors
/// (kUnsupported): why DirectStorageFacts::is_direct is false, or the device has no such library.
Result<std::shared_ptr<DirectStorage>> open_direct_storage(const Device& device);

}  // namespace penstock
