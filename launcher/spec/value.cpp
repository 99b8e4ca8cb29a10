#include "spec/value.hpp"

#include "secrets/secrets.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace autolaunch::launcher {

std::string to_string(const SpecError& error) {
    std::string text = error.file;
    if (error.line > 0)
        text += ':' + std::to_string(error.line) + ':' + std::to_string(error.column);
    if (!error.key.empty())
        text += (text.empty() ? "" : ": ") + error.key;
    return text.empty() ? error.message : text + ": " + error.message;
}

const Entry* Value::find(std::string_view key) const {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Entry& entry) { return entry.key == key; });
    return found == entries.end() ? nullptr : &*found;
}

Entry* Value::find(std::string_view key) {
    return const_cast<Entry*>(std::as_const(*this).find(key));
}

int depth_of(const Value& value) {
    int deepest = 0;
    for (const auto& item : value.items)
        deepest = std::max(deepest, depth_of(item));
    for (const auto& entry : value.entries)
        deepest = std::max(deepest, depth_of(entry.value));
    return deepest + 1;
}

bool contains_target(const Value& value) {
    if (value.find("_target_") != nullptr)
        return true;
    return std::any_of(value.items.begin(), value.items.end(), contains_target) ||
           std::any_of(value.entries.begin(), value.entries.end(),
                       [](const Entry& entry) { return contains_target(entry.value); });
}

void merge_into(Value& base, Value over) {
    if (!base.is_mapping() || !over.is_mapping()) {
        base = std::move(over);
        return;
    }
    base.at = over.at;
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < base.entries.size(); ++i)
        places.emplace(base.entries[i].key, i);
    for (auto& entry : over.entries) {
        const auto place = places.find(entry.key);
        if (place == places.end()) {
            base.entries.push_back(std::move(entry));
            continue;
        }
        Entry& existing = base.entries[place->second];
        existing.key_at = entry.key_at;
        merge_into(existing.value, std::move(entry.value));
    }
}

void mark_secrets(Value& value) {
    value.secret = value.secret || (value.is_scalar() && mask_secrets(value.text) != value.text);
    for (auto& item : value.items) {
        item.secret = item.secret || value.secret;
        mark_secrets(item);
    }
    for (auto& entry : value.entries) {
        entry.value.secret = entry.value.secret || value.secret || names_secret(entry.key);
        mark_secrets(entry.value);
    }
}

std::string shorten(std::string_view text) {
    constexpr std::size_t kShown = 60;
    std::string shown(text.substr(0, kShown));
    if (text.size() <= kShown)
        return shown;
    // Never end within a UTF-8 sequence.
    while (!shown.empty() && (static_cast<unsigned char>(shown.back()) & 0xC0) == 0x80)
        shown.pop_back();
    if (!shown.empty() && static_cast<unsigned char>(shown.back()) >= 0xC0)
        shown.pop_back();
    return shown + "…";
}

std::string describe(const Value& value) {
    switch (value.kind) {
        case Value::Kind::null:
            return "nothing";
        case Value::Kind::sequence:
            return "a list";
        case Value::Kind::mapping:
            return "a mapping";
        case Value::Kind::scalar:
            break;
    }
    if (value.secret && !value.text.empty())
        return std::string(kMasked);
    std::string shown = shorten(value.text);
    for (char& c : shown)
        c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    return '"' + shown + '"';
}

SpecError error_at(const Origin& at, std::string key, std::string message) {
    // 64 levels of long keys, in each of many errors: its ends tell which it is.
    constexpr std::size_t kEnd = 300;
    if (key.size() > 3 * kEnd)
        key.replace(kEnd, key.size() - 2 * kEnd, "…");
    return {at.file ? *at.file : std::string(),
            at.line,
            at.column,
            std::move(key),
            std::move(message),
            false};
}

}  // namespace autolaunch::launcher
