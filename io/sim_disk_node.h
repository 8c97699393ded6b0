#pragma once

// What a SimDisk is made of; for its own files only.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/sim_disk.h"

namespace penstock {

struct SimDisk::Node {
  using BlockBytes = std::array<std::byte, kBlockBytes>;
  struct Block {
    std::unique_ptr<BlockBytes> now;      // null: zeros
    std::unique_ptr<BlockBytes> durable;  // null: the same as `now`
    std::unique_ptr<BlockBytes> older;    // before the last write; null: never written
    bool dirty = false;                   // `durable` differs, or its zeros do
  };

  Node(bool is_directory, std::uint64_t* used) : directory(is_directory), used_bytes(used) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  ~Node() { *used_bytes -= blocks.size() * kBlockBytes; }

  const bool directory;
  std::uint64_t* const used_bytes;  // of the disk
  std::vector<Block> blocks;        // all the space that the file has
  std::vector<std::size_t> dirty;
  std::uint64_t size = 0;
  std::uint64_t durable_size = 0;
  std::map<int, File::Lock> locks;  // by descriptor: one exclusive, or any number of shared ones
};

struct SimDisk::Handle {
  std::shared_ptr<Node> node;
  bool direct = false;
};

// What became of some names at once; null: gone.
struct SimDisk::NameChange {
  std::string directory;
  std::vector<std::pair<std::string, std::shared_ptr<Node>>> entries;
};

/// One way to write a path: no slash at its end, none doubled.
std::string normal_path(const std::string& path);
std::string parent_path(const std::string& path);

}  // namespace penstock
