#include "io/virtual_engine.h"

#include <deque>

#include "alloc/check.h"
#include "io/file.h"

namespace penstock {
namespace {

class VirtualEngine final : public IoEngine {
 public:
  VirtualEngine(VirtualClock& clock, VirtualDrive& drive, const DriveRates& rates,
                const IoEngineOptions& options)
      : IoEngine(options), clock_(clock), drive_(drive), schedule_(rates) {}
  ~VirtualEngine() override { drain(); }

  int completion_fd() const noexcept override { return -1; }
  std::string_view name() const noexcept override { return "sim"; }
  IoOp::TimePoint now() const noexcept override { return clock_.now(); }

 protected:
  bool issue(Piece& piece) override {
    due_.push_back({schedule_.done_at(clock_.now_ns(), piece.op->kind, piece.bytes), &piece});
    return true;
  }

  void kick() override {}

  void collect(bool block) override {
    PENSTOCK_CHECK(!block || !due_.empty(), "{} requests in flight and none due", in_flight());
    if (block) {
      clock_.jump_to(due_.front().at_ns);
    }
    while (!due_.empty() && due_.front().at_ns <= clock_.now_ns()) {
      const Piece& piece = *due_.front().piece;
      due_.pop_front();
      const std::int64_t moved = drive_.transfer(piece.op->kind, piece.op->file->fd(),
                                                 {piece.data, piece.bytes}, piece.offset);
      finish(piece.index, moved);
    }
  }

 private:
  struct Due {
    std::uint64_t at_ns;
    Piece* piece;
  };

  VirtualClock& clock_;
  VirtualDrive& drive_;
  DriveSchedule schedule_;
  std::deque<Due> due_;  // in the order of issue, which is that of their ends
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_virtual_engine(VirtualClock& clock, VirtualDrive& drive,
                                                      const DriveRates& rates,
                                                      const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  return std::unique_ptr<IoEngine>(std::make_unique<VirtualEngine>(clock, drive, rates, options));
}

}  // namespace penstock
