#include "manifests/tree.hpp"

#include "spec/stored_spec.hpp"

#include <algorithm>
#include <utility>

namespace autolaunch::launcher {

namespace {

Value leaf(std::string text, bool plain) {
    Value value;
    value.kind = Value::Kind::scalar;
    value.plain = plain;
    value.text = std::move(text);
    return value;
}

Value& entry_for(Value& mapping, std::string_view key) {
    mapping.kind = Value::Kind::mapping;
    if (Entry* entry = mapping.find(key))
        return entry->value;
    mapping.entries.push_back({std::string(key), {}, {}});
    return mapping.entries.back().value;
}

}  // namespace

Value text_leaf(std::string text) { return leaf(std::move(text), false); }
Value number_leaf(std::int64_t number) { return leaf(std::to_string(number), true); }
Value boolean_leaf(bool value) { return leaf(value ? "true" : "false", true); }

Value list_node(std::vector<Value> items) {
    Value value;
    value.kind = Value::Kind::sequence;
    value.items = std::move(items);
    return value;
}

Value text_list_node(const std::vector<std::string>& texts) {
    std::vector<Value> items;
    for (const std::string& text : texts)
        items.push_back(text_leaf(text));
    return list_node(std::move(items));
}

Value text_map_node(const std::map<std::string, std::string>& texts) {
    MapNode node;
    for (const auto& [key, text] : texts)
        node.text(key, text);
    return node;
}

MapNode& MapNode::add(std::string key, Value value) {
    value_.entries.push_back({std::move(key), {}, std::move(value)});
    return *this;
}

MapNode& MapNode::add_if_any(std::string key, Value value) {
    const bool any =
        value.is_scalar() ? !value.text.empty() : !value.items.empty() || !value.entries.empty();
    return any ? add(std::move(key), std::move(value)) : *this;
}

const Entry* find_key(const Value& root, std::string_view section, std::string_view key) {
    const Entry* entry = find_in_spec(root, section, key);
    return entry == nullptr || entry->value.is_null() ? nullptr : entry;
}

void set_key(Value& root, std::string_view section, std::string_view key, Value value) {
    entry_for(entry_for(root, section), key) = std::move(value);
}

void remove_key(Value& mapping, std::string_view key) {
    std::erase_if(mapping.entries, [&](const Entry& entry) { return entry.key == key; });
}

}  // namespace autolaunch::launcher
