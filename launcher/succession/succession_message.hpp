#pragma once
#include "succession/record.hpp"

#include <chrono>
#include <optional>
#include <variant>

/// What agents say to each other about who is head. Plain data. docs/control-protocol.md has the
/// bytes.
namespace autolaunch::launcher::succession {

/// Of CLOCK_BOOTTIME, which goes on while a machine sleeps: each agent's own.
using Moment = std::chrono::milliseconds;
using Duration = std::chrono::milliseconds;

/// A candidate: what have you accepted? Who answers obeys no earlier term any more.
struct Ask {
    Term term;
};
struct Vote {
    Term term;
    bool granted = false;
    Term promised;            ///< the highest that the voter has seen
    AcceptedRecord accepted;  ///< the highest that it has accepted
    int committed = -1;       ///< the newest generation of which it knows that it was committed
    Moment stamp{0};          ///< the sender's time
};
/// A head, of what is to begin.
struct Propose {
    Term term;
    RecordPointer record;
};
struct Answer {
    Term term;
    int generation = 0;
    bool accepted = false;
    Term promised;
    Moment stamp{0};  ///< the sender's time
};
/// It was accepted by all majorities that it needs: it begins.
struct Begin {
    Term term;
    RecordPointer record;
};
/// A head lives. `age` is how long ago it has last heard from a majority.
struct Beat {
    Term term;
    int generation = 0;          ///< the newest that has begun
    Moment stamp;                ///< the head's time
    std::optional<Moment> echo;  ///< the newest stamp of the receiver that has come back
    Duration age{0};
};
struct Heard {
    Term term;
    Term promised;
    int generation = 0;  ///< the newest that has begun at the sender
    Moment stamp;        ///< the sender's time
    Moment echo;         ///< the Beat's stamp
};

struct Message {
    Voter from;
    Voter to;  ///< incarnation 0: whoever is there
    std::variant<Ask, Vote, Propose, Answer, Begin, Beat, Heard> what;
};

}  // namespace autolaunch::launcher::succession
