#include "spec/stored_spec.hpp"

#include "secrets/secrets.hpp"
#include "spec/interpolate.hpp"
#include "spec/scalar.hpp"
#include "spec/schema.hpp"

#include <algorithm>
#include <array>
#include <memory>

namespace autolaunch::launcher {

namespace {

/// `text` without its ${VAR}; what stands in defaults stays.
std::string without_references(std::string_view text) {
    std::string rest;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.substr(i).starts_with("${") && (i == 0 || text[i - 1] != '$')) {
            const std::size_t end = text.find_first_of(":}", i + 2);
            if (end == std::string_view::npos)
                break;
            i = text[end] == ':' && end + 1 < text.size() && text[end + 1] == '-' ? end + 1 : end;
            continue;
        }
        if (text[i] != '}')
            rest += text[i];
    }
    return rest;
}

bool looks_secret(const std::string& text) { return mask_secrets(text) != text; }

enum class Name {
    plain,
    above,
    own
};  ///< which key says that it is a secret: one above it, its own

/// What stands where a secret would: true, 0, none, the path of a file.
bool is_no_secret(const std::string& text) {
    const Scalar found = resolve_scalar(text);
    return !std::holds_alternative<ScalarText>(found) || text == "none" || text == "None" ||
           text.starts_with('/') || text.starts_with("~/");
}

bool holds_secret_value(const Value& value, Name name) {
    const std::string written = without_references(value.text);
    if (looks_secret(written))
        return true;
    if (name == Name::own)
        return !is_no_secret(written);
    return name == Name::above && !secret_values({{"SECRET", written}}).empty();
}

/// Finds the values of secrets below a section.
class SecretSearch {
public:
    /// `inherits`: whether all below a secret's name is one. `authorization` of the administrator's
    /// sections is no header with a token in it.
    SecretSearch(bool inherits, std::vector<SpecError>& errors)
        : inherits_(inherits), errors_(errors) {}

    void look(const Value& value, const std::string& key, Name name) {
        if (value.is_scalar() && holds_secret_value(value, name))
            errors_.push_back(
                error_at(value.at, key,
                         "holds a secret: autolaunch submit stores the spec beside the job, and no "
                         "secret in it; say under `secrets` where it comes from "
                         "(docs/secrets.md), or write ${VAR}, which the job replaces"));
        const Name below = name == Name::plain || !inherits_ ? Name::plain : Name::above;
        look_at_list(value, key, below);
        for (const Entry& entry : value.entries)
            look(entry.value, key + '.' + entry.key, names_secret(entry.key) ? Name::own : below);
    }

private:
    /// A list may be a command, in which --token stands before one.
    void look_at_list(const Value& value, const std::string& key, Name below) {
        std::vector<std::string> words;
        for (const Value& item : value.items)
            words.push_back(item.is_scalar() ? item.text : std::string());
        const std::vector<std::string> masked = mask_arguments(words);
        for (std::size_t i = 0; i < value.items.size(); ++i)
            look(value.items[i], key + '[' + std::to_string(i) + ']',
                 masked[i] != words[i] ? Name::above : below);
    }

    bool inherits_;
    std::vector<SpecError>& errors_;
};

Entry& entry_of(Value& parent, std::string_view key) {
    if (parent.is_null())
        parent.kind = Value::Kind::mapping;
    if (Entry* entry = parent.find(key))
        return *entry;
    const Origin at{std::make_shared<const std::string>("autolaunch submit"), 0, 0};
    Value empty;
    empty.at = at;
    parent.entries.push_back({std::string(key), at, std::move(empty)});
    return parent.entries.back();
}

}  // namespace

bool is_known_to_job_alone(std::string_view name) {
    constexpr std::array<std::string_view, 3> kOfNodes = {"TMPDIR", "HOSTNAME",
                                                          "CUDA_VISIBLE_DEVICES"};
    return is_variable_of_slurm(name) ||
           std::find(kOfNodes.begin(), kOfNodes.end(), name) != kOfNodes.end();
}

bool stays_in_stored_spec(const std::string& name, const std::string* value) {
    return is_known_to_job_alone(name) || names_secret(name) ||
           (value != nullptr && looks_secret(*value));
}

void unquote_replaced(Value& value) {
    const Scalar found = resolve_scalar(value.text);
    const bool is_text =
        std::holds_alternative<std::monostate>(found) || std::holds_alternative<ScalarText>(found);
    value.plain = value.plain || (value.interpolated && !is_text);
    for (Value& item : value.items)
        unquote_replaced(item);
    for (Entry& entry : value.entries)
        unquote_replaced(entry.value);
}

void refuse_stored_secrets(const Value& root, std::vector<SpecError>& errors) {
    for (const Entry& section : root.entries) {
        const Section* known = find_section(section.key);
        const bool of_site = known != nullptr && (known->of_site || section.key == "monitoring");
        SecretSearch search(!of_site, errors);
        if (known == nullptr || !known->of_secrets) {
            search.look(section.value, section.key, Name::plain);
            continue;
        }
        for (const Entry& secret : section.value.entries)  // where they come from, by their names
            search.look(secret.value, section.key + '.' + secret.key, Name::plain);
    }
}

void set_in_spec(Value& root, std::string_view section, std::string_view key, std::string text,
                 bool plain) {
    Value& value = entry_of(entry_of(root, section).value, key).value;
    const Origin at = value.at;
    value = {};
    value.kind = Value::Kind::scalar;
    value.plain = plain;
    value.text = std::move(text);
    value.at = at;
}

const Entry* find_in_spec(const Value& root, std::string_view section, std::string_view key) {
    const Entry* found = root.is_mapping() ? root.find(section) : nullptr;
    return found == nullptr || !found->value.is_mapping() ? nullptr : found->value.find(key);
}

}  // namespace autolaunch::launcher
