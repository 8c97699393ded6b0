#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alloc/numa_topology.h"
#include "cli/gpu_listing.h"
#include "cli/path_checkup.h"
#include "io/engine_probe.h"
#include "swap/device/device_runtime.h"
#include "swap/device/direct_storage.h"

namespace penstock::cli {

/// What `penstock doctor` has found. Gathered in doctor.cpp, printed as text or JSON here.
struct DoctorReport {
  std::string kernel;                          ///< release, and machine
  std::vector<EngineCandidate> engines;        ///< in the order of preference
  std::optional<std::uint64_t> memlock_bytes;  ///< nothing: no limit
  std::uint64_t mem_total_bytes = 0;
  std::uint64_t mem_available_bytes = 0;
  std::string transparent_huge_pages;     ///< always, madvise or never; empty: not known
  std::uint64_t huge_pages_reserved = 0;  ///< HugePages_Total, of huge_page_bytes each
  std::uint64_t huge_pages_free = 0;      ///< HugePages_Free
  std::uint64_t huge_page_bytes = 0;
  std::vector<NumaNode> numa;
  NumaHome numa_home;        ///< where this process's memory would lie
  std::string numa_problem;  ///< why it is not known
  std::vector<Gpu> gpus;
  std::vector<DeviceRuntime> device_runtimes;
  std::vector<DirectStorageFacts> direct_storage;  ///< one of each runtime
  std::vector<PathCheckup> paths;
  std::vector<std::string> uses;    ///< what penstock will use
  std::vector<std::string> advice;  ///< what to change

  /// Whether some engine works and every path that was given can serve.
  bool healthy() const noexcept;
  std::string json() const;  ///< one document, schema penstock.doctor/1
  std::string text() const;
};

}  // namespace penstock::cli
