#include "io/sim_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "alloc/bytes.h"
#include "alloc/check.h"
#include "io/sim_disk_node.h"

namespace penstock {
namespace {

constexpr std::array<std::string_view, kSimFaults> kFaultNames = {
    "short",  "EINTR",    "EAGAIN",   "read EIO",   "write EIO",        "EIO on a range",
    "ENOSPC", "sync EIO", "bit flip", "stale read", "misdirected read", "power cut",
};

// Of a 64-bit random number: below it, the fault happens.
std::uint64_t threshold(double rate) {
  return rate >= 1.0 ? std::numeric_limits<std::uint64_t>::max()
                     : static_cast<std::uint64_t>(std::ldexp(rate, 64));
}

}  // namespace

std::string_view to_string(SimFault fault) {
  return kFaultNames[static_cast<std::size_t>(fault)];
}

SimDisk::SimDisk(const SimDiskOptions& options)
    : random_(options.seed), capacity_bytes_(options.capacity_bytes) {
  set_rates(options.rates);
}

SimDisk::~SimDisk() = default;

// --- What the driver says
// -------------------------------------------------------------------------

void SimDisk::set_rates(const std::array<double, kSimFaults>& rates) {
  const std::lock_guard lock(mutex_);
  std::ranges::transform(rates, thresholds_.begin(), threshold);
}

void SimDisk::set_capacity_bytes(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_bytes_ = bytes;
}

void SimDisk::set_bad_range(std::uint64_t begin, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  bad_begin_ = begin;
  bad_end_ = end;
}

void SimDisk::cut_power_after(std::uint64_t requests) {
  const std::lock_guard lock(mutex_);
  requests_until_cut_ = requests;
}

bool SimDisk::power_is_cut() const {
  const std::lock_guard lock(mutex_);
  return power_cut_;
}

void SimDisk::restore_power() {
  const std::lock_guard lock(mutex_);
  PENSTOCK_CHECK(handles_.empty(), "{} files are open across a power cut", handles_.size());
  requests_until_cut_ = std::numeric_limits<std::uint64_t>::max();
  power_cut_ = false;
  // A journal of names: what was not synced is there up to some point, in order.
  const std::uint64_t kept = random_() % (unsynced_.size() + 1);
  for (std::uint64_t i = 0; i < kept; ++i) {
    apply(unsynced_[i], durable_names_);
  }
  unsynced_.clear();
  names_ = durable_names_;
  for (const auto& [path, node] : names_) {
    survive(*node);
  }
}

void SimDisk::survive(Node& node) {
  constexpr Node::BlockBytes kZeros{};
  for (const std::size_t index : std::exchange(node.dirty, {})) {
    if (index >= node.blocks.size()) {
      continue;
    }
    Node::Block& block = node.blocks[index];
    const Node::BlockBytes& before = block.durable ? *block.durable : kZeros;
    for (std::uint64_t at = 0; at < kBlockBytes && block.dirty; at += kSectorBytes) {
      if (block.now && random_() % 2 == 0) {
        std::memcpy(block.now->data() + at, before.data() + at, kSectorBytes);
      }
    }
    block.durable.reset();
    block.older.reset();
    block.dirty = false;
  }
  if (random_() % 2 == 0) {
    node.size = node.durable_size;
  }
  node.durable_size = node.size;
}

std::uint64_t SimDisk::random(std::uint64_t bound) {
  const std::lock_guard lock(mutex_);
  return random_() % bound;
}

std::array<std::uint64_t, kSimFaults> SimDisk::faults_made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::uint64_t SimDisk::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

bool SimDisk::rolls(SimFault fault) {
  const std::uint64_t below = thresholds_[static_cast<std::size_t>(fault)];
  if (below == 0 || random_() >= below) {
    return false;
  }
  count(fault);
  return true;
}

bool SimDisk::power_fails() {
  if (!power_cut_ && requests_until_cut_-- == 0) {
    power_cut_ = true;
    count(SimFault::kPowerCut);
  }
  return power_cut_;
}

// --- Files
// ----------------------------------------------------------------------------------------

SimDisk::Handle& SimDisk::handle(int fd) {
  const auto found = handles_.find(fd);
  PENSTOCK_CHECK(found != handles_.end(), "file {} of the simulated drive is not open", fd);
  return *found->second;
}

void SimDisk::close(int fd) noexcept {
  const std::lock_guard lock(mutex_);
  handle(fd).node->locks.erase(fd);
  handles_.erase(fd);
}

int SimDisk::grow(Node& node, std::uint64_t bytes) {
  const std::uint64_t blocks = align_up(bytes, kBlockBytes) / kBlockBytes;
  if (blocks <= node.blocks.size()) {
    return 0;
  }
  const std::uint64_t more = (blocks - node.blocks.size()) * kBlockBytes;
  if (more > capacity_bytes_ || used_bytes_ > capacity_bytes_ - more) {
    count(SimFault::kNoSpace);
    return -ENOSPC;
  }
  used_bytes_ += more;
  node.blocks.resize(blocks);
  return 0;
}

int SimDisk::reserve(int fd, std::uint64_t offset, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (power_fails()) {
    return -EIO;
  }
  Node& node = *handle(fd).node;
  const int grown = grow(node, offset + bytes);
  if (grown == 0) {
    node.size = std::max(node.size, offset + bytes);
  }
  return grown;
}

int SimDisk::truncate(int fd, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (power_fails()) {
    return -EIO;
  }
  Node& node = *handle(fd).node;
  if (const int grown = grow(node, bytes); grown != 0) {
    return grown;
  }
  const std::uint64_t blocks = align_up(bytes, kBlockBytes) / kBlockBytes;
  used_bytes_ -= (node.blocks.size() - blocks) * kBlockBytes;
  node.blocks.resize(blocks);
  if (bytes < node.size && bytes % kBlockBytes != 0 && node.blocks.back().now) {
    std::fill(node.blocks.back().now->begin() + static_cast<std::ptrdiff_t>(bytes % kBlockBytes),
              node.blocks.back().now->end(), std::byte{0});
  }
  node.size = bytes;
  return 0;
}

std::int64_t SimDisk::size(int fd) {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(handle(fd).node->size);
}

std::int64_t SimDisk::names(int fd) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Node>& node = handle(fd).node;
  return std::ranges::count_if(names_, [&](const auto& name) { return name.second == node; });
}

