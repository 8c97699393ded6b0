#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "alloc/result.h"
#include "io/io_queue.h"
#include "swap/device/copy_stream.h"
#include "swap/transfer/content_proof.h"
#include "swap/transfer/transfer.h"
#include "swap/transfer/transfer_request.h"

namespace penstock {

/// The content of one tensor on its way from one end to another. What a drive has carries the tail
/// and the identity behind the content (StoredTensor), and is proved, or sealed, as it passes.
/// Until a read is proved, and after an error, its target holds anything.
class TensorTransfer : public Transfer {
 public:
  /// What moves the bytes; outlives every transfer.
  struct Ways {
    IoQueue* queue = nullptr;
    CopyStream* in = nullptr;   ///< to the device, if there is one
    CopyStream* out = nullptr;  ///< from it
  };

  const TransferRequest& request() const noexcept { return request_; }
  /// The stream of the device's end.
  CopyStream& stream() const noexcept { return request_.to_device() ? *ways_.in : *ways_.out; }
  /// Names the tensor, of which a device's driver knows nothing.
  std::optional<Error> device_error(std::optional<Error> error) const noexcept;

 protected:
  TensorTransfer(const Ways& ways, TransferRequest request);

  std::uint64_t part_bytes(std::uint64_t chunk_bytes, std::uint64_t left) noexcept final;
  void fetch(Chunk& chunk) noexcept final;
  std::optional<Error> pass(Chunk& chunk) noexcept final;
  void deliver(Chunk& chunk) noexcept final;
  void over() noexcept final;
  /// Gives back what chunks are made of; before ended().
  virtual void release_chunks() noexcept {}
  /// The checksum of what a drive has (0 where none is an end), or the first error.
  virtual void ended(Result<std::uint64_t> outcome) noexcept = 0;

  IoQueue& queue() const noexcept { return *ways_.queue; }

 private:
  std::optional<Error> prove(std::span<const std::byte> identity) noexcept;
  void move_io(Chunk& chunk, const OnDrive& drive, IoKind kind) noexcept;
  std::optional<Error> io_error(const IoOp& op) const noexcept;
  void load(Chunk& chunk) noexcept;
  void store(const Chunk& chunk) const noexcept;
  void convert_and_copy_in(Chunk& chunk) noexcept;
  void copy_in(Chunk& chunk) noexcept;
  void copy_out(Chunk& chunk) noexcept;
  void copied_out(Chunk& chunk) noexcept;
  // Calls `Work` when the chunk's turn has come on the thread of the copies to the device.
  template <void (TensorTransfer::*Work)(Chunk&) noexcept>
  void run_on_stream(Chunk& chunk) noexcept;

  const Ways ways_;
  const TransferRequest request_;
  std::optional<ContentProof> proof_;  // where a drive is an end
  std::uint64_t checksum_ = 0;
};

/// A transfer that calls `done` with its outcome when it has ended.
template <class Base, class Done>
class TransferThen final : public Base {
 public:
  template <class... Arguments>
  explicit TransferThen(Done done, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), done_(std::move(done)) {}

 private:
  void ended(Result<std::uint64_t> outcome) noexcept override {
    Done done = std::move(*done_);
    done_.reset();  // what it holds may be what lives for the transfer alone
    done(std::move(outcome));
  }

  std::optional<Done> done_;
};

}  // namespace penstock
