#pragma once
#include "spawn/spawn.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// What the agent and the stand-ins of its node say to each other; docs/stand-in-protocol.md has
/// the bytes. Plain data and its codec.
namespace autolaunch::launcher::stand_in {

inline constexpr std::uint32_t kProtocolVersion = 1;
/// No frame is longer. The kernel takes at most 6 MiB of arguments and environment.
inline constexpr std::size_t kFrameLimit = std::size_t{16} << 20;

// From the stand-in. Hello comes first.
struct Hello {
    std::uint32_t protocol = kProtocolVersion;
    std::int32_t local_task = 0;
    std::int32_t pid = 0;
    std::vector<std::string> environment;  ///< of its task, "NAME=value"
    std::vector<std::int32_t> cpus;        ///< that its task may use
};
struct Started {
    std::int32_t pid = 0;
    std::int32_t affinity_error = 0, memory_policy_error = 0;
};
/// A SpawnError.
struct StartFailed {
    std::int32_t stage = 0, error_number = 0;
    std::string what, hint;
};
/// A ChildEnd. The rest of the rank's process group has SIGKILL.
struct Ended {
    std::optional<std::int32_t> exit_code, signal;
    bool core_dumped = false;
};
/// The answer to EndOffspring.
struct OffspringEnded {
    bool all = false;
};
/// This signal reached the stand-in, and not its rank.
struct Signalled {
    std::int32_t signal = 0;
};

// From the agent.
struct Accepted {};
/// The last message.
struct Refused {
    std::string reason, hint;
};
/// `spec` without its descriptors. Those that are given travel with the frame, in the order stdin,
/// stdout, stderr, inherited; bit 0 … 3 of `descriptors` says which.
struct Start {
    ChildSpec spec;
    std::uint32_t descriptors = 0;
    std::int32_t inherited_as = -1;
};
struct SignalGroup {
    std::int32_t signal = 0;
};
/// End what the rank has left behind, with SIGKILL.
struct EndOffspring {
    std::uint32_t timeout_ms = 0;
};
/// The job is over.
struct Finish {
    std::int32_t exit_code = 0;
};

using Message = std::variant<Hello, Started, StartFailed, Ended, OffspringEnded, Signalled,
                             Accepted, Refused, Start, SignalGroup, EndOffspring, Finish>;

/// The frame: its length, its type, its fields.
std::string encode(const Message& message);
/// Takes one whole frame off the front of `bytes`; nothing when more bytes are needed. Throws
/// Error{corrupt}.
std::optional<Message> take_message(std::string& bytes);

}  // namespace autolaunch::launcher::stand_in
