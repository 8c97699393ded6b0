#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// What a drive can do wrong with a request.
enum class DriveFault : std::uint8_t {
  kError,    ///< fails with an errno
  kShort,    ///< moves a part, and says so
  kFlip,     ///< reads: one bit of every block is another
  kStale,    ///< reads: every block as it was before its last write
  kShifted,  ///< reads: the blocks behind the ones that were asked for
  kLost,     ///< writes: said to be done, and not done
  kTorn,     ///< writes: said to be done, and only the first half is
};

/// One rule: requests of one direction that touch [begin, end) of any file go
/// wrong.
struct DriveFaultRule {
  bool of_reads = true;
  DriveFault fault = DriveFault::kError;
  int error = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();

  bool touches(std::uint64_t offset, std::size_t bytes) const noexcept {
    return offset < end && offset + bytes > begin;
  }
};

/// The rules in force, as written to the drive, one a line:
/// `clear`, or `reads|writes WHAT [OFFSET BYTES]`, where WHAT is eio, enospc,
/// erofs, short, flip, stale, shifted, lost or torn. The first that matches a
/// request counts.
class DriveFaultRules {
 public:
  /// False where a line is none of these.
  bool obey(std::string_view lines);
  const DriveFaultRule* match(bool reading, std::uint64_t offset, std::size_t bytes) const;

 private:
  std::vector<DriveFaultRule> rules_;
};

/// A file in memory, in blocks, each with the content that it had before its
/// last write.
class FaultyFile {
 public:
  static constexpr std::size_t kBlockBytes = 4096;

  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  void resize(std::uint64_t bytes) { size_bytes_ = bytes; }
  /// Bytes moved, or -errno.
  int read(const DriveFaultRules& rules, char* target, std::size_t bytes, std::uint64_t offset);
  int write(const DriveFaultRules& rules, const char* source, std::size_t bytes,
            std::uint64_t offset);

 private:
  struct Block {
    std::array<char, kBlockBytes> now{};
    std::array<char, kBlockBytes> before{};
  };
  template <class Move>
  void each_block(std::uint64_t offset, std::size_t bytes, Move move);
  void copy_out(char* target, std::size_t bytes, std::uint64_t offset, bool stale);
  void copy_in(const char* source, std::size_t bytes, std::uint64_t offset);

  std::uint64_t size_bytes_ = 0;
  std::map<std::uint64_t, Block> blocks_;  // by number
};

}  // namespace penstock
