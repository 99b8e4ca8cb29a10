#pragma once
#include "base/whole_number.hpp"
#include "checkpoint/commit/usable.hpp"
#include "checkpoint/format/json.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch {

/// A CheckpointInfo on its way to other ranks; empty for none.
inline std::string text_of(const std::optional<CheckpointInfo>& info) {
    if (!info)
        return {};
    return json_text({{"step", info->step},
                      {"path", info->path.string()},
                      {"extra", info->extra},
                      {"skipped", info->skipped},
                      {"in_memory", info->in_memory}});
}

inline std::optional<CheckpointInfo> info_of(const std::string& text) {
    if (text.empty())
        return std::nullopt;
    const auto json = parse_of_rank(text);
    return CheckpointInfo{whole_number<std::int64_t>(json.at("step")), json.at("path").get<std::string>(), json.at("extra"),
                          json.at("skipped"), json.at("in_memory")};
}

/// What a place has, on its way to other ranks. A reason names a path, which need not be UTF-8.
inline nlohmann::json json_of(const std::vector<UnusableCheckpoint>& unusable) {
    nlohmann::json all = nlohmann::json::array();
    for (const UnusableCheckpoint& one : unusable) {
        const std::string reason =
            nlohmann::json(one.reason)
                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        all.push_back(
            {one.step, one.name, static_cast<int>(one.why), nlohmann::json::parse(reason)});
    }
    return all;
}

inline std::vector<UnusableCheckpoint> unusable_of(const nlohmann::json& json) {
    std::vector<UnusableCheckpoint> unusable;
    for (const auto& one : json)
        unusable.push_back({whole_number<std::int64_t>(one.at(0)), one.at(1).get<std::string>(),
                            static_cast<Unusable>(whole_number<int>(one.at(2))),
                            one.at(3).get<std::string>()});
    return unusable;
}

inline std::string text_of(const Search& search) {
    return json_text({{"found", text_of(search.found)}, {"unusable", json_of(search.unusable)}});
}

inline Search search_of(const std::string& text) {
    const auto json = parse_of_rank(text);
    return {info_of(json.at("found").get<std::string>()), unusable_of(json.at("unusable"))};
}

}  // namespace autolaunch
