#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock {

/// Elements of an optimizer's state in one tensor of an engine, where the step goes chunk by chunk:
/// 4 MiB of fp32, which a drive reads as fast as more, and of which a few fit any budget. A
/// multiple of kCutElements.
inline constexpr std::uint64_t kStateChunkElements = std::uint64_t{1} << 20;

/// Chunks behind the one that is stepped, all their states, that are announced to the engine: in
/// the first steps it does not know the order of use.
inline constexpr std::size_t kStateChunksAhead = 4;

}  // namespace penstock
