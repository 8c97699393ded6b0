#include "io/throttled_engine.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "alloc/check.h"
#include "io/alarm_fd.h"
#include "io/event_fd.h"
#include "io/file.h"
#include "io/transfer_threads.h"

namespace penstock {
namespace {

class ThrottledEngine final : public IoEngine {
 public:
  ThrottledEngine(const DriveRates& rates, const IoEngineOptions& options,
                  std::unique_ptr<EventFd> event, std::unique_ptr<AlarmFd> alarm,
                  std::unique_ptr<TransferThreads> threads)
      : IoEngine(options),
        schedule_(rates),
        event_(std::move(event)),
        alarm_(std::move(alarm)),
        threads_(std::move(threads)),
        results_(options.depth),
        due_(options.depth) {}
  ~ThrottledEngine() override { drain(); }

  int completion_fd() const noexcept override { return alarm_->fd(); }
  std::string_view name() const noexcept override { return "throttled"; }

 protected:
  bool issue(Piece& piece) override {
    due_[(first_due_ + due_count_++) % due_.size()] = {
        schedule_.done_at(now_ns(), piece.op->kind, piece.bytes), piece.index};
    threads_->begin(
        {piece.op->file->fd(), piece.op->kind, piece.data, piece.offset, piece.bytes, piece.index});
    return true;
  }

  void kick() override {}  // each issue() has notified a thread

  /// In the order of issue, which is that of their times: what is moved and due.
  void collect(bool block) override {
    bool ended = false;
    do {
      if (block) {
        alarm_->wait();
      }
      event_->clear();
      for (const TransferThreads::Finished& one : threads_->take_finished()) {
        results_[one.tag] = one.result;
      }
      ended = end_due();
      watch_next();
    } while (block && !ended);
  }

 private:
  struct Due {
    std::uint64_t at_ns = 0;
    std::uint32_t piece_index = 0;
  };

  static std::uint64_t now_ns() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  }

  bool first_is_moved() const {
    return due_count_ > 0 && results_[due_[first_due_].piece_index].has_value();
  }

  bool end_due() {
    bool ended = false;
    const std::uint64_t now = now_ns();
    while (first_is_moved() && due_[first_due_].at_ns <= now) {
      const std::uint32_t index = due_[first_due_].piece_index;
      first_due_ = (first_due_ + 1) % due_.size();
      --due_count_;
      finish(index, *std::exchange(results_[index], std::nullopt));
      ended = true;
    }
    return ended;
  }

  /// Where the first is moved already, only its time is waited for.
  void watch_next() {
    if (first_is_moved()) {
      alarm_->set_ns(due_[first_due_].at_ns);
    } else {
      alarm_->clear();
    }
  }

  DriveSchedule schedule_;
  std::unique_ptr<EventFd> event_;  // outlives the threads, which write to it
  std::unique_ptr<AlarmFd> alarm_;
  std::unique_ptr<TransferThreads> threads_;
  std::vector<std::optional<std::int64_t>> results_;  // of what is moved and not yet due, by piece
  std::vector<Due> due_;                              // a ring, in the order of issue
  std::size_t first_due_ = 0;
  std::size_t due_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_throttled_engine(const DriveRates& rates,
                                                        const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  Result<std::unique_ptr<AlarmFd>> alarm = AlarmFd::make((*event)->fd());
  if (!alarm) {
    return alarm.error();
  }
  Result<std::unique_ptr<TransferThreads>> threads = TransferThreads::start(options.depth, **event);
  if (!threads) {
    return threads.error();
  }
  return std::unique_ptr<IoEngine>(std::make_unique<ThrottledEngine>(
      rates, options, std::move(*event), std::move(*alarm), std::move(*threads)));
}

}  // namespace penstock
