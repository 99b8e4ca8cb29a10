#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace autolaunch {
class UniqueFd;
}

/// The lines between a rank and its node's agent: docs/session-protocol.md. Pure.
namespace autolaunch::session {

inline constexpr int kProtocol = 3;
inline constexpr std::size_t kMaxLineBytes = 64U << 10;  // the newline included

// A rank's messages.
struct Hello {
    int protocol = kProtocol;
    int rank = 0;
    int local_rank = 0;
    int generation = 0;
    int pid =
        0;  ///< as the rank sees it: another number than the agent's when it is in a container
    bool spares = false;  ///< another process of its command can wait to take its place (Spare)
};
struct Step {
    std::int64_t step = 0;
    std::optional<std::int64_t> total_steps;
    std::optional<double> loss;  ///< may be NaN or infinite
    std::optional<std::int64_t> tokens;
    std::optional<double> seconds;
    std::optional<double> input_seconds = {};  ///< waited for input since the report before
};
struct Checkpoint {
    std::int64_t step = 0;
    std::string path;
    double stall_seconds = 0;
    std::optional<double> save_seconds = {};  ///< from its begin until it was published
    std::optional<std::int64_t> bytes = {};   ///< of all its files
};
/// A checkpoint is in a further place.
struct CheckpointDrained {
    std::int64_t step = 0;
    std::string path;         ///< there
    std::int64_t bytes = 0;   ///< of all its files
    std::int64_t copied = 0;  ///< of them now; the rest was there from an attempt before
    double seconds = 0;       ///< that this took
};
/// The state of a checkpoint has been read by the job's ranks.
struct CheckpointLoaded {
    std::int64_t step = 0;
    std::string path;
};
/// One that counted is gone: it is not kept any longer, or came too late.
struct CheckpointDeleted {
    std::string path;
};
struct Message {
    std::string text;  ///< what begins with kWarning is for the screen, too
};
inline constexpr std::string_view kWarning = "warning: ";
/// A part of the training loop begins that reports no steps, an evaluation; or it is over.
struct Phase {
    std::string name;  ///< empty: over
};
struct HandlesStop {};
/// The rank has seen the agent's Stop, and stops by itself.
struct HeardStop {};
/// None of the checkpoints that are there can be used, and a restart would find the same ones. What
/// a rank that goes on all the same says with an empty reason, or by its next step or checkpoint,
/// takes it back.
struct CannotResume {
    std::string reason;
};
/// The rank's flight recorder, whose descriptor goes with the line's first byte.
struct Recorder {
    int layout = 0;
    std::shared_ptr<UniqueFd> file = {};  ///< beside the line, not in it; null when none came
};
/// A rank's Python writes on this signal where its threads are, into the memory whose descriptor
/// goes with the line's first byte.
struct PythonStacks {
    int signal = 0;
    std::shared_ptr<UniqueFd> file = {};  ///< beside the line, not in it; null when none came
};
struct MemoryAnswer;
/// Asks for the memory of a slot (docs/memory-checkpoints.md).
struct MemoryAsked {
    std::string group;  ///< which of the job's checkpointers
    int shard = 0;
    int slot = 0;
    std::int64_t bytes = 0;  ///< to write so many; 0: what is there
    /// Beside the line, where it arrives: sends the answer, with the file unless that is -1.
    std::function<void(const MemoryAnswer& answer, int file)> answer = {};
};
/// Whether this rank can be taken into the next generation as it is; where it says nothing, not.
struct Rejoins {
    std::string cannot;      ///< why not; empty: it can
    bool renumbers = false;  ///< also as another rank, of a world of another size
};
/// It has left the generation, as LeaveGeneration asked, and waits for NextGeneration on the
/// descriptor that goes with the line's first byte.
struct HasLeft {
    int generation = 0;
    std::shared_ptr<UniqueFd> file = {};  ///< beside the line; null when none came
};
/// Not of a rank, but of a process that may become one, on the socket that it was started with: it
/// waits; the answer to BecomeRank: it is one; or why it cannot be.
struct Spare {
    std::string state;  ///< "waits", "is_rank" or "cannot"
    std::string cannot = {};
};
using RankMessage =
    std::variant<Hello, Step, Checkpoint, Message, HandlesStop, HeardStop, CannotResume, Recorder,
                 MemoryAsked, Phase, PythonStacks, Rejoins, HasLeft, Spare, CheckpointLoaded,
                 CheckpointDeleted, CheckpointDrained>;

// The agent's messages.
struct Stop {
    std::string reason;
    double grace_seconds = 0;
    double until = 0;  ///< the end of the grace period, in seconds of this machine's
                       ///< CLOCK_MONOTONIC; 0: not said
};
struct CheckpointRequest {};
/// The file's size, and the file beside the line; or 0 and none, where there is none or it was
/// refused.
struct MemoryAnswer {
    std::int64_t bytes = 0;
    std::string refused, hint;  ///< why, for people
};
/// The generation is over, and another one follows: leave what you are doing, and say HasLeft.
struct LeaveGeneration {
    int generation = 0;
    std::string reason;  ///< "rank 3 failed"
};
/// Where the next generation meets: what the environment of a rank that starts in it says.
struct NextGeneration {
    int generation = 0;
    std::string socket, store, store_token, master_address;
    int master_port = 0;
    /// Who it is there; -1: as before.
    int rank = -1, world_size = -1, node_rank = -1, node_count = -1;
    int role_rank = -1, role_size = -1;
};
/// To a Spare: from now on it is the rank whose environment differs from its own by this. The
/// descriptors of its stdout and stderr go with the line's first byte.
struct BecomeRank {
    std::map<std::string, std::string> set;
    std::vector<std::string> unset = {};
};
using AgentMessage = std::variant<Stop, CheckpointRequest, MemoryAnswer, LeaveGeneration,
                                  NextGeneration, BecomeRank>;

/// One line, its newline included, never longer than kMaxLineBytes: texts are cut, bytes that are
/// no UTF-8 replaced.
std::string format(const RankMessage& message);
std::string format(const AgentMessage& message);

/// A line without its newline. nullopt for a type that a later version may have added; throws
/// Error{corrupt} for what is no JSON object or lacks a field.
std::optional<RankMessage> parse_rank_line(std::string_view line);
std::optional<AgentMessage> parse_agent_line(std::string_view line);

/// Takes the next line off the front of `buffer`; false when none is whole. Throws Error{corrupt}
/// when the line is longer than kMaxLineBytes.
bool take_line(std::string& buffer, std::string& line);

}  // namespace autolaunch::session
