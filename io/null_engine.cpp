#include "io/null_engine.h"

#include <utility>
#include <vector>

#include "io/event_fd.h"

namespace penstock {
namespace {

class NullEngine final : public IoEngine {
 public:
  NullEngine(const IoEngineOptions& options, std::unique_ptr<EventFd> event)
      : IoEngine(options), event_(std::move(event)) {
    issued_.reserve(options.depth);
    taken_.reserve(options.depth);
  }
  ~NullEngine() override { drain(); }

  int completion_fd() const noexcept override { return event_->fd(); }
  std::string_view name() const noexcept override { return "null"; }
  std::vector<std::string> features() const override { return {"moves_nothing"}; }

 protected:
  bool issue(Piece& piece) override {
    issued_.push_back({piece.index, piece.bytes});
    return true;
  }

  void kick() override { event_->notify(); }

  void collect(bool /*block*/) override {  // what is in flight is done
    event_->clear();
    taken_.swap(issued_);
    for (const Issued& one : taken_) {
      finish(one.piece_index, one.bytes);
    }
    taken_.clear();
  }

 private:
  struct Issued {
    std::uint32_t piece_index;
    std::uint32_t bytes;
  };

  std::unique_ptr<EventFd> event_;
  std::vector<Issued> issued_;
  std::vector<Issued> taken_;
};

}  // namespace

Result<std::unique_ptr<IoEngine>> make_null_engine(const IoEngineOptions& options) {
  PENSTOCK_TRY(check_options(options));
  Result<std::unique_ptr<EventFd>> event = EventFd::make();
  if (!event) {
    return event.error();
  }
  return std::unique_ptr<IoEngine>(std::make_unique<NullEngine>(options, std::move(*event)));
}

}  // namespace penstock
