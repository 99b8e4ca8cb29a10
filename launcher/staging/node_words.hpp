#pragma once
#include "staging/stager_words.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What the agents of a job say to each other of its data, on the channel `staging`: lines of JSON.
// What is of a hand-over is HandOver's, with the item's number.

struct StagingWord {
    std::optional<int> item;  ///< of a hand-over
    bool asks = false;        ///< a node, for the sources
    std::vector<SeenSource> sources = {};
    std::vector<StagingFailure> failed = {};
};
/// Throws Error{corrupt}.
StagingWord parse_node_word(std::string_view text);

std::string node_word_ask();
std::string node_word_sources(const std::vector<SeenSource>& sources);
std::string node_word_failed(const StagingFailure& failure);

}  // namespace autolaunch::launcher
