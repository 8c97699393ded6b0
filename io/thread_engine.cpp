#include "io/thread_engine.h"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "io/event_fd.h"
#include "io/file.h"
#include "io/transfer_threads.h"

namespace penstock {
namespace {

class ThreadEngine final : public IoEngine {
 public:
  ThreadEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event,
               std::unique_ptr<TransferThreads> threads)
      : IoEngine(options), event_(std::move(event)), threads_(std::move(threads)) {}
  ~ThreadEngine() override { drain(); }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "threads"; }
  std::vector<std::string> features() const override {
    return {fmt::format("threads={}", threads_->count())};
  }

 protected:
  bool issue(Piece& piece) override {
    threads_->begin(
        {piece.op->file->fd(), piece.op->kind, piece.data, piece.offset, piece.bytes, piece.index});
    return true;
  }

  void kick() override {}  // each issue() has notified a thread

  void collect(bool block) override {
    std::span<const TransferThreads::Finished> finished;
    do {
      if (block) {
        event_->wait();
      }
      event_->clear();
      finished = threads_->take_finished();
    } while (block && finished.empty());
    for (const TransferThreads::Finished& one : finished) {
      finish(one.tag, one.result);
    }
  }

 private:
  std::unique_ptr<EventFd> event_;  // outlives the threads, which write to it
  std::unique_ptr<TransferThreads> threads_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_thread_engine(const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  Result<std::unique_ptr<TransferThreads>> threads = TransferThreads::start(options.depth, **event);
  if (!threads) {
    return threads.error();
  }
  return std::unique_ptr<IoEngine>(
      std::make_unique<ThreadEngine>(options, std::move(*event), std::move(*threads)));
}

}  // namespace penstock
