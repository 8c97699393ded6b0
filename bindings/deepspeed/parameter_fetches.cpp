#include "bindings/deepspeed/parameter_fetches.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "bindings/deepspeed/module_calls.h"

namespace penstock {
namespace {

// penstock ends DeepSpeed's look-ahead there: _LOOK_AHEAD_BYTES of its parameter swapper.
constexpr std::uint64_t kLookAheadBytes = 512U << 20U;
constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

// Small: once it is gathered it stays.
bool persists(const TrainingSetup& setup, std::size_t i) {
  return setup.inventory.tensors[i].elements() <=
         setup.config.deepspeed.stage3_param_persistence_threshold;
}

struct Parameter {
  std::uint64_t elements = 0;     // of the whole model
  std::uint64_t bytes = 0;        // of this rank's partition
  std::uint64_t drive_bytes = 0;  // of them, those that come from a drive
  bool is_swapped = false;
  bool persists = false;
  bool is_gathered = false;  // whole, ready for use
  bool is_in_memory = false;
  bool is_in_flight = false;      // gathered ahead, not waited for
  std::size_t fetched_until = 0;  // 1 + the last step for which it was fetched
  std::uint32_t fetches = 0;
};

// One pass of the coordinator over a step whose order it knows. Names follow DeepSpeed's.
class Coordinator {
 public:
  Coordinator(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
              const Placement& placement, std::vector<ModuleCall> modules)
      : config_(setup.config.deepspeed), modules_(std::move(modules)) {
    if (setup.generates) {  // each generation makes it forget the order
      config_.stage3_prefetch_bucket_size = 0;
      config_.stage3_max_reuse_distance = 0;
    }
    for (std::size_t i = 0; i < setup.inventory.tensors.size(); ++i) {
      const Place place = placement.tensors[i].place;
      Parameter parameter;
      parameter.elements = setup.inventory.tensors[i].elements();
      parameter.bytes = tensors[i].bytes;
      parameter.drive_bytes = is_on_drive(place) ? tensors[i].bytes : 0;
      parameter.is_swapped = tensors[i].swappable;
      parameter.persists = persists(setup, i);
      parameter.is_in_memory = !parameter.is_swapped;
      parameters_.push_back(parameter);
    }
    for (std::size_t step = 0; step < modules_.size(); ++step) {
      for (const std::size_t i : modules_[step].parameters) {
        if (parameters_[i].is_swapped) {
          swapped_uses_.push_back(uses_.size());
        }
        uses_.push_back({i, step});
      }
    }
    find_next_uses();
  }

  ParameterFetches run() {
    for (step_ = 0; step_ < modules_.size(); ++step_) {
      fetch();
      release();
    }
    ParameterFetches fetches;
    for (const Parameter& parameter : parameters_) {
      fetches.by_tensor.push_back(parameter.fetches);
    }
    fetches.held_bytes_max = held_bytes_max_;
    return fetches;
  }

 private:
  struct Use {
    std::size_t parameter;
    std::size_t step;
  };

  // elements_before_[s]: of all modules before step s, so that a distance is one subtraction.
  void find_next_uses() {
    std::vector<std::size_t> next(parameters_.size(), kNever);
    next_uses_.resize(modules_.size());
    for (std::size_t step = modules_.size(); step-- > 0;) {
      for (const std::size_t i : modules_[step].parameters) {
        next_uses_[step].push_back(next[i]);
        next[i] = step;
      }
    }
    elements_before_.push_back(0);
    for (const ModuleCall& module : modules_) {
      std::uint64_t elements = elements_before_.back();
      for (const std::size_t i : module.parameters) {
        elements += parameters_[i].elements;
      }
      elements_before_.push_back(elements);
    }
  }

  void swap_in(Parameter& parameter) {
    if (!parameter.is_in_memory) {
      parameter.is_in_memory = true;
      ++parameter.fetches;
      swapped_in_bytes_ += parameter.bytes;
      held_bytes_ += parameter.drive_bytes;
      held_bytes_max_ = std::max(held_bytes_max_, held_bytes_);
    }
  }

  void gather(Parameter& parameter) {
    if (!parameter.is_gathered) {
      swap_in(parameter);
      parameter.is_gathered = true;
      available_elements_ += parameter.elements;
    }
  }

  void fetch() {
    std::size_t unfetched = 0;
    for (const std::size_t i : modules_[step_].parameters) {
      gather(parameters_[i]);
      if (parameters_[i].is_in_flight) {
        parameters_[i].is_in_flight = false;
        in_flight_elements_ -= parameters_[i].elements;
      }
      unfetched += parameters_[i].fetched_until <= step_ ? 1U : 0U;
    }
    for (; unfetched > 0 && next_ < uses_.size(); --unfetched, ++next_) {
      parameters_[uses_[next_].parameter].fetched_until = uses_[next_].step + 1;
    }
    if (config_.stage3_prefetch_bucket_size > 0) {
      gather_ahead();
      swap_in_ahead();
    }
  }

