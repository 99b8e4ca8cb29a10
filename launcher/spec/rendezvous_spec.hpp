#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Whether nodes are checked before a job, and what a failure does.
enum class Preflight {
    off,
    warn,  ///< the job starts in spite of it
    stop,
};

struct RendezvousSpec {
    std::chrono::milliseconds timeout{300'000};
    std::chrono::milliseconds lost_after{10'000};  ///< at least 1 s
    std::string secret_file;
    Preflight preflight = Preflight::off;
    std::string address;                    ///< --master-addr, or the host of --rdzv-endpoint
    bool address_is_meeting_place = false;  ///< it is --rdzv-endpoint's
    std::optional<bool> is_host = {};       ///< --rdzv-conf is_host: that place is here, or not
    std::chrono::milliseconds last_call{30'000};  ///< for more nodes, once there are --nnodes' MIN
    int port = 0;                                 ///< --master-port; 0: free port
    std::optional<std::int64_t> store_limit_bytes;  ///< all that the store holds; nothing: 1 GiB
    std::optional<int> store_connections;           ///< at a time; nothing: 128 a rank, and 256
    std::string store = "head";  ///< or "node": which store MASTER_ADDR and MASTER_PORT name
};

}  // namespace autolaunch::launcher
