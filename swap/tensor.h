#pragma once

#include <cstdint>
#include <string>

#include "swap/plan/place.h"
#include "swap/schedule/tensor_id.h"

namespace penstock {

/// Names one store of tensors; two namespaces never see each other's tensors.
enum class NamespaceId : std::uint32_t {};

constexpr std::uint32_t to_number(NamespaceId id) noexcept {
  return static_cast<std::uint32_t>(id);
}

enum class Access : std::uint8_t {
  kRead,  ///< shared; the content stays what it is
  /// The holder changes the content, then commits it or drops the lease, which leaves the content
  /// as it was. Exception: a resident without a copy on a drive and without a reader has one copy
  /// only, and stays as the holder left it.
  kUpdate,
};

/// Where a tensor is at one moment.
struct TensorState {
  std::string name;
  std::uint64_t bytes = 0;
  Place place = Place::kClass;
  std::uint64_t generation = 0;  ///< counts contents; 0: none yet
  bool in_memory = false;        ///< a get() would not read
  bool resident = false;         ///< kept in RAM by plan
  bool on_drive = false;         ///< some generation is readable from a drive
  bool writing = false;          ///< a write of it is in flight
};

}  // namespace penstock
