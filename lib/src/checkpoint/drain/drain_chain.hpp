#pragma once
#include "base/deadline.hpp"
#include "checkpoint/drain/drain.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace autolaunch {

/// One further place of a chain.
struct DrainLink {
    std::shared_ptr<Storage> near;
    std::unique_ptr<Tier> far;
    DrainSettings settings;  ///< `needed` is the chain's to say
    DrainEvents events;      ///< so is `turn_over`
};

/// The drains of a job's further places, each with a thread of its own, so that a slow place holds
/// up none. A new checkpoint comes to the first one, and to each other one once the one before it
/// has had its turn, also where that failed. What a later one reads in an earlier one's place is
/// not deleted meanwhile.
///
/// Owner: rank 0's Checkpointer, or each node's leader's. Threads: any. Blocks: as Drain.
class DrainChain {
public:
    explicit DrainChain(std::vector<DrainLink> links);
    DrainChain(const DrainChain&) = delete;
    DrainChain& operator=(const DrainChain&) = delete;
    ~DrainChain();

    void wake(std::optional<std::int64_t> saved);
    /// Steps that are being copied: they must not be deleted where they are.
    std::set<std::int64_t> pinned() const { return copied_by(0); }
    /// Until no place has anything left to do; false at the deadline.
    bool wait_idle(const Deadline& deadline);

    struct LeftBehind {
        std::filesystem::path place;
        DrainRest rest;
    };
    /// There will be no newer checkpoint: all places take the newest, side by side. What is not
    /// there at the deadline.
    std::vector<LeftBehind> finish(const Deadline& deadline);

private:
    std::set<std::int64_t> copied_by(std::size_t first) const;

    std::vector<std::unique_ptr<Drain>> drains_;  ///< the nearest first
};

/// "s3://weights/run7 lacks step 400 (1.2 of 3.0 GB are there) and 300; …". Pure.
std::string in_words(const DrainChain::LeftBehind& left);

}  // namespace autolaunch
