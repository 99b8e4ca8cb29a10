#include "remains/other_users.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/json_nesting.hpp"
#include "base/text.hpp"
#include "spawn/helper_process.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "autolaunch-";
constexpr char kRuntimeFolders[] = "/run/user";
constexpr std::size_t kMostAnswer = std::size_t{4} << 20;
constexpr int kAnswerDepth = 5;
constexpr gid_t kNoGroup = 65534;

// Not asked of a file system that a user may have mounted there and that may never answer.
std::optional<OtherUser> owner_of(const fs::path& path) {
    struct statx facts {};
    if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
                STATX_UID | STATX_GID | STATX_TYPE, &facts) != 0 ||
        !S_ISDIR(facts.stx_mode))
        return std::nullopt;
    // A folder may have root's group by where it lies; nobody but root has it by right.
    return OtherUser{facts.stx_uid, facts.stx_gid == 0 ? kNoGroup : facts.stx_gid};
}

void add(std::vector<OtherUser>& users, const std::optional<OtherUser>& user, uid_t named) {
    if (user && user->uid == named && named != 0 && named != ::geteuid() &&
        std::find(users.begin(), users.end(), *user) == users.end())
        users.push_back(*user);
}

void check(int result, const char* what, uid_t uid) {
    if (result != 0)
        throw SystemError(errno, fmt::format("{} user {}", what, uid));
}

// For good: nothing of root's is left to come back to. The kernel lets the user neither trace such
// a process nor read its memory.
void become(const OtherUser& user) {
    check(::setgroups(1, &user.gid), "take the group of", user.uid);
    check(::setresgid(user.gid, user.gid, user.gid), "take the group of", user.uid);
    check(::setresuid(user.uid, user.uid, user.uid), "act as", user.uid);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // which the change has cleared
    ::prctl(PR_SET_DUMPABLE, 0);
    check(::chdir("/"), "leave root's folder as", user.uid);
    ::umask(077);
    ::setenv("XDG_RUNTIME_DIR", fmt::format("{}/{}", kRuntimeFolders, user.uid).c_str(), 1);
}

// He chose it, and a person reads it on root's terminal, line by line.
std::string one_line(const nlohmann::json& text) {
    std::string line = text.get<std::string>();
    std::replace_if(
        line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
    return line;
}

std::vector<Remnant> read_remnants(const nlohmann::json& list) {
    std::vector<Remnant> remnants;
    for (const auto& remnant : list)
        remnants.push_back({one_line(remnant.at("kind")), one_line(remnant.at("what")),
                            one_line(remnant.at("why"))});
    return remnants;
}

std::vector<AbandonedJob> read_answer(const std::string& text, uid_t uid) try {
    if (!nests_at_most(text, kAnswerDepth))
        throw Error(ErrorCode::corrupt, "nested too deep");
    std::vector<AbandonedJob> jobs;
    const auto json = nlohmann::json::parse(text);
    for (const auto& job : json.at("jobs"))
        jobs.push_back({.run_id = one_line(job.at("run_id")),
                        .run_dir = one_line(job.at("run_dir")),
                        .folders = {},
                        .ended = read_remnants(job.at("ended")),
                        .left = read_remnants(job.at("left")),
                        .user = uid});
    return jobs;
} catch (const nlohmann::json::exception&) {
    throw Error(
        ErrorCode::corrupt,
        fmt::format("what jobs of user {} have left is not known: the process that looked as "
                    "this user was ended, or may not act as him",
                    uid),
        "run clean as that user, or as root with CAP_SETUID and CAP_SETGID");
}

}  // namespace

std::optional<uid_t> user_in_name(std::string_view name) {
    if (!name.starts_with(kPrefix))
        return std::nullopt;
    name.remove_prefix(kPrefix.size());
    long long uid = 0;
    const auto digits = name.substr(0, name.find('-'));
    const bool is_number = !digits.empty() && digits.size() < name.size() &&
                           digits.find_first_not_of("0123456789") == digits.npos;
    if (!is_number || !parse_integer(digits, uid) || uid >= static_cast<uid_t>(-1))
        return std::nullopt;
    return static_cast<uid_t>(uid);
}

std::vector<OtherUser> find_other_users(const std::vector<std::string>& places) {
    std::vector<OtherUser> users;
    std::error_code ignored;
    for (const std::string& place : places)
        for (const fs::path& path : list_folder(place, ignored, std::string(kPrefix)))
            if (const auto uid = user_in_name(path.filename().string()))
                add(users, owner_of(path), *uid);
    for (const fs::path& path : list_folder(kRuntimeFolders, ignored)) {
        long long uid = 0;
        if (parse_integer(path.filename().string(), uid))
            add(users, owner_of(path), static_cast<uid_t>(uid));
    }
    return users;
}

std::vector<AbandonedJob> sweep_as(const OtherUser& user,
                                   const std::function<std::vector<AbandonedJob>()>& sweep,
                                   std::chrono::milliseconds patience) {
    HelperProcess child([&](int output) {
        become(user);
        write_all(output, sweep_json(sweep(), false, std::nullopt), "the answer");
    });
    std::string text;
    const Deadline deadline = Deadline::after(patience);
    pollfd answer{child.output(), POLLIN, 0};
    while (!deadline.passed() && text.size() < kMostAnswer)
        if (::poll(&answer, 1, deadline.poll_timeout_ms()) > 0 && !child.read_some(text))
            return read_answer(text, user.uid);
    throw Error(ErrorCode::timeout,
                fmt::format("what jobs of user {} have left is not known: looking for it as this "
                            "user took longer than {} s, and was given up",
                            user.uid, patience.count() / 1000),
                "a run directory of his may be on a file system that does not answer");
}

}  // namespace autolaunch::launcher
