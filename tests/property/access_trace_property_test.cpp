#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <vector>

#include "swap/schedule/access_trace.h"

namespace penstock {
namespace {

using Key = AccessTrace::Key;

std::vector<Key> any_uses(Key keys) {
  return *rc::gen::scale(4.0, rc::gen::container<std::vector<Key>>(rc::gen::inRange<Key>(0, keys)));
}

RC_GTEST_PROP(AccessTraceProperty, PredictsOnlyWhatItHasSeen, ()) {
  AccessTrace trace;
  std::set<Key> seen;
  for (const Key key : any_uses(*rc::gen::inRange<Key>(1, 20))) {
    const std::optional<Key> expected = trace.upcoming(0);
    RC_ASSERT(trace.record(key) == (expected == key));
    seen.insert(key);
    RC_ASSERT(trace.upcoming(0).has_value() == (trace.horizon() > 0));
    for (std::size_t ahead = 0; ahead < 2 * trace.horizon(); ++ahead) {
      RC_ASSERT(seen.contains(trace.upcoming(ahead).value()));
    }
  }
}

RC_GTEST_PROP(AccessTraceProperty, RemembersNoMoreThanItMay, ()) {
  const std::size_t most = *rc::gen::inRange<std::size_t>(0, 64);
  AccessTrace trace(most);
  for (const Key key : any_uses(6)) {
    trace.record(key);
    RC_ASSERT(trace.size() <= std::max<std::size_t>(most, 16));
    RC_ASSERT(trace.horizon() <= trace.size());
  }
}

/// Whatever a step is, once it has come often enough it is known by heart; as long as no tensor is
/// used more often in it than the trace looks back.
RC_GTEST_PROP(AccessTraceProperty, LearnsEveryCycle, ()) {
  const auto step = *rc::gen::container<std::vector<Key>>(*rc::gen::inRange<std::size_t>(0, 60),
                                                          rc::gen::inRange<Key>(0, 40));
  AccessTrace trace;
  for (int round = 0; round < 6; ++round) {
    std::size_t predicted = 0;
    for (const Key key : step) {
      predicted += trace.record(key) ? 1U : 0U;
    }
    RC_ASSERT((round < 5 || predicted == step.size()));
  }
}

}  // namespace
}  // namespace penstock
