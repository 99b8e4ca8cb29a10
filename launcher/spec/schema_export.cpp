#include "spec/schema.hpp"

#include "causes/cause.hpp"

#include <nlohmann/json.hpp>

namespace autolaunch::launcher {

namespace {

using Json = nlohmann::ordered_json;

/// Any value may be written as ${VAR}, which editors see as a string.
const Json& reference_schema() {
    static const Json kSchema = {{"type", "string"}, {"pattern", R"(\$\{.*\})"}};
    return kSchema;
}

Json any_of(std::initializer_list<Json> alternatives) {
    Json list = Json::array();
    for (const auto& alternative : alternatives)
        list.push_back(alternative);
    list.push_back(reference_schema());
    return {{"anyOf", list}};
}

Json whole_number(const Key& key) {
    return {{"type", "integer"}, {"minimum", key.minimum}, {"maximum", key.maximum}};
}

Json scalar_map(std::string_view name_pattern) {
    return {{"type", "object"},
            {"propertyNames", {{"pattern", name_pattern}}},
            {"additionalProperties", {{"type", {"string", "number", "boolean", "null"}}}}};
}

Json text_list() {
    return {{"type", "array"}, {"items", {{"type", {"string", "number", "boolean"}}}}};
}

/// Words are taken in any case, and editors complete the lower one.
Json choices_schema(const Key& key) {
    std::string pattern;
    for (const auto choice : key.choices) {
        pattern += pattern.empty() ? "^(" : "|";
        for (const char c : choice) {
            const bool letter = c >= 'a' && c <= 'z';
            pattern += letter ? std::string{'[', c, static_cast<char>(c - 'a' + 'A'), ']'}
                              : std::string(1, c);
        }
    }
    return any_of({{{"enum", key.choices}}, {{"type", "string"}, {"pattern", pattern + ")$"}}});
}

Json restart_map() {
    const Json duration =
        any_of({{{"type", "number"}, {"minimum", 0}}, {{"type", "string"}, {"minLength", 1}}});
    Json rules = {{"type", "object"}, {"additionalProperties", false}};
    rules["properties"] = {
        {"budget", any_of({{{"type", "integer"}, {"minimum", 0}}})},
        {"window", any_of({{{"type", "string"}, {"pattern", "^[0-9]+ +per +[0-9]"}}})},
        {"delay", duration},
        {"backoff", any_of({{{"type", "number"}, {"minimum", 1}}})},
        {"action", any_of({{{"enum", {"restart", "restart_elsewhere", "requeue", "stop"}}}})}};
    Json schema = {{"type", "object"}, {"additionalProperties", false}};
    for (const Cause cause : all_causes())
        schema["properties"][std::string(name_of(cause))] = rules;
    return schema;
}

/// A number, or how many at least and at most, and how many more.
Json node_counts(const Key& key) {
    const Json count = any_of({whole_number(key)});
    Json counts = {{"type", "object"}, {"additionalProperties", false}};
    counts["properties"] = {{"min", count},
                            {"max", count},
                            {"spares", any_of({{{"type", "integer"}, {"minimum", 0}}})}};
    counts["anyOf"] = Json::array({{{"required", {"min"}}}, {{"required", {"max"}}}});
    return any_of({whole_number(key), counts});
}

/// Of each secret one source, and who gets it how.
Json secrets_map() {
    const Json text = {{"type", "string"}, {"minLength", 1}};
    Json list = text_list();
    list["minItems"] = 1;
    Json secret = {{"type", "object"}, {"additionalProperties", false}};
    secret["properties"] = {
        {"file", text},
        {"command", list},
        {"vault", any_of({{{"type", "string"}, {"pattern", "^/*[^/#]+/[^#]+#."}}})},
        {"vault_transit", text},
        {"as", any_of({{{"enum", {"environment", "file"}}}})},
        {"ranks", any_of({{{"type", "integer"}, {"minimum", 0}},
                          {{"type", "string"},
                           {"pattern", "^(all|[0-9]+(-[0-9]+)?( *, *[0-9]+(-[0-9]+)?)*)$"}}})},
        {"programs", list}};
    secret["oneOf"] = Json::array({{{"required", {"file"}}},
                                   {{"required", {"command"}}},
                                   {{"required", {"vault"}}},
                                   {{"required", {"vault_transit"}}}});
    return {{"anyOf", Json::array({secret, {{"type", "null"}}})}};
}

/// A list of mappings that have these keys, and scalars for values.
Json mappings(std::initializer_list<const char*> keys) {
    Json item = {{"type", "object"}, {"additionalProperties", false}};
    for (const char* key : keys)
        item["properties"][key] = {{"type", {"string", "number", "boolean", "null"}}};
    return {{"type", "array"}, {"items", item}};
}

constexpr const char* kModulePattern = R"(^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$)";

Json form_schema(const Key& key) {
    const Json text = {{"type", {"string", "number", "boolean"}}};
    switch (key.form) {
        case Form::text:
            return key.choices.empty() ? text : choices_schema(key);
        case Form::whole_number:
            return any_of({whole_number(key)});
        case Form::number:
            return any_of({{{"type", "number"}, {"exclusiveMinimum", 0}}});
        case Form::boolean:
            return any_of({{{"type", "boolean"}}});
        case Form::duration:
            return any_of({{{"type", "number"}, {"minimum", key.minimum / 1000}},
                           {{"type", "string"},
                            {"pattern", R"(^([0-9]+(\.[0-9]*)?|([0-9.]+ *(ms|s|m|h|d) *)+)$)"}}});
        case Form::size:
            return any_of({{{"type", "number"}, {"minimum", key.minimum}},
                           {{"type", "string"}, {"pattern", R"(^[0-9.]+ *([kKMGTP](i?B)?|B)?$)"}}});
        case Form::count:
            return any_of({{{"type", "number"}, {"minimum", 1}},
                           {{"type", "string"}, {"pattern", R"(^[0-9._]+ *[kKMGBT]?$)"}}});
        case Form::time_limit:
            return any_of(
                {{{"type", "integer"}, {"minimum", 0}},
                 {{"type", "string"},
                  {"pattern", R"(^(UNLIMITED|INFINITE|([0-9]+-)?[0-9]+(:[0-9]+){0,2})$)"}}});
        case Form::command: {
            Json list = text_list();
            list["minItems"] = 1;
            return {{"anyOf", Json::array({{{"type", "string"}, {"minLength", 1}}, list})}};
        }
        case Form::text_list:
            return text_list();
        case Form::number_list:
            return {{"type", "array"}, {"items", any_of({{{"type", "integer"}, {"minimum", 0}}})}};
        case Form::text_map:
            return scalar_map("^[^=]+$");
        case Form::nccl_map:
            return scalar_map("^NCCL_");
        case Form::nodes:
            return node_counts(key);
        case Form::ranks_per_node:
            return any_of({{{"enum", {"auto", "cpu", "gpu"}}}, whole_number(key)});
        case Form::binding: {
            Json entries = {{"type", "array"}, {"minItems", 1}};
            entries["items"] =
                any_of({{{"type", "integer"}, {"minimum", 0}},
                        {{"type", "string"},
                         {"pattern", R"(^(numa:|core:)?[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$)"}}});
            Json schema = choices_schema(key);
            schema["anyOf"].push_back(entries);
            return schema;
        }
        case Form::streams:
            return any_of({{{"enum", {"all", "stdout", "stderr", "none"}}}});
        case Form::preflight:
            return any_of({{{"type", "boolean"}}, {{"enum", Json::array({"warn"})}}});
        case Form::input:
            return any_of({{{"type", "integer"}, {"minimum", 0}},
                           {{"type", "string"}, {"pattern", "^(none|all|[0-9]+)$"}}});
        case Form::preload: {
            Json modules = {{"type", "array"}, {"minItems", 1}};
            modules["items"] = any_of({{{"type", "string"}, {"pattern", kModulePattern}}});
            // An editor reads `off` as YAML 1.1 does.
            return any_of({{{"enum", Json::array({"auto", "off", false})}}, modules});
        }
        case Form::hang_after:  // an editor reads `off` as YAML 1.1 does
            return any_of(
                {{{"type", "number"}, {"minimum", key.minimum / 1000}},
                 {{"type", "string"},
                  {"pattern", R"(^(auto|off|[0-9]+(\.[0-9]*)?|([0-9.]+ *(ms|s|m|h|d) *)+)$)"}},
                 {{"enum", Json::array({false})}}});
        case Form::wrap_map:
            return scalar_map("^(all|[0-9]+(-[0-9]+)?( *, *[0-9]+(-[0-9]+)?)*)$");
        case Form::folder_mode:
            return any_of({{{"type", {"integer", "string"}}, {"pattern", "^(0o)?[0-7]{3,5}$"}}});
        case Form::restart_map:
            return restart_map();
        case Form::tolerations:
            return mappings({"key", "operator", "value", "effect", "seconds"});
        case Form::volumes:
            return mappings({"mount", "claim", "host_path", "nfs", "config_map", "secret",
                             "empty_dir", "sub_path", "read_only"});
        case Form::spread:
            return any_of({{{"type", "string"}, {"minLength", 1}},
                           {{"type", "array"}, {"items", {{"type", {"object", "string"}}}}}});
        case Form::resource_map: {
            Json counts = {{"type", "object"}, {"propertyNames", {{"pattern", "^[^/]+/[^/]+$"}}}};
            counts["additionalProperties"] = any_of({{{"type", "integer"}, {"minimum", 1}}});
            return counts;
        }
        case Form::hugepages:
            return {{"type", "object"},
                    {"propertyNames", {{"pattern", "^[0-9]+[KMG]i$"}}},
                    {"additionalProperties", {{"type", {"integer", "string"}}}}};
        case Form::secret_key:
            return any_of({{{"type", "string"}, {"pattern", "^[a-z0-9.-]+/[-._a-zA-Z0-9]+$"}}});
        case Form::secret_keys:
            return scalar_map("^[A-Za-z_][A-Za-z0-9_]*$");
        case Form::stage_in: {
            const Json text_value = {{"type", "string"}, {"minLength", 1}};
            Json item = {{"type", "object"}, {"additionalProperties", false}};
            item["required"] = {"from", "as"};
            item["properties"] = {
                {"from", text_value},
                {"as", any_of({{{"type", "string"}, {"pattern", "^[A-Za-z0-9_]{1,64}$"}}})},
                {"verify", text_value},
                {"unpack", {{"enum", {true, false, "tar", "zip"}}}},
                {"start", {{"enum", {"all", "streaming"}}}}};
            return {{"type", "array"}, {"items", item}};
        }
        case Form::stage_out: {
            const Json text_value = {{"type", "string"}, {"minLength", 1}};
            Json item = {{"type", "object"}, {"additionalProperties", false}};
            item["required"] = {"from", "to"};
            item["properties"] = {
                {"from", any_of({{{"type", "string"}, {"pattern", "^[A-Za-z0-9_]{1,64}$"}}})},
                {"to", text_value},
                {"when", {{"enum", {"always", "success"}}}},
                {"layout", {{"enum", {"flat", "node"}}}},
                {"overwrite", any_of({{{"type", "boolean"}}})}};
            return {{"type", "array"}, {"items", item}};
        }
        case Form::tiers: {
            const Json count = {{"type", "integer"}, {"minimum", 1}};
            const Json words = any_of({{{"type", {"string", "integer"}}}});
            Json tier = {{"type", "object"}, {"additionalProperties", false}};
            tier["required"] = {"place"};
            tier["properties"] = {{"place", {{"type", "string"}, {"minLength", 1}}},
                                  {"every", words},
                                  {"keep", any_of({count})},
                                  {"keep_every", any_of({count})},
                                  {"keep_best", any_of({count})},
                                  {"bandwidth", words}};
            return {{"type", "array"}, {"items", tier}};
        }
        case Form::stripe: {
            Json parts = {{"type", "object"}, {"additionalProperties", false}};
            parts["properties"] = {
                {"count", any_of({{{"type", "integer"}, {"minimum", 1}}, {{"const", "all"}}})},
                {"size", any_of({{{"type", {"string", "integer"}}}})}};
            return any_of({{{"const", "auto"}}, parts});
        }
        case Form::of_site:
            return {{"type", key.choices.empty() ? "object" : "boolean"}};
        case Form::free_form:
            return Json::object();
    }
    return Json::object();
}

const Json& target_reference() {
    static const Json kReference = {{"$ref", "#/definitions/target"}};
    return kReference;
}

/// As JSON where it is a number or a boolean, else as text.
Json default_of(const Key& key) {
    const Json parsed = Json::parse(key.default_value, nullptr, false);
    return parsed.is_discarded() ? Json(key.default_value) : parsed;
}

/// null stands for "not given", as in Python's configurations.
Json key_schema(const Key& key) {
    Json schema = {
        {"description", std::string(key.description) + " Expects " + expectation(key) + "."}};
    if (!key.default_value.empty())
        schema["default"] = default_of(key);
    if (key.form == Form::free_form)
        return schema;
    schema["anyOf"] = Json::array({form_schema(key), {{"type", "null"}}, target_reference()});
    return schema;
}

/// sweep_words.cpp reads it.
Json sweep_schema() {
    const Json path = {{"pattern", "^[A-Za-z0-9_.-]+$"}};
    const Json some = {{"type", "array"}, {"minItems", 1}};
    const Json ends = {{"type", "array"},
                       {"minItems", 2},
                       {"maxItems", 2},
                       {"items", {{"type", {"number", "string"}}}}};
    const Json settings = {{"type", "object"}, {"propertyNames", path}, {"minProperties", 1}};
    const Json metric = {{"enum", {"loss", "seconds", "tokens_per_second"}}};
    const Json mode = {{"enum", {"min", "max"}}};
    const Json count = {{"type", {"integer", "string"}}};
    const auto only = [](Json properties) {
        return Json{{"type", "object"},
                    {"additionalProperties", false},
                    {"properties", std::move(properties)}};
    };
    Json grid = settings, list = some, range = only({});
    grid["additionalProperties"] = some;
    list["items"] = settings;
    range["minProperties"] = range["maxProperties"] = 1;
    for (const char* kind : {"uniform", "log", "integer"})
        range["properties"][kind] = ends;
    range["properties"]["choice"] = some;
    Json random = only({{"samples", count},
                        {"seed", count},
                        {"ranges",
                         {{"type", "object"},
                          {"propertyNames", path},
                          {"minProperties", 1},
                          {"additionalProperties", range}}}});
    random["required"] = {"samples", "ranges"};
    Json early_stop = only({{"rule", {{"enum", {"median", "asha"}}}},
                            {"metric", metric},
                            {"mode", mode},
                            {"min_steps", count},
                            {"every", count},
                            {"eta", count},
                            {"min_elements", count}});
    early_stop["required"] = {"rule"};
    return only({{"grid", grid},
                 {"list", list},
                 {"random", random},
                 {"metric", metric},
                 {"mode", mode},
                 {"early_stop", early_stop},
                 {"element", count},
                 {"of", {{"type", "string"}}},
                 {"values", settings}});
}

/// In a section with a _target_ other keys are the trainer's own; elsewhere only those whose value
/// has one.
Json section_schema(const Section& section) {
    Json schema = {{"description", section.description}};
    if (section.free_form)
        return schema;
    if (section.of_pipeline) {
        const Json word = {{"enum", {"ok", "any", "notok", "corr"}}};
        schema["type"] = {"array", "null"};
        schema["items"] = {
            {"type", "object"},
            {"required", {"name", "spec"}},
            {"additionalProperties", false},
            {"properties",
             {{"name", {{"type", "string"}, {"pattern", "^[A-Za-z0-9_-]+$"}}},
              {"spec", {{"type", "string"}}},
              {"after",
               {{"anyOf", Json::array({word,
                                       {{"type", "null"}},
                                       {{"type", "object"}, {"additionalProperties", word}}})}}}}}};
        return schema;
    }
    schema["type"] = {"object", "null"};
    if (section.of_sweep) {
        schema.update(sweep_schema());
        return schema;
    }
    if (section.of_site)
        return schema;
    if (section.of_secrets) {
        schema["propertyNames"] = {{"pattern", "^[A-Za-z_][A-Za-z0-9_]*$"}};
        schema["additionalProperties"] = secrets_map();
        return schema;
    }
    Json names = Json::object();
    for (const auto& key : section.keys) {
        schema["properties"][std::string(key.name)] = key_schema(key);
        names[std::string(key.name)] = true;
    }
    schema["if"] = {{"not", {{"required", {"_target_"}}}}};
    schema["then"] = {{"properties", names}, {"additionalProperties", target_reference()}};
    return schema;
}

/// Something that has a `_target_` at some depth.
Json target_schema() {
    const Json none_below = {{"additionalProperties", {{"not", target_reference()}}}};
    return {{"anyOf", Json::array({{{"type", "object"}, {"required", {"_target_"}}},
                                   {{"type", "object"}, {"minProperties", 1}, {"not", none_below}},
                                   {{"type", "array"}, {"contains", target_reference()}}})}};
}

std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
        text.insert(at, 1, '\\');
    return text;
}

}  // namespace

