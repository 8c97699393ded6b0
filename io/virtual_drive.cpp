#include "io/virtual_drive.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"

namespace penstock {
namespace {

constexpr std::size_t kWordBytes = sizeof(std::uint64_t);

Error keeps_no_names(const std::string& path) {
  return system_error(ENOTSUP, "a simulated drive has scratch files only, without names", path);
}

std::uint64_t first_word(std::span<const std::byte> block) {
  std::uint64_t word = 0;
  std::memcpy(&word, block.data(), kWordBytes);
  return word;
}

// Every word equals the one before it.
bool repeats_a_word(std::span<const std::byte> block) {
  return std::memcmp(block.data(), block.data() + kWordBytes, block.size() - kWordBytes) == 0;
}

}  // namespace

std::uint64_t VirtualDrive::memory_bytes() const noexcept {
  std::uint64_t blocks = 0;
  for (const auto& [fd, file] : files_) {
    blocks += file.size();
  }
  return blocks * sizeof(Block) + whole_blocks_ * sizeof(BlockBytes);
}

void VirtualDrive::store(Block& block, std::span<const std::byte> source) {
  if (repeats_a_word(source)) {
    whole_blocks_ -= block.bytes ? 1U : 0U;
    block.bytes.reset();
    block.word = first_word(source);
    return;
  }
  if (!block.bytes) {
    block.bytes = std::make_unique<BlockBytes>();
    ++whole_blocks_;
  }
  std::memcpy(block.bytes->data(), source.data(), source.size());
}

void VirtualDrive::load(const Block& block, std::span<std::byte> target) {
  if (block.bytes) {
    std::memcpy(target.data(), block.bytes->data(), target.size());
    return;
  }
  for (std::size_t at = 0; at < target.size(); at += kWordBytes) {
    std::memcpy(target.data() + at, &block.word, kWordBytes);
  }
}

std::int64_t VirtualDrive::transfer(IoKind kind, int fd, std::span<std::byte> memory,
                                    std::uint64_t offset) {
  PENSTOCK_CHECK(is_aligned(offset, kBlockBytes) && is_aligned(memory.size(), kBlockBytes),
                 "{} bytes at {} are no whole blocks", memory.size(), offset);
  Blocks& blocks = files_.at(fd);
  const std::uint64_t first = offset / kBlockBytes;
  const std::uint64_t count = memory.size() / kBlockBytes;
  if (first + count > blocks.size()) {
    if (kind == IoKind::kRead) {
      return -ENODATA;
    }
    blocks.resize(first + count);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::span<std::byte> part = memory.subspan(i * kBlockBytes, kBlockBytes);
    if (kind == IoKind::kRead) {
      load(blocks[first + i], part);
    } else {
      store(blocks[first + i], part);
    }
  }
  return static_cast<std::int64_t>(memory.size());
}

Result<File> VirtualDrive::create_scratch(const std::string& directory, DirectMode mode) {
  DirectIo direct;
  direct.supported = mode != DirectMode::kBuffered;
  direct.memory_alignment = static_cast<std::uint32_t>(direct.supported ? kBlockBytes : 1);
  direct.offset_alignment = direct.memory_alignment;
  const int fd = next_fd_++;
  files_.try_emplace(fd);
  return make_file(*this, fd, directory, direct);
}

Result<void> VirtualDrive::make_directories(const std::string& /*path*/) {
  return {};
}
std::optional<std::uint64_t> VirtualDrive::free_bytes(const std::string& /*path*/) {
  return std::nullopt;
}

Result<File> VirtualDrive::open(const std::string& path, File::Access /*access*/,
                                DirectMode /*mode*/) {
  return keeps_no_names(path);
}
Result<std::unique_ptr<Directory>> VirtualDrive::open_directory(const std::string& path) {
  return keeps_no_names(path);
}

void VirtualDrive::close(int fd) noexcept {
  const auto file = files_.find(fd);
  for (const Block& block : file->second) {
    whole_blocks_ -= block.bytes ? 1U : 0U;
  }
  files_.erase(file);
}

int VirtualDrive::reserve(int fd, std::uint64_t offset, std::uint64_t bytes) {
  Blocks& blocks = files_.at(fd);
  blocks.resize(
      std::max<std::uint64_t>(blocks.size(), align_up(offset + bytes, kBlockBytes) / kBlockBytes));
  return 0;
}

int VirtualDrive::truncate(int fd, std::uint64_t bytes) {
  Blocks& blocks = files_.at(fd);
  const std::uint64_t count = align_up(bytes, kBlockBytes) / kBlockBytes;
  for (std::uint64_t i = count; i < blocks.size(); ++i) {
    whole_blocks_ -= blocks[i].bytes ? 1U : 0U;
  }
  blocks.resize(count);
  return 0;
}

std::int64_t VirtualDrive::size(int fd) {
  return static_cast<std::int64_t>(files_.at(fd).size() * kBlockBytes);
}
std::int64_t VirtualDrive::names(int /*fd*/) {
  return 1;
}
int VirtualDrive::sync(int /*fd*/) {
  return 0;
}
int VirtualDrive::try_lock(int /*fd*/, File::Lock /*kind*/) {
  return 0;  // held: there is no other process
}
int VirtualDrive::unlock(int /*fd*/) {
  return 0;
}
std::int64_t VirtualDrive::read(int fd, std::span<std::byte> target, std::uint64_t offset) {
  return transfer(IoKind::kRead, fd, target, offset);
}
std::int64_t VirtualDrive::write(int fd, std::span<const std::byte> source, std::uint64_t offset) {
  // Nothing is written through this pointer in that direction.
  return transfer(IoKind::kWrite, fd, {const_cast<std::byte*>(source.data()), source.size()},
                  offset);
}

}  // namespace penstock
