#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "alloc/region_source.h"
#include "io/sim_disk.h"
#include "swap/swap_engine.h"
#include "tests/sim/tensor_model.h"

namespace penstock {

struct SimulationOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 100'000;
};

/// What came of one run.
struct SimulationReport {
  std::string violation;  ///< the first promise that was broken; empty: none
  std::uint64_t operations = 0;
  std::uint64_t contents_checked = 0;
  std::uint64_t bytes_checked = 0;
  std::uint64_t errors_reported = 0;  ///< operations that ended with an error while faults were on
  std::array<std::uint64_t, kSimFaults> faults{};
  std::map<std::string, std::uint64_t> outcomes;  ///< operations by kind and end
};

/// The production engine over a simulated drive, driven by one random sequence, beside a model of
/// what every tensor must contain. Everything happens on the calling thread in an order that the
/// seed decides: the same seed is the same run. The first half has a scratch store; the second a
/// durable one, and the power may be cut at any request.
///
/// Checked: every content that is handed out is one that the model allows; a lease shows the same
/// content until it ends; with the faults gone every tensor can be read and is right; every
/// operation ends; after a power cut a durable store opens, and of every tensor it has what was
/// there at the last flush, or something newer, whole.
class SwapSimulation {
 public:
  explicit SwapSimulation(const SimulationOptions& options);
  ~SwapSimulation();
  SimulationReport run();

 private:
  static constexpr std::size_t kTensors = 20;

  struct Tensor {
    TensorId id{};
    std::uint64_t key = 0;  // of its content: never used again
    std::uint64_t bytes = 0;
    std::string name;
    std::set<std::string> names;  // that it has had since the last flush
    TensorModel model;
    std::uint32_t readers = 0;  // gets under way and leases out
    bool updating = false;      // a lease to change it is out
  };
  using TensorPtr = std::shared_ptr<Tensor>;
  struct Get {
    TensorPtr tensor;
    Ticket ticket;
    TensorModel::Versions allowed;
    std::shared_ptr<std::vector<std::byte>> target;  // of get_into; null: a lease is promised
    std::uint64_t target_offset = 0;
  };
  struct Put {
    TensorPtr tensor;
    Ticket ticket;
    TensorModel::Version version = 0;
    std::shared_ptr<std::vector<std::byte>> source;
    std::uint64_t source_offset = 0;
  };
  struct Held {
    TensorPtr tensor;
    Lease lease;
    TensorModel::Version version = 0;
  };
  struct Update {
    TensorPtr tensor;
    Lease lease;
    TensorModel::Version version = 0;  // half of it is there
    bool in_place = false;             // perhaps with no copy to go back to
  };

  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

  // How engines end, and what the next one finds (swap_simulation_restart.cpp).
  void restart();
  void begin_durable_half();
  void open_engine();
  void close_engine();
  void end_engine();
  bool open_store();
  bool resume();
  bool resume(const std::string& name, TensorId id, std::set<TensorPtr>& found);
  TensorPtr owner_of(std::span<const std::byte> bytes) const;
  void declare_tensor(std::size_t index);
  std::string free_name();

  void change_weather(bool silent_faults = true);
  void calm();

  void operate();
  void get();
  void get_into();
  void put();
  void begin_put(const TensorPtr& tensor);
  void commit();
  void begin_update();
  void end_update();
  void prefetch();
  void forget();
  void rename();
  void end_lease();
  Result<void> flush();
  void note_flushed();
  void verify_all();
  void verify(const Tensor& tensor);
  Result<Lease> read(TensorId tensor);
  void put_all();

  void settle();
  void finish_get(Get& get);
  void check_held(const Held& held);
  void begun(const TensorPtr& tensor, TensorModel::Version version);
  TensorPtr choose();
  std::shared_ptr<std::vector<std::byte>> memory_for(std::uint64_t bytes, std::uint64_t& offset);
  TensorModel::Version version_in(const Tensor& tensor, std::span<const std::byte> bytes,
                                  const TensorModel::Versions& allowed);
  void violate(const std::string& sentence);
  void count(const char* operation, const Result<void>& result);

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::unique_ptr<SimDisk> disk_;
  std::shared_ptr<RegionSource> memory_ = RegionSource::make().value();
  std::unique_ptr<SwapEngine> engine_;
  NamespaceId space_{};
  bool stormy_ = false;
  bool durable_ = false;
  std::uint64_t next_key_ = 1;
  std::size_t next_in_turn_ = 0;
  std::vector<TensorPtr> tensors_;
  std::vector<TensorPtr> forgotten_;  // since the last flush
  std::vector<Get> gets_;
  std::vector<Put> puts_;
  std::vector<Held> held_;
  std::vector<Update> updates_;
  SimulationReport report_;
};

}  // namespace penstock
