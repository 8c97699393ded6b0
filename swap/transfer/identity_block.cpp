#include "swap/transfer/identity_block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace penstock {
namespace {

struct Sealed {
  IdentityBlock fields;
  std::uint64_t seal;  // hash of the fields, so that half a block cannot pass for a whole one
};
static_assert(sizeof(Sealed) <= IdentityBlock::kBytes);
static_assert(std::is_trivially_copyable_v<Sealed>);

std::uint64_t seal_of(const IdentityBlock& fields) {
  return XXH3_64bits(&fields, sizeof(fields));
}

}  // namespace

void IdentityBlock::encode(std::span<std::byte> block) const {
  const Sealed sealed{*this, seal_of(*this)};
  std::memcpy(block.data(), &sealed, sizeof(sealed));
  std::fill(block.begin() + sizeof(sealed), block.end(), std::byte{0});
}

std::string IdentityBlock::difference(std::span<const std::byte> block) const {
  Sealed found{};
  std::memcpy(&found, block.data(), sizeof(found));
  if (found.fields.magic != kMagic || found.seal != seal_of(found.fields)) {
    return "no identity where one was written";
  }
  const auto differs = [](const char* what, std::uint64_t is, std::uint64_t expected) {
    return fmt::format("{} {} instead of {}", what, is, expected);
  };
  if (found.fields.store != store) {
    return "the bytes of another store";
  }
  if (found.fields.tensor != tensor) {
    return differs("tensor number", found.fields.tensor, tensor);
  }
  if (found.fields.generation != generation) {
    return differs("generation", found.fields.generation, generation);
  }
  if (found.fields.bytes != bytes) {
    return differs("length", found.fields.bytes, bytes);
  }
  return found.fields == *this ? "" : "another checksum than the one written";
}

}  // namespace penstock