int SimDisk::sync(int fd) {
  const std::lock_guard lock(mutex_);
  if (power_fails() || rolls(SimFault::kSyncError)) {
    return -EIO;
  }
  Node& node = *handle(fd).node;
  for (const std::size_t index : std::exchange(node.dirty, {})) {
    if (index < node.blocks.size()) {
      node.blocks[index].durable.reset();
      node.blocks[index].dirty = false;
    }
  }
  node.durable_size = node.size;
  return 0;
}

int SimDisk::try_lock(int fd, File::Lock kind) {
  const std::lock_guard lock(mutex_);
  std::map<int, File::Lock>& locks = handle(fd).node->locks;
  const bool shared = kind == File::Lock::kShared;
  const bool refused = std::ranges::any_of(locks, [&](const auto& held) {
    return held.first != fd && !(shared && held.second == File::Lock::kShared);
  });
  if (refused) {
    return -EWOULDBLOCK;
  }
  locks[fd] = kind;
  return 0;
}

int SimDisk::unlock(int fd) {
  const std::lock_guard lock(mutex_);
  handle(fd).node->locks.erase(fd);
  return 0;
}

std::int64_t SimDisk::read(int fd, std::span<std::byte> target, std::uint64_t offset) {
  return transfer(IoKind::kRead, fd, target, offset);
}

std::int64_t SimDisk::write(int fd, std::span<const std::byte> source, std::uint64_t offset) {
  // transfer() only reads from the memory of a write.
  return transfer(IoKind::kWrite, fd, {const_cast<std::byte*>(source.data()), source.size()},
                  offset);
}

// --- Requests
// -------------------------------------------------------------------------------------

