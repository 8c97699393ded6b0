#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bindings/archive/record_reader.h"
#include "bindings/archive/record_writer.h"
#include "intake_lane.h"
#include "io/io_queue.h"
#include "swap/swap_engine.h"
#include "swap/update/moment_layout.h"

namespace penstock::python {

/// A tensor whose content goes into an archive: its bytes or, of a moment with a layout, the
/// floats that they stand for.
struct FilledTensor {
  TensorId tensor{};
  std::shared_ptr<const MomentLayout> layout;
};

/// A record of an archive, and what it is filled with: the contents of tensors, one behind the
/// other, or, without tensors, as much memory as the record has, which stays as it is meanwhile.
struct FilledRecord {
  std::string record;
  std::vector<FilledTensor> tensors;
  const std::byte* memory = nullptr;
};

/// Contents of an engine's tensors on their way into records that were reserved for them. Used by
/// one thread, in which every call may block.
class ArchiveFilling {
 public:
  /// `kind` moves the bytes of the archive. Errors: RecordWriter::open()'s and
  /// SwapEngine::read()'s; a record that the archive lacks, or of another size than its tensor.
  static Result<std::unique_ptr<ArchiveFilling>> begin(SwapEngine& engine, EngineKind kind,
                                                       const std::string& path,
                                                       const std::vector<FilledRecord>& records);
  /// Moves about 32 MiB on. Gives the bytes moved so far; nothing when all of it is in the archive,
  /// with CRC-32s and safe from a crash. Errors: of a read or a write.
  Result<std::optional<std::uint64_t>> step();

 private:
  ArchiveFilling() = default;
  struct Source {
    ZipRecord record;
    const std::byte* memory = nullptr;  // null: of the reader
    std::vector<FilledTensor> tensors;
    std::size_t done = 0;  // of them
  };
  struct Part {
    std::span<const std::byte> bytes;
    bool last = false;  // of the record
  };
  Result<Part> next_part();
  Result<std::span<const std::byte>> next_decoded(const MomentLayout& layout);

  std::unique_ptr<IoQueue> queue_;
  std::vector<Source> sources_;
  std::size_t source_ = 0;    // which is being moved
  std::uint64_t offset_ = 0;  // within its record
  std::uint64_t moved_bytes_ = 0;
  std::optional<ContentReader> reader_;
  std::vector<std::byte> encoded_;  // of one tensor
  std::vector<float> decoded_;
  std::optional<RecordWriter> writer_;  // last: it waits for what is under way
};

/// A range of a record that goes into a tensor's next content: all of it, or what follows what the
/// targets before it in the lane have given.
struct RecordTarget {
  TensorId tensor{};
  std::uint64_t offset = 0;    ///< of the range, bytes within the record
  std::uint64_t elements = 0;  ///< of the range
  DType dtype = DType::kU8;    ///< of the record's elements; they are converted to the tensor's
};

/// A record and where it goes. The targets of one lane do not overlap and are in order of their
/// offsets; those of different lanes may overlap (a master weight and its 16-bit copies).
struct TakenRecord {
  std::string record;
  std::vector<std::vector<RecordTarget>> lanes;
};

/// Records of archives on their way into an engine, where they become contents all at once. Used by
/// one thread, in which every call may block.
class ArchiveIntake {
 public:
  static constexpr std::size_t kLanes = 2;

  /// `kind` moves the bytes of archives. Errors: IoQueue::start()'s; no memory.
  static Result<std::unique_ptr<ArchiveIntake>> open(SwapEngine& engine, EngineKind kind);

  /// Begins to read an archive; the one before has been read. Records without targets are only
  /// checked. Errors: RecordReader::open()'s; a record that the archive lacks; a target that does
  /// not lie within its record. A tensor is filled by targets of one lane, in its order, of one
  /// archive or of several.
  Result<void> begin(const std::string& path, std::vector<TakenRecord> records);
  /// Moves about 32 MiB on. Gives the bytes of this archive that were read so far; nothing when it
  /// has been read and every CRC-32 was right. Errors: of a read or a write; Fault::kCorrupt.
  Result<std::optional<std::uint64_t>> step();
  /// What this tensor takes from now on are floats, which are stored as `layout` says.
  void encode(TensorId tensor, std::shared_ptr<const MomentLayout> layout);
  /// The next elements of a tensor of this lane are 0; the archive before has been read. Errors:
  /// more than the tensor has; of a write.
  Result<void> pad(std::size_t lane, TensorId tensor, std::uint64_t elements);
  /// What was read becomes the contents of its tensors. Errors: a tensor is not full; of a write;
  /// then no tensor has changed.
  Result<void> publish();

 private:
  struct Lane {
    IntakeLane tensors;
    std::size_t next = 0;  // of the record's targets
  };

  explicit ArchiveIntake(SwapEngine& engine) : engine_(engine) {}
  Result<void> check(const TakenRecord& taken, const ZipRecord& record) const;
  Result<void> check(const RecordTarget& target, const ZipRecord& record) const;
  Result<void> give(const RecordReader::Part& part);

  SwapEngine& engine_;
  std::unique_ptr<IoQueue> queue_;
  MomentLayouts layouts_;
  std::vector<TakenRecord> records_;
  std::uint64_t read_bytes_ = 0;
  bool is_unreadable_ = false;  // the record, from some block on
  std::vector<Lane> lanes_;
  std::optional<RecordReader> reader_;
};

}  // namespace penstock::python
