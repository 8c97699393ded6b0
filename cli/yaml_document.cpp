#include "cli/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "alloc/excerpt.h"
#include "alloc/utf8.h"
#include "cli/yaml_scalar.h"

namespace penstock::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kDepthMax = 64;
// Aliases of aliases multiply; what people write by hand has some dozens of values.
constexpr std::size_t kValuesMax = 10'000;

// Builds the value from the parser's events. The first problem sticks, and the rest is skipped.
class ValueBuilder final : public YAML::EventHandler {
 public:
  const std::string& problem() const noexcept { return problem_; }
  json take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, "null", nullptr, 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchored_.find(anchor);
    if (found == anchored_.end()) {
      refuse(mark, "has an alias of the value that it is part of");
      return;
    }
    const auto [value, values] = found->second;
    add(mark, YAML::NullAnchor, value.is_string() ? value.get<std::string>() : value.dump(), value,
        values);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("has the tag {}", excerpt(tag)));
      return;
    }
    add(mark, anchor, text, tag == "!" ? json(text) : plain_scalar(text), 1);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, json::array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, json::object());
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    json value;
    YAML::anchor_t anchor;
    YAML::Mark mark;
    std::optional<std::string> key = {};  // of a mapping, whose value comes next
    std::size_t values = 1;
  };

  void refuse(const YAML::Mark& mark, std::string_view what) {
    if (problem_.empty()) {
      problem_ = fmt::format("{} (line {})", what, mark.line + 1);
    }
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, json empty) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(mark, fmt::format("has the tag {}", excerpt(tag)));
    } else if (open_.size() == kDepthMax) {
      refuse(mark, fmt::format("is nested more than {} levels deep", kDepthMax));
    } else if (!open_.empty() && open_.back().value.is_object() && !open_.back().key) {
      refuse(mark, "has a list or a mapping as a key");
    }
    if (problem_.empty()) {
      open_.push_back({std::move(empty), anchor, mark});
    }
  }

  void close() {
    if (!problem_.empty()) {
      return;
    }
    Open done = std::move(open_.back());
    open_.pop_back();
    add(done.mark, done.anchor, {}, std::move(done.value), done.values);
  }

  // `text` is what the value is as a key of a mapping; `values` counts it and what is in it.
  void add(const YAML::Mark& mark, YAML::anchor_t anchor, const std::string& text, json value,
           std::size_t values) {
    values_ += values;
    if (values_ > kValuesMax) {
      refuse(mark, fmt::format("has more than {} values, aliases counted", kValuesMax));
    }
    if (!problem_.empty()) {
      return;
    }
    if (anchor != YAML::NullAnchor) {
      anchored_.emplace(anchor, std::pair(value, values));
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    parent.values += values;
    if (parent.value.is_array()) {
      parent.value.push_back(std::move(value));
    } else if (parent.key) {
      parent.value[*std::exchange(parent.key, std::nullopt)] = std::move(value);
    } else {
      take_key(mark, parent, text);
    }
  }

  void take_key(const YAML::Mark& mark, Open& mapping, const std::string& key) {
    if (key == "<<") {
      refuse(mark, "has the merge key \"<<\", which is not read here");
    } else if (mapping.value.contains(key)) {
      refuse(mark, fmt::format("has the key \"{}\" twice in one mapping", excerpt(key)));
    }
    mapping.key = key;
  }

  json root_;
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, std::pair<json, std::size_t>> anchored_;
  std::size_t values_ = 0;
  std::string problem_;
};

// Skips what is behind the first document, if there is anything.
class SecondDocument final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

Error refused(const std::string& origin, std::string_view problem) {
  Error error = fault(Fault::kConfiguration, fmt::format("{} {}", origin, problem));
  error.path = origin;
  return error;
}

}  // namespace

Result<json> parse_yaml(std::string_view text, const std::string& origin) {
  if (!is_utf8(text)) {
    return refused(origin, "is not UTF-8 text");
  }
  ValueBuilder builder;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    (void)parser.HandleNextDocument(builder);
    SecondDocument second;
    if (builder.problem().empty() && parser.HandleNextDocument(second)) {
      return refused(origin, "has more than one YAML document");
    }
  } catch (const YAML::DeepRecursion&) {  // the parser's own limit, before a problem is looked at
    return refused(origin, fmt::format("is nested more than {} levels deep", kDepthMax));
  } catch (const YAML::Exception& error) {
    return refused(origin, fmt::format("is not valid YAML: {} (line {})", excerpt(error.msg),
                                       error.mark.line + 1));
  }
  if (!builder.problem().empty()) {
    return refused(origin, builder.problem());
  }
  return builder.take();
}

}  // namespace penstock::cli
