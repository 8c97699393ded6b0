#include "cli/gpu_listing.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void judge(Gpu& gpu, const std::string& device_file) {
  gpu.usable = ::access(device_file.c_str(), R_OK | W_OK) == 0;
  if (!gpu.usable) {
    gpu.reason = fmt::format("cannot open {}: {}", device_file, std::strerror(errno));
  }
}

// `Model: \t\t NVIDIA H100` in /proc/driver/nvidia/gpus/<address>/information, with the minor
// number of its device file.
Gpu read_nvidia(const fs::path& information) {
  Gpu gpu{"NVIDIA", "nvidia", false, {}};
  std::string minor = "0";
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    const std::size_t value =
        colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (value == std::string::npos) {
      continue;
    }
    if (line.starts_with("Model")) {
      gpu.name = line.substr(value);
    } else if (line.starts_with("Device Minor")) {
      minor = line.substr(value);
    }
  }
  judge(gpu, "/dev/nvidia" + minor);
  return gpu;
}

// Containers often have the device files without the driver's /proc entries.
void list_nvidia(std::vector<Gpu>& gpus) {
  std::error_code error;
  for (fs::directory_iterator at("/proc/driver/nvidia/gpus", error), end; !error && at != end;
       at.increment(error)) {
    gpus.push_back(read_nvidia(at->path() / "information"));
  }
  for (int minor = 0; gpus.empty() && minor < 64; ++minor) {
    const std::string file = fmt::format("/dev/nvidia{}", minor);
    if (fs::exists(file, error)) {
      Gpu gpu{fmt::format("NVIDIA number {}", minor), "nvidia", false, {}};
      judge(gpu, file);
      gpus.push_back(std::move(gpu));
      return;
    }
  }
}

// AMD and Intel: a card of the kernel's graphics layer; NVIDIA's own driver does not make one
// always.
void list_cards(std::vector<Gpu>& gpus) {
  const bool has_nvidia = !gpus.empty();
  std::error_code error;
  for (fs::directory_iterator at("/sys/class/drm", error), end; !error && at != end;
       at.increment(error)) {
    const std::string card = at->path().filename().string();
    if (!card.starts_with("card") || card.find('-') != std::string::npos) {
      continue;  // connectors are card0-HDMI-A-1
    }
    const std::string vendor = first_line(at->path() / "device/vendor");
    const std::string maker = vendor == "0x1002"   ? "AMD"
                              : vendor == "0x8086" ? "Intel"
                              : vendor == "0x10de" ? "NVIDIA"
                                                   : "";
    if (maker.empty() || (maker == "NVIDIA" && has_nvidia)) {
      continue;  // display adapters of servers and virtual machines compute nothing
    }
    std::error_code no_driver;
    Gpu gpu{fmt::format("{} {}", maker, first_line(at->path() / "device/device")),
            fs::read_symlink(at->path() / "device/driver", no_driver).filename().string(),
            false,
            {}};
    judge(gpu, maker == "AMD" ? "/dev/kfd" : "/dev/dri/" + card);
    gpus.push_back(std::move(gpu));
  }
}

}  // namespace

std::vector<Gpu> list_gpus() {
  std::vector<Gpu> gpus;
  list_nvidia(gpus);
  list_cards(gpus);
  return gpus;
}

}  // namespace penstock::cli
