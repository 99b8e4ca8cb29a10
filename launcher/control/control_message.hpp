#pragma once
#include "causes/cause.hpp"
#include "exit_codes/rank_exited.hpp"
#include "flight/flight_summary.hpp"
#include "progress/rank_activity.hpp"
#include "readings/node_measures.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// What agents and head say to each other; docs/control-protocol.md has the bytes. Plain data and
/// its codec: no sockets, no state. Nodes are named by node rank once the roster is known; the
/// first head is node 0.
namespace autolaunch::launcher::control {

inline constexpr std::uint16_t kProtocolVersion = 14;

/// No frame is longer; before a node is accepted, none is longer than kJoinLimit.
inline constexpr std::size_t kFrameLimit = std::size_t{64} << 20;
inline constexpr std::size_t kJoinLimit = std::size_t{64} << 10;

// From a node, first of all.
struct Join {
    std::uint16_t protocol = kProtocolVersion;
    std::string version;    ///< of the program
    std::string node_name;  ///< as the scheduler calls it
    std::string hostname;   ///< as the machine calls itself
    int ranks = 1;
    std::optional<int> node_rank;  ///< when a person chose it
    std::string topology_address;
    std::uint64_t program_digest = 0;  ///< of the executable
    std::uint64_t spec_digest = 0;     ///< of everything the job spec was read from
    std::uint64_t environment_digest = 0;
    std::uint16_t door = 0;         ///< the port at which it hears other agents; 0: at none
    std::uint64_t incarnation = 0;  ///< of this start of the agent
    bool operator==(const Join&) const = default;
};
/// The head's answer to a Join whose environment_digest is not the head's: the node sends
/// EnvironmentTable.
struct AskEnvironment {
    bool operator==(const AskEnvironment&) const = default;
};
/// Variable names and a digest of each value (values themselves may be secrets), sorted by name.
struct EnvironmentTable {
    std::vector<std::pair<std::string, std::uint64_t>> variables;
    bool operator==(const EnvironmentTable&) const = default;
};
/// The node is not let in, or the job cannot start: the last message of the head.
struct Refused {
    std::string reason, hint;
    bool operator==(const Refused&) const = default;
};
/// All nodes are there. It goes to every node and names every node, so it is compact: the head
/// writes it once, a node expands it once (welcome.hpp).
struct Welcome {
    int self = 0;  ///< the receiver's node rank
    std::string run_name;
    std::string nodes;  ///< in the order of node ranks, in Slurm's host list form: "node[1-4]"
    std::string ranks;  ///< started on each, in Slurm's repetition form: "8(x4)"; of nodes that are
                        ///< gone 0
    /// The job runs: ranks of each in the newest generation, in the same form. The receiver waits
    /// as a spare, and says Ready. Empty: the job begins.
    std::string now = {};
    /// By node rank, of a job whose head can be followed by another one: where each hears the
    /// others ("address:port"; empty: the head's, which is reached where it is), and which start of
    /// it that is. Else empty, as in a Welcome to a job that runs.
    std::vector<std::string> doors = {};
    std::vector<std::uint64_t> incarnations = {};
    bool operator==(const Welcome&) const = default;
};

// The head tells every node what to do.
struct StartGeneration {
    int generation = 0;
    std::string master_address;  ///< of rank 0's node, as every node can reach it
    std::uint16_t master_port = 0;
    std::string store_token = {};  ///< of this generation: what keys of ours begin with
    std::string secret = {};       ///< of this generation: for names that no other user may guess
    /// By node rank; 0: it takes no part, as when lost. Empty: as in the generation before.
    std::vector<int> ranks_per_node = {};
    /// Nodes that take part, in the order of their ranks. Empty: by node rank.
    std::vector<int> order = {};
    bool operator==(const StartGeneration&) const = default;
};
struct StopRanks {
    int generation = 0;
    bool by_user = false;        ///< else another rank failed
    std::string reason;          ///< "SIGTERM", "rank 3 failed", "node2 was lost"
    int signal = 0;              ///< by_user: the one that reached autolaunch
    std::uint64_t grace_ms = 0;  ///< from now on until SIGKILL; the newest counts
    bool operator==(const StopRanks&) const = default;
};
/// A rank failed, and another generation is to follow: ranks that can come along stay, others end
/// as by StopRanks.
struct LeaveGeneration {
    int generation = 0;
    std::string reason;          ///< "rank 3 failed"
    std::uint64_t grace_ms = 0;  ///< from now on until SIGKILL for who has not left
    bool saves = false;          ///< none failed: all are asked to save and to end, as by a stop
    bool renumbers = false;      ///< they will have other numbers: who cannot change its own ends
    bool operator==(const LeaveGeneration&) const = default;
};
struct KillRanks {
    int generation = 0;
    bool operator==(const KillRanks&) const = default;
};
struct Finish {
    int exit_code = 0;
    std::string outcome;
    /// The node that the scheduler does not see end, where it sees another one: it is to end the
    /// scheduler's step when all others have gone. -1: none.
    int ends_step = -1;
    bool operator==(const Finish&) const = default;
};
/// What do your ranks' flight recorders say?
struct AskFlight {
    int generation = 0;
    int request = 0;  ///< comes back with the answer
    bool operator==(const AskFlight&) const = default;
};
/// A node has slept: who is there? Each node answers with Here.
struct AskWhoIsHere {
    int generation = 0;
    int request = 0;  ///< comes back with the answer
    bool operator==(const AskWhoIsHere&) const = default;
};
/// A majority is, and this is still the newest generation: ranks that are held go on.
struct GoOn {
    int generation = 0;
    bool operator==(const GoOn&) const = default;
};
/// What do your ranks do, over the next second?
struct AskActivity {
    int generation = 0;
    int request = 0;           ///< comes back with the answer
    bool with_stacks = false;  ///< where Python ranks are, too, which a signal tells
    bool operator==(const AskActivity&) const = default;
};
/// Those of your ranks that are among these do not go on: write down where their threads are.
struct WriteStacks {
    int generation = 0;
    std::vector<int> ranks;
    bool operator==(const WriteStacks&) const = default;
};
/// A node has come to the running job, and waits: it has the next node rank.
struct NodeAdded {
    int node = 0;
    std::string name;
    int ranks = 1;  ///< that it starts where it takes part
    bool operator==(const NodeAdded&) const = default;
};
/// Between two generations: are you fit, and do you reach these nodes? Each node answers with
/// NodeChecked.
struct CheckNode {
    int generation = 0;  ///< the one that has ended
    int request = 0;     ///< comes back with the answer
    /// By node rank: where the head sees each; empty: not asked for.
    std::vector<std::string> addresses;
    std::string secret = {};  ///< of the data that neighbours send each other; empty: none is sent
    bool operator==(const CheckNode&) const = default;
};
using Command = std::variant<StartGeneration, StopRanks, KillRanks, Finish, AskFlight, AskWhoIsHere,
                             GoOn, AskActivity, WriteStacks, LeaveGeneration, NodeAdded, CheckNode>;

// A node tells the head what happened.
struct GenerationRunning {
    int generation = 0;
    std::uint64_t startup_us = 0;
    int ranks_bound = 0;  ///< ranks of the node that the kernel keeps where the plan put them
    int numa_nodes = 0;   ///< of the node, with CPUs and memory that it may use
    int gpus = 0;         ///< of the node, given to ranks
    bool operator==(const GenerationRunning&) const = default;
};
struct StartFailed {
    int generation = 0;
    int rank = 0;
    int exit_code = 0;  ///< what the job would exit with for it
    bool restart_helps = false;
    std::string what, hint;
    bool operator==(const StartFailed&) const = default;
};
/// The node's first failure of a generation, with what the failure screen shows of it.
struct RankFailed {
    int generation = 0;
    RankExited end;
    std::string hostname;
    std::optional<int> gpu;
    std::uint64_t age_us = 0;  ///< how long before this message was sent
    std::string stderr_path, stdout_path, error_file_path;
    // At most kEvidenceLimit each.
    std::string stderr_tail;
    std::string stdout_tail;  ///< only where it wrote nothing to stderr
    std::string error_text;  ///< of its error file: a line that says what happened, then the end of
                             ///< its call stack
    std::optional<std::int64_t> oom_kills;
    std::string no_room;  ///< why nothing can be written into the rank's folder; empty: it can
    bool may_miss_words = false;  ///< no room was kept there for what it said last
    std::string cannot_resume;    ///< why the rank said that no restart could go on; empty: it did
                                  ///< not say so
    std::string core;  ///< where its core file is and what opens it, or why there is none
    EndRecord record;  ///< why it ended, as its node judges it
    bool operator==(const RankFailed&) const = default;
};
inline constexpr std::size_t kEvidenceLimit = 16U << 10;
/// No rank of the generation is left on the node.
struct RanksEnded {
    int generation = 0;
    bool every_rank_exited_zero = false;
    std::vector<RankExited>
        ends;  ///< in their order, all of them; none where no rank failed, nor one elsewhere
    std::optional<std::int64_t> checkpoint_step;
    std::uint64_t age_us = 0;  ///< how long before this message the last rank ended
    /// Besides the one of RankFailed: those alike as one, and of ranks that had been asked to stop
    /// what they said of before. At most kMaxFailures.
    std::vector<RankFailed> failures = {};
    bool operator==(const RanksEnded&) const = default;
};
inline constexpr std::size_t kMaxEnds = 4096;
inline constexpr std::size_t kMaxFailures = 8;
/// A stop signal reached the node's agent, or who started it there has ended.
struct StopAsked {
    int signal = 0;  ///< or kParentGone
    bool operator==(const StopAsked&) const = default;
};
inline constexpr int kParentGone = 0;
struct NodeWarning {
    std::string text;
    bool operator==(const NodeWarning&) const = default;
};
/// SIGUSR2 reached the node's agent: somebody wants to see where the ranks are.
struct FlightAsked {
    bool operator==(const FlightAsked&) const = default;
};
/// More came in on stdin than is kept: ranks of another generation cannot have it.
struct InputSpent {
    bool operator==(const InputSpent&) const = default;
};
/// The node's ranks, in parts of kFlightRanks. Without having been asked, as request 0, when the
/// first rank of a generation failed here or elsewhere, before the others are stopped.
struct FlightRead {
    int generation = 0;
    int request = 0;
    bool more = false;  ///< another part follows
    std::vector<flight::RecordedRank> ranks;
    bool operator==(const FlightRead&) const = default;
};
inline constexpr std::size_t kFlightRanks = 64;
/// The node's agent did not run for longer than it may be silent: it holds its ranks stopped.
struct Overslept {
    int generation = 0;
    bool operator==(const Overslept&) const = default;
};
/// The answer to AskWhoIsHere.
struct Here {
    int generation = 0;
    int request = 0;
    bool operator==(const Here&) const = default;
};
/// A rank of the node owes a step. Again every 5 s while it does.
struct StepsOverdue {
    int generation = 0;
    int rank = 0;                          ///< the one that is silent longest
    std::chrono::milliseconds silence{0};  ///< since it last got on
    std::chrono::milliseconds usual{0};    ///< the median step
    bool far = false;                      ///< long beyond what is usual
    bool by_signs = false;  ///< the node's ranks report no steps: of output and moved bytes
    bool operator==(const StepsOverdue&) const = default;
};
/// None does any more.
struct StepsAgain {
    int generation = 0;
    bool operator==(const StepsAgain&) const = default;
};
/// The answer to AskActivity, of all ranks of the node that are there.
struct ActivityRead {
    int generation = 0;
    int request = 0;
    std::vector<RankActivity> ranks;
    std::optional<std::chrono::milliseconds> quiet;  ///< since something moved on the node
    bool operator==(const ActivityRead&) const = default;
};
/// The answer to WriteStacks, for each of the ranks.
struct StacksWritten {
    int generation = 0;
    int rank = 0;
    std::string path;     ///< on the node; empty: it could not be written
    std::string problem;  ///< why something is missing; else empty
    bool operator==(const StacksWritten&) const = default;
};
/// A node that came to the running job is planned and checked: it can take part.
struct Ready {
    bool operator==(const Ready&) const = default;
};
/// What came of the data that a node sent to the next one.
struct LinkTried {
    int peer = -1;              ///< node rank
    std::uint64_t bytes = 0;    ///< of a round
    std::uint64_t best_us = 0;  ///< that the fastest round took; 0: none came to its end
    std::uint64_t wrong = 0;    ///< bytes that arrived as others
    std::string problem = {};   ///< why none, or not all, were sent
    bool operator==(const LinkTried&) const = default;
};
/// The answer to CheckNode.
struct NodeChecked {
    int generation = 0;
    int request = 0;
    std::vector<std::string> failures;  ///< what is wrong with the node itself; none: it is fit
    std::vector<int> unreached;         ///< node ranks, of both neighbours
    std::vector<LinkTried> links = {};
    bool operator==(const NodeChecked&) const = default;
};
/// What a node has measured of itself, every monitoring.interval_seconds.
struct NodeMeasured {
    NodeMeasures measures;
    bool operator==(const NodeMeasured&) const = default;
};
/// The node kills its ranks although nobody has told it to: it has heard of no head for so long
/// that the others may begin without it.
struct RanksGivenUp {
    int generation = 0;
    std::string why;
    bool operator==(const RanksGivenUp&) const = default;
};
using Report =
    std::variant<GenerationRunning, StartFailed, RankFailed, RanksEnded, RanksGivenUp, StopAsked,
                 NodeWarning, FlightAsked, FlightRead, InputSpent, Overslept, Here, StepsOverdue,
                 StepsAgain, ActivityRead, StacksWritten, Ready, NodeChecked, NodeMeasured>;

// Any node, any time.

/// This node's contribution to a fence: an allgather of blobs over `nodes` (empty: all). A barrier
/// is a fence of empty blobs, a broadcast one where a single node gives a blob. Names are used once
/// a generation.
struct Fence {
    int generation = 0;
    std::string name;
    std::vector<int> nodes;
    std::string blob;
    bool operator==(const Fence&) const = default;
};
/// All have contributed: the blobs that are not empty, by node rank. In parts where they are large.
struct FenceDone {
    int generation = 0;
    std::string name;
    bool more = false;  ///< another part follows
    std::vector<std::pair<int, std::string>> blobs;
    bool operator==(const FenceDone&) const = default;
};
/// From one node to another, through the head.
struct Relay {
    std::uint8_t channel = 0;  ///< who is meant there: RelayChannel
    int generation = 0;
    int source = 0, destination = 0;
    std::string bytes;
    bool operator==(const Relay&) const = default;
};
enum class RelayChannel : std::uint8_t {
    store,
    pmix,
    doctor,
    vouching,
    input,
    hand_over,
    secret_question,
    secret_answer,
    staging,
    stage_out
};
/// I live. Sent by both ends when they have said nothing else for a while.
struct Heartbeat {
    bool operator==(const Heartbeat&) const = default;
};

// A person's program asks the head of a running job, instead of Join.

enum class Wish : std::uint8_t { console = 1, drain = 2, take_back = 3, files = 4 };
struct Ask {
    std::uint8_t what = 0;  ///< Wish
    /// drain, take_back: the node's name. files: empty for which there are, else "OFFSET MOST
    /// NAME".
    std::string argument;
    bool operator==(const Ask&) const = default;
};
/// The last answer to Ask.
struct Answer {
    int exit_code = 0;
    std::string text, hint;
    bool operator==(const Answer&) const = default;
};
/// What the head's console shows, to who asked for it.
struct ConsoleText {
    std::uint8_t to = 0;  ///< 1 stdout, 2 stderr, 3 the status line
    std::string text;
    bool operator==(const ConsoleText&) const = default;
};
/// What was asked of the head's run directory: where a file goes on, or which there are, a line
/// "BYTES NAME" each. Who has been answered may ask again.
struct FilePiece {
    std::string bytes;
    std::uint64_t covered = 0;     ///< bytes of the file that these stand for
    std::uint64_t file_bytes = 0;  ///< of it, now
    std::string wrong;             ///< why it cannot be read; empty: it can
    bool operator==(const FilePiece&) const = default;
};

// Any two agents of a job whose head can be followed by another one.

/// About who is head (quorum/quorum_bytes.hpp has the bytes).
struct Succession {
    std::string bytes;
    bool operator==(const Succession&) const = default;
};
/// To the new head: from now on this connection is the sender's to its head, as after a Welcome.
struct Follow {
    int node = 0;
    std::uint64_t incarnation = 0;
    int term = 0;  ///< of the head that is meant
    bool operator==(const Follow&) const = default;
};

using Message = std::variant<Join, AskEnvironment, EnvironmentTable, Refused, Welcome, Command,
                             Report, Fence, FenceDone, Relay, Heartbeat, Ask, Answer, ConsoleText,
                             FilePiece, Succession, Follow>;

/// The frame: its length, its type, its fields. Throws Error{invalid_argument} over kFrameLimit,
/// and for a list of more than 131,072 items.
std::string encode(const Message& message);

/// Cuts a byte stream into messages. Never holds more than what has arrived, and refuses a frame
/// over the limit by its length alone. Owner: one per connection.
class MessageReader {
public:
    explicit MessageReader(std::size_t frame_limit) : frame_limit_(frame_limit) {}
    void set_frame_limit(std::size_t bytes) { frame_limit_ = bytes; }
    void feed(std::string_view bytes);
    /// The next whole message; nothing when more bytes are needed. Throws Error{corrupt} naming
    /// what is wrong: the connection is then of no use.
    std::optional<Message> next();

private:
    void discard_read();

    std::size_t frame_limit_;
    std::string buffer_;
    std::size_t offset_ = 0;
};

}  // namespace autolaunch::launcher::control
