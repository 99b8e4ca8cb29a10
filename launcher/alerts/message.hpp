#pragma once
#include "alerts/incident_book.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher::alerts {

/// Which job it is about, for the reader of a message.
struct AlertedJob {
    std::string name, job_id;  ///< job_id: the scheduler's; empty: none
    std::string run_id, run_dir;
    std::string user, host;  ///< host: where the messages come from
    std::string cause;       ///< why it failed, as the screen says it; empty: it has not
    bool has_ended = false;  ///< nobody looks any more
};

/// A notice in words: one line, and what follows it. Pure.
struct AlertText {
    std::string subject;  ///< "[critical] job_failure: train-gpt, job 4711"
    std::string body;     ///< lines of at most 998 bytes; what happened first, then where to look
};
AlertText text_of(const Notice& notice, const AlertedJob& job);

/// With padding (RFC 4648). Pure.
std::string base64(std::string_view text);

/// "ranks 0-31", "GPU 2 of node1, GPU 3 of node1 and 5 more"; empty: of the job. Pure.
std::string subjects_of(std::span<const Match> matches);

/// A mail with its headers, RFC 5322: one thread for each incident, by Message-ID and References.
/// Pure.
std::string mail_of(const Notice& notice, const AlertedJob& job, const std::string& from,
                    std::span<const std::string> to);

/// What Slack's incoming webhooks take. Pure.
std::string slack_json(const Notice& notice, const AlertedJob& job);

/// What Alertmanager's POST /api/v2/alerts takes: those that fire, until `ends_at` unless they are
/// posted again; those that are over, until then. One alert for each, ranks and GPUs in its
/// annotations. Pure.
std::string alertmanager_json(std::span<const FiringAlert> alerts, const AlertedJob& job,
                              WallTime ends_at);

/// What a command gets on its stdin: docs/alerts.md has the fields. One line. Pure.
std::string notice_json(const Notice& notice, const AlertedJob& job);

}  // namespace autolaunch::launcher::alerts
