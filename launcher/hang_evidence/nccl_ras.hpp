#pragma once
#include "base/unique_fd.hpp"

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Where NCCL's ranks answer questions on this node.
struct RasAddress {
    std::string host = "localhost";
    std::uint16_t port = 28028;
    bool operator==(const RasAddress&) const = default;
};

/// Of the environment of a rank, as /proc/PID/environ has it: NCCL_RAS_ADDR ("host:port",
/// ":port"), or NCCL's default; nothing where NCCL_RAS_ENABLE is 0, or the address is none of this
/// node's loopback: NCCL is not asked elsewhere. Pure.
std::optional<RasAddress> ras_address(std::string_view variables);

/// A question to NCCL's RAS (its text protocol, version 2): "VERBOSE STATUS". Only to a server that
/// one of `ranks` or their children runs: others on this machine may listen there, too.
///
/// Owner: who asks. Threads: its owner's. Blocks: the constructor, 100 ms at most.
class RasQuestion {
public:
    /// `is_ours` knows the sockets of this job's ranks. Over at once where nobody listens.
    RasQuestion(const RasAddress& address, std::function<bool(std::uint64_t inode)> is_ours);

    /// Readable when advance() has something to do; -1 when it is over.
    int fd() const { return socket_.get(); }
    /// Takes what has come; true when it is over.
    bool advance();
    /// What NCCL says of the job's communicators, 256 KiB of it at most; empty: nothing (yet).
    const std::string& answer() const { return answer_; }
    /// Why there is no answer; empty: there is, or nobody listens.
    const std::string& problem() const { return problem_; }

private:
    bool is_known();
    bool send(std::string_view line);
    bool take_lines();
    bool end(const std::string& problem);

    const std::function<bool(std::uint64_t)> is_ours_;
    UniqueFd socket_;
    int step_ = 0;  // how many questions were answered
    std::string received_, answer_, problem_;
};

/// Whether a process of these trees has the socket open.
bool has_socket(const std::vector<pid_t>& processes, std::uint64_t inode);

}  // namespace autolaunch::launcher
