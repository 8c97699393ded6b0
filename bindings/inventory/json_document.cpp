#include "bindings/inventory/json_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

namespace penstock {
namespace {

using nlohmann::json;

constexpr std::size_t kDepthMax = 64;

// Builds a document, and stops where it is JSON but not what we take. One pass: nlohmann's own
// parser takes the last of two keys, and its callbacks look at all elements of a list after each of
// them.
class StrictReader final : public json::json_sax_t {
 public:
  const std::string& problem() const noexcept { return problem_; }
  json take() { return std::move(root_); }

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return add(value) != nullptr;
  }
  bool string(string_t& value) override { return add(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }  // JSON has none

  bool start_object(std::size_t) override { return open(json::object()); }
  bool key(string_t& key) override {
    auto& members = open_.back()->get_ref<json::object_t&>();
    const auto [member, is_new] = members.try_emplace(std::move(key));
    member_ = &member->second;
    if (!is_new) {
      problem_ = fmt::format("has the key \"{}\" twice in one object", excerpt(member->first));
    }
    return is_new;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    problem_ = "is not valid JSON: " + json_reason(error.what());
    return false;
  }

 private:
  // Where the value has found its place: the document's, the next one of a list, or a member's.
  json* add(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      return &open_.back()->get_ref<json::array_t&>().emplace_back(std::move(value));
    }
    *member_ = std::move(value);
    return member_;
  }
  bool open(json value) {
    if (open_.size() == kDepthMax) {
      problem_ = fmt::format("is nested more than {} levels deep", kDepthMax);
      return false;
    }
    open_.push_back(add(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  json root_;
  std::vector<json*> open_;  // lists and objects, outermost first: none moves before it is closed
  json* member_ = nullptr;   // of the innermost one, whose key has been read
  std::string problem_;
};

// nlohmann's parser takes a NUL behind the document for its end, whatever comes after it.
Result<void> check_no_nul(std::string_view text, const std::string& origin, Fault code) {
  const std::size_t nul = text.find('\0');
  return nul == std::string_view::npos
             ? Result<void>()
             : fault(code, fmt::format("{} is not valid JSON: byte {} is NUL", origin, nul));
}

Result<json> parse(std::string_view text, const std::string& origin, Fault code,
                   bool may_have_comments) {
  PENSTOCK_TRY(check_no_nul(text, origin, code));
  StrictReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader, json::input_format_t::json, true,
                       may_have_comments)) {
    return fault(code, fmt::format("{} {}", origin, reader.problem()));
  }
  return reader.take();
}

}  // namespace

Result<json> parse_json(std::string_view text, const std::string& origin, Fault code) {
  return parse(text, origin, code, false);
}

Result<json> parse_commented_json(std::string_view text, const std::string& origin, Fault code) {
  return parse(text, origin, code, true);
}

Result<void> parse_json_documents(std::string_view text, const std::string& origin, Fault code,
                                  const std::function<Result<void>(const json&)>& take) {
  PENSTOCK_TRY(check_no_nul(text, origin, code));
  std::istringstream rest{std::string(text)};
  while (!(rest >> std::ws).eof()) {
    StrictReader reader;
    if (!json::sax_parse(rest, &reader, json::input_format_t::json, false)) {
      return fault(code, fmt::format("{} {}", origin, reader.problem()));
    }
    PENSTOCK_TRY(take(reader.take()));
  }
  return {};
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
