#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "alloc/result.h"
#include "io/file.h"
#include "io/file_system.h"
#include "swap/plan/path_config.h"
#include "swap/store/store_drives.h"
#include "swap/transfer/stored_tensor.h"

namespace penstock {

/// What a store has written beside contents, since it was opened.
struct StoreCounters {
  std::uint64_t journal_bytes = 0;  ///< padding included
  std::uint64_t publishes = 0;
};

/// The tensors of one namespace on its drives. This one is scratch: unlinked files, of which
/// nothing outlives the process. DurableStore keeps what is published. Moves no bytes itself
/// (HostTransfer does). Thread-safe.
class SwapStore {
 public:
  /// Opens a scratch file in every path. Errors: no path given; errno and the path that refused.
  /// `system` outlives the store.
  static Result<std::unique_ptr<SwapStore>> open_scratch(const std::vector<PathConfig>& paths,
                                                         FileSystem& system = os_file_system());
  virtual ~SwapStore() = default;
  SwapStore(const SwapStore&) = delete;
  SwapStore& operator=(const SwapStore&) = delete;

  /// Space for the next generation of a tensor, never over an older one. Tries the drives in turn
  /// when one is full, never those in `avoid`. Errors: ENOSPC (or what the last drive said) with
  /// path, and what is free there.
  virtual Result<StoredTensor> reserve(std::uint64_t tensor, std::uint64_t generation,
                                       std::uint64_t bytes,
                                       std::span<const std::uint32_t> avoid = {});
  /// Gives an extent's space back. hold() does so with the last holder.
  void release(const StoredTensor& stored) { drives_->release(stored.drive, stored.extent); }
  std::shared_ptr<StoredTensor> hold(const StoredTensor& stored) { return drives_->hold(stored); }
  /// A write of `stored` was refused by its drive.
  void note_failure(const StoredTensor& stored) { drives_->note_failure(stored.drive); }

  /// Errors: the drive is missing, and why; the sentence names tensor and path.
  Result<void> check_readable(const StoredTensor& stored, const std::string& tensor_name) const;
  /// Of what is readable.
  const File& file(const StoredTensor& stored) const { return drives_->file(stored.drive); }
  std::uint64_t used_bytes() const { return drives_->used_bytes(); }
  std::vector<DriveState> drive_states() const { return drives_->states(); }

  /// Whether contents that are published outlive the process. Where not, the rest does nothing.
  virtual bool is_durable() const noexcept { return false; }
  /// A number for a new tensor, for IdentityBlock::tensor; never used before in this store.
  std::uint64_t number_tensor() { return ++last_tensor_; }
  /// Makes this the content to be published: it is whole on its drive. Errors: the journal has no
  /// room for it.
  virtual Result<void> stage(const TensorInfo& info, const HeldExtent& content);
  /// To be published: the tensor is gone.
  virtual void stage_removal(const std::string& name);
  /// To be published: it has another name.
  virtual void stage_name(const std::string& from, const std::string& to);
  /// What was staged before survives a crash from here on. Errors: what of it does not, and why.
  virtual Result<void> publish() { return {}; }
  /// Publishes and ends in good order. Nothing else may be asked of the store afterwards.
  virtual Result<void> close() { return {}; }
  /// Until the last of these has gone no other process has a durable store, close() or not: for
  /// writes that close() does not wait for. None outlives the store.
  virtual std::shared_ptr<void> hold_use() { return nullptr; }
  virtual StoreCounters counters() const { return {}; }

 protected:
  explicit SwapStore(FileSystem& system);
  static Error no_paths();
  StoreDrives& drives() noexcept { return *drives_; }
  const StoreDrives& drives() const noexcept { return *drives_; }
  void number_tensors_after(std::uint64_t last) { last_tensor_ = last; }

 private:
  std::uint64_t opening_;  // random; distinguishes this opening's bytes from any other's
  std::shared_ptr<StoreDrives> drives_;
  std::atomic<std::uint64_t> last_tensor_{0};
};

}  // namespace penstock
