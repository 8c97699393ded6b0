#include "io/engine_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "alloc/excerpt.h"
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
constexpr std::array kEntries = {
    Entry{EngineKind::kUring, "uring",
          [](const IoEngineOptions& options) { return make_uring_engine(options); }},
    Entry{EngineKind::kThreads, "threads", make_thread_engine},
};

struct Alias {
  std::string_view name;
  EngineKind kind;
};

constexpr std::array kAliases = {
    Alias{"auto", EngineKind::kAuto},      Alias{"uring", EngineKind::kUring},
    Alias{"io_uring", EngineKind::kUring}, Alias{"threads", EngineKind::kThreads},
    Alias{"psync", EngineKind::kThreads},  Alias{"pvsync", EngineKind::kThreads},
};

}  // namespace

Result<EngineKind> parse_engine_kind(std::string_view text) {
  std::string name(text);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto alias = std::ranges::find(kAliases, name, &Alias::name);
  if (alias == kAliases.end()) {
    return fault(
        Fault::kConfiguration,
        fmt::format("'{}' is no I/O engine; there are auto, uring and threads", excerpt(text)));
  }
  return alias->kind;
}

std::vector<EngineCandidate> probe_engines() {
  std::vector<EngineCandidate> candidates;
  for (const Entry& entry : kEntries) {
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
  Error last = fault(Fault::kUnsupported, "no I/O engine is usable");
  for (const Entry& entry : kEntries) {
    if (kind != EngineKind::kAuto && kind != entry.kind) {
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
  if (refusals != nullptr) {
    *refusals = std::move(refused);
  }
  return last;
}

}  // namespace penstock
