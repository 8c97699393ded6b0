#include "io/sim_engine.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <vector>

#include "alloc/check.h"
#include "io/file.h"

namespace penstock {
namespace {

constexpr std::uint64_t kLatencyMax = 64;  // ticks of virtual time
constexpr std::uint64_t kNoRoomOneIn = 64;

class SimEngine final : public IoEngine {
 public:
  SimEngine(SimDisk& disk, const IoEngineOptions& options) : IoEngine(options), disk_(disk) {}
  ~SimEngine() override { drain(); }

  int completion_fd() const noexcept override { return -1; }
  std::string_view name() const noexcept override { return "sim"; }

 protected:
  bool issue(Piece& piece) override {
    if (in_flight() != 0 && disk_.random(kNoRoomOneIn) == 0) {
      return false;
    }
    due_.push({now_ + 1 + disk_.random(kLatencyMax), sequence_++, &piece});
    return true;
  }

  void kick() override {}

  void collect(bool block) override {
    PENSTOCK_CHECK(!block || !due_.empty(), "{} requests in flight and none due", in_flight());
    if (block) {
      now_ = std::max(now_, due_.top().time);
    }
    while (!due_.empty() && due_.top().time <= now_) {
      const Piece& piece = *due_.top().piece;
      due_.pop();
      const std::int64_t result = disk_.transfer(piece.op->kind, piece.op->file->fd(),
                                                 {piece.data, piece.bytes}, piece.offset);
      finish(piece.index, result);
    }
  }

 private:
  struct Due {
    std::uint64_t time;
    std::uint64_t sequence;  // of two at the same time the one that was issued first
    Piece* piece;
    bool operator>(const Due& other) const noexcept {
      return time != other.time ? time > other.time : sequence > other.sequence;
    }
  };

  SimDisk& disk_;
  std::uint64_t now_ = 0;
  std::uint64_t sequence_ = 0;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
};

}  // namespace

std::unique_ptr<IoEngine> make_sim_engine(SimDisk& disk, const IoEngineOptions& options) {
  const Result<void> valid = check_options(options);
  PENSTOCK_CHECK(valid.has_value(), "{}", valid.error().message);
  return std::make_unique<SimEngine>(disk, options);
}

}  // namespace penstock
