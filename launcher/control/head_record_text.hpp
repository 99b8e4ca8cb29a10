#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// Where the head of a running job is found: RUN_DIR/head.json, mode 0600. No secret is in it.
struct HeadRecord {
    std::string run_id;
    std::string hostname;            ///< the head's machine, as it calls itself
    std::string door;                ///< a Unix socket there
    std::string identity;            ///< the job's; empty with one node
    std::vector<std::string> hosts;  ///< names and addresses of the head
    std::vector<std::uint16_t> ports;
    std::string shared_directory;  ///< where the key file is, where the key comes from one
    std::string secret_file;       ///< rendezvous.secret_file
    std::chrono::milliseconds lost_after{};  ///< the head's: who says nothing for so long is lost

    bool operator==(const HeadRecord&) const = default;
};

/// Throws Error{corrupt} where it is none, Error{mismatch} for another version's. Pure.
HeadRecord parse_head_record(std::string_view text, const std::string& file);
std::string to_json(const HeadRecord& record);

}  // namespace autolaunch::launcher
