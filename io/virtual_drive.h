#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/file_system.h"
#include "io/io_op.h"

namespace penstock {

/// Scratch files in memory, for drives that are simulated at the size of a model: a block of 4 KiB
/// that repeats one 64-bit word takes 16 bytes here, any other block itself. So benchmarks, whose
/// contents are such words, different in every block, run over 15 GiB within a few hundred MiB, and
/// still every byte that was written comes back and can be compared.
///
/// Makes no faults and keeps no names: SimDisk does. One thread.
class VirtualDrive final : public FileSystem {
 public:
  /// Bytes of memory that contents take.
  std::uint64_t memory_bytes() const noexcept;

  /// One request: bytes moved or -errno. `memory`, `offset` in whole blocks; what was reserved and
  /// never written reads as zeros.
  std::int64_t transfer(IoKind kind, int fd, std::span<std::byte> memory, std::uint64_t offset);

  Result<File> create_scratch(const std::string& directory, DirectMode mode) override;
  Result<void> make_directories(const std::string& path) override;
  std::optional<std::uint64_t> free_bytes(const std::string& path) override;

  // What needs names is refused with ENOTSUP.
  Result<File> open(const std::string& path, File::Access access, DirectMode mode) override;
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override;

 protected:
  void close(int fd) noexcept override;
  int reserve(int fd, std::uint64_t offset, std::uint64_t bytes) override;
  int truncate(int fd, std::uint64_t bytes) override;
  std::int64_t size(int fd) override;
  std::int64_t names(int fd) override;
  int sync(int fd) override;
  int try_lock(int fd, File::Lock kind) override;
  int unlock(int fd) override;
  std::int64_t read(int fd, std::span<std::byte> target, std::uint64_t offset) override;
  std::int64_t write(int fd, std::span<const std::byte> source, std::uint64_t offset) override;

 private:
  using BlockBytes = std::array<std::byte, 4096>;
  struct Block {
    std::uint64_t word = 0;             // all of it, where there are no bytes
    std::unique_ptr<BlockBytes> bytes;  // what does not repeat a word
  };
  using Blocks = std::vector<Block>;

  void store(Block& block, std::span<const std::byte> source);
  static void load(const Block& block, std::span<std::byte> target);

  std::map<int, Blocks> files_;
  int next_fd_ = 1'000'000;  // no number that a real descriptor has
  std::uint64_t whole_blocks_ = 0;
};

}  // namespace penstock
