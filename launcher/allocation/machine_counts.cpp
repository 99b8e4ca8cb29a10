#include "allocation/machine_counts.hpp"

#include "base/json_nesting.hpp"
#include "base/text.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <set>
#include <sstream>

namespace autolaunch::launcher {

namespace {

using Count = std::optional<long long>;

Count size_of(const std::set<std::string>& names) {
    return names.empty() ? std::nullopt : Count(static_cast<long long>(names.size()));
}

Count count_between(const std::string& value, char separator) {
    std::set<std::string> names;
    for (const auto& part : split(value, separator))
        if (const auto name = trim(part); !name.empty())
            names.emplace(name);
    return size_of(names);
}

nlohmann::json parse_json(const std::string& text) {
    constexpr int kDeepest = 16;
    return nests_at_most(text, kDeepest) ? nlohmann::json::parse(text, nullptr, false)
                                         : nlohmann::json();
}

}  // namespace

Count count_as_number(const std::string& value) {
    long long number = 0;
    return parse_integer(value, number) ? Count(number) : std::nullopt;
}

Count count_words(const std::string& value) {
    std::istringstream words(value);
    std::set<std::string> names;
    for (std::string word; words >> word;)
        names.insert(word);
    return size_of(names);
}

Count count_hosts_with_slots(const std::string& value) {
    std::istringstream words(value);
    std::set<std::string> names;
    long long slots = 0;
    for (std::string host, count; words >> host;) {
        if (!(words >> count) || !parse_integer(count, slots))
            return std::nullopt;
        names.insert(host);
    }
    return size_of(names);
}

Count count_lines(const std::string& text) {
    std::set<std::string> names;
    for (const auto& line : split(text, '\n'))
        if (const auto name = trim(line); !name.empty() && !name.starts_with('#'))
            names.emplace(name.substr(0, name.find_first_of(" \t")));
    return size_of(names);
}

Count count_between_commas(const std::string& value) { return count_between(value, ','); }

Count count_between_semicolons(const std::string& value) { return count_between(value, ';'); }

Count count_json_hosts(const std::string& value) {
    const nlohmann::json json = parse_json(value);
    if (json.is_array())
        return static_cast<long long>(json.size());
    if (json.is_object() && json.contains("hosts") && json["hosts"].is_array())
        return static_cast<long long>(json["hosts"].size());
    return std::nullopt;
}

Count count_cluster_members(const std::string& value) {
    const nlohmann::json json = parse_json(value);
    if (!json.is_object() || !json.contains("cluster") || !json["cluster"].is_object())
        return std::nullopt;
    long long members = 0;
    for (const auto& [kind, addresses] : json["cluster"].items())
        if (kind != "evaluator" && addresses.is_array())
            members += static_cast<long long>(addresses.size());
    return members > 0 ? Count(members) : std::nullopt;
}

}  // namespace autolaunch::launcher
