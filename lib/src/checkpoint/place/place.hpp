#pragma once
// Where a job's checkpoints are published and found again: in one directory that all ranks see, or
// in one of each node, and in further places that they are copied to.
#include "checkpoint/checkpoint_keys.hpp"
#include "checkpoint/commit/generation_start.hpp"
#include "checkpoint/commit/usable.hpp"
#include "checkpoint/commit/writer_claim.hpp"
#include "checkpoint/format/read_plan.hpp"
#include "checkpoint/storage/storage.hpp"

#include <autolaunch/checkpoint/checkpointer.hpp>
#include <autolaunch/checkpoint/manifest.hpp>
#include <autolaunch/comm/communicator.hpp>
#include <autolaunch/error.hpp>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace autolaunch {

/// Reading failed for what is stored, or where: another copy of the same may be whole.
inline bool is_damage(const Error& error) {
    return error.code() == ErrorCode::corrupt || error.code() == ErrorCode::system;
}

/// What is gone since somebody looked is damage, which every rank has to see alike: an errno does
/// not travel.
template <class Call>
auto missing_is_damage(const Call& call) {
    try {
        return call();
    } catch (const SystemError& error) {
        if (error.error_number() != ENOENT)
            throw;
        throw Error(ErrorCode::corrupt, error.what(), error.hint());
    }
}

/// What a place works with. All of it outlives the place.
struct PlaceTools {
    Storage& storage;
    Communicator& world;  ///< the trainer's
    const CheckpointOptions& options;
    CheckpointKeys& keys;
    WriterFence& fence;
    std::function<void(const std::string& text)> note;  ///< rank 0 tells it
    std::function<std::set<std::int64_t>()> pinned;
    std::function<void(const std::filesystem::path& checkpoint)> deleted;  ///< who leads tells it
};

/// Where the further places have a step, the nearest first.
std::vector<std::filesystem::path> drained_copies(const PlaceTools& tools, std::int64_t step);
/// What was damaged, and is read from there instead.
void tell_second_try(const PlaceTools& tools, const std::filesystem::path& copy,
                     const Error& damage);
/// Why a copy there cannot be used; nothing is said where there is none.
void tell_no_copy(const PlaceTools& tools, const std::filesystem::path& copy, const Error& error);

/// A checkpoint that somebody loads. Its functions are collective over the trainer's communicator.
class PublishedCheckpoint {
public:
    virtual ~PublishedCheckpoint() = default;
    const Manifest& manifest() const noexcept { return manifest_; }

    /// Copies the parts, each rank its own. Throws on every rank when it throws on any:
    /// Error{corrupt}, SystemError.
    virtual void read(std::span<const ReadPart> parts) = 0;
    /// The same of rank 0's parts; other ranks have none.
    virtual void read_alone(std::span<const ReadPart> parts) = 0;
    /// Where what was read last is; before that, where it is to be read.
    virtual std::filesystem::path path() const = 0;

protected:
    explicit PublishedCheckpoint(Manifest manifest) : manifest_(std::move(manifest)) {}
    Manifest manifest_;
};

/// The ranks of this node, found when somebody first loads; nothing inside where a rank reads for
/// itself.
using NodeReaders = std::optional<std::optional<Communicator>>;

/// What is known before anybody looks for the newest checkpoint.
struct KnownCheckpoints {
    /// Newer ones that loading has shown to be so: of each place that and what is newer there is
    /// not looked at again.
    std::vector<UnusableCheckpoint> unusable = {};
    /// A copy in memory: of equals it is taken.
    std::optional<CheckpointInfo> at_hand = {};

    void add(const CheckpointInfo& failed, const std::filesystem::path& directory, Unusable why,
             const std::string& reason);
    /// What is left of a range here, or in a further place.
    StepRange left_here(StepRange range) const { return left(range, {}); }
    StepRange left_there(StepRange range, const std::string& place) const {
        return left(range, place);
    }

private:
    StepRange left(StepRange range, const std::string& place) const;
};

