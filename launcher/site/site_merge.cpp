#include "site/site_merge.hpp"

#include "base/text.hpp"
#include "spec/scalar.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace autolaunch::launcher {

namespace {

// Of an entry of a list, whatever it is: to be compared, never shown.
std::string canonical(const Value& value) {
    std::string text = value.is_scalar() ? value.text : std::string();
    for (const Value& item : value.items)
        text += '\n' + canonical(item);
    std::vector<std::string> entries;
    for (const Entry& entry : value.entries)
        entries.push_back(entry.key + '\t' + canonical(entry.value));
    std::sort(entries.begin(), entries.end());
    return text + join(entries, "\r");
}

std::vector<std::string> canonical_items(const Value& value) {
    std::vector<std::string> items;
    for (const Value& item : value.items)
        items.push_back(canonical(item));
    std::sort(items.begin(), items.end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    return items;
}

bool is_part_of(const std::vector<std::string>& part, const std::vector<std::string>& whole) {
    return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

long long number_of(const Value& value) {
    long long number = 0;
    parse_integer(value.text, number);
    return number;
}

std::optional<std::size_t> verbosity(std::string text) {
    static constexpr std::array<std::string_view, 5> kLevels = {"ERROR", "WARNING", "WARN", "INFO",
                                                                "DEBUG"};
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    const auto found = std::find(kLevels.begin(), kLevels.end(), text);
    if (found == kLevels.end())
        return std::nullopt;
    return static_cast<std::size_t>(found - kLevels.begin());
}

bool same_value(const SiteKeyRule& rule, const Value& a, const Value& b) {
    if (rule.form == SiteForm::boolean)
        return boolean_from(a.text) == boolean_from(b.text);
    if (rule.form == SiteForm::isolation)
        return isolation_from(a) == isolation_from(b);
    if (rule.form == SiteForm::whole_number)
        return number_of(a) == number_of(b);
    if (rule.form == SiteForm::texts || rule.form == SiteForm::mappings)
        return canonical_items(a) == canonical_items(b);
    return a.text == b.text;
}

// Both are not equal.
bool is_tighter(const SiteKeyRule& rule, const Value& job, const Value& site) {
    switch (rule.tighter) {
        case Tighter::same:
        case Tighter::only_site:
            return false;
        case Tighter::if_true:
            return boolean_from(job.text).value_or(false);
        case Tighter::if_false:
            return !boolean_from(job.text).value_or(true);
        case Tighter::smaller:
            return number_of(job) < number_of(site);
        case Tighter::larger:
            return number_of(job) > number_of(site);
        case Tighter::fewer:
            return is_part_of(canonical_items(job), canonical_items(site));
        case Tighter::more:
            return is_part_of(canonical_items(site), canonical_items(job));
        case Tighter::more_verbose: {
            const auto mine = verbosity(job.text), theirs = verbosity(site.text);
            return mine && theirs && *mine >= *theirs;
        }
        case Tighter::more_isolated:
            return isolation_from(job) > isolation_from(site);
        case Tighter::beside:
        case Tighter::by_role:
            return true;  // entry by entry, and role by role, below
    }
    return false;
}

std::string what_a_job_may(Tighter tighter) {
    switch (tighter) {
        case Tighter::if_true:
            return "a job may turn it on, not off";
        case Tighter::if_false:
            return "a job may turn it off, not on";
        case Tighter::smaller:
            return "a job may make it smaller, not larger";
        case Tighter::larger:
            return "a job may make it larger, not smaller";
        case Tighter::fewer:
            return "a job may leave entries out, not add any";
        case Tighter::more:
            return "a job may add entries, not leave any out";
        case Tighter::more_isolated:
            return "a job may let in fewer, not more";
        case Tighter::more_verbose:
            return "a job may log more, not less";
        default:
            return "a job cannot change it";
    }
}

void refuse_looser(const Origin& at, const std::string& key, const std::string& job,
                   const std::string& site, const Origin& site_at, const std::string& may,
                   std::vector<SpecError>& errors) {
    errors.push_back(error_at(at, key,
                              job + " is not what the administrator allows: " + site + " (" +
                                  place_of(site_at) + "); " + may));
}

template <class T>
void tighten_limit(const std::optional<SiteLimit<T>>& job, std::optional<SiteLimit<T>>& limit,
                   const std::string& key, std::vector<SpecError>& errors) {
    if (!job)
        return;
    if (limit && job->value > limit->value)
        return refuse_looser(job->at, key, job->text, limit->text, limit->at,
                             what_a_job_may(Tighter::smaller), errors);
    if (!limit || job->value < limit->value)
        limit = job;
}

void tighten_permissions(const SiteRole& job, SiteRole& role, const std::string& key,
                         std::vector<SpecError>& errors) {
    if (!job.permissions)
        return;
    if (role.permissions) {
        const auto& allowed = role.permissions->value;
        for (const std::string& word : job.permissions->value)
            if (std::find(allowed.begin(), allowed.end(), word) == allowed.end())
                return refuse_looser(job.permissions->at, key, word,
                                     '[' + role.permissions->text + ']', role.permissions->at,
                                     what_a_job_may(Tighter::fewer), errors);
        if (job.permissions->value.size() == allowed.size())
            return;
    }
    role.permissions = job.permissions;
}

void tighten_roles(const SiteSettings& site, const SiteSettings& job, SiteSettings& both,
                   std::vector<SpecError>& errors) {
    const SiteSetting* at = site.find("authorization.user_groups");
    for (const SiteRole& mine : job.roles) {
        const std::string key = "authorization.user_groups." + mine.name;
        const auto role = std::find_if(both.roles.begin(), both.roles.end(),
                                       [&](const SiteRole& r) { return r.name == mine.name; });
        if (role == both.roles.end()) {
            if (at == nullptr)
                both.roles.push_back(mine);
            else
                refuse_looser(mine.at, key, "a role of its own", "no such role", at->value.at,
                              "a job may make roles smaller, not add any", errors);
            continue;
        }
        tighten_permissions(mine, *role, key + ".permissions", errors);
        tighten_limit(mine.max_gpus, role->max_gpus, key + ".max_gpus", errors);
        tighten_limit(mine.max_memory, role->max_memory, key + ".max_memory", errors);
        tighten_limit(mine.max_time, role->max_time, key + ".max_time", errors);
    }
}

// Those of the administrator stay, whatever the job says.
void add_entries(const Value& mine, Value& theirs) {
    const auto known = canonical_items(theirs);
    for (const Value& item : mine.items)
        if (!std::binary_search(known.begin(), known.end(), canonical(item)))
            theirs.items.push_back(item);
}

}  // namespace

SiteSettings tighten(const SiteSettings& site, const SiteSettings& job,
                     std::vector<SpecError>& errors) {
    SiteSettings both = site;
    both.action = job.action;
    for (const SiteSetting& mine : job.settings) {
        const SiteKeyRule& rule = *mine.rule;
        const auto theirs =
            std::find_if(both.settings.begin(), both.settings.end(),
                         [&](const SiteSetting& setting) { return setting.rule == mine.rule; });
        if (theirs == both.settings.end() && rule.tighter == Tighter::only_site)
            errors.push_back(error_at(mine.value.at, std::string(rule.path),
                                      "is the administrator's to say, in his file; a job cannot"));
        else if (theirs == both.settings.end())
            both.settings.push_back(mine);
        else if (rule.form == SiteForm::roles || same_value(rule, mine.value, theirs->value))
            continue;
        else if (rule.tighter == Tighter::beside)
            add_entries(mine.value, theirs->value);
        else if (is_tighter(rule, mine.value, theirs->value))
            theirs->value = mine.value;
        else
            refuse_looser(mine.value.at, std::string(rule.path), site_value_text(mine),
                          site_value_text(*theirs), theirs->value.at, what_a_job_may(rule.tighter),
                          errors);
    }
    std::sort(both.settings.begin(), both.settings.end(),
              [](const SiteSetting& a, const SiteSetting& b) { return a.rule < b.rule; });
    tighten_roles(site, job, both, errors);
    return both;
}

}  // namespace autolaunch::launcher
