#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"
#include "swap/device/direct_storage.h"
#include "swap/store/device_transfer.h"

namespace penstock {

/// A few threads that move bytes between drives and the memory of a device without host memory, in
/// pieces side by side: the library's transfers block, and whoever asks must not. Thread-safe.
class DirectLane {
 public:
  /// Nothing: all of it is moved. On a thread of this object, without a lock; must not wait for a
  /// transfer, must not throw.
  using Done = std::function<void(std::optional<Error>)>;
  using Direction = DeviceTransfer::Direction;

  explicit DirectLane(std::shared_ptr<DirectStorage> storage);
  /// Waits for every transfer.
  ~DirectLane();
  DirectLane(const DirectLane&) = delete;
  DirectLane& operator=(const DirectLane&) = delete;

  bool on_thread() const noexcept;

  /// Whole blocks of 4 KiB. `file` lives until completion. Nothing on the device uses `memory` any
  /// more, or still fills it. Errors, by `done`: DirectStorage's.
  void move(Direction direction, const File& file, std::uint64_t offset, DeviceSpan memory,
            Done done);

 private:
  struct Transfer {
    Direction direction;
    const File* file;
    std::uint64_t offset;
    DeviceSpan memory;
    Done done;
    std::size_t pieces_left = 0;      // guarded by mutex_, as is
    std::optional<Error> error = {};  // the first one
  };
  struct Piece {
    std::shared_ptr<Transfer> transfer;
    std::uint64_t begin;
    std::uint64_t bytes;
  };
  // The library knows it as long as some transfer uses it, since nobody tells when it is closed.
  struct UsedFile {
    std::size_t transfers = 0;
    std::optional<DirectFile> file;  // from the first piece on
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  Result<void> move(const Piece& piece);
  void finished(const Piece& piece, Result<void> moved, Lock& lock);
  Result<const DirectFile*> registered(const File& file);
  void leave(const File& file);

  const std::shared_ptr<DirectStorage> storage_;
  std::mutex registering_;
  std::map<int, UsedFile> files_;  // by descriptor; guarded by registering_
  std::mutex mutex_;
  std::condition_variable asked_;
  std::deque<Piece> pieces_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock
