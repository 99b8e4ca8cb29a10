#pragma once
#include "audit/audit_chain.hpp"
#include "audit/audit_settings.hpp"
#include "audit/journal.hpp"
#include "audit/s3_anchor.hpp"
#include "exit_codes/exit_error.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The administrator requires the trail, and it cannot be written or anchored.
class AuditMissing : public ExitError {
public:
    explicit AuditMissing(const std::string& why)
        : ExitError(exit_code::kCannotCreate, ErrorCode::system,
                    "the audit trail that the administrator requires cannot be kept: " + why,
                    "nothing is started without it (audit.required); tell whoever runs this "
                    "cluster") {}
};

/// What this process records of what is done: in a chain of lines, which goes to journald and, at
/// the lines that matter, to a bucket (docs/audit.md). What cannot be written is said once.
///
/// Owner: the command line. Threads: one. Blocks: on the file system; 10 s at most for a bucket.
class AuditTrail {
public:
    /// `tell` gets a line for a person. Nothing is opened yet; without Settings::enabled nothing
    /// ever is.
    AuditTrail(AuditSettings settings, Environment environment, std::string host,
               std::function<void(const std::string&)> tell);

    bool enabled() const { return settings_.enabled; }
    /// Lines from now on are of this job.
    void set_job(std::string job) { job_ = std::move(job); }
    /// This process is a copy of the one that has written so far.
    void after_split() { chain_.reset(); }
    /// Names of secrets may stand in `detail`, never their values: they are masked.
    void set_secrets(std::vector<std::string> secrets) { secrets_ = std::move(secrets); }

    /// One line. False where it is not kept: because nobody asked for it, or because it could not
    /// be, which is said once. `anchors`: its head goes to the bucket at once, if there is one.
    bool record(const std::string& kind, nlohmann::ordered_json detail, bool anchors = false);
    /// As record(), before something begins: throws AuditMissing where it is required and not kept.
    void require(const std::string& kind, nlohmann::ordered_json detail, bool anchors = false);

    /// Something could not be kept that is required.
    bool failed() const { return settings_.required && !why_lost_.empty(); }
    const std::string& why_lost() const { return why_lost_; }
    /// Called once, as soon as failed() is true.
    void set_on_failure(std::function<void()> act) { on_failure_ = std::move(act); }

    /// Of the newest line; nothing before the first.
    std::optional<AuditHead> head() const;
    std::filesystem::path path() const;

private:
    void open();
    void keep(const std::string& kind, nlohmann::ordered_json detail, bool anchors);
    void send(const AuditedLine& line);
    void anchor(const std::string& time);
    void lose(const std::string& why);
    void tell_once(const std::string& text);

    AuditSettings settings_;
    Environment environment_;
    std::string host_;
    std::function<void(const std::string&)> tell_;
    std::function<void()> on_failure_;
    std::string job_;
    std::vector<std::string> secrets_;
    std::optional<AuditChain> chain_;
    std::optional<Journal> journal_;
    std::unique_ptr<S3Anchor> bucket_;
    bool has_line_ = false;
    std::string why_lost_;
    std::vector<std::string> told_;
};

}  // namespace autolaunch::launcher
