#pragma once
#include "succession/succession_message.hpp"

#include <string_view>
#include <variant>
#include <vector>

/// What an agent has to do. Plain data.
namespace autolaunch::launcher::succession {

struct SendTo {
    Message message;
};
/// The record was committed: start its ranks here, if it has any for this node, once those of the
/// generation before are gone.
struct Start {
    RecordPointer record;
};
/// The job is over: leave, with the record's exit code.
struct Leave {
    RecordPointer record;
};
/// By SIGKILL, now: another generation may begin without this node.
struct EndRanks {
    std::string_view why;
};
/// This machine has slept: stop the ranks until GoOn or EndRanks.
struct HoldRanks {};
struct GoOn {};
/// This agent is head, and `newest` is the job's newest record, committed under it. Nodes that have
/// not said that their ranks are gone have none at `fenced_at`: only then may a generation begin
/// without them.
struct Lead {
    RecordPointer newest;
    Moment fenced_at;
};
/// No longer head: command nothing, write nothing.
struct StandDown {
    std::string_view why;
};
/// Create the file of these two voters, which nobody else may have created: witness_answered() says
/// whether that went well.
struct ClaimWitness {
    int formed = 0;
};
/// End here.
struct GiveUp {
    std::string_view why;
    /// No head was found that a majority follows; nobody has said that there is one.
    bool is_stranded = false;
};
using Effect = std::variant<SendTo, Start, Leave, EndRanks, HoldRanks, GoOn, Lead, StandDown,
                            ClaimWitness, GiveUp>;
using Effects = std::vector<Effect>;

/// What came and was of no use, by the reason.
struct Dropped {
    int of_older_terms = 0, of_older_generations = 0, of_other_incarnations = 0, of_strangers = 0;
};

}  // namespace autolaunch::launcher::succession
