#pragma once
#include "succession/record.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace simulation {

struct Violation : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// What has happened, as somebody who sees all machines knows it, and what must not. Each throws
/// Violation.
class Invariants {
public:
    explicit Invariants(int max_restarts) : max_restarts_(max_restarts) {}

    void was_accepted(const autolaunch::launcher::RecordPointer& record,
                      const autolaunch::launcher::Voter& by);
    void witness_was_given(int formed, const autolaunch::launcher::Voter& to) {
        witnessed_[formed] = to;
    }
    // Of checkpoints; `order` is that of what happens.
    void was_published(int generation, std::int64_t step, std::uint64_t order);
    /// It goes on from that step; nothing: from the beginning.
    void was_loaded(int generation, std::optional<std::int64_t> step, std::uint64_t order);
    /// Its start is there for others to see.
    void was_noted(int generation);
    /// Its first rank anywhere may be started now.
    void begins(const autolaunch::launcher::RecordPointer& record,
                const autolaunch::launcher::Voter& at, bool is_head, std::int64_t now);
    void leaves(const autolaunch::launcher::GenerationRecord& record);
    /// Of the job's other agents at that moment.
    struct Others {
        bool may_go_on = false;  ///< one leads, or is in reach
        bool live = false;       ///< one has not left the job, wherever it is
    };
    /// By an agent whose newest record that is.
    void was_requeued(const autolaunch::launcher::GenerationRecord& newest, Others others) const;
    int newest_generation() const { return static_cast<int>(begun_.size()) - 1; }
    std::optional<int> exit_code() const { return exit_code_; }

private:
    struct Begun {
        autolaunch::launcher::RecordPointer record;
        std::optional<autolaunch::launcher::Voter> head;
        std::int64_t at = 0;
    };
    void check_new(const autolaunch::launcher::RecordPointer& record) const;
    void check_history(const autolaunch::launcher::GenerationRecord& record) const;

    struct PublishedAt {
        int generation = 0;
        std::int64_t step = 0;
        std::uint64_t order = 0;
    };
    bool is_late(const PublishedAt& checkpoint) const;
    int max_restarts_;
    std::vector<Begun> begun_;  ///< by generation; without a record where it has not
    std::map<autolaunch::launcher::RecordPointer, autolaunch::launcher::Votes> accepted_;
    std::map<int, autolaunch::launcher::Voter> witnessed_;  ///< by Electorate::formed
    std::vector<PublishedAt> published_;
    std::map<int, std::uint64_t> looked_;  ///< by generation: when
    std::set<int> noted_;
    std::optional<int> exit_code_;
    int last_generation_ = -1;                      ///< of a job that is over
    autolaunch::launcher::RestartHistory history_;  ///< the longest that was committed
};

}  // namespace simulation
