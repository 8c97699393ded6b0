#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"
#include "io/io_op.h"

namespace penstock {

/// What a simulated drive can do to one request.
enum class SimFault : std::uint8_t {
  kShort,            ///< moves fewer bytes than asked for
  kInterrupted,      ///< EINTR
  kAgain,            ///< EAGAIN
  kReadError,        ///< EIO
  kWriteError,       ///< EIO; what was to be written may be there, in part
  kBadRange,         ///< EIO, every time while set_bad_range() says so
  kNoSpace,          ///< ENOSPC: the drive is full
  kSyncError,        ///< EIO from a sync: nothing of it is safe
  kBitFlip,          ///< one bit of what is read comes over wrong
  kStaleRead,        ///< what a block held before it was last written
  kMisdirectedRead,  ///< what another block holds
  kPowerCut,         ///< everything stops; what was not synced survives in part
};
inline constexpr std::size_t kSimFaults = static_cast<std::size_t>(SimFault::kPowerCut) + 1;
std::string_view to_string(SimFault fault);

struct SimDiskOptions {
  std::uint64_t seed = 1;
  std::uint64_t capacity_bytes = std::numeric_limits<std::uint64_t>::max();
  /// Probability that one request meets this fault; kBadRange, kNoSpace and kPowerCut are set by
  /// their own functions.
  std::array<double, kSimFaults> rates{};
};

/// A drive with a file system on it, in memory: every fault that drives have, on purpose, in an
/// order that the seed decides. Writes lie in a cache until their file is synced, names until their
/// directory is; a power cut keeps any part of the cache, in sectors of 512 bytes.
///
/// Bytes move when a request completes, as SimEngine decides, so that memory that is given back or
/// changed too early shows. Thread-safe; the same seed and the same calls give the same answers.
class SimDisk final : public FileSystem {
 public:
  static constexpr std::uint64_t kBlockBytes = 4096;
  static constexpr std::uint64_t kSectorBytes = 512;

  explicit SimDisk(const SimDiskOptions& options);
  ~SimDisk() override;

  Result<File> create_scratch(const std::string& directory, DirectMode mode) override;
  Result<File> open(const std::string& path, File::Access access, DirectMode mode) override;
  Result<void> make_directories(const std::string& path) override;
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override;
  std::optional<std::uint64_t> free_bytes(const std::string& path) override;

  /// One request, faults included: bytes moved or -errno.
  std::int64_t transfer(IoKind kind, int fd, std::span<std::byte> memory, std::uint64_t offset);

  void set_rates(const std::array<double, kSimFaults>& rates);
  void set_capacity_bytes(std::uint64_t bytes);
  /// Requests within [begin, end) of any file fail with EIO from now on; an empty range: none.
  void set_bad_range(std::uint64_t begin, std::uint64_t end);

  /// From the `requests`-th request on nothing is done any more: all fail with EIO.
  void cut_power_after(std::uint64_t requests);
  bool power_is_cut() const;
  /// Decides what of the cache survived. All files must have been closed before.
  void restore_power();

  /// A number below `bound` (not 0) from the disk's own sequence.
  std::uint64_t random(std::uint64_t bound);
  std::array<std::uint64_t, kSimFaults> faults_made() const;
  std::uint64_t used_bytes() const;

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
  struct Node;
  struct Handle;
  struct NameChange;
  class SimDirectory;
  using Names = std::map<std::string, std::shared_ptr<Node>>;

  Result<std::vector<std::string>> list(const std::string& directory);
  Result<void> rename(const std::string& from, const std::string& to, bool is_new = false);
  Result<void> remove(const std::string& path);
  Result<void> sync_directory(const std::string& directory);
  bool rolls(SimFault fault);
  void count(SimFault fault) { ++made_[static_cast<std::size_t>(fault)]; }
  bool power_fails();
  std::shared_ptr<Node> find(const std::string& path) const;
  int parent_errno(const std::string& path) const;
  void change_name(const std::string& path, std::shared_ptr<Node> node);
  static void apply(const NameChange& change, Names& names);
  File hand_out(std::shared_ptr<Node> node, const std::string& path, DirectMode mode);
  Handle& handle(int fd);
  std::int64_t refuse(IoKind kind, std::uint64_t offset, std::uint64_t bytes);
  std::int64_t read_blocks(Node& node, std::span<std::byte> target, std::uint64_t offset);
  void copy_out(Node& node, std::span<std::byte> target, std::uint64_t offset);
  std::int64_t write_blocks(Node& node, std::span<const std::byte> source, std::uint64_t offset);
  int grow(Node& node, std::uint64_t bytes);
  void survive(Node& node);

  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::array<std::uint64_t, kSimFaults> thresholds_{};  // of a 64-bit number, by fault
  std::array<std::uint64_t, kSimFaults> made_{};
  std::uint64_t capacity_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t bad_begin_ = 0;
  std::uint64_t bad_end_ = 0;
  std::uint64_t requests_until_cut_ = std::numeric_limits<std::uint64_t>::max();
  bool power_cut_ = false;
  Names names_;                       // directories and files, by path
  Names durable_names_;               // as a power cut would leave them at least
  std::vector<NameChange> unsynced_;  // between the two, in order
  std::map<int, std::unique_ptr<Handle>> handles_;
  int next_fd_ = 1'000'000;  // no number that a real descriptor has
};

}  // namespace penstock