/// Owner: the engine. Threads: the trainer's; functions that take a communicator also the writer's,
/// which gives its own one of the same ranks. Blocks: in storage and collectives.
class CheckpointPlace {
public:
    virtual ~CheckpointPlace() = default;
    CheckpointPlace(const CheckpointPlace&) = delete;
    CheckpointPlace& operator=(const CheckpointPlace&) = delete;

    /// Of the ranks that see the same directory as this one the rank that does there what one must
    /// do.
    virtual int leader_of(int rank) const = 0;
    /// This rank does so.
    bool leads() const { return leader_of(tools_.world.rank()) == tools_.world.rank(); }
    /// The other rank sees this rank's directory.
    bool is_with(int rank) const { return leader_of(rank) == leader_of(tools_.world.rank()); }
    /// Of rank 0, on those who lead. Collective.
    virtual std::string to_leaders(Communicator& world, std::string text) const = 0;
    /// Of who leads this rank's directory. Collective.
    virtual std::string from_leader(Communicator& world, const std::string& text) const = 0;

    /// The newest of the range, here or in the further places where one has a newer one, or what is
    /// at hand where nothing is; with what was passed over. Collective. Throws as
    /// choose_checkpoint() does.
    virtual std::optional<CheckpointInfo> latest(const StepRange& range,
                                                 const KnownCheckpoints& known = {}) = 0;
    /// The newest one here, for people who ask where a checkpoint comes from: not knowing it fails
    /// nothing.
    virtual std::optional<std::int64_t> newest_step() = 0;
    /// Collective. Throws Error{corrupt} (also where it is gone), Error{mismatch} or SystemError.
    virtual std::unique_ptr<PublishedCheckpoint> open(const CheckpointInfo& checkpoint) = 0;

    /// The step is published: `latest` points to it, what crashed saves left goes, and so does what
    /// is not kept. What fails costs space or convenience, not the checkpoint, so it is only noted.
    /// Collective.
    virtual void tidy(Communicator& world, std::int64_t step) = 0;

protected:
    /// Throws as further_places() does.
    explicit CheckpointPlace(PlaceTools tools);
    /// What each further place has that is newer than what those before it have. That one cannot be
    /// looked into is only noted where it can have nothing newer than this directory, which this
    /// very run wrote last, or where that was asked for (pass_over_unusable).
    std::vector<Search> search_drained(StepRange range, const KnownCheckpoints& known);
    /// What fences late checkpoints here, and in the further places as well.
    std::vector<GenerationStart> starts_here() const;
    /// choose_checkpoint() of the places and of what is known. On rank 0 it is said what is passed
    /// over.
    std::optional<CheckpointInfo> choose(std::vector<Search> places, const KnownCheckpoints& known);
    /// This rank's directory. `remove_others` returns what stays because it cannot be read.
    void tidy_directory(
        std::int64_t step,
        const std::function<std::vector<UnusableCheckpoint>(const std::set<std::int64_t>& pinned)>&
            remove_others);

    PlaceTools tools_;
    std::vector<std::string> further_;  ///< places, the nearest first

private:
    Search search_place(const std::string& place, const StepRange& range,
                        const std::vector<GenerationStart>& starts);
    void tell_once(const std::string& text);

    std::mutex told_mutex_;  ///< tidy() may run beside latest()
    std::set<std::string> told_;
};

/// `leaders` of leaders_of_directories(), where nodes have directories of their own; else empty, or
/// all 0. Throws Error{invalid_argument} for directories of nodes without a second place.
std::unique_ptr<CheckpointPlace> make_place(PlaceTools tools, std::vector<int> leaders);

// The two of them, for make_place().
std::unique_ptr<CheckpointPlace> make_one_directory(PlaceTools tools);
std::unique_ptr<CheckpointPlace> make_node_directories(PlaceTools tools, std::vector<int> leaders);

}  // namespace autolaunch
