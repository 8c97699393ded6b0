#include "cli/plan_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "alloc/bytes.h"
#include "alloc/counted.h"
#include "bindings/inventory/json_document.h"
#include "cli/printable.h"
#include "cli/text_wrap.h"

namespace penstock::cli {
namespace {

constexpr std::size_t kLinesMax = 24;
constexpr std::size_t kLabelWidth = 10;
constexpr std::size_t kClassesMax = 8;

// Lines under a label; a screen has only so many.
class Screen {
 public:
  explicit Screen(std::size_t width) : width_(width) {}

  void add(std::string_view label, const std::string& text) {
    text_ += wrapped(fmt::format("{:<{}}{}", label, kLabelWidth, text), width_,
                     label.empty() ? kLabelWidth + 2 : kLabelWidth);
  }
  // One line, whatever its length: scripts read the first.
  void add_line(const std::string& text) { text_ += text + "\n"; }
  // What there is no room for stands below.
  std::string text() const {
    std::size_t end = 0;
    for (std::size_t lines = 0; lines < kLinesMax && end < text_.size(); ++lines) {
      end = std::min(text_.find('\n', end), text_.size() - 1) + 1;
    }
    return text_.substr(0, end);
  }

 private:
  std::size_t width_;
  std::string text_;
};

std::string_view device_name(OffloadDevice device) {
  return device == OffloadDevice::kNvme  ? "on NVMe"
         : device == OffloadDevice::kCpu ? "in RAM"
                                         : "on the device";
}

std::string verdict_line(const SwapPlan& plan) {
  if (!plan.feasibility.feasible) {
    return "impossible: " + printable(plan.feasibility.reason);
  }
  const PlanWarning* const misfit = plan.misfit();
  return misfit == nullptr ? "fits" : "does not fit: " + printable(misfit->text);
}

void add_model(const SwapPlan& plan, Screen& screen) {
  const TrainingSetup& setup = plan.setup;
  std::uint64_t bytes = 0;
  std::uint64_t trained = 0;
  for (const TensorInfo& info : setup.inventory.tensors) {
    bytes += setup.rank_bytes(info);
    trained += setup.trains(info) ? info.elements() : 0;
  }
  const std::optional<DType> dtype = setup.model_dtype();
  screen.add("Model", fmt::format("{}, {} elements as {}, {} on a rank; {} trained",
                                  counted(setup.inventory.tensors.size(), "tensor"),
                                  setup.inventory.elements(),
                                  dtype ? dtype_name(*dtype) : std::string_view("listed"),
                                  format_bytes(bytes), trained));
  screen.add("Run",
             setup.has_config
                 ? fmt::format("{}, ZeRO stage {}, {}; parameters {}, optimizer {}",
                               counted(setup.world_size, "rank"), setup.stage,
                               optimizer_name(setup.optimizer), device_name(setup.param_device()),
                               device_name(setup.optimizer_device()))
                 : fmt::format("{}, no DeepSpeed configuration (--config): all of "
                               "it is to be swapped",
                               counted(setup.world_size, "rank")));
}

void add_buffers(const SwapPlan& plan, Screen& screen) {
  const Placement& placement = plan.placement;
  const std::uint64_t for_device = placement.budgets.device_bytes;
  std::string parts = placement.pinned_bytes == 0
                          ? ": nothing comes from a drive"
                          : fmt::format("; {} of them chunks for unaligned memory",
                                        format_bytes(placement.staging_bytes));
  if (for_device != 0) {
    parts += fmt::format("; {} for the way to the device", format_bytes(for_device));
  }
  screen.add("Pinned",
             fmt::format("{} of {} allowed{}", format_bytes(placement.pinned_bytes + for_device),
                         format_bytes(placement.budgets.written_pinned_bytes()), parts));
  if (placement.classes.empty()) {
    return;
  }
  std::string buffers;
  for (std::size_t i = 0; i < std::min(placement.classes.size(), kClassesMax); ++i) {
    const PlacedClass& placed = placement.classes[i];
    buffers += fmt::format("{}{} x {} ({})", i == 0 ? "" : ", ", placed.slots,
                           format_bytes(placed.slot_bytes), counted(placed.tensors, "tensor"));
  }
  if (placement.classes.size() > kClassesMax) {
    buffers += fmt::format(" and {} sizes more", placement.classes.size() - kClassesMax);
  }
  screen.add("Buffers", fmt::format("{}: {}", buffers, placement.classes.front().why));
}

struct Total {
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;
  void add(std::uint64_t more) {
    ++tensors;
    bytes += more;
  }
  std::string text() const {
    return fmt::format("{} ({})", format_bytes(bytes), counted(tensors, "tensor"));
  }
};

void add_places(const SwapPlan& plan, Screen& screen) {
  Total kept;
  Total swapped;
  const PlacedTensor* outlier = nullptr;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const PlacedTensor& placed = plan.placement.tensors[i];
    const bool is_ours = plan.tensors[i].swappable;
    if (is_ours && placed.place == Place::kRam) {
      kept.add(placed.bytes);
    } else if (is_ours && placed.place != Place::kDevice) {
      swapped.add(placed.bytes);
      const bool has_no_slot = placed.place != Place::kClass;
      outlier =
          has_no_slot && (outlier == nullptr || placed.bytes > outlier->bytes) ? &placed : outlier;
    }
  }
  screen.add("In RAM", fmt::format("{} of {} allowed", kept.text(),
                                   format_bytes(plan.placement.budgets.ram_bytes)));
  screen.add("On NVMe", swapped.text());
  if (outlier != nullptr) {
    screen.add("", fmt::format("{} ({}) is read {}: {}", excerpt(outlier->name),
                               format_bytes(outlier->bytes),
                               outlier->place == Place::kDedicated ? "into a buffer of its own"
                                                                   : "into pageable memory",
                               printable(plan.placement.why_of(*outlier))));
  }
}

void add_step(const SwapPlan& plan, Screen& screen) {
  const std::string time =
      plan.lower_bound_seconds
          ? fmt::format("{:.3g} s at least for the drives", *plan.lower_bound_seconds)
          : std::string("time not known without a measured drive (penstock tune)");
  screen.add("A step", fmt::format("reads {}, writes {}; {}", format_bytes(plan.traffic.read_bytes),
                                   format_bytes(plan.traffic.write_bytes), time));
}

void add_memory(const SwapPlan& plan, Screen& screen) {
  const std::uint64_t leased = bytes_of(plan.memory, Component::kBuffers, Storage::kRam);
  const std::uint64_t peak = plan.process.peak_bytes();
  const std::uint64_t most = plan.process.training_bytes();
  const std::string slow =
      most > peak ? fmt::format(" ({} on a slow drive)", format_bytes(most)) : std::string();
  screen.add(
      "Memory",
      fmt::format("{} of a process at its peak{}, {} of it held at once{}", format_bytes(peak),
                  slow, format_bytes(leased - plan.process.behind_bytes),
                  plan.setup.activation_bytes == 0 ? "; without activations (--activations)" : ""));
}

void add_stock(const SwapPlan& plan, Screen& screen) {
  const StockDeepSpeed& stock = plan.stock;
  if (!plan.setup.has_config) {
    return;
  }
  if (stock.error) {
    screen.add("Stock", fmt::format("DeepSpeed without penstock dies while it builds the model: {}",
                                    *stock.error));
  }
  const std::uint64_t pinned = stock.pinned_bytes.value_or(0) + stock.optimizer_pinned_bytes;
  screen.add(stock.error ? "" : "Stock",
             pinned == 0 ? std::string("DeepSpeed swaps nothing to NVMe with this file")
                         : fmt::format("DeepSpeed without penstock pins {}", format_bytes(pinned)));
}

}  // namespace

std::string plan_screen(const SwapPlan& plan, std::size_t width) {
  Screen screen(width);
  screen.add_line(verdict_line(plan));
  if (!plan.feasibility.feasible) {
    screen.add_line("What follows is the plan without that limit.");
  }
  add_model(plan, screen);
  add_buffers(plan, screen);
  add_places(plan, screen);
  add_step(plan, screen);
  add_memory(plan, screen);
  add_stock(plan, screen);
  if (!plan.warnings.empty()) {
    // What had to be assumed is of less weight than what is wrong.
    const auto found = std::ranges::find_if(
        plan.warnings, [](const PlanWarning& warning) { return warning.code != "assumed"; });
    const PlanWarning& shown = found == plan.warnings.end() ? plan.warnings.front() : *found;
    screen.add("Warnings",
               fmt::format("{}; one of them: {}", plan.warnings.size(), excerpt(shown.text)));
  }
  return screen.text();
}

}  // namespace penstock::cli
