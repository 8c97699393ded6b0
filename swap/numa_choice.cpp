#include "swap/numa_choice.h"

#include "swap/log.h"

namespace penstock {

NumaPreference choose_numa_node(std::optional<std::uint32_t> wanted) {
  // Milliseconds each time, and the machine stays the same.
  static const Result<std::shared_ptr<const NumaTopology>> topology = NumaTopology::read();
  if (topology.has_error()) {
    log_info(LogEvent::kFallback, [] { return topology.error().message; });
    return {};
  }
  if (wanted) {
    return {topology.value(), *wanted};
  }
  const NumaHome home = topology.value()->home();
  log_info(LogEvent::kNote, [&home] { return home.reason; });
  if (!home.node) {
    return {};
  }
  return {topology.value(), *home.node};
}

}  // namespace penstock
