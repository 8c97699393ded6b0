#include "swap/plan/json_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 64;

// nlohmann's `[json.exception.parse_error.101] parse error at line 1, column 5: …` without its tag.
std::string without_tag(std::string_view message) {
  const std::size_t end = message.find("] ");
  return excerpt(end == std::string_view::npos ? message : message.substr(end + 2));
}

// Reads a whole document without keeping it, and stops where it is JSON but not what we take. A
// pass of its own: nlohmann's parser callbacks look at all elements of a list after each of them.
class StrictnessCheck final : public json::json_sax_t {
 public:
  const std::string& problem() const noexcept { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return deepen();
  }
  bool key(string_t& key) override {
    if (keys_.back().insert(key).second) {
      return true;
    }
    problem_ = fmt::format("has the key \"{}\" twice in one object", excerpt(key));
    return false;
  }
  bool end_object() override {
    keys_.pop_back();
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override { return deepen(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    problem_ = "is not valid JSON: " + without_tag(error.what());
    return false;
  }

 private:
  bool deepen() {
    if (++depth_ <= kDepthMax) {
      return true;
    }
    problem_ = fmt::format("is nested more than {} levels deep", kDepthMax);
    return false;
  }

  std::vector<std::set<std::string>> keys_;  // of the objects that are open, outermost first
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& origin, Fault code) {
  StrictnessCheck check;
  if (!json::sax_parse(text.begin(), text.end(), &check)) {
    return fault(code, fmt::format("{} {}", origin, check.problem()));
  }
  return json::parse(text.begin(), text.end());
}

std::string describe_json(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "a list";
    case json::value_t::string:
      return fmt::format("\"{}\"", excerpt(value.get_ref<const std::string&>()));
    default:
      return value.dump();
  }
}

}  // namespace penstock
