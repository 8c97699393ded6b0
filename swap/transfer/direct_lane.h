#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"
#include "swap/device/direct_storage.h"
#include "swap/transfer/device_tensor.h"

namespace penstock {

/// Whole blocks of 4 KiB on their way through a DirectLane. Owned by the caller, who touches
/// nothing until `on_complete`. Never moved: the lane links it.
struct DirectOp {
  DirectOp() = default;
  DirectOp(const DirectOp&) = delete;
  DirectOp& operator=(const DirectOp&) = delete;

  // Set by the caller.
  DeviceDirection direction = DeviceDirection::kToDevice;
  const File* file = nullptr;  ///< lives until on_complete
  std::uint64_t offset = 0;
  DeviceSpan memory;  ///< nothing on the device uses it any more, or still fills it
  void* context = nullptr;
  /// Called once, on a thread of the lane, without a lock; must not wait for a transfer, and may
  /// destroy the operation.
  void (*on_complete)(DirectOp& op) noexcept = nullptr;

  /// Result, valid in on_complete: DirectStorage's. Nothing: all of it is moved.
  std::optional<Error> error;

  // The lane's.
  std::uint64_t begun_bytes = 0;
  std::size_t pieces_under_way = 0;
  DirectOp* next = nullptr;
};

/// A few threads that move bytes between drives and the memory of a device without host memory, in
/// pieces side by side: the library's transfers block, and callers must not. Thread-safe.
class DirectLane {
 public:
  explicit DirectLane(std::shared_ptr<DirectStorage> storage);
  /// Waits for every transfer.
  ~DirectLane();
  DirectLane(const DirectLane&) = delete;
  DirectLane& operator=(const DirectLane&) = delete;

  bool on_thread() const noexcept;
  void move(DirectOp& op);

 private:
  struct Piece {
    DirectOp* op = nullptr;
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };
  // The library knows it as long as some transfer uses it, since nothing says when it is closed.
  struct UsedFile {
    std::size_t transfers = 0;
    std::optional<DirectFile> file;  // from the first piece on
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  Piece take_piece();
  void unlink(const DirectOp& op);
  Result<void> move(const Piece& piece);
  void finished(const Piece& piece, Result<void> moved, Lock& lock);
  Result<const DirectFile*> registered(const File& file);
  void leave(const File& file);

  const std::shared_ptr<DirectStorage> storage_;
  std::mutex registering_;
  std::map<int, UsedFile> files_;  // by descriptor; guarded by registering_
  std::mutex mutex_;
  std::condition_variable asked_;
  DirectOp* first_ = nullptr;  // of those with pieces that have not begun
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock
