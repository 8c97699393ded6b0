#include "io/engine_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "alloc/excerpt.h"
#include "alloc/lower_case.h"
#include "io/aio_engine.h"
#include "io/null_engine.h"
#include "io/thread_engine.h"
#include "io/uring_engine.h"

namespace penstock {
namespace {

using Maker = Result<std::unique_ptr<IoEngine>> (*)(const IoEngineOptions&);

struct Entry {
  EngineKind kind;
  const char* name;
  Maker make;
};

// In the order of preference.
constexpr std::array kKinds = {
    Entry{EngineKind::kUring, "uring",
          [](const IoEngineOptions& options) { return make_uring_engine(options); }},
    Entry{EngineKind::kAio, "aio", make_aio_engine},
    Entry{EngineKind::kThreads, "threads", make_thread_engine},
    Entry{EngineKind::kNull, "null", make_null_engine},
};

struct Alias {
  std::string_view name;
  EngineKind kind;
};

// Our name first, then fio's.
constexpr std::array kAliases = {
    Alias{"auto", EngineKind::kAuto},      Alias{"uring", EngineKind::kUring},
    Alias{"io_uring", EngineKind::kUring}, Alias{"aio", EngineKind::kAio},
    Alias{"libaio", EngineKind::kAio},     Alias{"threads", EngineKind::kThreads},
    Alias{"psync", EngineKind::kThreads},  Alias{"pvsync", EngineKind::kThreads},
    Alias{"null", EngineKind::kNull},
};

bool is_candidate(const Entry& entry, EngineKind asked_for) {
  return entry.kind == asked_for || (asked_for == EngineKind::kAuto && moves_bytes(entry.kind));
}

// One reason is returned as it is; several are listed, each after the name of its engine.
Error none_usable(const std::vector<EngineCandidate>& refused, const Error& last) {
  if (refused.size() < 2) {
    return last;
  }
  std::string message = "no I/O engine is usable";
  for (const EngineCandidate& candidate : refused) {
    message += fmt::format("; {}: {}", candidate.name, candidate.reason);
  }
  return {last.code, std::move(message), {}, {}};
}

}  // namespace

Result<EngineKind> parse_engine_kind(std::string_view text) {
  const std::string name = lower_case(std::string(text));
  const auto alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias == kAliases.end()) {
    return fault(Fault::kConfiguration,
                 fmt::format("'{}' is no I/O engine; there are auto, uring, aio and threads, and "
                             "null, which moves nothing, for measuring",
                             excerpt(text)));
  }
  return alias->kind;
}

std::string_view engine_kind_name(EngineKind kind) noexcept {
  return std::ranges::find(kAliases, kind, &Alias::kind)->name;
}

std::vector<EngineCandidate> probe_engines() {
  std::vector<EngineCandidate> candidates;
  for (const Entry& entry : kKinds) {
    if (!is_candidate(entry, EngineKind::kAuto)) {
      continue;
    }
    const Result<std::unique_ptr<IoEngine>> engine = entry.make({});
    EngineCandidate candidate;
    candidate.name = entry.name;
    candidate.usable = engine.has_value();
    if (engine) {
      candidate.features = (*engine)->features();
    } else {
      candidate.reason = engine.error().message;
    }
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

Result<std::unique_ptr<IoEngine>> make_engine(EngineKind kind, const IoEngineOptions& options,
                                              std::vector<EngineCandidate>* refusals) {
  PENSTOCK_TRY(check_options(options));
  std::vector<EngineCandidate> refused;
  Error last;
  for (const Entry& entry : kKinds) {
    if (!is_candidate(entry, kind)) {
      continue;
    }
    Result<std::unique_ptr<IoEngine>> engine = entry.make(options);
    if (engine) {
      if (refusals != nullptr) {
        *refusals = std::move(refused);
      }
      return engine;
    }
    last = engine.error();
    refused.push_back({entry.name, false, last.message, {}});
  }
  Error error = none_usable(refused, last);
  if (refusals != nullptr) {
    *refusals = std::move(refused);
  }
  return error;
}

}  // namespace penstock
