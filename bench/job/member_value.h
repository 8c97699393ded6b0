#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "alloc/bytes.h"
#include "bench/job/job.h"
#include "bench/job/job_number.h"
#include "bench/job/refusal.h"
#include "swap/plan/nearest_name.h"

// Readers and writers of members of a Job, for the table of keys: a pair for each kind of value.
// A member that is an optional is given or not; any other always says something, but an empty text.

namespace penstock::bench {

template <class T>
struct MemberTraits;
template <class T>
struct MemberTraits<T Job::*> {
  using Value = T;
};
template <class T>
struct MemberTraits<std::optional<T> Job::*> {
  using Value = T;
};
/// The type of a member, without the optional around it.
template <auto Member>
using MemberType = typename MemberTraits<decltype(Member)>::Value;

template <auto Member>
const MemberType<Member>* given(const Job& job) {
  if constexpr (requires { (job.*Member).has_value(); }) {
    return (job.*Member).has_value() ? &*(job.*Member) : nullptr;
  } else {
    return &(job.*Member);
  }
}

/// A whole number between the two.
template <auto Member, std::uint64_t Min, std::uint64_t Max>
Refusal read_count(std::string_view text, Job& job) {
  std::uint64_t number = 0;
  if (Refusal refusal = read_whole_number(text, number)) {
    return refusal;
  }
  if (number < Min || number > Max) {
    return fmt::format("{} to {} are allowed", Min, Max);
  }
  job.*Member = static_cast<MemberType<Member>>(number);
  return {};
}
template <auto Member>
std::optional<std::string> write_count(const Job& job) {
  const auto* value = given<Member>(job);
  return value == nullptr ? std::nullopt : std::optional(fmt::format("{}", *value));
}

/// Bytes as fio reads them.
template <auto Member, std::uint64_t Min = 0>
Refusal read_size(std::string_view text, Job& job) {
  if (text.ends_with('%')) {
    return "bytes are allowed: shares of a drive or file are not supported";
  }
  std::uint64_t number = 0;
  if (Refusal refusal = read_whole_number(text, number)) {
    return refusal;
  }
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (number < Min || number > kMax) {
    return fmt::format("{} bytes to {} are allowed", Min, kMax);
  }
  job.*Member = number;
  return {};
}
/// Bytes as penstock's other commands read them: `64MiB`, and `64MB` in units of 1000.
template <auto Member>
Refusal read_own_size(std::string_view text, Job& job) {
  const Result<std::uint64_t> bytes = parse_bytes(text);
  if (bytes.has_error()) {
    return "bytes are allowed, such as 67108864, 64m or 64MiB (of 1024), 64MB (of 1000)";
  }
  job.*Member = *bytes;
  return {};
}
template <auto Member>
std::optional<std::string> write_size(const Job& job) {
  const auto* value = given<Member>(job);
  return value == nullptr ? std::nullopt : std::optional(write_bytes(*value));
}

/// A time; without a unit in units of `BareNs`. The member counts in units of `UnitNs`.
template <auto Member, std::uint64_t BareNs, std::uint64_t UnitNs = 1>
Refusal read_duration(std::string_view text, Job& job) {
  std::uint64_t ns = 0;
  if (Refusal refusal = read_time(text, BareNs, ns)) {
    return refusal;
  }
  if (ns % UnitNs != 0) {
    return "whole microseconds are allowed";
  }
  job.*Member = ns / UnitNs;
  return {};
}
template <auto Member, std::uint64_t UnitNs = 1>
std::optional<std::string> write_duration(const Job& job) {
  const auto* value = given<Member>(job);
  return value == nullptr ? std::nullopt : std::optional(write_time(*value * UnitNs));
}

template <auto Member>
Refusal read_switch(std::string_view text, Job& job) {
  bool flag = false;
  if (Refusal refusal = read_flag(text, flag)) {
    return refusal;
  }
  job.*Member = flag;
  return {};
}
template <auto Member>
std::optional<std::string> write_switch(const Job& job) {
  const auto* value = given<Member>(job);
  return value == nullptr ? std::nullopt : std::optional<std::string>(*value ? "1" : "0");
}

template <auto Member>
Refusal read_text(std::string_view text, Job& job) {
  if (text.empty()) {
    return "a text is needed";
  }
  job.*Member = std::string(text);
  return {};
}
template <auto Member>
std::optional<std::string> write_text(const Job& job) {
  return (job.*Member).empty() ? std::nullopt : std::optional(job.*Member);
}

/// One of `Names`, an array in the order of the member's enumerators.
template <auto Member, auto& Names>
Refusal read_choice(std::string_view text, Job& job) {
  for (std::size_t i = 0; i < Names.size(); ++i) {
    if (text == Names[i]) {
      job.*Member = static_cast<MemberType<Member>>(i);
      return {};
    }
  }
  return fmt::format("{} are allowed{}", fmt::join(Names, ", "), did_you_mean(text, Names));
}
template <auto Member, auto& Names>
std::optional<std::string> write_choice(const Job& job) {
  const auto* value = given<Member>(job);
  return value == nullptr ? std::nullopt
                          : std::optional<std::string>(Names.at(static_cast<std::size_t>(*value)));
}

}  // namespace penstock::bench