std::int64_t SimDisk::transfer(IoKind kind, int fd, std::span<std::byte> memory,
                               std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  const Handle& open = handle(fd);
  const bool aligned = is_aligned(offset, kSectorBytes) &&
                       is_aligned(memory.size(), kSectorBytes) &&
                       is_aligned(memory.data(), kSectorBytes);
  if (open.direct && !aligned) {
    return -EINVAL;
  }
  if (const std::int64_t refused = refuse(kind, offset, memory.size()); refused != 0) {
    if (kind == IoKind::kWrite && refused == -EIO && !memory.empty()) {
      // After an error any part of the write may have reached the disk.
      (void)write_blocks(*open.node, memory.first(random_() % memory.size()), offset);
    }
    return refused;
  }
  if (memory.size() > 1 && rolls(SimFault::kShort)) {
    memory = memory.first(1 + random_() % (memory.size() - 1));
  }
  return kind == IoKind::kRead ? read_blocks(*open.node, memory, offset)
                               : write_blocks(*open.node, memory, offset);
}

std::int64_t SimDisk::refuse(IoKind kind, std::uint64_t offset, std::uint64_t bytes) {
  if (power_fails()) {
    return -EIO;
  }
  if (offset < bad_end_ && offset + bytes > bad_begin_) {
    count(SimFault::kBadRange);
    return -EIO;
  }
  if (rolls(SimFault::kInterrupted)) {
    return -EINTR;
  }
  if (rolls(SimFault::kAgain)) {
    return -EAGAIN;
  }
  return rolls(kind == IoKind::kRead ? SimFault::kReadError : SimFault::kWriteError) ? -EIO : 0;
}

std::int64_t SimDisk::read_blocks(Node& node, std::span<std::byte> target, std::uint64_t offset) {
  if (offset >= node.size) {
    return 0;
  }
  target = target.first(std::min<std::uint64_t>(target.size(), node.size - offset));
  copy_out(node, target, offset);
  if (target.empty()) {
    return 0;
  }
  const std::uint64_t place = random_() % target.size();
  if (rolls(SimFault::kBitFlip)) {
    target[place] ^= std::byte{1} << (random_() % 8);
  }
  const std::uint64_t index = (offset + place) / kBlockBytes;
  const std::uint64_t begin = std::max(offset, index * kBlockBytes);
  const std::uint64_t end = std::min(offset + target.size(), (index + 1) * kBlockBytes);
  const std::span<std::byte> block = target.subspan(begin - offset, end - begin);
  if (node.blocks[index].older && rolls(SimFault::kStaleRead)) {
    std::memcpy(block.data(), node.blocks[index].older->data() + begin % kBlockBytes, block.size());
  }
  if (node.blocks.size() > 1 && rolls(SimFault::kMisdirectedRead)) {
    const std::uint64_t other = random_() % node.blocks.size();
    copy_out(node, block, other * kBlockBytes + begin % kBlockBytes);
  }
  return static_cast<std::int64_t>(target.size());
}

void SimDisk::copy_out(Node& node, std::span<std::byte> target, std::uint64_t offset) {
  while (!target.empty()) {
    const std::uint64_t within = offset % kBlockBytes;
    const std::uint64_t bytes = std::min<std::uint64_t>(target.size(), kBlockBytes - within);
    const Node::Block& block = node.blocks[offset / kBlockBytes];
    if (block.now) {
      std::memcpy(target.data(), block.now->data() + within, bytes);
    } else {
      std::memset(target.data(), 0, bytes);
    }
    target = target.subspan(bytes);
    offset += bytes;
  }
}

std::int64_t SimDisk::write_blocks(Node& node, std::span<const std::byte> source,
                                   std::uint64_t offset) {
  if (const int grown = grow(node, offset + source.size()); grown != 0) {
    return grown;
  }
  node.size = std::max(node.size, offset + source.size());
  for (std::uint64_t done = 0; done < source.size();) {
    const std::uint64_t within = (offset + done) % kBlockBytes;
    const std::uint64_t bytes = std::min<std::uint64_t>(source.size() - done, kBlockBytes - within);
    const std::size_t index = (offset + done) / kBlockBytes;
    Node::Block& block = node.blocks[index];
    if (!block.now) {
      block.now = std::make_unique<Node::BlockBytes>();
    }
    block.older = std::make_unique<Node::BlockBytes>(*block.now);
    if (!block.dirty) {
      block.durable = std::make_unique<Node::BlockBytes>(*block.now);
      block.dirty = true;
      node.dirty.push_back(index);
    }
    std::memcpy(block.now->data() + within, source.data() + done, bytes);
    done += bytes;
  }
  return static_cast<std::int64_t>(source.size());
}

}  // namespace penstock
