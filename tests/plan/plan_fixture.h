#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "alloc/bytes.h"
#include "bindings/inventory/inventory_file.h"
#include "swap/plan/inventory.h"
#include "swap/plan/placement.h"

namespace penstock::test {

/// A file of bench/data.
inline std::string data_path(const std::string& name) {
  return std::string(PENSTOCK_DATA_DIR) + "/" + name;
}

inline Inventory data_inventory(const std::string& name) {
  return load_inventory(data_path("inventories/" + name + ".json")).value();
}

/// The number at the end of "the smallest value that works is N"; fails the test if there is none.
inline std::uint64_t smallest_value(const std::string& reason) {
  constexpr std::string_view kPhrase = "the smallest value that works is ";
  const std::size_t at = reason.find(kPhrase);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no smallest value in: " << reason;
    return 0;
  }
  return std::stoull(reason.substr(at + kPhrase.size()));
}

/// What must hold of every placement, whatever was asked.
inline void expect_sound(const std::vector<PlanTensor>& tensors, const Placement& placement) {
  ASSERT_EQ(tensors.size(), placement.tensors.size());
  EXPECT_LE(placement.pinned_bytes, placement.budgets.max_pinned_bytes);
  EXPECT_LE(placement.ram_bytes, placement.budgets.ram_bytes);
  EXPECT_LE(static_cast<double>(placement.pinned_bytes),
            1.02 * static_cast<double>(placement.peak_live_bytes));
  EXPECT_LE(placement.peak_live_bytes, placement.pinned_bytes);
  std::uint64_t ram = 0;
  std::uint64_t nvme = 0;
  std::uint64_t pinned = placement.staging_bytes;
  std::vector<std::uint32_t> members(placement.classes.size(), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const PlacedTensor& fate = placement.tensors[i];
    EXPECT_FALSE(placement.why_of(fate).empty()) << tensors[i].name;
    EXPECT_EQ(fate.place == Place::kClass, fate.class_index.has_value());
    if (fate.class_index) {
      ASSERT_LT(*fate.class_index, placement.classes.size());
      EXPECT_GE(placement.classes[*fate.class_index].slot_bytes, tensors[i].bytes);
      ++members[*fate.class_index];
    }
    if (fate.place == Place::kRam && tensors[i].swappable) {
      ram += tensors[i].bytes;
    } else if (fate.place != Place::kRam && fate.place != Place::kDevice) {
      nvme += align_up(tensors[i].bytes, kBlockBytes);
    }
    if (fate.place == Place::kDedicated) {
      pinned += align_up(tensors[i].bytes, kBlockBytes);
    }
  }
  EXPECT_EQ(ram, placement.ram_bytes);
  EXPECT_EQ(nvme, placement.nvme_bytes);
  for (std::size_t c = 0; c < placement.classes.size(); ++c) {
    const PlacedClass& group = placement.classes[c];
    EXPECT_EQ(group.tensors, members[c]);
    EXPECT_GE(group.slots, 1U);
    EXPECT_LE(group.slots, group.tensors);
    EXPECT_TRUE(is_aligned(group.slot_bytes, kBlockBytes));
    EXPECT_LE(group.waste_bytes, group.slot_bytes * group.slots);
    pinned += group.slot_bytes * group.slots;
    if (c > 0) {
      EXPECT_LE(placement.classes[c - 1].slot_bytes, group.slot_bytes);
    }
  }
  EXPECT_EQ(pinned, placement.pinned_bytes);
}

/// A directory of this test alone, gone with the object.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "penstock-plan-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  std::string path(const std::string& name = {}) const { return (path_ / name).string(); }
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

/// A safetensors file: the length of `header`, the header, `data_bytes` zeros.
inline std::string safetensors_bytes(std::string_view header, std::uint64_t data_bytes) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8) {
    bytes += static_cast<char>(header.size() >> shift & 0xff);
  }
  bytes += header;
  bytes.append(data_bytes, '\0');
  return bytes;
}

}  // namespace penstock::test
