#include "bindings/inventory/recorded_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "alloc/bytes.h"
#include "bindings/inventory/input_file.h"
#include "bindings/inventory/json_document.h"
#include "bindings/inventory/tensor_json.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::uint64_t kTraceBytesMax = kGiB;  // ten million events

/// One trace, line by line.
class TraceReader {
 public:
  explicit TraceReader(const std::string& origin) : origin_(origin) {}

  Result<void> read(std::string_view text);
  RecordedTrace take() { return std::move(trace_); }

 private:
  Error wrong(const std::string& what) const {
    return fault(Fault::kInvalidArgument, fmt::format("{}:{}: {}", origin_, line_, what));
  }

  Result<void> read_line(std::string_view text);
  Result<void> read_head(const json& line) const;
  Result<void> read_event(const json& line);
  bool is_refused(const TraceEvent& event) const;
  Result<void> read_details(const json& line, TraceEvent& event);
  Result<void> read_declaration(const json& line, TraceEvent& event);
  Result<std::uint64_t> number(const json& object, const char* key) const;
  Result<std::uint64_t> known_tensor(const json& value) const;
  Result<std::string> text(const json& object, const char* key) const;
  static bool flag(const json& object, const char* key) {
    return object.contains(key) && object[key].is_boolean() && object[key].get<bool>();
  }

  const std::string& origin_;
  std::uint64_t line_ = 0;
  RecordedTrace trace_;
  std::set<std::uint64_t> declared_;
  std::set<std::uint64_t> forgotten_;
  std::uint64_t at_ns_ = 0;
};

Result<void> TraceReader::read(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      break;  // torn
    }
    ++line_;
    PENSTOCK_TRY(read_line(text.substr(0, end)));
    text.remove_prefix(end + 1);
  }
  if (line_ == 0) {
    return fault(Fault::kInvalidArgument,
                 fmt::format("{} is no trace: it has no whole line", origin_));
  }
  return {};
}

Result<void> TraceReader::read_line(std::string_view text) {
  const Result<json> line =
      parse_json(text, fmt::format("{}:{}", origin_, line_), Fault::kInvalidArgument);
  PENSTOCK_TRY(line);
  if (!line->is_object()) {
    return wrong("a line of a trace is an object");
  }
  return line_ == 1 ? read_head(*line) : read_event(*line);
}

Result<void> TraceReader::read_head(const json& line) const {
  const Result<std::string> schema = text(line, "schema");
  PENSTOCK_TRY(schema);
  if (*schema != kTraceSchema) {
    return wrong(
        fmt::format("the schema is '{}', this program reads {}", excerpt(*schema), kTraceSchema));
  }
  return {};
}

Result<void> TraceReader::read_event(const json& line) {
  const Result<std::string> op = text(line, "op");
  PENSTOCK_TRY(op);
  const auto found = std::ranges::find(kTraceOpNames, *op);
  if (found == kTraceOpNames.end()) {
    return wrong(fmt::format("there is no operation '{}'", excerpt(*op)));
  }
  TraceEvent event;
  event.op = static_cast<TraceOp>(found - kTraceOpNames.begin());
  const Result<std::uint64_t> at = number(line, "t");
  PENSTOCK_TRY(at);
  const Result<std::uint64_t> waited = number(line, "w");
  PENSTOCK_TRY(waited);
  if (*at < at_ns_) {
    return wrong(fmt::format("time goes back, from {} to {} ns", at_ns_, *at));
  }
  at_ns_ = event.at_ns = *at;
  event.waited_ns = *waited;
  PENSTOCK_TRY(read_details(line, event));
  if (!is_refused(event)) {
    trace_.events.push_back(std::move(event));
  }
  return {};
}

/// A call that came when its tensor was forgotten already, by another thread. Leases of a forgotten
/// tensor live on.
bool TraceReader::is_refused(const TraceEvent& event) const {
  switch (event.op) {
    case TraceOp::kRename:
    case TraceOp::kAllocate:
    case TraceOp::kGet:
    case TraceOp::kGetInto:
    case TraceOp::kPut:
    case TraceOp::kCommit:
      return !declared_.contains(event.tensor);
    default:
      return false;
  }
}

Result<void> TraceReader::read_details(const json& line, TraceEvent& event) {
  switch (event.op) {
    case TraceOp::kPlan:
    case TraceOp::kFlush:
      return {};
    case TraceOp::kDeclare:
      return read_declaration(line, event);
    case TraceOp::kOpenNamespace:
    case TraceOp::kCloseNamespace: {
      const Result<std::uint64_t> space = number(line, "space");
      PENSTOCK_TRY(space);
      event.space = static_cast<std::uint32_t>(*space);
      break;
    }
    case TraceOp::kPrefetch: {
      if (!line.contains("tensors") || !line["tensors"].is_array()) {
        return wrong("prefetch needs a list of tensors");
      }
      for (const json& value : line["tensors"]) {
        const Result<std::uint64_t> tensor = known_tensor(value);
        PENSTOCK_TRY(tensor);
        if (declared_.contains(*tensor)) {
          event.tensors.push_back(*tensor);
        }
      }
      return {};
    }
    default: {
      const Result<std::uint64_t> tensor =
          known_tensor(line.contains("tensor") ? line["tensor"] : json());
      PENSTOCK_TRY(tensor);
      event.tensor = *tensor;
      event.update = flag(line, "update");
      if (event.op == TraceOp::kForget) {
        declared_.erase(event.tensor);
        forgotten_.insert(event.tensor);
      }
    }
  }
  if (event.op == TraceOp::kOpenNamespace || event.op == TraceOp::kRename) {
    Result<std::string> name = text(line, "name");
    PENSTOCK_TRY(name);
    event.name = std::move(*name);
  }
  return {};
}

