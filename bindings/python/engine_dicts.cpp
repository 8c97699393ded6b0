#include "engine_dicts.h"

#include <nanobind/stl/string.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock::python {

namespace nb = nanobind;

nb::dict placement_dict(const Placement& placement) {
  nb::dict result;
  nb::list classes;
  for (const PlacedClass& entry : placement.classes) {
    nb::dict item;
    item["slot_bytes"] = entry.slot_bytes;
    item["slots"] = entry.slots;
    item["tensors"] = entry.tensors;
    item["waste_bytes"] = entry.waste_bytes;
    classes.append(item);
  }
  result["classes"] = classes;
  nb::list tensors;
  for (const PlacedTensor& tensor : placement.tensors) {
    nb::dict item;
    item["name"] = tensor.name;
    item["bytes"] = tensor.bytes;
    item["place"] = std::string(place_name(tensor.place));
    item["why"] = placement.why_of(tensor);
    tensors.append(item);
  }
  result["tensors"] = tensors;
  nb::dict places;
  for (const Place place :
       {Place::kClass, Place::kDedicated, Place::kRam, Place::kStream, Place::kDevice}) {
    std::size_t count = 0;
    for (const PlacedTensor& tensor : placement.tensors) {
      count += tensor.place == place ? 1 : 0;
    }
    places[nb::cast(std::string(place_name(place)))] = count;
  }
  result["places"] = places;
  result["pinned_bytes"] = placement.pinned_bytes;
  result["peak_live_bytes"] = placement.peak_live_bytes;
  result["ram_bytes"] = placement.ram_bytes;
  result["nvme_bytes"] = placement.nvme_bytes;
  result["max_pinned_bytes"] = placement.budgets.max_pinned_bytes;
  result["ram_limit_bytes"] = placement.budgets.ram_bytes;
  return result;
}

nb::dict stats_dict(const SwapStats& stats) {
  nb::dict result;
  const auto add = [&result](const char* key, std::uint64_t value) { result[key] = value; };
  add("read_bytes", stats.io.read_bytes);
  add("write_bytes", stats.io.write_bytes);
  add("tensor_read_bytes", stats.tensor_read_bytes);
  add("tensor_write_bytes", stats.tensor_write_bytes);
  add("padding_bytes", stats.padding_bytes);
  add("journal_bytes", stats.journal_bytes);
  add("publishes", stats.publishes);
  add("gets", stats.gets);
  add("resident_hits", stats.resident_hits);
  add("hits", stats.hits);
  add("late", stats.late);
  add("misses", stats.misses);
  add("predicted", stats.predicted);
  add("ahead_dropped", stats.ahead_dropped);
  add("stall_ns", stats.stall_ns);
  add("to_device_bytes", stats.to_device_bytes);
  add("from_device_bytes", stats.from_device_bytes);
  add("staging_bytes", stats.staging_bytes);
  add("commits", stats.commits);
  add("write_failures", stats.write_failures);
  add("resident_bytes", stats.resident_bytes);
  add("resident_bytes_max", stats.resident_bytes_max);
  add("lookahead_bytes", stats.lookahead_bytes);
  add("drive_bytes", stats.drive_bytes);
  add("pinned_bytes", stats.pool.pinned_bytes + stats.staging_bytes);
  add("pool_live_bytes", stats.pool.slot_bytes_live);
  add("pool_live_bytes_max", stats.pool.slot_bytes_live_max);
  add("overflow_bytes", stats.pool.overflow_bytes);
  add("overflow_bytes_max", stats.pool.overflow_bytes_max);
  add("pool_waits", stats.pool.waits);
  add("overflows", stats.pool.overflows);
  add("overflow_buffers", stats.overflow_buffers);
  add("overflow_ns", stats.overflow_ns);
  add("held_bytes_max", stats.held_bytes_max);
  add("held_overflow_bytes_max", stats.held_overflow_bytes_max);
  add("pinned_bytes_needed", stats.pinned_bytes_needed);
  add("io_requests", stats.io.requests);
  add("io_errors", stats.io.errors);
  return result;
}

nb::dict state_dict(const TensorState& state) {
  nb::dict result;
  result["name"] = state.name;
  result["bytes"] = state.bytes;
  result["place"] = std::string(place_name(state.place));
  result["generation"] = state.generation;
  result["in_memory"] = state.in_memory;
  result["resident"] = state.resident;
  result["on_drive"] = state.on_drive;
  result["writing"] = state.writing;
  return result;
}

}  // namespace penstock::python
