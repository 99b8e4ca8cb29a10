#include "python_start/shared_packages.hpp"

#include "base/deadline.hpp"
#include "base/owned_folder.hpp"
#include "base/unique_fd.hpp"
#include "python_start/mount_copies.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kMostCached = 64'000'000'000;
constexpr auto kTrial = std::chrono::seconds(5);

/// By file, in the order in which they are used first.
std::vector<FileUse> uses_of(const std::vector<FilePart>& parts) {
    std::vector<FileUse> uses;
    std::map<std::string, std::size_t> places;
    for (const FilePart& part : parts) {
        const auto [place, is_new] = places.try_emplace(part.file, uses.size());
        if (is_new)
            uses.push_back({part.file, {}});
        uses[place->second].parts.push_back({part.offset, part.bytes});
    }
    return uses;
}

/// What a process of its own says of it, which is gone then with all that it has mounted.
std::string ask_child(MountedCopies (*tried)(const char* folder), const std::string& folder) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    const UniqueFd out(ends[0]);
    UniqueFd into(ends[1]);
    const pid_t child = ::fork();
    if (child == 0) {  // with system calls alone
        const MountedCopies result = tried(folder.c_str());
        const ssize_t ignored = ::write(into.get(), result.why, ::strlen(result.why) + 1);
        ::_exit(ignored > 0 ? 0 : 1);
    }
    into.reset();
    if (child < 0)
        throw SystemError(errno, "make a process");
    char why[sizeof(MountedCopies::why)] = "it took too long to try";
    pollfd readable{out.get(), POLLIN, 0};
    if (::poll(&readable, 1, Deadline::after(kTrial).poll_timeout_ms()) > 0 &&
        ::read(out.get(), why, sizeof why) <= 0)
        ::strcpy(why, "the process that tried it died");
    ::kill(child, SIGKILL);
    const Deadline deadline = Deadline::after(kTrial);
    while (::waitpid(child, nullptr, WNOHANG) == 0 && !deadline.passed())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    why[sizeof why - 1] = '\0';
    return why;
}

}  // namespace

std::string default_package_cache() { return fmt::format("/var/tmp/autolaunch-{}", ::geteuid()); }

std::string package_cache(const LaunchPlan& plan) {
    return plan.preload.cache.empty()
               ? default_package_cache()
               : (std::filesystem::path(plan.workdir) / plan.preload.cache).string();
}

std::string why_not_mounted(const std::string& folder) {
    return ask_child([](const char* its) { return mount_copies("", 0, its, -1); }, folder);
}

std::string why_no_pieces(const std::string& folder) { return ask_child(try_mount_pieces, folder); }

PackageCopies copies_of(const HandOver& handed, const std::string& cache) {
    const HandOver::Result& result = handed.result();
    PackageCopies copies{.folder = {}, .files = result.copies};
    copies.files.insert(copies.files.end(), result.in_pieces.begin(), result.in_pieces.end());
    if (!result.copies.empty())
        copies.folder = std::filesystem::path(result.copies.front().path).parent_path();
    else if (!copies.files.empty())
        copies.folder = cache;
    if (!result.in_pieces.empty()) {
        copies.door = handed.door();
        copies.has_lost_pieces = [&handed] { return handed.has_lost_pieces(); };
    }
    return copies;
}

HandOver::Wanted wanted_packages(const LaunchPlan& plan) {
    const PreloadChoice& choice = plan.preload;
    HandOver::Wanted wanted;
    wanted.cache = package_cache(plan);
    wanted.most_bytes = kMostCached;
    wanted.files = uses_of(choice.reads);
    if (!choice.wants_interpreter())
        wanted.why_not = "every rank starts by itself: " + choice.reason;
    else if (!choice.is_shared)
        wanted.why_not = choice.interpreter + " is on no file system of a network";
    else if (plan.node_rank == 0 && wanted.files.empty())
        wanted.why_not = "this run records what is read; the next one has it handed on";
    if (!wanted.why_not.empty())
        return wanted;
    try {
        const OwnedFolder folder = OwnedFolder::make(wanted.cache);
        if (const std::string why = why_not_mounted(folder.path()); !why.empty())
            wanted.why_not = "copies cannot be mounted on this node: " + why;
        else
            wanted.why_whole = why_no_pieces(folder.path());
    } catch (const Error& error) {
        wanted.why_not = error.what() + (error.hint().empty() ? "" : "; " + error.hint());
    }
    return wanted;
}

}  // namespace autolaunch::launcher
