#include "checkpoint/storage/striping.hpp"

#include "base/deadline.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

namespace autolaunch {

namespace {

constexpr unsigned long kLustre = 0x0BD00BD0, kBeegfs = 0x19830326;
constexpr std::size_t kMostSaid = 500;

// Small files on one server, large ones on more the larger they are.
const std::vector<std::string> kProgressive = {"-E", "256M", "-c", "1",  "-E", "4G",
                                               "-c", "4",    "-E", "-1", "-c", "-1"};

std::string in_kib(std::uint64_t bytes, const char* unit) {
    return std::to_string(bytes >> 10) + unit;
}

std::vector<std::string> of_lustre(const StripeOptions& stripe, const std::string& directory) {
    std::vector<std::string> words = {"lfs", "setstripe"};
    if (stripe.automatic)
        words.insert(words.end(), kProgressive.begin(), kProgressive.end());
    if (!stripe.automatic && stripe.count != 0)
        words.insert(words.end(), {"-c", std::to_string(stripe.count)});
    if (!stripe.automatic && stripe.bytes != 0)
        words.insert(words.end(), {"-S", in_kib(stripe.bytes, "K")});
    words.push_back(directory);
    return words;
}

/// A program with its stdout and stderr in a pipe, in a process group of its own. Ends it when it
/// goes.
class StripeProgram {
public:
    StripeProgram() = default;
    StripeProgram(const StripeProgram&) = delete;
    StripeProgram& operator=(const StripeProgram&) = delete;
    ~StripeProgram() {
        if (pid_ <= 0)
            return;
        ::kill(-pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    /// An errno; 0: it runs.
    int start(std::vector<std::string> words) {
        std::array<int, 2> ends = {-1, -1};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0)
            return errno;
        output_.reset(ends[0]);
        const UniqueFd writing(ends[1]);
        ::posix_spawn_file_actions_t actions;
        ::posix_spawnattr_t attributes;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawnattr_init(&attributes);
        ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
        ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        std::vector<char*> arguments;
        for (std::string& word : words)
            arguments.push_back(word.data());
        arguments.push_back(nullptr);
        const int error =
            ::posix_spawnp(&pid_, arguments[0], &actions, &attributes, arguments.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::posix_spawnattr_destroy(&attributes);
        if (error != 0)
            pid_ = -1;
        return error;
    }

    /// Its exit status, with what it said; nothing where it does not end in time.
    std::optional<int> wait(const Deadline& deadline, std::string& said) {
        for (bool open = true; open;) {
            pollfd readable = {output_.get(), POLLIN, 0};
            if (::poll(&readable, 1, deadline.poll_timeout_ms()) <= 0 && deadline.passed())
                return std::nullopt;
            char buffer[512];
            const ssize_t got = ::read(output_.get(), buffer, sizeof buffer);
            open = got > 0 || (got < 0 && errno == EINTR);
            if (got > 0)
                said.append(buffer, std::min(static_cast<std::size_t>(got),
                                             kMostSaid - std::min(kMostSaid, said.size())));
        }
        int status = 0;
        while (::waitpid(pid_, &status, WNOHANG) == 0) {
            if (deadline.passed())
                return std::nullopt;
            ::usleep(1000);
        }
        pid_ = -1;
        return status;
    }

private:
    UniqueFd output_;
    pid_t pid_ = -1;
};

std::string one_line(std::string text) {
    for (char& c : text)
        if (c < ' ' || c > '~')
            c = ' ';
    return std::string(trim(text));
}

}  // namespace

ParallelFileSystem parallel_file_system_of(const std::filesystem::path& directory) {
    struct statfs facts = {};
    if (::statfs(directory.c_str(), &facts) != 0)
        return ParallelFileSystem::none;
    const unsigned long type = static_cast<unsigned long>(facts.f_type) & 0xFFFFFFFFUL;
    if (type == kLustre)
        return ParallelFileSystem::lustre;
    return type == kBeegfs ? ParallelFileSystem::beegfs : ParallelFileSystem::none;
}

std::vector<std::vector<std::string>> stripe_commands(ParallelFileSystem kind,
                                                      const StripeOptions& stripe,
                                                      const std::filesystem::path& directory) {
    const std::string path = directory.string();
    if (kind == ParallelFileSystem::none || !stripe.is_set())
        return {};
    if (kind == ParallelFileSystem::lustre)
        return {of_lustre(stripe, path)};
    if (stripe.automatic || stripe.count < 0)
        return {};
    std::vector<std::string> seven = {"beegfs-ctl", "--setpattern"},
                             eight = {"beegfs", "entry", "set"};
    if (stripe.count > 0) {
        seven.push_back("--numtargets=" + std::to_string(stripe.count));
        eight.push_back("--num-targets=" + std::to_string(stripe.count));
    }
    if (stripe.bytes > 0) {
        seven.push_back("--chunksize=" + in_kib(stripe.bytes, "k"));
        eight.push_back("--chunk-size=" + in_kib(stripe.bytes, "KiB"));
    }
    seven.push_back(path);
    eight.push_back(path);
    return {seven, eight};
}

std::string stripe_directory(ParallelFileSystem kind, const StripeOptions& stripe,
                             const std::filesystem::path& directory,
                             std::chrono::milliseconds timeout) {
    const std::string what = "stripe has no effect on " + directory.string() + ": ";
    if (kind == ParallelFileSystem::none)
        return what + "it is neither on Lustre nor on BeeGFS";
    const auto commands = stripe_commands(kind, stripe, directory);
    if (commands.empty())
        return what + "BeeGFS has no word for all servers, nor for auto; say a count";
    const Deadline deadline = Deadline::after(timeout);
    for (const auto& words : commands) {
        StripeProgram program;
        const int error = program.start(words);
        if (error == ENOENT)
            continue;
        if (error != 0)
            return what + SystemError(error, "start " + words[0]).what();
        std::string said;
        const auto status = program.wait(deadline, said);
        if (status == 0)
            return {};
        return what + join(words, " ") + (status ? " failed: " + one_line(said) : " does not end");
    }
    return what + commands[0][0] + " is not installed";
}

}  // namespace autolaunch
