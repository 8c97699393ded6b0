#include "bindings/deepspeed/config_schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bindings/deepspeed/config_key.h"
#include "bindings/deepspeed/deepspeed_keys.h"
#include "bindings/deepspeed/penstock_keys.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

// The texts that parse_bytes() reads, and those of them that are above 0.
constexpr const char* kSizePattern =
    "^[ \\t]*([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"
    "[ \\t]*([kKmMgGtT]?[bB]?|[kKmMgGtT][iI][bB])[ \\t]*$";
constexpr const char* kFlagPattern =
    "^([tT][rR][uU][eE]|[tT]|[yY][eE][sS]|[yY]|[oO][nN]|1|"
    "[fF][aA][lL][sS][eE]|[fF]|[nN][oO]?|[oO][fF][fF]|0)$";
constexpr const char* kNotZeroPattern = "^[ \\t0.]*[1-9]";

Json schema_of(const ConfigTable& table);

// Lists are made of vectors: a list of one value in braces is that value to some compilers.
using Forms = std::vector<Json>;

Json of_type(const char* type) {
  Json schema = Json::object();
  schema["type"] = type;
  return schema;
}

Json matching(const std::string& pattern) {
  Json schema = of_type("string");
  schema["pattern"] = pattern;
  return schema;
}

Json filled_text() {
  Json schema = of_type("string");
  schema["minLength"] = 1;
  return schema;
}

Json any_of(Forms forms) {
  if (forms.size() == 1) {
    return std::move(forms.front());
  }
  Json schema = Json::object();
  schema["anyOf"] = std::move(forms);
  return schema;
}

Json list_of(Json items) {
  Json schema = of_type("array");
  schema["items"] = std::move(items);
  return schema;
}

Json whole_number(const ConfigKey& key) {
  Json schema = of_type("integer");
  schema["minimum"] = key.is_above_zero ? 1 : 0;
  schema["maximum"] = key.maximum_or_all();
  return schema;
}

Json number(const ConfigKey& key) {
  Json schema = of_type("number");
  if (key.is_above_zero) {
    schema["exclusiveMinimum"] = 0;
  }
  if (key.is_share) {
    schema["minimum"] = 0;
    schema["maximum"] = 1;
  }
  return schema;
}

// A maximum is of one digit.
Json digits(const ConfigKey& key) {
  return matching(key.maximum == 0
                      ? "^[ \\t\\r\\n]*[0-9]+(_[0-9]+)*[ \\t\\r\\n]*$"
                      : fmt::format("^[ \\t\\r\\n]*(0_?)*[0-{}][ \\t\\r\\n]*$", key.maximum));
}

Json zero_or_one() {
  Json schema = Json::object();
  schema["enum"] = {0, 1};
  return schema;
}

Json size_text(const ConfigKey& key) {
  Json schema = matching(kSizePattern);
  if (key.is_above_zero) {
    schema["allOf"] = Forms{matching(kNotZeroPattern)};
  }
  return schema;
}

Json text(const ConfigKey& key) {
  if (!key.choices.empty()) {
    Json schema = Json::object();
    schema["enum"] = key.choices;
    return schema;
  }
  if (!key.is_required) {
    return of_type("string");
  }
  Json schema = filled_text();
  schema["not"]["const"] = "auto";  // which counts as absent
  return schema;
}

// The forms that the value of a key may have; null and "auto" aside.
Forms forms_of(const ConfigKey& key) {
  switch (key.kind) {
    case KeyKind::kAny:
      break;
    case KeyKind::kFlag:
      return {of_type("boolean"), zero_or_one(), matching(kFlagPattern)};
    case KeyKind::kCount:
      return {whole_number(key), digits(key)};
    case KeyKind::kNumber:
      return {number(key)};
    case KeyKind::kText:
    case KeyKind::kChoice:
      return {text(key)};
    case KeyKind::kSize:
      return {whole_number(key), size_text(key)};
    case KeyKind::kSizes:
      return {list_of(any_of({whole_number(key), size_text(key)}))};
    case KeyKind::kTexts:
      return {list_of(filled_text())};
    case KeyKind::kPaths:
      return {of_type("string"), list_of(filled_text())};
    case KeyKind::kSection:
      return key.may_be_flag ? Forms{schema_of(*key.inside), of_type("boolean")}
                             : Forms{schema_of(*key.inside)};
    case KeyKind::kList:
      return {list_of(key.may_be_text ? any_of({schema_of(*key.inside), filled_text()})
                                      : schema_of(*key.inside))};
  }
  return {};
}

Json schema_of(const ConfigKey& key) {
  if (key.meaning.empty()) {
    return true;
  }
  Json schema = Json::object();
  schema["description"] = key.meaning;
  if (key.kind == KeyKind::kAny) {
    return schema;
  }
  if (!key.by_default.empty()) {
    schema["default"] = Json::parse(key.by_default);
  }
  Forms forms = forms_of(key);
  if (!key.is_required) {
    Json absent = Json::object();
    absent["enum"] = key.kind == KeyKind::kSection ? Forms{nullptr} : Forms{"auto", nullptr};
    forms.push_back(std::move(absent));
  }
  schema.update(any_of(std::move(forms)));
  return schema;
}

// Objects with values under both of their names, in each pair of names.
Forms with_second_names(const ConfigTable& table) {
  Json given = Json::object();
  given["not"]["enum"] = Forms{"auto", nullptr};
  Forms forms;
  for (const ConfigKey& key : table.keys) {
    if (!key.same_as.empty()) {
      Json form = Json::object();
      form["required"] = {key.name, key.same_as};
      for (const std::string_view name : {key.name, key.same_as}) {
        form["properties"][std::string(name)] = given;
      }
      forms.push_back(std::move(form));
    }
  }
  return forms;
}

Json schema_of(const ConfigTable& table) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const ConfigKey& key : table.keys) {
    properties[std::string(key.name)] = schema_of(key);
    if (key.is_required) {
      required.push_back(key.name);
    }
  }
  Json schema = of_type("object");
  schema["properties"] = std::move(properties);
  if (!required.empty()) {
    schema["required"] = std::move(required);
  }
  if (table.is_complete) {
    schema["additionalProperties"] = false;
  }
  if (Forms refused = with_second_names(table); !refused.empty()) {
    schema["not"] = any_of(std::move(refused));
  }
  return schema;
}

// Keys of the block at the top, where neither it nor a section of DeepSpeed's is: they would not be
// read.
void refuse_misplaced_keys(Json& schema) {
  const auto required = [](const char* key) {
    Json form = Json::object();
    form["required"] = Json::array({key});
    return form;
  };
  schema["if"]["not"] = any_of({required("penstock"), required("zero_optimization")});
  schema["then"]["propertyNames"]["not"]["enum"] = kPenstockTable.names();
}

}  // namespace

Json config_schema() {
  Json schema = Json::object();
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "DeepSpeed's configuration, with the block that penstock reads";
  schema.update(schema_of(kDeepSpeedTable));
  refuse_misplaced_keys(schema);
  return schema;
}

}  // namespace penstock
