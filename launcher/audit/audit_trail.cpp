#include "audit/audit_trail.hpp"

#include "base/user_database.hpp"
#include "secrets/secrets.hpp"
#include "site/audit_kinds.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr char kJournald[] = "journald";

}  // namespace

AuditTrail::AuditTrail(AuditSettings settings, Environment environment, std::string host,
                       std::function<void(const std::string&)> tell)
    : settings_(std::move(settings)),
      environment_(std::move(environment)),
      host_(std::move(host)),
      tell_(std::move(tell)) {}

std::filesystem::path AuditTrail::path() const {
    return audit_file_of(settings_, environment_, host_);
}

void AuditTrail::open() {
    if (chain_)
        return;
    const std::filesystem::path file = path();
    AuditRetention retention;
    retention.keep_days = settings_.keep_days;
    retention.for_group = !settings_.directory.empty();
    if (settings_.keep_days)
        retention.most_days = std::clamp(*settings_.keep_days / 4, 1, retention.most_days);
    const UserRecord user = own_user_record();
    if (user.answer == DatabaseAnswer::no_answer)
        tell_once("the system's database of users does not answer; its lines name " + user.name);
    chain_.emplace(file.parent_path(), file.stem().string(),
                   AuditActor{user.name, ::geteuid(), host_, 0}, retention);
    journal_.emplace();
    if (settings_.anchor == kJournald || settings_.anchor.empty() || bucket_)
        return;
    try {
        bucket_ = std::make_unique<S3Anchor>(settings_.anchor, environment_);
    } catch (const Error& error) {
        lose(std::string("its head cannot be anchored: ") + error.what());
    }
}

void AuditTrail::tell_once(const std::string& text) {
    if (std::find(told_.begin(), told_.end(), text) != told_.end())
        return;
    told_.push_back(text);
    if (tell_)
        tell_("audit: " + text);
}

void AuditTrail::lose(const std::string& why) {
    const bool first = why_lost_.empty();
    why_lost_ = why;
    if (first)
        tell_once(why + (settings_.required ? "" : "; the trail misses what is not written"));
    if (first && failed() && on_failure_)
        on_failure_();
}

// Root's copy, as it is written.
void AuditTrail::send(const AuditedLine& line) {
    has_line_ = true;
    if (journal_->send(journal_entry(line)))
        return;
    if (settings_.anchor == kJournald)
        return lose("its lines do not reach journald: " + journal_->why());
    if (settings_.anchor.empty())
        tell_once(journal_->why() + "; the trail is in " + chain_->path().string() +
                  " alone, which its owner can write anew");
}

void AuditTrail::anchor(const std::string& time) {
    if (!bucket_ || !has_line_)
        return;
    try {
        bucket_->put(chain_->head(), time, settings_.keep_days);
    } catch (const Error& error) {
        lose(std::string("its head cannot be anchored: ") + error.what() +
             (error.hint().empty() ? "" : " (" + error.hint() + ")"));
    }
}

void AuditTrail::keep(const std::string& kind, nlohmann::ordered_json detail, bool anchors) {
    open();
    mask_texts(detail, secrets_);
    chain_->append(kind, std::move(detail), job_, [this](const AuditedLine& line) { send(line); });
    if (anchors)
        anchor(audit_time(std::chrono::system_clock::now()));
}

bool AuditTrail::record(const std::string& kind, nlohmann::ordered_json detail, bool anchors) {
    if (!enabled() || !settings_.records(kind))
        return false;
    try {
        keep(kind, std::move(detail), anchors);
        return why_lost_.empty();
    } catch (const Error& error) {
        lose(error.what());
        return false;
    }
}

void AuditTrail::require(const std::string& kind, nlohmann::ordered_json detail, bool anchors) {
    record(kind, std::move(detail), anchors);
    if (failed())
        throw AuditMissing(why_lost_);
}

std::optional<AuditHead> AuditTrail::head() const {
    return chain_ && has_line_ ? std::optional(chain_->head()) : std::nullopt;
}

}  // namespace autolaunch::launcher
