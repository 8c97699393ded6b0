#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace penstock {

inline std::size_t count_entries(const char* directory) {
  const std::filesystem::directory_iterator entries(directory);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Files, sockets and the like that this process has open.
inline std::size_t open_descriptors() {
  return count_entries("/proc/self/fd");
}

inline std::size_t thread_count() {
  return count_entries("/proc/self/task");
}

/// A thread that was joined is listed for a moment more: waits for that; false after a minute.
inline bool thread_count_becomes(std::size_t expected) {
  for (int tries = 0; tries < 60'000; ++tries) {
    if (thread_count() == expected) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// Memory that this process has in RAM.
inline std::uint64_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    if (std::uint64_t kib = 0; key == "VmRSS:" && status >> kib) {
      return kib * 1024;
    }
  }
  return 0;
}

}  // namespace penstock
