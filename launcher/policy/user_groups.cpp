#include "policy/user_groups.hpp"

#include "base/text.hpp"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kFirstBuffer = 4096, kLargestBuffer = std::size_t{16} << 20;

// `ask` is one of the _r functions: ERANGE asks for more room. What is not found is no error of
// glibc's, but a directory that does not answer is one.
template <class Record>
GroupAnswer ask_database(auto ask, Record& record, std::vector<char>& buffer) {
    for (buffer.resize(kFirstBuffer); buffer.size() <= kLargestBuffer;) {
        Record* found = nullptr;
        const int error = ask(&record, buffer.data(), buffer.size(), &found);
        if (error == EINTR)
            continue;
        if (error == ERANGE) {
            buffer.resize(buffer.size() * 2);
            continue;
        }
        if (error != 0)
            return GroupAnswer::no_answer;
        return found != nullptr ? GroupAnswer::exists : GroupAnswer::none;
    }
    return GroupAnswer::no_answer;
}

std::string group_name(gid_t gid) {
    struct group record {};
    std::vector<char> buffer;
    const auto ask = [gid](auto... rest) { return ::getgrgid_r(gid, rest...); };
    return ask_database(ask, record, buffer) == GroupAnswer::exists ? std::string(record.gr_name)
                                                                    : std::to_string(gid);
}

GroupAnswer ask_group(const std::string& name, struct group& record, std::vector<char>& buffer) {
    const auto ask = [&name](auto... rest) { return ::getgrnam_r(name.c_str(), rest...); };
    return ask_database(ask, record, buffer);
}

bool find_group(const std::string& name, struct group& record, std::vector<char>& buffer) {
    return ask_group(name, record, buffer) == GroupAnswer::exists;
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
    const GroupAnswer answer = ask_database(ask, record, buffer);
    user.known = answer == GroupAnswer::exists;
    user.answered = answer != GroupAnswer::no_answer;
    user.name = user.known ? std::string(record.pw_name) : "user " + std::to_string(user.uid);
    for (const gid_t gid :
         user.known ? groups_of(record.pw_name, record.pw_gid) : groups_of_process()) {
        std::string name = group_name(gid);
        if (std::find(user.groups.begin(), user.groups.end(), name) == user.groups.end())
            user.groups.push_back(std::move(name));
    }
    return user;
}

std::optional<gid_t> group_number(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    if (find_group(name, record, buffer))
        return record.gr_gid;
    long long number = 0;
    if (parse_integer(name, number) && number >= 0 && number < static_cast<long long>(UINT32_MAX))
        return static_cast<gid_t>(number);
    return std::nullopt;
}

bool process_has_group(gid_t group) {
    const std::vector<gid_t> groups = groups_of_process();
    return group == ::getegid() || std::find(groups.begin(), groups.end(), group) != groups.end();
}

GroupAnswer look_up_group(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    return ask_group(name, record, buffer);
}

std::optional<UserAndGroups> ask_in_time(std::vector<std::string> groups,
                                         std::chrono::milliseconds time) {
    std::promise<UserAndGroups> promise;
    auto answer = promise.get_future();
    std::thread([names = std::move(groups), promise = std::move(promise)]() mutable {
        UserAndGroups asked{read_job_user(), {}};
        for (const std::string& name : names)
            asked.groups[name] = look_up_group(name);
        promise.set_value(std::move(asked));
    }).detach();
    if (answer.wait_for(time) != std::future_status::ready)
        return std::nullopt;
    return answer.get();
}

bool group_exists(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    return find_group(name, record, buffer);
}

std::vector<std::string> group_members(const std::string& name) {
    struct group record {};
    std::vector<char> buffer;
    std::vector<std::string> members;
    if (!find_group(name, record, buffer))
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
