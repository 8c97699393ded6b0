#include "bench/workload/sync_engine.h"

#include <optional>

#include "io/file.h"
#include "io/transfer_threads.h"

namespace penstock::bench {
namespace {

class SyncEngine final : public IoEngine {
 public:
  explicit SyncEngine(const IoEngineOptions& options) : IoEngine(options) {}
  ~SyncEngine() override { drain(); }

  int completion_fd() const noexcept override { return -1; }
  std::string_view name() const noexcept override { return "psync"; }

 protected:
  bool issue(Piece& piece) override {
    waiting_ = piece.index;
    return true;
  }

  void kick() override {}

  void collect(bool block) override {
    if (!block || !waiting_) {
      return;
    }
    const std::uint32_t index = *waiting_;
    waiting_.reset();
    const Piece& it = piece(index);
    finish(index, TransferThreads::transfer(
                      {it.op->file->fd(), it.op->kind, it.data, it.offset, it.bytes, index}));
  }

 private:
  std::optional<std::uint32_t> waiting_;  // the depth is 1
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_sync_engine(std::uint32_t block_bytes) {
  const IoEngineOptions options{.block_bytes = block_bytes, .depth = 1};
  PENSTOCK_TRY(check_options(options));
  return std::unique_ptr<IoEngine>(std::make_unique<SyncEngine>(options));
}

}  // namespace penstock::bench
