#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Data that ranks are to find on their node's own disk: an entry of storage.stage_in.
struct StageInSpec {
    std::string from;    ///< a folder or a file, or an address of s3, https or http
    std::string name;    ///< ranks find it by AUTOLAUNCH_DATA_NAME, in capitals
    std::string verify;  ///< "sha256:…" of a file; or of a folder the list in it; empty: neither
    std::string unpack;  ///< "tar", "zip"; empty: it stays as it is
    /// Ranks start at once, and a file is there once it is whole; else once all is there.
    bool streams = false;

    bool operator==(const StageInSpec&) const = default;
};

/// What ranks write on their node's own disk, and where it goes when the job ends: an entry of
/// storage.stage_out.
struct StageOutSpec {
    std::string name;            ///< ranks find the folder by AUTOLAUNCH_OUT_NAME, in capitals
    std::string to;              ///< a folder, or "s3://bucket/prefix/"
    bool on_success = false;     ///< when: success; else at every end
    bool by_node = false;        ///< layout: node; else the nodes' files are side by side
    bool may_overwrite = false;  ///< files that are there with another content

    bool operator==(const StageOutSpec&) const = default;
};

struct StorageSpec {
    std::string scratch = "auto";                ///< a folder on each node's own disk
    std::optional<std::int64_t> limit_bytes;     ///< of all that is kept there
    std::optional<std::int64_t> throttle_bytes;  ///< a second, from the source
    std::chrono::milliseconds timeout{24 * 3600 * 1000};
    std::chrono::milliseconds stage_out_time{0};    ///< of a stop, kept for stage_out
    std::optional<std::chrono::milliseconds> keep;  ///< after its last use, from autolaunch gc
    std::vector<StageInSpec> stage_in;
    std::vector<StageOutSpec> stage_out;
    bool is_all = false;  ///< autolaunch stage-in: the job does nothing else; no key of a spec
    bool fills_shared = false;  ///< autolaunch stage-in --shared; no key of a spec
};

/// "AUTOLAUNCH_DATA_TOKENS" of "tokens". Pure.
std::string data_variable(const std::string& name);
/// "AUTOLAUNCH_OUT_RESULTS" of "results". Pure.
std::string out_variable(const std::string& name);

}  // namespace autolaunch::launcher