std::string json_schema() {
    Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                   {"title", "autolaunch job spec"},
                   {"type", {"object", "null"}}};
    schema["definitions"]["target"] = target_schema();
    schema["properties"]["include"] = {
        {"description",
         "Other files, relative to this one. This file wins over them, and a later one over an "
         "earlier."},
        {"anyOf", Json::array({{{"type", "string"}},
                               {{"type", "array"}, {"items", {{"type", "string"}}}},
                               {{"type", "null"}}})}};
    for (const auto& section : sections())
        schema["properties"][std::string(section.name)] = section_schema(section);
    for (const auto name : sections_to_come())
        schema["properties"][std::string(name)] = Json(false);
    schema["additionalProperties"] = target_reference();
    return schema.dump(2);
}

std::string schema_markdown() {
    std::string text;
    for (const auto& section : sections()) {
        text += "### `" + std::string(section.name) + "`\n\n" + std::string(section.description);
        text += section.free_form ? " Any content; it reaches the trainer untouched.\n\n" : "\n\n";
        if (section.free_form || section.of_site || section.of_secrets || section.of_pipeline ||
            section.of_sweep)
            continue;
        text += "| key | expects | default | meaning |\n|---|---|---|---|\n";
        for (const auto& key : section.keys) {
            const std::string fallback =
                key.default_value.empty() ? "" : '`' + std::string(key.default_value) + '`';
            text += "| `" + std::string(key.name) + "` | " + cell(expectation(key)) + " | " +
                    fallback + " | " + cell(std::string(key.description)) + " |\n";
        }
        text += '\n';
    }
    text.pop_back();
    return text;
}

}  // namespace autolaunch::launcher
