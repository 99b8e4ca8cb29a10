#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// How bad it is, the worst last. A failure keeps a node out of a job; a warning costs speed or may
/// cost the job later; a hint is worth a look; information is for who asks.
enum class Severity { info, hint, warn, fail };

/// "info", "hint", "warn", "fail".
std::string_view severity_name(Severity severity);

/// What a check has to say.
struct Finding {
    std::string check;
    Severity severity = Severity::info;
    std::string what;  ///< "8 MiB, needs unlimited"
    std::string fix;   ///< what to do about it
    bool operator==(const Finding&) const = default;
};

/// Why a check did not look. That is no pass.
struct Unchecked {
    std::string check;
    std::string why;
    bool operator==(const Unchecked&) const = default;
};

/// What a node is like, by names such as "gpu.driver", so that nodes can be compared.
using Facts = std::map<std::string, std::string>;

/// All that one node's checks came to.
struct NodeReport {
    std::string node;
    Facts facts;
    std::vector<Finding> findings;
    std::vector<std::string> fine;     ///< checks that looked and found nothing
    std::vector<Unchecked> idle;       ///< nothing here to look at: no GPU, no HCA
    std::vector<Unchecked> unchecked;  ///< could not look: no permission, no library, no answer

    void merge(NodeReport&& other);
    bool operator==(const NodeReport&) const = default;
};

/// JSON, for the way from a child to its parent and from a node to the head. Text that is not UTF-8
/// is replaced.
std::string encode_report(const NodeReport& report);
/// Throws Error{corrupt} for what encode_report never writes.
NodeReport decode_report(std::string_view text);

}  // namespace autolaunch::launcher
