#pragma once
#include "allocation/allocation.hpp"
#include "control/control_message.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Whether a variable naturally differs between the nodes or tasks of one job (a task's number, a
/// host's name, its GPUs), so that nobody wants to hear of it. Pure.
bool differs_by_nature(std::string_view variable);

/// Names and digests of the other variables, sorted by name. Values never leave the node. Pure.
control::EnvironmentTable describe_environment(const EnvironmentMap& environment);
std::uint64_t digest_of(const control::EnvironmentTable& table);

/// The variables that one of them lacks or that have another value, sorted. Pure.
std::vector<std::string> differing_variables(const control::EnvironmentTable& a,
                                             const control::EnvironmentTable& b);

/// Collects which variables differ from the head's where, and says so in few lines: "FOO and BAR
/// differ on node[3-4] from node1". One table speaks for all nodes of the same digest.
///
/// Owner: the head, during the join. Threads: its one. Blocks: never.
class EnvironmentComparison {
public:
    /// More than so many different environments are not asked for: the first ones tell enough.
    static constexpr std::size_t kMaxAsked = 64;

    EnvironmentComparison(control::EnvironmentTable own)
        : own_(std::move(own)), own_digest_(digest_of(own_)) {}

    /// A node has joined; true when it must send its table.
    bool must_ask(const std::string& node_name, std::uint64_t digest);
    void answer(std::uint64_t digest, const control::EnvironmentTable& table);
    /// Tables that were asked for and have not come.
    std::size_t outstanding() const { return outstanding_; }
    std::vector<std::string> warnings(const std::string& head_name) const;

private:
    struct Other {
        std::vector<std::string> nodes;
        std::vector<std::string> variables;
        bool answered = false;
    };
    control::EnvironmentTable own_;
    std::uint64_t own_digest_;
    std::map<std::uint64_t, Other> others_;  // by digest
    std::size_t outstanding_ = 0;
};

}  // namespace autolaunch::launcher
