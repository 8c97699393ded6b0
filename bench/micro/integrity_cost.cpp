// What proving contents costs: CPU time a GB of tensors that are written to a drive and read again
// through SwapEngine, all threads of the process counted, set-up not. One line of JSON;
// bench/micro/store_cost.py runs the levels in turns.
//
//   integrity_cost DIRECTORY off|sampled|full [BYTES]
//
// BYTES (default 1 GiB) in tensors of 16 MiB, each written from a slot and read into one.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/measure/cpu_clock.h"
#include "bindings/deepspeed/config.h"
#include "swap/swap_engine.h"

namespace {

using namespace penstock;

constexpr std::uint64_t kTensorBytes = 16 * kMiB;

Result<IntegrityLevel> parse_level(const std::string& name) {
  const Result<Config> config =
      parse_config(fmt::format(R"({{"penstock": {{"integrity": "{}"}}}})", name), "the level");
  PENSTOCK_TRY(config);
  return config->penstock.integrity;
}

Result<std::unique_ptr<SwapEngine>> open_engine(IntegrityLevel level) {
  SwapEngineOptions options;
  options.config.integrity = level;
  Budgets budgets;
  budgets.max_pinned_bytes = 8 * kTensorBytes;
  budgets.max_pinned_given = true;
  budgets.ram_given = true;
  budgets.quarter_bytes = kGiB;
  options.budgets = budgets;
  return SwapEngine::open(std::move(options));
}

Result<void> write_all(SwapEngine& engine, std::span<const TensorId> tensors) {
  for (const TensorId tensor : tensors) {
    Result<Lease> lease = engine.allocate(tensor);
    PENSTOCK_TRY(lease);
    std::memset(lease->data(), static_cast<int>(to_number(tensor)), lease->bytes());
    PENSTOCK_TRY(engine.commit(*lease).wait());
  }
  return engine.flush();
}

Result<void> read_all(SwapEngine& engine, std::span<const TensorId> tensors) {
  for (const TensorId tensor : tensors) {
    PENSTOCK_TRY(engine.get(tensor).lease());
  }
  return {};
}

Result<std::string> measure(const std::string& directory, const std::string& level_name,
                            std::uint64_t bytes) {
  const Result<IntegrityLevel> level = parse_level(level_name);
  PENSTOCK_TRY(level);
  const Result<std::unique_ptr<SwapEngine>> engine = open_engine(*level);
  PENSTOCK_TRY(engine);
  const Result<NamespaceId> space = (*engine)->open_namespace("cost", {{directory, {}, {}}});
  PENSTOCK_TRY(space);
  std::vector<TensorId> tensors;
  for (std::uint64_t i = 0; i < bytes / kTensorBytes; ++i) {
    const Result<TensorId> tensor = (*engine)->declare(
        *space, {fmt::format("t{}", i), DType::kU8, {kTensorBytes}, Role::kParam});
    PENSTOCK_TRY(tensor);
    tensors.push_back(*tensor);
  }
  PENSTOCK_TRY((*engine)->plan());
  // Once unmeasured: the slots' pages and the file's space are there then.
  PENSTOCK_TRY(write_all(**engine, tensors));
  const double before = bench::process_cpu_time().seconds();
  PENSTOCK_TRY(write_all(**engine, tensors));
  const double written = bench::process_cpu_time().seconds();
  PENSTOCK_TRY(read_all(**engine, tensors));
  const double read = bench::process_cpu_time().seconds();
  const double gigabytes = static_cast<double>(tensors.size() * kTensorBytes) / 1e9;
  return fmt::format(R"({{"integrity": "{}", "gb": {:.3f}, "write_cpu_s_per_gb": {:.5f}, )"
                     R"("read_cpu_s_per_gb": {:.5f}}})",
                     level_name, gigabytes, (written - before) / gigabytes,
                     (read - written) / gigabytes);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 3 || argc > 4) {
      fmt::print(stderr, "usage: integrity_cost DIRECTORY off|sampled|full [BYTES]\n");
      return 2;
    }
    const std::uint64_t bytes = argc == 4 ? parse_bytes(argv[3]).value() : kGiB;
    if (bytes < kTensorBytes) {
      fmt::print(stderr, "integrity_cost: BYTES is at least {}\n", format_bytes(kTensorBytes));
      return 2;
    }
    fmt::print("{}\n", measure(argv[1], argv[2], bytes).value());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "integrity_cost: {}\n", error.what());
    return 1;
  }
}
