#pragma once
// The rules of the safetensors format, written down a second time and on purpose without the
// library's code: what the reference implementation checks when it opens a file.
#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::testing {

/// The rule that the file breaks; empty when it is valid.
inline std::string broken_safetensors_rule(const std::string& file) {
    if (file.size() < 8)
        return "shorter than the length";
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i)
        length = length << 8 | static_cast<unsigned char>(file[static_cast<std::size_t>(i)]);
    if (length > 100'000'000)
        return "header longer than 100 MB";
    if (length > file.size() - 8)
        return "header longer than the file";
    const std::string header = file.substr(8, length);
    if (header.empty() || header[0] != '{')
        return "header does not start with {";
    const auto json = nlohmann::json::parse(header, nullptr, false);
    if (!json.is_object())
        return "header is not a JSON object";
    const std::map<std::string, std::uint64_t> widths = {
        {"F64", 8}, {"F32", 4}, {"BF16", 2}, {"F16", 2}, {"I64", 8},
        {"I32", 4}, {"I8", 1},  {"U64", 8},  {"U32", 4}, {"U8", 1}};
    std::vector<std::pair<std::uint64_t, std::uint64_t>> spans;
    for (const auto& [name, value] : json.items()) {
        if (name == "__metadata__") {
            for (const auto& [key, text] : value.items())
                if (!text.is_string())
                    return "metadata " + key + " is not a string";
            continue;
        }
        if (value.size() != 3 || !widths.contains(value.value("dtype", "")))
            return name + " has no known dtype";
        std::uint64_t bytes = widths.at(value["dtype"]);
        for (const auto& extent : value["shape"])
            bytes *= extent.get<std::uint64_t>();
        const std::uint64_t begin = value["data_offsets"][0], end = value["data_offsets"][1];
        if (begin > end || end - begin != bytes)
            return name + " has offsets unlike its shape";
        if (begin % widths.at(value["dtype"]) != 0)
            return name + " is not aligned to its type";
        spans.emplace_back(begin, end);
    }
    std::sort(spans.begin(), spans.end());
    std::uint64_t end = 0;
    for (const auto& [begin, next] : spans) {
        if (begin != end)
            return "a hole or an overlap at " + std::to_string(end);
        end = next;
    }
    if (8 + length + end != file.size())
        return "the last tensor does not end where the file does";
    return (8 + length) % 4096 == 0 ? "" : "the data does not start on a page (our own rule)";
}

}  // namespace autolaunch::testing
