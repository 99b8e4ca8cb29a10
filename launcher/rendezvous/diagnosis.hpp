#pragma once
#include "rendezvous/host_lookup.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// Why nodes did not come together, in words. The records are filled by those who tried; these
// functions only write.

/// One numeric address of the head, dialled on all ports.
struct DialRecord {
    std::string address;
    std::string route;  ///< "eth0, 10.0.0.5": how it is reached; empty: no route
    std::map<std::uint16_t, std::string>
        last_error;  ///< by port: "refused", "timed out", "not ours: …"
};

/// A node's search for the head.
struct SearchRecord {
    std::string head_name;
    std::chrono::milliseconds timeout{0};
    std::vector<NameLookup> lookups;
    std::vector<DialRecord> dials;
    std::string
        broken_off;  ///< how a connection that had proved itself ended; empty: there was none
};

/// Who was turned away, by address.
struct Stranger {
    /// What it let be known of itself, the most telling last.
    enum class Told {
        nothing,      ///< its connection ended before it had said who it is
        not_ours,     ///< it is of another job, or of none
        another_key,  ///< it knew the job, but not its key
    };
    std::string reason;  ///< of the most telling time, and of those the latest
    int times = 0;
    Told told = Told::nothing;
};

/// The head's wait for the others.
struct WaitRecord {
    std::string head_name;
    int node_count = 1;
    std::chrono::milliseconds timeout{0};
    int missing_count = 0;
    std::string missing;  ///< "node[3-4]", or "node ranks 2-3" where no names are known
    std::vector<std::string> own_addresses;     ///< "10.0.0.1 (eth0)"
    std::uint16_t port = 0;                     ///< where it listened
    std::vector<std::uint16_t> ports;           ///< where it might have
    bool ipv4_only = false;                     ///< IPv6 is off on this machine
    std::map<std::string, Stranger> strangers;  ///< by address
};

/// A sentence, and below it what was tried, what came of it and what to do, a line each.
struct Diagnosis {
    std::string what, hint;
};

Diagnosis diagnose(const SearchRecord& record);
Diagnosis diagnose(const WaitRecord& record);

/// "300 s", "1.5 s".
std::string seconds_text(std::chrono::milliseconds duration);

}  // namespace autolaunch::launcher
