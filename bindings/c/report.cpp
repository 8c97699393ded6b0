// What an engine reports: the state of a tensor, counters, the plan.

#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "bindings/c/handles.h"
#include "bindings/c/last_error.h"
#include "bindings/c/sized_struct.h"

namespace penstock::c {
namespace {

using nlohmann::ordered_json;

// Ends of 0: the names are literals.
const char* static_name(Place place) {
  return place_name(place).data();
}

std::string placement_json(const Placement& placement) {
  ordered_json classes = ordered_json::array();
  for (const PlacedClass& placed : placement.classes) {
    classes.push_back({{"slot_bytes", placed.slot_bytes},
                       {"slots", placed.slots},
                       {"tensors", placed.tensors},
                       {"waste_bytes", placed.waste_bytes}});
  }
  ordered_json places = ordered_json::object();
  for (const Place place :
       {Place::kClass, Place::kDedicated, Place::kRam, Place::kStream, Place::kDevice}) {
    places[std::string(place_name(place))] = std::ranges::count(
        placement.tensors, place, [](const PlacedTensor& tensor) { return tensor.place; });
  }
  return ordered_json{{"schema", "penstock.placement/1"},
                      {"classes", std::move(classes)},
                      {"places", std::move(places)},
                      {"pinned_bytes", placement.pinned_bytes},
                      {"peak_live_bytes", placement.peak_live_bytes},
                      {"ram_bytes", placement.ram_bytes},
                      {"nvme_bytes", placement.nvme_bytes},
                      {"max_pinned_bytes", placement.budgets.max_pinned_bytes},
                      {"ram_limit_bytes", placement.budgets.ram_bytes}}
      .dump();
}

penstock_engine_stats to_struct(const SwapStats& stats) {
  return {
      .struct_size = sizeof(penstock_engine_stats),
      .read_bytes = stats.io.read_bytes,
      .write_bytes = stats.io.write_bytes,
      .io_requests = stats.io.requests,
      .io_errors = stats.io.errors,
      .tensor_read_bytes = stats.tensor_read_bytes,
      .tensor_write_bytes = stats.tensor_write_bytes,
      .gets = stats.gets,
      .resident_hits = stats.resident_hits,
      .hits = stats.hits,
      .late = stats.late,
      .misses = stats.misses,
      .predicted = stats.predicted,
      .ahead_dropped = stats.ahead_dropped,
      .stall_ns = stats.stall_ns,
      .commits = stats.commits,
      .write_failures = stats.write_failures,
      .resident_bytes = stats.resident_bytes,
      .resident_bytes_max = stats.resident_bytes_max,
      .lookahead_bytes = stats.lookahead_bytes,
      .drive_bytes = stats.drive_bytes,
      .pinned_bytes = stats.pool.pinned_bytes,
      .pool_live_bytes = stats.pool.slot_bytes_live,
      .pool_live_bytes_max = stats.pool.slot_bytes_live_max,
      .overflow_bytes = stats.pool.overflow_bytes,
      .overflow_bytes_max = stats.pool.overflow_bytes_max,
      .pool_waits = stats.pool.waits,
      .overflows = stats.pool.overflows,
      .overflow_buffers = stats.overflow_buffers,
      .overflow_ns = stats.overflow_ns,
      .held_bytes_max = stats.held_bytes_max,
      .held_overflow_bytes_max = stats.held_overflow_bytes_max,
  };
}

}  // namespace
}  // namespace penstock::c

using namespace penstock;
using namespace penstock::c;

int penstock_state(penstock_engine* engine, const char* name, penstock_tensor_state* state) {
  return guarded([&]() -> Result<void> {
    const Result<NamedTensor> tensor = find_tensor(engine, name);
    PENSTOCK_TRY(tensor);
    const Result<TensorState> now = tensor->engine->swap->state(tensor->id);
    PENSTOCK_TRY(now);
    const penstock_tensor_state ours{.struct_size = sizeof(penstock_tensor_state),
                                     .bytes = now->bytes,
                                     .generation = now->generation,
                                     .place = static_name(now->place),
                                     .in_memory = now->in_memory,
                                     .resident = now->resident,
                                     .on_drive = now->on_drive,
                                     .writing = now->writing};
    return write_struct(ours, state, "state");
  });
}

int penstock_stats(penstock_engine* engine, penstock_engine_stats* stats) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    return write_struct(to_struct((*open)->swap->stats()), stats, "stats");
  });
}

int penstock_plan_json(penstock_engine* engine, char* text, size_t capacity, size_t* length) {
  return guarded([&]() -> Result<void> {
    const Result<std::shared_ptr<OpenEngine>> open = engines().find(engine);
    PENSTOCK_TRY(open);
    if (capacity != 0) {
      PENSTOCK_TRY(required(text, "the place for the text"));
    }
    const std::string json = placement_json((*open)->swap->placement());
    if (length != nullptr) {
      *length = json.size();
    }
    if (text == nullptr) {
      return {};
    }
    if (capacity <= json.size()) {
      return fault(Fault::kWrongSize, fmt::format("the plan has {} bytes and a final 0, for which "
                                                  "there is room of {}",
                                                  json.size(), capacity));
    }
    std::memcpy(text, json.c_str(), json.size() + 1);
    return {};
  });
}
