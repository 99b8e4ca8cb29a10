#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// What the agent and its autolaunch-pmixd say to each other; docs/pmi-protocol.md has the bytes.
/// Plain data and its codec: no sockets, no PMIx.
namespace autolaunch::launcher::pmixd {

/// No frame is longer: the fence of a large job is the longest, and the control plane has the same
/// limit.
inline constexpr std::size_t kFrameLimit = std::size_t{64} << 20;

/// In autolaunch-pmixd, where the agent has ranks connect before the server is there: the socket
/// that it is to listen on.
inline constexpr int kListenerFd = 3;

// The agent's.

/// First of all, and once: serve this job to the ranks of this node.
struct Start {
    std::string directory;  ///< 0700, exists; everything of PMIx goes there
    std::string name_space;
    int node_rank = 0;
    std::vector<std::pair<std::string, int>> nodes;  ///< names and ranks, by node rank
};
/// The answer to a Fence: all nodes' blobs, one after the other. Not `good`: the fence will not
/// happen.
struct FenceDone {
    std::uint64_t call = 0;
    bool good = true;
    std::string blob;
};
/// The answer to a ModexRequest.
struct ModexDone {
    std::uint64_t call = 0;
    bool good = true;
    std::string blob;
};
/// Another node wants what a rank of this node has published.
struct ModexQuery {
    std::uint64_t call = 0;
    int rank = 0;
};

// autolaunch-pmixd's.

/// Ranks may start. `environments` has "NAME=value" lines by local rank.
struct Ready {
    std::string version;
    std::vector<std::vector<std::string>> environments;
};
/// It cannot serve; the last message.
struct Failed {
    std::string what;
};
/// The ranks of this node that take part have all come to a fence among `ranks` (empty: all of the
/// job).
struct Fence {
    std::uint64_t call = 0;
    std::vector<std::uint32_t> ranks;
    std::string blob;
};
/// A rank of this node wants what `rank`, on another node, has published.
struct ModexRequest {
    std::uint64_t call = 0;
    int rank = 0;
};
/// The answer to a ModexQuery.
struct ModexAnswer {
    std::uint64_t call = 0;
    bool good = true;
    std::string blob;
};
/// A rank has called MPI_Abort; it is about to end by itself.
struct Aborted {
    int rank = 0;
    int status = 0;
    std::string text;
};
/// A rank has come to MPI_Init.
struct Connected {
    int rank = 0;
};
/// A rank is through MPI_Finalize.
struct Finalized {
    int rank = 0;
};
/// For a person.
struct Log {
    std::string text;
};

using Message = std::variant<Start, FenceDone, ModexDone, ModexQuery, Ready, Failed, Fence,
                             ModexRequest, ModexAnswer, Aborted, Connected, Finalized, Log>;

/// The frame: its length, its type, its fields. Throws Error{invalid_argument} when it is over
/// kFrameLimit.
std::string encode(const Message& message);

/// Cuts a byte stream into messages. Owner: one per end of the socket.
class MessageReader {
public:
    void feed(std::string_view bytes);
    /// The next whole message; nothing when more bytes are needed. Throws Error{corrupt}.
    std::optional<Message> next();

private:
    std::string buffer_;
    std::size_t offset_ = 0;
};

}  // namespace autolaunch::launcher::pmixd
