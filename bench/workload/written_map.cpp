#include "bench/workload/written_map.h"

#include <algorithm>
#include <numeric>

namespace penstock::bench {

WrittenMap::WrittenMap(const Job& job, std::span<const FileRegion> regions) : step_bytes_(0) {
  std::uint64_t largest = 0;
  for (const BlockShare& block : RequestSource::blocks_of(job, IoKind::kWrite)) {
    step_bytes_ = std::gcd(step_bytes_, block.bytes);
    largest = std::max(largest, block.bytes);
  }
  steps_a_read_ = largest / step_bytes_;
  for (const FileRegion& region : regions) {
    files_.push_back({region.begin, std::vector<std::uint32_t>(region.bytes / step_bytes_)});
  }
}

void WrittenMap::note(const Request& write) {
  FileSteps& file = files_[write.file];
  const auto first = (write.place.offset - file.begin) / step_bytes_;
  const auto begin = file.pass.begin() + static_cast<std::ptrdiff_t>(first);
  std::fill_n(begin, write.place.bytes / step_bytes_, write.place.pass + 1);
}

std::uint64_t WrittenMap::written_bytes() const {
  std::uint64_t steps = 0;
  for (const FileSteps& file : files_) {
    steps += file.pass.size() -
             static_cast<std::size_t>(std::ranges::count(file.pass, std::uint32_t{0}));
  }
  return steps * step_bytes_;
}

std::optional<Request> WrittenMap::Feed::next() {
  while (file_ < map_.files_.size()) {
    const FileSteps& file = map_.files_[file_];
    while (step_ < file.pass.size() && file.pass[step_] == 0) {
      ++step_;
    }
    if (step_ < file.pass.size()) {
      const std::size_t first = step_;
      const std::size_t last = std::min(file.pass.size(), first + map_.steps_a_read_);
      while (step_ < last && file.pass[step_] == file.pass[first]) {
        ++step_;
      }
      const std::uint64_t bytes = (step_ - first) * map_.step_bytes_;
      return Request{IoKind::kRead,
                     file_,
                     {file.begin + first * map_.step_bytes_, bytes, file.pass[first] - 1}};
    }
    ++file_;
    step_ = 0;
  }
  return std::nullopt;
}

}  // namespace penstock::bench
