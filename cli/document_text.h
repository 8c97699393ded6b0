#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace penstock::cli {

/// A document as the verbs print it. Paths may be any bytes: what is no UTF-8 becomes U+FFFD.
inline std::string document_text(const nlohmann::ordered_json& document, int indent = 2) {
  return document.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace penstock::cli
