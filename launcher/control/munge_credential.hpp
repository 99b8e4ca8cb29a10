#pragma once
#include "base/deadline.hpp"
#include "control/job_key.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

/// Carries the job key from the head to the nodes in a MUNGE credential that only the same user can
/// decode. munged answers on a Unix socket and may be stuck, and libmunge has no deadline: every
/// call is made on a thread of its own, which is left behind when the time is over. libmunge is
/// loaded when it is first needed.
namespace autolaunch::launcher {

/// Far longer than a busy munged takes.
inline constexpr std::chrono::seconds kMungeTimeout{5};

/// The credential, or the reason why MUNGE cannot be used here. `socket` is munged's; empty: where
/// MUNGE expects it.
struct MadeCredential {
    std::optional<std::string> credential;
    std::string reason;
};
MadeCredential make_munge_credential(const JobKey& key, const JobIdentity& identity,
                                     const std::string& socket, const Deadline& deadline);

/// The key inside, or the reason why it is not to be had.
struct OpenedCredential {
    std::optional<JobKey> key;
    std::string reason;
};
/// Calls back once, from `io`, within kMungeTimeout; not at all when `io` ends before.
void open_munge_credential(asio::io_context& io, const std::string& credential,
                           const JobIdentity& identity, const std::string& socket,
                           std::function<void(const OpenedCredential&)> opened);

}  // namespace autolaunch::launcher
