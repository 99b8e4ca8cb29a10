#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

// What an agent and its autolaunch-stager say to each other: lines of JSON.

struct StagerItem {
    std::string name, from, verify;
    bool operator==(const StagerItem&) const = default;
};

/// The agent's first word.
struct StagerOrder {
    std::string scratch;
    std::int64_t most_bytes = 0, bytes_per_second = 0;
    std::chrono::milliseconds timeout{0};
    std::vector<StagerItem> items;
    bool operator==(const StagerOrder&) const = default;
};
std::string as_line(const StagerOrder& order);
/// Throws Error{corrupt}.
StagerOrder parse_order(std::string_view line);

/// What is there now.
struct StagedData {
    std::string name, entry, path;  ///< entry: in the cache, to be held
    std::int64_t bytes = 0, files = 0, read_bytes = 0;
    bool was_here = false;
    std::chrono::milliseconds took{0};
    bool operator==(const StagedData&) const = default;
};
/// How far a copy is.
struct StagingProgress {
    std::string name;
    std::int64_t bytes = 0, of = 0;
    bool operator==(const StagingProgress&) const = default;
};
/// Why there will be none.
struct StagingFailure {
    int exit_code = 0;
    std::string what, hint;
    bool operator==(const StagingFailure&) const = default;
};
/// A line of the stager's: one of these. `alive` without any: it works.
struct StagerWord {
    std::vector<StagedData> staged = {};
    std::vector<StagingProgress> progress = {};
    std::vector<StagingFailure> failed = {};
    std::vector<std::string> notes = {};
    bool done = false;  ///< all that was asked for is there
    bool operator==(const StagerWord&) const = default;
};
std::string as_line(const StagerWord& word);
/// Throws Error{corrupt}.
StagerWord parse_word(std::string_view line);

/// What a version of a source is told by, besides the source's own facts: a copy that was verified
/// is another one than one that was not.
std::string key_words(const std::string& from, const std::string& verify);

}  // namespace autolaunch::launcher
