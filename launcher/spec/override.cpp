#include "spec/override.hpp"

#include "base/text.hpp"
#include "spec/spec.hpp"
#include "spec/yaml_reader.hpp"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxPath = 16;

/// One line and no positions: an override is its own position.
void place_all(Value& value, const Origin& at) {
    value.at = at;
    for (auto& item : value.items)
        place_all(item, at);
    for (auto& entry : value.entries) {
        entry.key_at = at;
        place_all(entry.value, at);
    }
}

/// Where the step `name` leads from `parent`; nullptr when it leads nowhere.
Value* step_into(Value& parent, const std::string& name, const Origin& at) {
    if (parent.is_sequence()) {
        long long index = -1;
        if (!parse_integer(name, index) || index < 0 ||
            index >= static_cast<long long>(parent.items.size()))
            return nullptr;
        return &parent.items[static_cast<std::size_t>(index)];
    }
    if (parent.is_null()) {
        parent = Value{};
        parent.kind = Value::Kind::mapping;
        parent.at = at;
    }
    if (!parent.is_mapping())
        return nullptr;
    if (Entry* entry = parent.find(name)) {
        entry->key_at = at;
        return &entry->value;
    }
    parent.entries.push_back({name, at, {}});
    parent.entries.back().value.at = at;
    return &parent.entries.back().value;
}

std::string why_no_step(const Value& parent, const std::string& name, const std::string& path) {
    if (parent.is_sequence())
        return "\"" + name + "\" is no item of " + path + ", a list of " +
               std::to_string(parent.items.size());
    return path + " is " + describe(parent) + ", so nothing can be set in it";
}

bool has_secret(const Value& value) {
    return value.secret || std::any_of(value.items.begin(), value.items.end(), has_secret) ||
           std::any_of(value.entries.begin(), value.entries.end(),
                       [](const Entry& entry) { return has_secret(entry.value); });
}

/// Of what is no YAML: by any word in it.
bool names_a_secret(const std::string& text) {
    std::string word;
    for (const char c : text + ' ') {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 128 && (std::isalnum(byte) != 0 || c == '_' || c == '-'))
            word += c;
        else if (!word.empty() && names_secret(std::exchange(word, {})))
            return true;
    }
    return mask_secrets(text) != text;
}

/// By the names that lead to it, by those within it, and by what it looks like.
bool holds_secret(const std::string& path, const std::string& text) {
    const auto names = split(path, '.');
    if (std::any_of(names.begin(), names.end(), names_secret))
        return true;
    std::vector<SpecError> errors;
    Value value = read_yaml(text, "", errors);
    mark_secrets(value);
    return errors.empty() ? has_secret(value) : names_a_secret(text);
}

}  // namespace

bool is_override(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
        return false;
    for (const auto& name : split(std::string_view(argument).substr(0, equals), '.')) {
        if (name.empty())
            return false;
        for (const unsigned char c : name) {
            if (c >= 128 || (std::isalnum(c) == 0 && c != '_' && c != '-'))
                return false;
        }
    }
    const auto first = static_cast<unsigned char>(argument[0]);
    return std::isalpha(first) != 0 || first == '_';
}

void apply_override(Value& root, const std::string& text, Secrets secrets,
                    std::vector<SpecError>& errors) {
    const std::size_t equals = text.find('=');
    const Origin at{std::make_shared<const std::string>(
                        "override " + text.substr(0, equals + 1) +
                        (secrets == Secrets::mask &&
                                 holds_secret(text.substr(0, equals), text.substr(equals + 1))
                             ? std::string(kMasked)
                             : shorten(text.substr(equals + 1)))),
                    0, 0};
    std::vector<SpecError> found;
    Value value = read_yaml(text.substr(equals + 1), *at.file, found);
    for (auto& error : found) {
        error.line = error.column = 0;
        errors.push_back(std::move(error));
    }
    if (!found.empty())
        return;
    place_all(value, at);
    set_path(root, text.substr(0, equals), std::move(value), at, errors);
}

void set_path(Value& root, const std::string& path, Value value, const Origin& at,
              std::vector<SpecError>& errors) {
    const auto names = split(path, '.');
    if (names.size() > kMaxPath ||
        names.size() + static_cast<std::size_t>(depth_of(value)) > kMaxDepth) {
        errors.push_back(error_at(at, "", "nested too deeply"));
        return;
    }
    if (names[0] == "include") {
        errors.push_back(
            error_at(at, "include", "files are included by files; give overrides instead"));
        return;
    }
    Value* target = &root;
    std::string walked;
    for (const auto& name : names) {
        Value* next = step_into(*target, name, at);
        if (next == nullptr) {
            errors.push_back(error_at(at, "", why_no_step(*target, name, walked)));
            return;
        }
        walked += walked.empty() ? name : '.' + name;
        target = next;
    }
    *target = std::move(value);
}

}  // namespace autolaunch::launcher
