#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <ostream>
#include <tuple>
#include <vector>

namespace penstock {

/// One random thing to do to what is tested; each test says what the kinds are.
/// Plain numbers, so that RapidCheck can shorten a failing row of them to the
/// few that matter.
struct Step {
  std::uint32_t kind = 0;
  std::uint64_t amount = 0;  ///< how much: bytes, as a rule
  std::uint64_t pick = 0;    ///< which of those that there are, modulo their number
};

inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << "{" << step.kind << ", " << step.amount << ", " << step.pick << "}";
}

/// Numbers up to `most`, small and large ones alike often.
inline rc::Gen<std::uint64_t> any_magnitude(std::uint64_t most) {
  return rc::gen::mapcat(rc::gen::inRange<std::uint32_t>(0, 64), [most](std::uint32_t bits) {
    const std::uint64_t limit = bits == 63 ? most : std::min(most, std::uint64_t{1} << bits);
    return rc::gen::inRange<std::uint64_t>(0, limit + 1);
  });
}

/// Rows of steps: `kinds` lists the kinds, those that shall come often several
/// times. Some four times as long as RapidCheck's containers are, which is a
/// hundred at most.
inline rc::Gen<std::vector<Step>> steps(std::vector<std::uint32_t> kinds,
                                        rc::Gen<std::uint64_t> amount) {
  auto step =
      rc::gen::map(rc::gen::tuple(rc::gen::elementOf(std::move(kinds)), std::move(amount),
                                  rc::gen::inRange<std::uint64_t>(0, 1 << 20)),
                   [](const std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>& parts) {
                     return Step{std::get<0>(parts), std::get<1>(parts), std::get<2>(parts)};
                   });
  return rc::gen::scale(4.0, rc::gen::container<std::vector<Step>>(std::move(step)));
}

}  // namespace penstock