  void gather_ahead() {
    const std::uint64_t live_max = config_.stage3_max_live_parameters;
    const std::uint64_t room = std::min(live_max - std::min(live_max, available_elements_),
                                        config_.stage3_prefetch_bucket_size);
    std::vector<std::size_t> ahead;
    std::uint64_t elements = 0;
    for (; next_ < uses_.size() && elements < room; ++next_) {
      const Use& use = uses_[next_];
      Parameter& parameter = parameters_[use.parameter];
      if (!parameter.is_in_memory) {
        break;  // swap_in_ahead() is for these
      }
      parameter.fetched_until = std::max(parameter.fetched_until, use.step + 1);
      if (!parameter.is_gathered && !parameter.is_in_flight) {
        parameter.is_in_flight = true;
        in_flight_elements_ += parameter.elements;
        elements += parameter.elements;
        ahead.push_back(use.parameter);
      }
    }
    for (const std::size_t i : ahead) {
      gather(parameters_[i]);
    }
  }

  void swap_in_ahead() {
    if (swapped_in_bytes_ >= kLookAheadBytes) {
      return;
    }
    const std::uint64_t buffers = config_.offload_param->buffer_count;
    std::uint64_t considered = 0;
    std::uint64_t asked = 0;
    while (next_swapped_ < swapped_uses_.size() && swapped_uses_[next_swapped_] < next_) {
      ++next_swapped_;
    }
    for (std::size_t k = next_swapped_; k < swapped_uses_.size(); ++k) {
      Parameter& parameter = parameters_[uses_[swapped_uses_[k]].parameter];
      if (considered > 2 * in_flight_elements_ || asked >= std::max<std::uint64_t>(buffers, 1)) {
        break;
      }
      asked += parameter.is_in_memory ? 0U : 1U;
      considered += parameter.elements;
      swap_in(parameter);
    }
  }

  // After the module; the step that follows has begun already.
  void release() {
    if (modules_[step_].is_left_open) {
      return;
    }
    const std::size_t now = step_ + 1;
    for (std::size_t k = 0; k < modules_[step_].parameters.size(); ++k) {
      Parameter& parameter = parameters_[modules_[step_].parameters[k]];
      const std::size_t next = next_uses_[step_][k];
      const bool is_near = next != kNever && elements_before_[next] - elements_before_[now] <
                                                 config_.stage3_max_reuse_distance;
      const bool is_skipped_ahead = parameter.fetched_until > now + 1;
      if (parameter.persists || is_near || is_skipped_ahead || parameter.is_in_flight) {
        continue;
      }
      parameter.is_gathered = false;
      available_elements_ -= parameter.elements;
      if (parameter.is_swapped) {
        parameter.is_in_memory = false;
        swapped_in_bytes_ -= parameter.bytes;
        held_bytes_ -= parameter.drive_bytes;
      }
    }
  }

  DeepSpeedConfig config_;
  std::vector<ModuleCall> modules_;  // of the step, forward and backward
  std::vector<std::vector<std::size_t>> next_uses_;
  std::vector<std::uint64_t> elements_before_;
  std::vector<Parameter> parameters_;
  std::vector<Use> uses_;                  // in order; those before next_ are fetched
  std::vector<std::size_t> swapped_uses_;  // of them, those of swapped parameters
  std::size_t next_ = 0;
  std::size_t next_swapped_ = 0;
  std::size_t step_ = 0;
  std::uint64_t available_elements_ = 0;
  std::uint64_t in_flight_elements_ = 0;
  std::uint64_t swapped_in_bytes_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t held_bytes_max_ = 0;
};

// The runtime gathers every parameter once, and holds them all.
void add_generation(const std::vector<PlanTensor>& tensors, const Placement& placement,
                    ParameterFetches& fetches) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < fetches.by_tensor.size(); ++i) {
    const Place place = placement.tensors[i].place;
    if (fetches.by_tensor[i] > 0) {
      ++fetches.by_tensor[i];
      all += is_on_drive(place) ? tensors[i].bytes : 0;
    }
  }
  fetches.held_bytes_max = std::max(fetches.held_bytes_max, all);
}

// What the coordinator has nothing to do with is read as often as its role says.
void add_others(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                ParameterFetches& fetches) {
  for (std::size_t i = 0; i < fetches.by_tensor.size(); ++i) {
    if (setup.inventory.tensors[i].role != Role::kParam || !tensors[i].swappable) {
      fetches.by_tensor[i] = tensors[i].reads_per_step;
    }
  }
}

}  // namespace

ParameterFetches expect_fetches(const TrainingSetup& setup, const std::vector<PlanTensor>& tensors,
                                const Placement& placement) {
  ParameterFetches fetches;
  for (std::size_t i = 0; i < setup.inventory.tensors.size(); ++i) {
    fetches.by_tensor.push_back(tensors[i].reads_per_step);
  }
  if (!setup.has_config || setup.param_device() != OffloadDevice::kNvme) {
    return fetches;
  }
  if (setup.trained_is_given || !setup.config.deepspeed.optimizer_type.empty()) {
    fetches = Coordinator(setup, tensors, placement, module_calls(setup)).run();
  }
  for (std::size_t i = 0; i < fetches.by_tensor.size(); ++i) {
    // What persists stays gathered from one pass to the next.
    fetches.by_tensor[i] *= persists(setup, i) ? 1U : setup.passes_per_step();
  }
  if (setup.generates) {
    add_generation(tensors, placement, fetches);
  }
  add_others(setup, tensors, fetches);
  return fetches;
}

}  // namespace penstock
