#pragma once
#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/error.hpp>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch {

// What cannot be read is not absent: which checkpoint of those that were found a job goes on from,
// and when it must not choose by itself (docs/adr/0013-what-cannot-be-read.md). Pure.

/// Why a checkpoint that is there cannot be used.
enum class Unusable {
    unpublished,  ///< it never had a manifest, so nobody ever counted on it
    late,         ///< published when a later generation of its run had begun without it
    damaged,      ///< it was read, and is not what was saved, or not by whom it should be
    unsupported,  ///< of another version of the format
    unreadable,   ///< the storage gave an error: nothing is known of it
};
std::string_view name_of(Unusable why) noexcept;

/// Nobody can say that it is worthless: it is neither passed over unasked nor deleted.
constexpr bool is_unknown(Unusable why) noexcept {
    return why == Unusable::unsupported || why == Unusable::unreadable;
}

/// Nobody ever counted on it.
constexpr bool is_nothing(Unusable why) noexcept {
    return why == Unusable::unpublished || why == Unusable::late;
}

struct UnusableCheckpoint {
    std::int64_t step = 0;
    std::string name;  ///< of its directory; in the second place its path
    Unusable why = Unusable::damaged;
    std::string reason;

    std::string line() const { return name + ": " + reason; }
};

/// Steps above `above` and before `before`.
struct StepRange {
    std::int64_t before = INT64_MAX;
    std::int64_t above = -1;

    bool contains(std::int64_t step) const noexcept { return step > above && step < before; }
};

/// What one place has of a range of steps.
struct Search {
    std::optional<CheckpointInfo> found = {};       ///< the newest that is complete
    std::vector<UnusableCheckpoint> unusable = {};  ///< and what came before it, newest first
};

struct Choice {
    std::optional<CheckpointInfo> found = {};
    std::vector<std::string> passed_over = {};  ///< with the reason; CheckpointInfo::skipped too
};

/// The newest of all places, of equals that of the first place. Damaged ones are passed over where
/// there is an older one, and unpublished and late ones always. Unless `pass_over_unusable`, throws
/// an Error that lists each with its reason and says what to do
///   - where one that is newer than what would be taken is_unknown();
///   - where nothing is left but checkpoints that were published once.
/// `directory` is named in it.
Choice choose_checkpoint(std::span<const Search> places, bool pass_over_unusable,
                         const std::filesystem::path& directory);

}  // namespace autolaunch
