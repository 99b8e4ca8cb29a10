#include "policy/judge_claim.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <tuple>
#include <type_traits>

namespace autolaunch::launcher {

namespace {

std::string gib_text(std::int64_t bytes) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f GiB",
                  static_cast<double>(bytes) / static_cast<double>(1LL << 30));
    return text.data();
}

std::string time_text(std::chrono::seconds time) {
    const auto s = time.count();
    std::array<char, 40> text{};
    if (s >= 86400)
        std::snprintf(text.data(), text.size(), "%lld-%02lld:%02lld:%02lld",
                      static_cast<long long>(s / 86400), static_cast<long long>(s / 3600 % 24),
                      static_cast<long long>(s / 60 % 60), static_cast<long long>(s % 60));
    else
        std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld",
                      static_cast<long long>(s / 3600), static_cast<long long>(s / 60 % 60),
                      static_cast<long long>(s % 60));
    return text.data();
}

struct Violation {
    std::string what, instead;
};

template <class T>
std::string of_role(const char* name, const SiteLimit<T>& limit, const SiteRole& role) {
    return std::string(name) + ' ' + limit.text + " of the role " + role.name + " (" +
           place_of(limit.at) + ")";
}

std::optional<Violation> find_violation(const SiteRole& role, const JobClaim& claim) {
    if (role.permissions)
        for (const std::string& action : claim.actions) {
            const auto& may = role.permissions->value;
            if (std::find(may.begin(), may.end(), action) == may.end())
                return Violation{"the role " + role.name + " has no permission to " + action +
                                     ": it has [" + role.permissions->text + "] (" +
                                     place_of(role.permissions->at) + ")",
                                 action == "checkpoint" ? "set checkpoint.enabled: false" : ""};
        }
    if (role.max_gpus && claim.gpus && *claim.gpus > role.max_gpus->value)
        return Violation{std::to_string(*claim.gpus) + " GPUs (" + claim.gpus_words +
                             ") are more than " + of_role("max_gpus", *role.max_gpus, role),
                         "ask for " + role.max_gpus->text + " GPUs at most"};
    if (role.max_memory && claim.memory && *claim.memory > role.max_memory->value)
        return Violation{gib_text(*claim.memory) + " of memory are more than " +
                             of_role("max_memory", *role.max_memory, role) + ", " +
                             gib_text(role.max_memory->value),
                         "ask for " + role.max_memory->text + " of all nodes together at most"};
    if (role.max_time && claim.unlimited_time)
        return Violation{"a job without a time limit is longer than " +
                             of_role("max_time", *role.max_time, role),
                         "give --time=" + time_text(role.max_time->value) + " or less"};
    if (role.max_time && claim.time && *claim.time > role.max_time->value)
        return Violation{"a time limit of " + time_text(*claim.time) + " is longer than " +
                             of_role("max_time", *role.max_time, role),
                         "give --time=" + time_text(role.max_time->value) + " or less"};
    return std::nullopt;
}

template <class T>
std::int64_t width(const std::optional<SiteLimit<T>>& limit) {
    constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
    if (!limit)
        return kNone;
    if constexpr (std::is_same_v<T, std::chrono::seconds>)
        return limit->value.count();
    else
        return limit->value;
}

bool is_wider(const SiteRole& a, const SiteRole& b) {
    const auto key = [](const SiteRole& role) {
        return std::tuple(width(role.max_gpus), width(role.max_time), width(role.max_memory),
                          role.permissions ? role.permissions->value.size()
                                           : std::numeric_limits<std::size_t>::max());
    };
    return key(a) > key(b);
}

std::vector<SiteRole> roles_of(const SiteSettings& settings, const JobUser& user) {
    std::vector<SiteRole> roles;
    for (const SiteRole& role : settings.roles)
        if (std::find(user.groups.begin(), user.groups.end(), role.name) != user.groups.end())
            roles.push_back(role);
    std::stable_sort(roles.begin(), roles.end(), is_wider);
    return roles;
}

std::string whom_to_ask(const SiteSettings& settings) {
    return "for more, ask " + (settings.contact.empty()
                                   ? std::string("the administrator of this cluster")
                                   : settings.contact);
}

