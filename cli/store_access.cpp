#include "cli/store_access.h"

#include "bindings/deepspeed/config.h"

namespace penstock::cli {

Result<std::unique_ptr<IoQueue>> start_queue() {
  const Result<Config> defaults = parse_config("{}", "defaults");
  if (defaults.has_error()) {
    return defaults.error();
  }
  return IoQueue::start(defaults->penstock.engine, IoEngineOptions());
}

void add_store_options(CLI::App& verb, StoreChoice& choice) {
  verb.add_option("STORE", choice.directory, "The store's directory")->required();
  verb.add_option("--path", choice.paths,
                  "Another directory in which the store has contents; its manifest may come from "
                  "elsewhere, so only those named here are opened (repeatable)")
      ->type_name("DIR")
      ->allow_extra_args(false);
}

Result<std::unique_ptr<DurableStore>> open_store(const StoreChoice& choice,
                                                 DurableStoreOptions::Access access) {
  if (choice.directory.empty()) {
    return fault(Fault::kInvalidArgument, "the store's directory has no name");
  }
  DurableStoreOptions options;
  options.directory = choice.directory;
  options.access = access;
  options.trusted = choice.paths;
  return DurableStore::open(std::move(options));
}

}  // namespace penstock::cli
