#include "moment_layout_object.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "array_argument.h"
#include "error_translation.h"
#include "gil_release.h"
#include "swap/update/moment_layout.h"
#include "swap/update/stretch.h"

namespace nb = nanobind;

namespace penstock::python {
namespace {

using Layout = std::shared_ptr<MomentLayout>;
/// Elements, format, and how many of the last ones are no parameter's.
using SegmentTuple = std::tuple<std::uint64_t, std::string, std::uint64_t>;

StateFormat parse_state_format(const std::string& text) {
  const auto found = std::ranges::find(kStateFormatNames, text);
  if (found == kStateFormatNames.end()) {
    raise(fault(Fault::kInvalidArgument, "'" + text + "' is no format of states"));
  }
  return static_cast<StateFormat>(found - kStateFormatNames.begin());
}

std::string state_format(const std::string& narrow, const std::vector<std::string>& fp32_patterns,
                         const std::string& parameter, std::uint64_t elements) {
  const StateFormats formats{parse_state_format(narrow), fp32_patterns};
  return std::string(state_format_name(formats.of(parameter, elements)));
}

/// Of a moment's elements, each a run or a part of one. 2^38 elements have so many, more than a
/// sub-group has; without an end a caller's mistake would take all memory.
constexpr std::uint64_t kPiecesMax = std::uint64_t{1} << 26;

void check_segments(const std::vector<SegmentTuple>& segments, std::uint64_t piece_elements) {
  std::uint64_t pieces = 0;
  for (const auto& [elements, format, padding] : segments) {
    if (padding > elements) {
      raise(fault(Fault::kInvalidArgument, "a segment has more padding than elements"));
    }
    const std::uint64_t whole = elements / piece_elements;
    if (whole >= kPiecesMax - pieces) {
      raise(fault(Fault::kInvalidArgument, "segments with " + std::to_string(elements) +
                                               " elements cannot be cut: at most " +
                                               std::to_string(kPiecesMax) + " pieces of " +
                                               std::to_string(piece_elements) + " can"));
    }
    pieces += whole + 1;
  }
}

std::vector<Layout> cut(const std::string& moment, const std::vector<SegmentTuple>& segments,
                        std::uint64_t chunk_elements) {
  chunk_elements = std::max<std::uint64_t>(chunk_elements, 1);
  check_segments(segments, std::min<std::uint64_t>(chunk_elements, kRunElements));
  std::vector<StateSegment> parsed;
  for (const auto& [elements, format, padding] : segments) {
    parsed.push_back({elements, parse_state_format(format), padding});
  }
  const Moment which = moment == "exp_avg_sq" ? Moment::kSecond : Moment::kFirst;
  std::vector<Layout> layouts;
  for (const std::vector<StateSegment>& chunk : cut_segments(parsed, chunk_elements)) {
    const bool is_fp32 = chunk.size() == 1 && chunk[0].format == StateFormat::kF32;
    layouts.push_back(is_fp32 ? nullptr : std::make_shared<MomentLayout>(which, chunk));
  }
  return layouts;
}

void check(const MomentLayout& layout, std::size_t bytes, std::size_t elements, bool is_float) {
  if (bytes != layout.bytes() || elements != layout.elements() || !is_float) {
    raise(fault(Fault::kWrongSize, std::to_string(layout.elements()) + " elements of float32 and " +
                                       std::to_string(layout.bytes()) + " bytes are expected"));
  }
}

void decode(const MomentLayout& layout, nb::handle bytes, nb::handle values) {
  const Source from = array_of<Source>(bytes);
  const Target to = array_of<Target>(values);
  check(layout, from.nbytes(), to.size(), to.dtype() == nb::dtype<float>());
  const GilRelease release;
  layout.decode({static_cast<const std::byte*>(from.data()), from.nbytes()},
                {static_cast<float*>(to.data()), to.size()});
}

void encode(const MomentLayout& layout, nb::handle values, nb::handle bytes) {
  const Source from = array_of<Source>(values);
  const Target to = array_of<Target>(bytes);
  check(layout, to.nbytes(), from.size(), from.dtype() == nb::dtype<float>());
  const GilRelease release;
  layout.encode({static_cast<const float*>(from.data()), from.size()},
                {static_cast<std::byte*>(to.data()), to.nbytes()});
}

}  // namespace

void bind_moment_layout(nb::module_& module) {
  nb::class_<MomentLayout>(module, "MomentLayout", "How a chunk of a moment lies in bytes.")
      .def_static("cut", &cut, nb::arg("moment"), nb::arg("segments"), nb::arg("chunk_elements"))
      .def_prop_ro("elements", &MomentLayout::elements)
      .def_prop_ro("nbytes", &MomentLayout::bytes)
      .def("decode", &decode, nb::arg("bytes"), nb::arg("values"))
      .def("encode", &encode, nb::arg("values"), nb::arg("bytes"));
  module.def("state_format", &state_format, nb::arg("narrow"), nb::arg("fp32_patterns"),
             nb::arg("parameter"), nb::arg("elements"));
}

}  // namespace penstock::python
