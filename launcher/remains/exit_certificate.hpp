#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Something of a job, by kind: "process", "port", "memory file", "folder", "shared memory", "gpu".
struct Remnant {
    std::string kind, what;
    std::string why = {};  ///< it is still there, or was not looked at

    bool operator==(const Remnant&) const = default;
};

/// What the job had of one kind, and how it is known to be gone.
struct GoneProof {
    std::string kind;
    int count = 0;
    std::string proof;  ///< a sentence
};

/// Whether a node should get no more jobs, and what was done about it.
struct DrainWord {
    std::string command;  ///< that drains it
    bool done = false;
    std::string why_not = {};
};

/// What is left of a job on one node: RUN_DIR/exit.json (docs/exit-certificate.md).
struct ExitCertificate {
    std::string run_id, node;
    int node_rank = 0;
    std::string by = "agent";      ///< or "clean", "the next start": its agent was killed
    std::optional<int> exit_code;  ///< of the agent; nothing: it was killed
    std::chrono::system_clock::time_point at;
    std::vector<GoneProof> gone;
    std::vector<Remnant> left;
    std::vector<Remnant> not_checked;
    std::vector<Remnant> unclaimed = {};  ///< of this user and of that time; nobody says whose
    std::optional<DrainWord> drain = {};

    bool clean() const { return left.empty(); }
};

std::string certificate_json(const ExitCertificate& certificate);

/// "1 process and 1 port of the job are still there: process 4711 (python3), …". Empty: nothing.
std::string describe_left(const std::vector<Remnant>& left);

/// The command that drains a node, with the reason quoted for a shell.
std::string drain_command(const std::string& node, const std::string& reason);

}  // namespace autolaunch::launcher
