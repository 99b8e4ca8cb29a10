#pragma once
#include <cstdint>

namespace autolaunch::launcher {

// What agent and warm interpreter say to each other (docs/python-start.md): over a SOCK_SEQPACKET
// pair, both ends on one machine and of one build. The agent sends an order, as a memory file with
// the head below and the texts behind it, in their order; the interpreter answers with a line.

/// Names the descriptor of the interpreter's end; taken out of the environment before Python
/// begins.
inline constexpr const char* kWarmVariable = "AUTOLAUNCH_PYTHON_PARENT";

/// Descriptors of one order: the memory file; of the first, the file for the record, and where
/// there are files in pieces, the door to hand their mount in at; of a rank's, stdin, stdout,
/// stderr, and one that is inherited.
inline constexpr int kMostOrderFds = 5;
inline constexpr std::uint32_t kOrderMark = 0x414c5059;
inline constexpr std::uint32_t kMostOrderBytes = 64U << 20;
inline constexpr std::uint32_t kAnswerBytes = 4096;

struct OrderHead {
    std::uint32_t mark = kOrderMark;
    std::int32_t agent = -1;              ///< who is to adopt the rank
    std::int64_t file_limit = -1;         ///< -1: leave it
    std::int32_t inherited_as = -1;       ///< -1: none
    std::uint32_t environment_bytes = 0;  ///< NAME=value, each with its zero
    std::uint32_t workdir_bytes = 0;      ///< with its zero; 0: stay
    std::uint32_t cpu_mask_bytes = 0;     ///< 0: leave the affinity alone
    std::uint32_t node_mask_bytes = 0;    ///< 0: leave the memory policy alone
    std::uint32_t program_bytes = 0;      ///< the first order's alone: see append_program()
    std::uint32_t copies_bytes = 0;       ///< the first order's alone: see append_copies()
};
static_assert(sizeof(OrderHead) == 48, "no padding: the texts begin behind it");

/// A rank's answer. Before it the interpreter may say, in words, why it forks none.
struct ForkAnswer {
    std::uint32_t mark = kOrderMark;
    std::int32_t pid = -1;
    std::int32_t failed_stage = 0;  ///< SpawnStage
    std::int32_t error_number = 0;
    std::int32_t affinity_error = 0;
    std::int32_t memory_policy_error = 0;
};

}  // namespace autolaunch::launcher
