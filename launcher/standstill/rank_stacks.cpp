#include "standstill/rank_stacks.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "standstill/rank_look.hpp"

#include <autolaunch/error.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

namespace fs = std::filesystem;

// For all ranks that are asked for together: the head waits for 10 s.
constexpr auto kPatience = std::chrono::seconds(9);
constexpr auto kLeastPatience = std::chrono::seconds(1);
constexpr std::size_t kMostThreads = 256;
constexpr auto kPythonLook = std::chrono::milliseconds(50);
constexpr int kPythonLooks = 40;  // 2 s

bool is_installed(const std::string& program) {
    const char* const path = std::getenv("PATH");
    const std::vector<std::string> folders = split(path == nullptr ? "" : path, ':');
    return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
        return !folder.empty() && ::access((folder + "/" + program).c_str(), X_OK) == 0;
    });
}

// Between a look without the libraries' symbols and one with them.
constexpr char kWithSymbols[] = "-- with the symbols of all libraries:";

// Nothing of the user's is loaded (-nx), nothing is asked for from servers. The symbols of a
// libtorch take longer than there is time: what gdb finds without them is printed before.
std::vector<std::string> debugger_for(pid_t pid) {
    const std::string number = std::to_string(pid);
    if (is_installed("eu-stack"))
        return {"eu-stack", "-p", number};
    if (is_installed("gdb"))
        return {"gdb",
                "-nx",
                "-batch",
                "-iex",
                "set debuginfod enabled off",
                "-iex",
                "set auto-solib-add off",
                "-p",
                number,
                "-ex",
                "thread apply all backtrace 30",
                "-ex",
                std::string("echo ") + kWithSymbols + "\\n",
                "-ex",
                "sharedlibrary",
                "-ex",
                "thread apply all backtrace 30"};
    return {};
}

int scope_of_kernel() {
    try {
        return std::atoi(read_file("/proc/sys/kernel/yama/ptrace_scope").c_str());
    } catch (const Error&) {  // without Yama
        return 0;
    }
}

}  // namespace

std::string why_no_stacks(const std::string& printed, bool answered, int ptrace_scope) {
    if (printed.find("#0") != std::string::npos)
        return {};
    const std::string scope = "kernel.yama.ptrace_scope is " + std::to_string(ptrace_scope);
    if (ptrace_scope >= 3)
        return "no native stacks, nor which system calls it is in: " + scope +
               ", and nobody may trace";
    if (ptrace_scope == 2)
        return "no native stacks, nor which system calls it is in: " + scope +
               ", and only root may trace (CAP_SYS_PTRACE)";
    return answered ? "no native stacks: the debugger found none"
                    : "no native stacks: the debugger did not answer in time";
}

std::string best_stacks(const std::string& printed, bool is_all) {
    const std::size_t second = printed.find(kWithSymbols);
    if (second == std::string::npos || printed.find("\n#0", second) == std::string::npos || !is_all)
        return printed.substr(0, second) +
               (second == std::string::npos ? "" : "(the libraries' symbols took too long)\n");
    return printed.substr(printed.find('\n', second) + 1);
}

std::string thread_table(pid_t pid) {
    std::error_code gone;
    const auto threads = list_folder("/proc/" + std::to_string(pid) + "/task", gone);
    std::string table;
    for (std::size_t at = 0; at < std::min(threads.size(), kMostThreads); ++at)
        table += describe_thread(pid, std::atoi(threads[at].filename().c_str())) + '\n';
    if (threads.size() > kMostThreads)
        table += "and " + std::to_string(threads.size() - kMostThreads) + " other threads\n";
    return table;
}

RankStacks::RankStacks(asio::io_context& io, fs::path run_dir, PythonStacks& python,
                       std::function<NodeEvidence::Ranks()> ranks,
                       std::function<void(const Written&)> written)
    : run_dir_(std::move(run_dir)),
      written_(std::move(written)),
      wait_(io),
      python_timer_(io),
      python_(python),
      evidence_(io, std::move(ranks)) {}

void RankStacks::write(int generation, const NodeEvidence::Ranks& ranks) {
    const bool under_way = !wanted_.empty();
    for (const auto& [rank, pid] : ranks)
        wanted_.push_back({generation, rank, pid});
    if (under_way || ranks.empty())
        return;
    until_ = Deadline::after(kPatience);
    evidence_.gather(ranks, [this] { begin(); });
}

void RankStacks::stop() {
    wait_.stop();
    python_timer_.cancel();
    evidence_.stop();
    debugger_.reset();
    wanted_.clear();
}

void RankStacks::begin() {
    python_stacks_.clear();
    const int rank = wanted_.front().rank;
    python_.ask(rank) ? await_python(rank, 0, 0) : begin_native();
}

// Two looks that find the same; a rank that is stopped writes later, or never.
void RankStacks::await_python(int rank, std::size_t seen, int looks) {
    python_timer_.expires_after(kPythonLook);
    python_timer_.async_wait([this, rank, seen, looks](const std::error_code& error) {
        if (error || wanted_.empty())
            return;
        const std::size_t bytes = python_.written(rank);
        if ((bytes == 0 || bytes != seen) && looks < kPythonLooks)
            return await_python(rank, bytes, looks + 1);
        python_stacks_ = bytes == 0 ? "Python did not answer within 2 s\n\n"
                                    : "Python, by faulthandler:\n" + python_.read(rank) + '\n';
        begin_native();
    });
}

void RankStacks::begin_native() {
    auto command = debugger_for(wanted_.front().pid);
    if (command.empty())
        return end(false);
    debugger_.emplace(std::move(command));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_.remaining());
    const auto patience =
        std::max<std::chrono::milliseconds>(left / wanted_.size(), kLeastPatience);
    wait_.begin(
        debugger_->fd(), [this] { return debugger_->advance(); }, patience,
        [this](bool answered) { end(answered); });
}

void RankStacks::end(bool answered) {
    const Wanted wanted = wanted_.front();
    std::string stacks =
        debugger_ ? best_stacks(answered ? debugger_->answer() : debugger_->so_far(), answered)
                  : std::string();
    Written written{.rank = wanted.rank, .path = {}, .problem = {}};
    if (!debugger_ && python_stacks_.empty())
        written.problem = "no stacks: neither eu-stack nor gdb is installed";
    else if (debugger_)
        written.problem = why_no_stacks(stacks, answered, scope_of_kernel());
    if (debugger_ && !written.problem.empty())
        stacks.clear();
    debugger_.reset();
    const std::string threads =
        thread_table(wanted.pid) + describe_throttling(wanted.pid) + evidence_.of_rank(wanted.rank);
    try {
        const OwnedFolder folder =
            OwnedFolder::make(run_dir_).folder("generation-" + std::to_string(wanted.generation));
        const std::string name = "stacks-rank-" + std::to_string(wanted.rank) + ".txt";
        // Stacks show what functions were called with.
        folder.replace(name,
                       threads + '\n' + python_stacks_ + stacks +
                           (written.problem.empty() ? "" : written.problem + '\n') +
                           "\nthe node:\n" + evidence_.of_node(),
                       S_IRUSR | S_IWUSR);
        written.path = folder.path() / name;
    } catch (const Error& error) {
        written.problem = std::string("no file of its threads: ") + error.what();
    }
    wanted_.pop_front();
    written_(written);
    if (!wanted_.empty())
        begin();
}

}  // namespace autolaunch::launcher
