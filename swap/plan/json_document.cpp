#include "swap/plan/json_document.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <vector>

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kDepthMax = 64;

struct BadDocument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Called by the parser for every event; throws where the text is JSON but not what we take.
class StrictnessCheck {
 public:
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kDepthMax) {
      throw BadDocument(fmt::format("is nested more than {} levels deep", kDepthMax));
    }
    if (event == json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second) {
        throw BadDocument(fmt::format("has the key \"{}\" twice in one object", excerpt(key)));
      }
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open, outermost first
};

// nlohmann's `[json.exception.parse_error.101] parse error at line 1, column 5: …` without its tag.
std::string without_tag(std::string_view message) {
  const std::size_t end = message.find("] ");
  return excerpt(end == std::string_view::npos ? message : message.substr(end + 2));
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr std::size_t kLettersMax = 200;
  std::string shortened(text.substr(0, kLettersMax));
  for (char& c : shortened) {
    if (static_cast<unsigned char>(c) < 0x20) {
      c = ' ';
    }
  }
  if (text.size() > kLettersMax) {
    shortened += "...";
  }
  return shortened;
}

Result<json> parse_json(std::string_view text, const std::string& origin, Fault code) {
  StrictnessCheck check;
  const auto callback = [&check](int depth, json::parse_event_t event, json& parsed) {
    return check(depth, event, parsed);
  };
  try {
    return json::parse(text.begin(), text.end(), callback);
  } catch (const json::exception& error) {
    return fault(code, fmt::format("{} is not valid JSON: {}", origin, without_tag(error.what())));
  } catch (const BadDocument& error) {
    return fault(code, fmt::format("{} {}", origin, error.what()));
  }
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
