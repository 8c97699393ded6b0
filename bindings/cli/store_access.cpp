#include "bindings/cli/store_access.h"

#include "swap/plan/config.h"

namespace penstock::cli {

Result<std::unique_ptr<IoQueue>> start_queue() {
  const Result<Config> defaults = parse_config("{}", "defaults");
  if (defaults.has_error()) {
    return defaults.error();
  }
  return IoQueue::start(defaults->penstock.engine, IoEngineOptions());
}

Result<std::unique_ptr<DurableStore>> open_store(const std::string& directory,
                                                 DurableStoreOptions::Access access) {
  DurableStoreOptions options;
  options.directory = directory;
  options.access = access;
  return DurableStore::open(std::move(options));
}

}  // namespace penstock::cli
