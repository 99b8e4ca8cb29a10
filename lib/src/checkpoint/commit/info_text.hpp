#pragma once
#include "checkpoint/format/json.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>

#include <optional>
#include <string>

namespace autolaunch {

/// A CheckpointInfo on its way to other ranks; empty for none.
inline std::string text_of(const std::optional<CheckpointInfo>& info) {
    if (!info)
        return {};
    return json_text({{"step", info->step},
                      {"path", info->path.string()},
                      {"extra", info->extra},
                      {"skipped", info->skipped}});
}

inline std::optional<CheckpointInfo> info_of(const std::string& text) {
    if (text.empty())
        return std::nullopt;
    const auto json = nlohmann::json::parse(text);
    return CheckpointInfo{json.at("step"), json.at("path").get<std::string>(), json.at("extra"),
                          json.at("skipped")};
}

}  // namespace autolaunch
