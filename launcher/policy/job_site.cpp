#include "policy/job_site.hpp"

#include "base/deadline.hpp"
#include "site/site_checks.hpp"
#include "site/site_file.hpp"
#include "site/site_merge.hpp"

#include <algorithm>
#include <chrono>

namespace autolaunch::launcher {

namespace {
constexpr auto kSlurmTime = std::chrono::seconds(5);
}

JobSite JobSite::read(const Value& of_job, std::vector<SpecError>& errors) {
    JobSite both;
    SiteSettings job = read_site_settings(of_job, SiteSource::job, errors);
    if (auto site = read_site_file()) {
        both.file_ = kSiteFile;
        both.settings_ = tighten(*site, job, errors);
    } else {
        both.settings_ = std::move(job);
    }
    return both;
}

bool JobSite::limits_time() const {
    return has_roles() && std::any_of(settings_.roles.begin(), settings_.roles.end(),
                                      [](const SiteRole& role) { return role.max_time; });
}

std::shared_ptr<SiteRecord> JobSite::record(Slurm slurm, std::size_t recipients) const {
    auto record = std::make_shared<SiteRecord>();
    record->file = file_;
    if (settings_.settings.empty())
        return record;
    SiteFacts facts = read_node_facts();
    facts.recipients = recipients;
    const bool wanted = std::any_of(
        settings_.settings.begin(), settings_.settings.end(), [](const SiteSetting& setting) {
            const SiteCheck check = setting.rule->check;
            return check == SiteCheck::rbac || check == SiteCheck::preemption ||
                   check == SiteCheck::scheduler || check == SiteCheck::allocation_strategy ||
                   check == SiteCheck::data_isolation;
        });
    if (slurm == Slurm::ask && wanted)
        ask_slurm(facts, Deadline::after(kSlurmTime));
    record->keys = check_site(settings_, facts);
    return record;
}

PolicyVerdict JobSite::judge(const JobClaim& claim) const {
    if (!has_roles())
        return {};
    return judge_claim(settings_, read_job_user(), claim, group_exists);
}

void keep_verdict(const PolicyVerdict& verdict, SiteRecord& record) {
    record.decision = (verdict.allowed ? "" : "forbidden: ") + verdict.decision +
                      (verdict.hint.empty() ? "" : "; " + verdict.hint);
    record.notes = verdict.uncompared;
    record.notes.insert(record.notes.end(), verdict.notes.begin(), verdict.notes.end());
}

void require_allowed(const PolicyVerdict& verdict) {
    if (!verdict.allowed)
        throw Forbidden(verdict);
}

void require_action(const std::string& action) {
    const auto site = read_site_file();
    if (site && site->has_roles())
        require_allowed(judge_action(*site, read_job_user(), action));
}

}  // namespace autolaunch::launcher
