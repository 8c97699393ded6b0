#pragma once

#include <cstdint>

namespace penstock {

/// Elements of an optimizer's state in one tensor of an engine, where the step goes chunk by chunk:
/// 4 MiB of fp32, which a drive reads as fast as more, and of which a few fit any budget. A
/// multiple of kAdamCutElements.
inline constexpr std::uint64_t kStateChunkElements = std::uint64_t{1} << 20;

}  // namespace penstock