Result<void> TraceReader::read_declaration(const json& line, TraceEvent& event) {
  const Result<std::uint64_t> tensor = number(line, "tensor");
  PENSTOCK_TRY(tensor);
  const Result<std::uint64_t> space = number(line, "space");
  PENSTOCK_TRY(space);
  const Result<std::string> name = text(line, "name");
  PENSTOCK_TRY(name);
  PENSTOCK_TRY(text(line, "role"));
  Result<TensorInfo> info = read_described_tensor(*name, line);
  if (info.has_error()) {
    return wrong(fmt::format("a declaration tells the type and size of a tensor, but '{}' {}",
                             excerpt(*name), info.error().message));
  }
  event.info = std::move(*info);
  if (event.info.bytes() == 0) {
    return wrong(fmt::format("tensor '{}' has no bytes", excerpt(*name)));
  }
  if (!declared_.insert(*tensor).second) {
    return wrong(fmt::format("tensor {} is declared twice", *tensor));
  }
  event.tensor = *tensor;
  event.space = static_cast<std::uint32_t>(*space);
  event.stored = flag(line, "stored");
  return {};
}

Result<std::uint64_t> TraceReader::number(const json& object, const char* key) const {
  if (!object.contains(key) || !object[key].is_number_unsigned()) {
    return wrong(fmt::format("'{}' must be a number that is not negative", key));
  }
  return object[key].get<std::uint64_t>();
}

Result<std::uint64_t> TraceReader::known_tensor(const json& value) const {
  if (!value.is_number_unsigned()) {
    return wrong(fmt::format("{} is no tensor's number", describe_json(value)));
  }
  const auto tensor = value.get<std::uint64_t>();
  if (!declared_.contains(tensor) && !forgotten_.contains(tensor)) {
    return wrong(fmt::format("tensor {} was not declared before", tensor));
  }
  return tensor;
}

Result<std::string> TraceReader::text(const json& object, const char* key) const {
  if (!object.contains(key) || !object[key].is_string()) {
    return wrong(fmt::format("'{}' must be a text", key));
  }
  return object[key].get<std::string>();
}

}  // namespace

Result<RecordedTrace> parse_trace(std::string_view text, const std::string& origin) {
  TraceReader reader(origin);
  PENSTOCK_TRY(reader.read(text));
  return reader.take();
}

Result<RecordedTrace> load_trace(const std::string& path) {
  const Result<std::string> text = read_text_file(path, kTraceBytesMax);
  PENSTOCK_TRY(text);
  return parse_trace(*text, path);
}

Inventory traced_inventory(const RecordedTrace& trace) {
  std::map<std::uint32_t, std::string> spaces;
  std::map<std::uint64_t, std::pair<TensorInfo, std::uint32_t>> declared;
  std::vector<std::uint64_t> order;
  std::set<std::uint64_t> used;
  for (const TraceEvent& event : trace.events) {
    const bool uses = event.op == TraceOp::kGet || event.op == TraceOp::kGetInto ||
                      event.op == TraceOp::kAllocate || event.op == TraceOp::kPut;
    if (event.op == TraceOp::kOpenNamespace) {
      spaces[event.space] = event.name;
    } else if (event.op == TraceOp::kDeclare) {
      declared[event.tensor] = {event.info, event.space};
    } else if (event.op == TraceOp::kRename) {
      declared.at(event.tensor).first.name = event.name;
    } else if (uses && used.insert(event.tensor).second) {
      order.push_back(event.tensor);
    }
  }
  for (const auto& [tensor, info] : declared) {
    if (!used.contains(tensor)) {
      order.push_back(tensor);
    }
  }
  std::map<std::string, std::uint32_t> holders;
  for (const auto& [tensor, entry] : declared) {
    ++holders[entry.first.name];
  }
  Inventory inventory;
  for (const std::uint64_t tensor : order) {
    auto [info, space] = declared.at(tensor);
    if (info.role == Role::kGradient) {
      continue;  // scratch memory, never stored
    }
    if (holders[info.name] > 1) {
      info.name = fmt::format("{}/{}#{}", spaces[space], info.name, tensor);
    }
    inventory.tensors.push_back(std::move(info));
  }
  return inventory;
}

std::vector<std::size_t> order_of_use(const Inventory& inventory, const Inventory& traced) {
  std::map<std::string_view, std::size_t> first_use;
  for (const TensorInfo& tensor : traced.tensors) {
    first_use.emplace(tensor.name, first_use.size());
  }
  std::vector<std::size_t> places;
  std::vector<std::size_t> uses;  // by place
  for (const TensorInfo& tensor : inventory.tensors) {
    const auto use = first_use.find(tensor.name);
    const std::size_t before = uses.empty() ? 0 : uses.back();
    places.push_back(uses.size());
    uses.push_back(use == first_use.end() ? before : use->second);
  }
  std::ranges::stable_sort(places, {}, [&uses](std::size_t place) { return uses[place]; });
  return places;
}

}  // namespace penstock