std::string limits_text(const SiteRole& role) {
    std::vector<std::string> words;
    if (role.max_gpus)
        words.push_back("max_gpus " + role.max_gpus->text);
    if (role.max_memory)
        words.push_back("max_memory " + role.max_memory->text);
    if (role.max_time)
        words.push_back("max_time " + role.max_time->text);
    return words.empty() ? "without limits" : join(words, ", ");
}

void note_unknown_groups(const SiteSettings& settings,
                         const std::function<bool(const std::string&)>& exists,
                         std::vector<std::string>& notes) {
    for (const SiteRole& role : settings.roles)
        if (exists && !exists(role.name))
            notes.push_back("the role " + role.name + " (" + place_of(role.at) +
                            ") is nobody's: this system has no such group");
}

void note_uncompared(const SiteRole& role, const JobClaim& claim, std::vector<std::string>& notes) {
    const auto add = [&](const char* name, const Origin& at, const char* why) {
        notes.push_back(std::string(name) + " (" + place_of(at) + ") is not compared: " + why);
    };
    if (role.max_gpus && !claim.gpus)
        add("max_gpus", role.max_gpus->at, "the spec does not say how many GPUs a node has");
    if (role.max_memory && !claim.memory)
        add("max_memory", role.max_memory->at, "nobody says how much memory the job has");
    if (role.max_time && !claim.time && !claim.unlimited_time)
        add("max_time", role.max_time->at, "the job's time limit is not known here");
}

PolicyVerdict refuse_without_role(const SiteSettings& settings, const JobUser& user) {
    std::vector<std::string> names;
    for (const SiteRole& role : settings.roles)
        names.push_back(role.name);
    PolicyVerdict verdict;
    verdict.allowed = false;
    const SiteSetting* at = settings.find("authorization.user_groups");
    verdict.decision = user.name + " has no role: " +
                       (names.empty() ? std::string("there are none")
                                      : "roles are of the groups " + join(names, ", ")) +
                       (at != nullptr ? " (" + place_of(at->value.at) + ")" : "") + ", and " +
                       user.name + " is in " + join(user.groups, ", ");
    verdict.hint = whom_to_ask(settings);
    return verdict;
}

}  // namespace

PolicyVerdict judge_claim(const SiteSettings& settings, const JobUser& user, const JobClaim& claim,
                          const std::function<bool(const std::string&)>& exists) {
    PolicyVerdict verdict;
    if (!settings.has_roles())
        return verdict;
    if (user.is_root()) {
        verdict.decision = "allowed: roles do not limit root";
        note_unknown_groups(settings, exists, verdict.notes);
        return verdict;
    }
    const std::vector<SiteRole> roles = roles_of(settings, user);
    if (roles.empty()) {
        verdict = refuse_without_role(settings, user);
    } else {
        const auto role = std::find_if(roles.begin(), roles.end(), [&](const SiteRole& one) {
            return !find_violation(one, claim);
        });
        if (role != roles.end()) {
            verdict.decision = "allowed: role " + role->name + " (" + place_of(role->at) + "), " +
                               limits_text(*role);
            note_uncompared(*role, claim, verdict.uncompared);
        } else {
            const Violation violation = *find_violation(roles.front(), claim);
            verdict.allowed = false;
            verdict.decision = violation.what;
            verdict.hint =
                violation.instead + (violation.instead.empty() ? "" : "; ") + whom_to_ask(settings);
        }
        if (roles.size() > 1)
            verdict.notes.push_back(
                user.name + " has " + std::to_string(roles.size()) + " roles; " +
                (verdict.allowed ? "the widest that allows this job counts"
                                 : "none allows this job, and the widest is named"));
    }
    note_unknown_groups(settings, exists, verdict.notes);
    return verdict;
}

PolicyVerdict judge_action(const SiteSettings& settings, const JobUser& user,
                           const std::string& action) {
    JobClaim claim;
    claim.actions = {action};
    PolicyVerdict verdict = judge_claim(settings, user, claim, {});
    verdict.notes.clear();
    verdict.uncompared.clear();
    return verdict;
}

}  // namespace autolaunch::launcher
