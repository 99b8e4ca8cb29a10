#pragma once
#include "rendezvous/join.hpp"

#include <asio/io_context.hpp>

#include <string>

namespace autolaunch::launcher {

/// Why a node that has joined cannot take part: no run directory, a plan that cannot be.
struct Absence {
    int exit_code = 0;
    std::string what, hint;
};

/// Ends the job in its stead: the head sends all nodes home; another node answers every generation
/// that it cannot start it, until the head sends it home. Threads: the agent's one. Blocks: until
/// then, half a minute at most.
void stay_out(asio::io_context& io, Joined& joined, const Absence& absence);

}  // namespace autolaunch::launcher
