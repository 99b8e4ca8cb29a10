#include "policy/user_groups.hpp"

#include "base/ask_in_time.hpp"
#include "base/text.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace autolaunch::launcher {

namespace {

constexpr auto kGroupTime = std::chrono::seconds(10);

std::string group_name(gid_t gid) {
    struct group record {};
    std::vector<char> buffer;
    const auto ask = [gid](auto... rest) { return ::getgrgid_r(gid, rest...); };
    return ask_database(ask, record, buffer) == DatabaseAnswer::exists ? std::string(record.gr_name)
                                                                       : std::to_string(gid);
}

DatabaseAnswer ask_group(const std::string& name, struct group& record, std::vector<char>& buffer) {
    const auto ask = [&name](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); };
    return ask_database(ask, record, buffer);
}

GroupLookup ask_for_group(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    const DatabaseAnswer answer = ask_group(name, record, buffer);
    return {answer, answer == DatabaseAnswer::exists ? record.gr_gid : 0};
}

std::vector<gid_t> groups_of(const char* name, gid_t primary) {
    constexpr int kMostGroups = 65536;
    for (int room = 64; room <= kMostGroups; room *= 4) {
        std::vector<gid_t> groups(static_cast<std::size_t>(room));
        int count = room;
        if (::getgrouplist(name, primary, groups.data(), &count) >= 0) {
            groups.resize(static_cast<std::size_t>(count));
            return groups;
        }
    }
    return {primary};
}

// Of a user that no database knows: what the process was given.
std::vector<gid_t> groups_of_process() {
    std::vector<gid_t> groups = {::getgid()};
    const int count = ::getgroups(0, nullptr);
    if (count <= 0)
        return groups;
    groups.resize(static_cast<std::size_t>(count) + 1);
    const int got = ::getgroups(count, groups.data() + 1);
    groups.resize(static_cast<std::size_t>(std::max(got, 0)) + 1);
    return groups;
}

}  // namespace

JobUser read_job_user() {
    JobUser user;
    user.uid = ::getuid();
    struct passwd record {};
    std::vector<char> buffer;
    const auto ask = [&user](auto... rest) { return ::getpwuid_r(user.uid, rest...); };
    const DatabaseAnswer answer = ask_database(ask, record, buffer);
    user.known = answer == DatabaseAnswer::exists;
    user.answered = answer != DatabaseAnswer::no_answer;
    user.name = user.known ? std::string(record.pw_name) : "user " + std::to_string(user.uid);
    for (const gid_t gid :
         user.known ? groups_of(record.pw_name, record.pw_gid) : groups_of_process()) {
        std::string name = group_name(gid);
        if (std::find(user.groups.begin(), user.groups.end(), name) == user.groups.end())
            user.groups.push_back(std::move(name));
    }
    return user;
}

GroupLookup look_up_group(const std::string& name) {
    return ask_in_time([name] { return ask_for_group(name); }, Deadline::after(kGroupTime))
        .value_or(GroupLookup{DatabaseAnswer::no_answer, 0});
}

GroupLookup group_number(const std::string& name) {
    GroupLookup group = look_up_group(name);
    long long number = 0;
    if (group.answer == DatabaseAnswer::none && parse_integer(name, number) && number >= 0 &&
        number < static_cast<long long>(UINT32_MAX))
        group = {DatabaseAnswer::exists, static_cast<gid_t>(number)};
    return group;
}

bool process_has_group(gid_t group) {
    const std::vector<gid_t> groups = groups_of_process();
    return group == ::getegid() || std::find(groups.begin(), groups.end(), group) != groups.end();
}

UserAndGroups read_user_and_groups(const std::vector<std::string>& groups) {
    UserAndGroups asked{read_job_user(), {}};
    for (const std::string& name : groups)
        asked.groups[name] = ask_for_group(name).answer;
    return asked;
}

std::vector<std::string> group_members(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    std::vector<std::string> members;
    if (ask_group(name, record, buffer) != DatabaseAnswer::exists)
        return members;
    for (char** member = record.gr_mem; member != nullptr && *member != nullptr; ++member)
        members.emplace_back(*member);
    ::setpwent();
    while (const struct passwd* user = ::getpwent())
        if (user->pw_gid == record.gr_gid)
            members.emplace_back(user->pw_name);
    ::endpwent();
    std::sort(members.begin(), members.end());
    members.erase(std::unique(members.begin(), members.end()), members.end());
    return members;
}

}  // namespace autolaunch::launcher
