#pragma once
#include "spec/value.hpp"

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// Trees that are written as YAML, and changes to those that were read. Values made here have no
// place in a file.

Value text_leaf(std::string text);
Value number_leaf(std::int64_t number);
Value boolean_leaf(bool value);
Value list_node(std::vector<Value> items);
Value text_list_node(const std::vector<std::string>& texts);
Value text_map_node(const std::map<std::string, std::string>& texts);

/// A mapping, key by key.
class MapNode {
public:
    MapNode() { value_.kind = Value::Kind::mapping; }
    MapNode& add(std::string key, Value value);
    MapNode& add(std::string key, const MapNode& node) { return add(std::move(key), node.value_); }
    MapNode& text(std::string key, std::string text) {
        return add(std::move(key), text_leaf(std::move(text)));
    }
    MapNode& number(std::string key, std::int64_t number) {
        return add(std::move(key), number_leaf(number));
    }
    MapNode& boolean(std::string key, bool value) {
        return add(std::move(key), boolean_leaf(value));
    }
    /// Only what holds something: no empty text, list or mapping.
    MapNode& add_if_any(std::string key, Value value);
    operator Value() const { return value_; }

private:
    Value value_;
};

/// `root.section.key`; null where it is not there, or nothing.
const Entry* find_key(const Value& root, std::string_view section, std::string_view key);
/// Sets it; both are made where they are not there.
void set_key(Value& root, std::string_view section, std::string_view key, Value value);
void remove_key(Value& mapping, std::string_view key);

}  // namespace autolaunch::launcher
