#include "tests/faults/faulty_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <sstream>

namespace penstock {
namespace {

struct Word {
  std::string_view name;
  DriveFault fault;
  int error;
};
constexpr std::array kWords = {
    Word{"eio", DriveFault::kError, EIO},     Word{"enospc", DriveFault::kError, ENOSPC},
    Word{"erofs", DriveFault::kError, EROFS}, Word{"short", DriveFault::kShort, 0},
    Word{"flip", DriveFault::kFlip, 0},       Word{"stale", DriveFault::kStale, 0},
    Word{"shifted", DriveFault::kShifted, 0}, Word{"lost", DriveFault::kLost, 0},
    Word{"torn", DriveFault::kTorn, 0},
};

std::optional<DriveFaultRule> parse_rule(const std::string& line) {
  std::istringstream words(line);
  std::string direction;
  std::string what;
  words >> direction >> what;
  const auto word = std::find_if(kWords.begin(), kWords.end(),
                                 [&what](const Word& known) { return known.name == what; });
  if ((direction != "reads" && direction != "writes") || word == kWords.end()) {
    return std::nullopt;
  }
  DriveFaultRule rule;
  rule.of_reads = direction == "reads";
  rule.fault = word->fault;
  rule.error = word->error;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  if (words >> offset >> bytes) {
    rule.begin = offset;
    rule.end = offset + bytes;
  }
  return rule;
}

/// What a drive that gives up early has moved of a request: no whole blocks,
/// but for the smallest.
std::size_t part_of(std::size_t bytes) {
  return bytes <= FaultyFile::kBlockBytes ? bytes : bytes / 2 + 100;
}

}  // namespace

bool DriveFaultRules::obey(std::string_view lines) {
  std::istringstream text{std::string(lines)};
  for (std::string line; std::getline(text, line);) {
    if (line == "clear") {
      rules_.clear();
    } else if (const std::optional<DriveFaultRule> rule = parse_rule(line)) {
      rules_.push_back(*rule);
    } else if (!line.empty()) {
      return false;
    }
  }
  return true;
}

const DriveFaultRule* DriveFaultRules::match(bool reading, std::uint64_t offset,
                                             std::size_t bytes) const {
  const auto found = std::find_if(rules_.begin(), rules_.end(), [&](const DriveFaultRule& rule) {
    return rule.of_reads == reading && rule.touches(offset, bytes);
  });
  return found == rules_.end() ? nullptr : &*found;
}

int FaultyFile::read(const DriveFaultRules& rules, char* target, std::size_t bytes,
                     std::uint64_t offset) {
  if (offset >= size_bytes_) {
    return 0;
  }
  bytes = std::min<std::uint64_t>(bytes, size_bytes_ - offset);
  const DriveFaultRule* const rule = rules.match(true, offset, bytes);
  const auto is = [rule](DriveFault fault) { return rule != nullptr && rule->fault == fault; };
  if (is(DriveFault::kError)) {
    return -rule->error;
  }
  if (is(DriveFault::kShort)) {
    bytes = part_of(bytes);
  }
  const std::uint64_t from = is(DriveFault::kShifted) ? offset + kBlockBytes : offset;
  copy_out(target, bytes, from, is(DriveFault::kStale));
  if (is(DriveFault::kFlip)) {
    for (std::size_t at = kBlockBytes / 2; at < bytes; at += kBlockBytes) {
      target[at] = static_cast<char>(target[at] ^ 1);
    }
  }
  return static_cast<int>(bytes);
}

int FaultyFile::write(const DriveFaultRules& rules, const char* source, std::size_t bytes,
                      std::uint64_t offset) {
  const DriveFaultRule* const rule = rules.match(false, offset, bytes);
  const auto is = [rule](DriveFault fault) { return rule != nullptr && rule->fault == fault; };
  if (is(DriveFault::kError)) {
    return -rule->error;
  }
  if (is(DriveFault::kShort)) {
    bytes = part_of(bytes);
  }
  size_bytes_ = std::max<std::uint64_t>(size_bytes_, offset + bytes);
  copy_in(source, is(DriveFault::kLost) ? 0 : is(DriveFault::kTorn) ? bytes / 2 : bytes, offset);
  return static_cast<int>(bytes);
}

template <class Move>
void FaultyFile::each_block(std::uint64_t offset, std::size_t bytes, Move move) {
  for (std::size_t done = 0; done < bytes;) {
    const std::uint64_t within = (offset + done) % kBlockBytes;
    const std::size_t part = std::min<std::size_t>(bytes - done, kBlockBytes - within);
    move((offset + done) / kBlockBytes, within, done, part);
    done += part;
  }
}

void FaultyFile::copy_out(char* target, std::size_t bytes, std::uint64_t offset, bool stale) {
  each_block(offset, bytes,
             [&](std::uint64_t block, std::uint64_t within, std::size_t done, std::size_t part) {
               const auto found = blocks_.find(block);
               if (found == blocks_.end()) {
                 std::memset(target + done, 0, part);
               } else {
                 const auto& content = stale ? found->second.before : found->second.now;
                 std::memcpy(target + done, content.data() + within, part);
               }
             });
}

void FaultyFile::copy_in(const char* source, std::size_t bytes, std::uint64_t offset) {
  each_block(offset, bytes,
             [&](std::uint64_t number, std::uint64_t within, std::size_t done, std::size_t part) {
               Block& block = blocks_[number];
               block.before = block.now;
               std::memcpy(block.now.data() + within, source + done, part);
             });
}

}  // namespace penstock
