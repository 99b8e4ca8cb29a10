#include "policy/job_site.hpp"

#include "base/ask_in_time.hpp"
#include "base/deadline.hpp"
#include "site/site_checks.hpp"
#include "site/site_file.hpp"
#include "site/site_merge.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {
constexpr auto kSlurmTime = std::chrono::seconds(5);
// A directory that is slow answers in it; one that is gone keeps no start for minutes.
constexpr auto kGroupsTime = std::chrono::seconds(30);

[[noreturn]] void refuse_without_answer(const SiteSettings& settings, const std::string& what) {
    throw ExitError(
        exit_code::kUnavailable, ErrorCode::system,
        "whether the roles of " + std::string(kSiteFile) + " allow this is not known: " + what,
        "try again when `getent group` knows the groups of the roles; else ask " +
            (settings.contact.empty() ? "the administrator of this cluster" : settings.contact));
}

UserAndGroups ask_for_roles(const SiteSettings& settings) {
    std::vector<std::string> names;
    for (const SiteRole& role : settings.roles)
        names.push_back(role.name);
    auto asked = ask_in_time([names = std::move(names)] { return read_user_and_groups(names); },
                             Deadline::after(kGroupsTime));
    if (!asked)
        refuse_without_answer(settings,
                              "the system's database of users and groups gave no answer in 30 s");
    return std::move(*asked);
}

// Groups that could not be read can only have made a no of a yes: a role limits nobody else.
PolicyVerdict require_answers(PolicyVerdict verdict, const SiteSettings& settings,
                              const UserAndGroups& asked) {
    if (verdict.allowed)
        return verdict;
    if (!asked.user.answered)
        refuse_without_answer(
            settings, "the system's database of users did not answer for " + asked.user.name);
    for (const SiteRole& role : settings.roles)
        if (asked.groups.at(role.name) == DatabaseAnswer::no_answer)
            refuse_without_answer(settings, "the system's database of groups did not answer for " +
                                                role.name + ", a role (" + place_of(role.at) + ")");
    return verdict;
}

}  // namespace

JobSite JobSite::read(const Value& of_job, std::vector<SpecError>& errors) {
    JobSite both;
    SiteSettings job = read_site_settings(of_job, SiteSource::job, errors);
    if (auto site = read_site_file()) {
        both.file_ = kSiteFile;
        both.settings_ = tighten(*site, job, errors);
    } else {
        both.settings_ = tighten({}, job, errors);
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
    const UserAndGroups asked = ask_for_roles(settings_);
    const auto exists = [&](const std::string& name) {
        return asked.groups.at(name) != DatabaseAnswer::none;
    };
    return require_answers(judge_claim(settings_, asked.user, claim, exists), settings_, asked);
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
    if (!site || !site->has_roles())
        return;
    const UserAndGroups asked = ask_for_roles(*site);
    require_allowed(require_answers(judge_action(*site, asked.user, action), *site, asked));
}

}  // namespace autolaunch::launcher
