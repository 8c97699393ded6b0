#include "bindings/archive/store_verification.h"

#include <memory>
#include <utility>

#include "swap/transfer/stored_reader.h"

namespace penstock {

Result<VerifyReport> verify_store(const DurableStore& store, IoQueue& queue,
                                  const OnProgress& on_progress) {
  VerifyReport report;
  report.closed = store.was_closed();
  std::vector<StoredContent> readable;
  std::uint64_t total_bytes = 0;
  for (const CatalogEntry& entry : store.contents()) {
    ++report.tensors;
    ++report.by_level[entry.extent->identity.level];
    Result<void> there = store.check_readable(*entry.extent, entry.info.name);
    if (there.has_error()) {
      report.bad.push_back(std::move(there).error());
      continue;
    }
    total_bytes += entry.info.bytes();
    readable.push_back({entry.info.name, entry.extent, &store.file(*entry.extent)});
  }
  Result<std::unique_ptr<StoredReader>> reader = StoredReader::make(queue, std::move(readable));
  PENSTOCK_TRY(reader);
  while (std::optional<StoredReader::Part> part = (*reader)->next()) {
    report.bytes += part->bytes.size();
    if (part->problem) {
      report.bad.push_back(std::move(*part->problem));
    }
    if (on_progress) {
      on_progress(report.bytes, total_bytes);
    }
  }
  return report;
}

}  // namespace penstock
