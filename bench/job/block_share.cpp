#include "bench/job/block_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "alloc/bytes.h"
#include "bench/job/job_number.h"

namespace penstock::bench {
namespace {

constexpr std::uint64_t kBlockMax = kGiB;
constexpr std::uint32_t kWhole = 100;   // percent
constexpr std::size_t kSharesMax = 64;  // fio's too

using Shares = std::vector<BlockShare>;

std::vector<std::string_view> pieces(std::string_view text, char separator) {
  std::vector<std::string_view> found;
  while (true) {
    const std::size_t end = std::min(text.find(separator), text.size());
    found.push_back(text.substr(0, end));
    if (end == text.size()) {
      return found;
    }
    text.remove_prefix(end + 1);
  }
}

Refusal read_block(std::string_view text, std::uint64_t& bytes) {
  if (Refusal refusal = read_whole_number(text, bytes)) {
    return refusal;
  }
  if (bytes == 0 || bytes > kBlockMax) {
    return "blocks of 1 byte to 1g are allowed";
  }
  return {};
}

Refusal read_percent(std::string_view text, std::uint32_t& percent) {
  std::uint64_t number = 0;
  if (read_whole_number(text, number) || number > kWhole) {
    return "percentages are whole numbers from 0 to 100";
  }
  percent = static_cast<std::uint32_t>(number);
  return {};
}

/// Entries whose percentage is not given get equal parts of what is left, the first of them the
/// remainder of the division; where all are given the last gets what is left.
Refusal complete(Shares& shares, const std::vector<std::size_t>& open) {
  const auto add = [](std::uint32_t sum, const BlockShare& share) { return sum + share.percent; };
  const std::uint32_t given = std::accumulate(shares.begin(), shares.end(), 0U, add);
  if (given > kWhole) {
    return fmt::format("its percentages make {} together, and at most 100 is allowed", given);
  }
  std::uint32_t left = kWhole - given;
  if (open.empty()) {
    shares.back().percent += left;
    return {};
  }
  for (std::size_t i = 0; i < open.size(); ++i) {
    const auto remaining = static_cast<std::uint32_t>(open.size() - i);
    const std::uint32_t part = (left + remaining - 1) / remaining;
    shares[open[i]].percent = part;
    left -= part;
  }
  return {};
}

Refusal read_shares(std::string_view text, Shares& shares) {
  std::vector<std::size_t> open;
  for (const std::string_view entry : pieces(text, ':')) {
    const std::size_t slash = std::min(entry.find('/'), entry.size());
    BlockShare share{.bytes = 0, .percent = 0};
    if (Refusal refusal = read_block(entry.substr(0, slash), share.bytes)) {
      return refusal;
    }
    const std::string_view percent = entry.substr(std::min(slash + 1, entry.size()));
    if (percent.empty()) {
      open.push_back(shares.size());
    } else if (Refusal refusal = read_percent(percent, share.percent)) {
      return refusal;
    }
    shares.push_back(share);
  }
  if (shares.size() > kSharesMax) {
    return fmt::format("at most {} sizes are allowed", kSharesMax);
  }
  return complete(shares, open);
}

Refusal read_one(std::string_view text, Shares& shares) {
  shares.push_back({});
  return read_block(text, shares.back().bytes);
}

/// `A`, `A,B` or `A,B,C`; `read` reads what stands for one direction.
Refusal read_directions(std::string_view text, Job& job,
                        Refusal (*read)(std::string_view, Shares&)) {
  const std::vector<std::string_view> texts = pieces(text, ',');
  constexpr std::size_t kDirections = 3;  // reads, writes, trims
  if (texts.size() > kDirections) {
    return "at most three are allowed: of reads, writes and trims";
  }
  std::array<Shares, kDirections> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].empty()) {
      continue;
    }
    if (Refusal refusal = read(texts[i], all[i])) {
      return refusal;
    }
  }
  if (std::ranges::all_of(texts, [](std::string_view one) { return one.empty(); })) {
    return "a size such as 4k is allowed";
  }
  if (texts.size() == 1) {
    all[1] = all[0];
  }
  if (!all[0].empty()) {
    job.read_blocks = std::move(all[0]);
  }
  if (!all[1].empty()) {
    job.write_blocks = std::move(all[1]);
  }
  return {};
}

/// Nothing or one size.
bool is_plain(const Shares& shares) {
  return shares.empty() || (shares.size() == 1 && shares[0].percent == kWhole);
}

std::string one_text(const Shares& shares) {
  return shares.empty() ? std::string() : write_bytes(shares[0].bytes);
}

std::string split_text(const Shares& shares) {
  std::string text;
  for (const BlockShare& share : shares) {
    text +=
        fmt::format("{}{}/{}", text.empty() ? "" : ":", write_bytes(share.bytes), share.percent);
  }
  return text;
}

std::string joined(const Job& job, std::string (*text_of)(const Shares&)) {
  return job.read_blocks == job.write_blocks
             ? text_of(job.read_blocks)
             : fmt::format("{},{}", text_of(job.read_blocks), text_of(job.write_blocks));
}

}  // namespace

Refusal read_block_sizes(std::string_view text, Job& job) {
  return read_directions(text, job, read_one);
}

Refusal read_block_split(std::string_view text, Job& job) {
  return read_directions(text, job, read_shares);
}

std::optional<std::string> write_block_sizes(const Job& job) {
  const bool none = job.read_blocks.empty() && job.write_blocks.empty();
  if (none || !is_plain(job.read_blocks) || !is_plain(job.write_blocks)) {
    return {};
  }
  return joined(job, one_text);
}

std::optional<std::string> write_block_split(const Job& job) {
  if (is_plain(job.read_blocks) && is_plain(job.write_blocks)) {
    return {};
  }
  return joined(job, split_text);
}

}  // namespace penstock::bench
