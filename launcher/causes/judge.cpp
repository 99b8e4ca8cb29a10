#include "base/room_on_disk.hpp"
#include "base/text.hpp"
#include "causes/final_error.hpp"
#include "causes/kernel_words.hpp"
#include "causes/known_texts.hpp"
#include "causes/rank_end.hpp"
#include "causes/start_words.hpp"
#include "causes/told_signal.hpp"
#include "exit_codes/exit_codes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace autolaunch::launcher {

namespace {

using Lines = std::vector<std::string>;
using Found = std::optional<EndRecord>;

EndRecord found(Cause cause, Certainty certainty, std::string what, Lines evidence = {}) {
    EndRecord record;
    record.cause = cause;
    record.certainty = certainty;
    record.what = std::move(what);
    record.evidence = std::move(evidence);
    return record;
}

bool has(const Lines& lines, std::string_view text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != line.npos; });
}

// Others stop a process, or do nothing to one that has no handler: no shell tells of them.
bool may_end_a_process(int signal) {
    constexpr std::array kHarmless = {SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP,
                                      SIGTTIN, SIGTTOU, SIGURG,  SIGWINCH};
    return signal > 0 && ::sigabbrev_np(signal) != nullptr &&
           std::find(kHarmless.begin(), kHarmless.end(), signal) == kHarmless.end();
}

// Python's number for a child that a signal ended is negative, and of an exit code eight bits stay:
// of those codes that nobody else uses.
std::optional<int> signal_of_negative(int code) {
    constexpr std::array kTold = {SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV};
    const int signal = 256 - code;
    return std::find(kTold.begin(), kTold.end(), signal) == kTold.end() ? std::nullopt
                                                                        : std::optional(signal);
}

// Of the rank itself or, in the words of a shell or of Python, of the command that it ran.
std::optional<int> signal_of(const RankEnd& rank) {
    if (rank.end.signal)
        return rank.end.signal;
    const int code = rank.end.exit_code.value_or(0);
    if (may_end_a_process(code - exit_code::kSignalBase))
        return code - exit_code::kSignalBase;
    return signal_of_negative(code);
}

std::string describe_signal(const RankEnd& rank, int signal) {
    if (rank.end.signal)
        return signal_name(signal);
    return fmt::format(
        "{} from a {}: its command was killed by {}", rank.end.exit_code.value_or(0),
        rank.end.exit_code == exit_code::kSignalBase + signal ? "shell" : "Python script",
        signal_name(signal));
}

std::string count_kills(std::int64_t kills) {
    return fmt::format("the kernel killed {} process{} of this job's cgroup", kills,
                       kills == 1 ? "" : "es");
}

Found by_mpi(const RankEnd& rank) {
    if (rank.mpi_fault.empty())
        return std::nullopt;
    const FinalError error = find_final_error(rank.words);
    if (!rank.mpi_fault.starts_with("called MPI_Abort"))
        return found(Cause::program_error, Certainty::certain, "it " + rank.mpi_fault,
                     {"MPI: it " + rank.mpi_fault});
    EndRecord record =
        found(Cause::mpi_abort, Certainty::certain, error.line, {"it " + rank.mpi_fault});
    if (record.what.empty())
        record.what = rank.mpi_fault;
    const KnownText* known =
        error.line.empty() ? find_known_text(rank.words.last_lines) : find_known_text(error.line);
    record.follows = known != nullptr && known->follows;
    return record;
}

// Xids that a program's own mistake causes, such as 31 for a wild pointer, are none of the GPU's.
Found by_gpu_log(const RankEnd& rank) {
    for (auto line = rank.kernel_log.rbegin(); line != rank.kernel_log.rend(); ++line) {
        const auto xid = read_xid(*line);
        if (!xid || !xid->is_hardware)
            continue;
        const bool is_its = rank.knows_pids && xid->pid == rank.end.pid;
        return found(Cause::gpu, is_its ? Certainty::certain : Certainty::likely,
                     fmt::format("Xid {}", xid->number), {"the kernel's log: " + *line});
    }
    return std::nullopt;
}

// The driver's own word, for those who may not read the kernel's log.
Found by_gpu_events(const RankEnd& rank) {
    for (auto trouble = rank.gpu_troubles.rbegin(); trouble != rank.gpu_troubles.rend();
         ++trouble) {
        using Kind = GpuTrouble::Kind;
        if (trouble->kind == Kind::slowed ||
            (trouble->kind == Kind::xid && !is_hardware_xid(trouble->number)))
            continue;
        return found(Cause::gpu, Certainty::certain, trouble->words,
                     {"NVIDIA's driver, of its GPU: " + trouble->words});
    }
    return std::nullopt;
}

// PyTorch's data loader tells how its process ended, and fails with code 1 itself.
Found by_data_loader(const RankEnd& rank) {
    const Lines& lines = rank.words.last_lines;
    if (has(lines, "is killed by signal: Bus error") ||
        has(lines, "insufficient shared memory (shm)"))
        return found(
            Cause::storage, Certainty::likely, "a data loader's process: SIGBUS",
            {"a data loader's process found /dev/shm full: df -h /dev/shm, and more of it, "
             "or fewer workers"});
    if (!has(lines, "is killed by signal: Killed"))
        return std::nullopt;
    const std::string what = "a data loader's process: SIGKILL";
    if (!rank.oom_kills)
        return found(Cause::killed, Certainty::possible, what,
                     {"a data loader's process was killed, perhaps out of memory; the kernel's log "
                      "tells: dmesg | grep -i 'killed process'"});
    if (*rank.oom_kills == 0)
        return found(Cause::killed, Certainty::likely, what,
                     {"a data loader's process was killed, and not by this cgroup's out-of-memory "
                      "killer: somebody or the scheduler did it"});
    return found(
        Cause::out_of_memory, Certainty::certain, what,
        {fmt::format("a data loader's process ran out of memory: {}; ask for more, or have "
                     "fewer workers",
                     count_kills(*rank.oom_kills))});
}

Found by_oom_killer(const RankEnd& rank) {
    const auto signal = signal_of(rank);
    const std::string what =
        signal == SIGKILL ? describe_signal(rank, SIGKILL) : "a child: SIGKILL";
    for (auto line = rank.kernel_log.rbegin(); line != rank.kernel_log.rend(); ++line) {
        const auto pid = read_oom_victim(*line);
        if (pid && rank.knows_pids && *pid == rank.end.pid)
            return found(Cause::out_of_memory, Certainty::certain, what,
                         {"out of memory: the kernel's log: " + *line});
    }
    if (rank.oom_kills.value_or(0) <= 0)
        return std::nullopt;
    if (signal == SIGKILL)
        return found(Cause::out_of_memory, Certainty::certain, what,
                     {"out of memory: " + count_kills(*rank.oom_kills)});
    return found(Cause::out_of_memory, Certainty::likely, what,
                 {fmt::format("out of memory, for a process beside this one or started by it: {}",
                              count_kills(*rank.oom_kills))});
}

Found by_checkpoints(const RankEnd& rank) {
    std::string why = rank.cannot_resume;
    if (why.empty() && rank.end.exit_code == exit_code::kCannotResume)
        why = fmt::format("exit code {} says so", exit_code::kCannotResume);
    if (why.empty())
        return std::nullopt;
    EndRecord record = found(Cause::storage, Certainty::likely, split(why, '\n').front(),
                             {"it cannot go on from its checkpoints: " + why});
    record.vain = kSameCheckpoints;
    return record;
}

Found by_full_disk(const RankEnd& rank) {
    if (!rank.no_room.empty() && blames_full_disk(rank.words, rank.end, rank.no_room)) {
        EndRecord record = found(Cause::storage, Certainty::certain, rank.no_room,
                                 {"nothing can be written where its logs are: " + rank.no_room});
        const bool is_full = tells_want_of_room(rank.no_room);
        record.remedy =
            is_full ? "make room: df -h " + rank.log_folder
                    : "dmesg may say what is wrong with the file system of " + rank.log_folder;
        record.vain =
            is_full ? kNoRoom : "while nothing can be written there it would end as this one did";
        return record;
    }
    if (signal_of(rank) == SIGXFSZ)
        return found(Cause::storage, Certainty::certain, describe_signal(rank, SIGXFSZ),
                     {"the file size limit (ulimit -f) was reached"});
    return std::nullopt;
}

Lines newest(const Lines& lines) {
    constexpr std::ptrdiff_t kNewest = 10;  // older ones were survived
    return {lines.end() - std::min<std::ptrdiff_t>(kNewest, std::ssize(lines)), lines.end()};
}

// An error of another kind may be raised for what was printed just before: a write that failed, a
// warning of NCCL. A lost connection may have been survived.
bool is_told_beside(const KnownText& known, const FinalError& error) {
    if (has(error.lines, known.text))
        return true;
    return known.cause == Cause::gpu || known.cause == Cause::out_of_memory ||
           known.cause == Cause::storage;
}

// Words that it said of a failure that something else knows better are of no interest here.
Found by_words(const RankEnd& rank) {
    const auto signal = signal_of(rank);
    if (signal && signal != SIGABRT)  // the kernel's word against its own
        return std::nullopt;
    const FinalError error = find_final_error(rank.words);
    const KnownText* known = nullptr;
    for (const auto& line : error.lines)
        if ((known = find_known_text(line)) != nullptr)
            break;
    if (known == nullptr)
        known = find_known_place(error.where);
    if (known == nullptr)
        known = find_known_text(newest(rank.words.last_lines));
    if (known == nullptr || (!error.line.empty() && !is_told_beside(*known, error)))
        return std::nullopt;
    EndRecord record = found(known->cause, known->certainty,
                             error.line.empty() ? last_complaint(rank.words) : error.line,
                             {std::string(known->says)});
    record.follows = known->follows;
    return record;
}

// The two hundred lines of a stack are in the log; one place tells most.
std::string place_of_crash(const RankEnd& rank) {
    for (auto line = rank.kernel_log.rbegin(); line != rank.kernel_log.rend(); ++line)
        if (rank.knows_pids && tells_fault_of(*line, rank.end.pid))
            return "the kernel's log: " + *line;
    const Lines& lines = rank.words.last_lines;
    const auto fatal = std::find_if(lines.begin(), lines.end(), [](const std::string& line) {
        return line.starts_with("Fatal Python error: ");
    });
    for (auto line = fatal; line != lines.end(); ++line)
        if (line->starts_with("  File \""))
            return "Python was at" + line->substr(std::strlen("  File"));
    return {};
}

struct SignalWords {
    int signal;
    std::string_view says;
};
constexpr std::array kCrashes = {
    SignalWords{SIGSEGV, ""},
    SignalWords{SIGABRT, ""},
    SignalWords{SIGBUS, "often /dev/shm or a memory-mapped file's disk is full: df -h /dev/shm"},
    SignalWords{SIGILL,
                "a CPU instruction that this machine does not have: built for another CPU?"},
    SignalWords{SIGFPE, ""},
    SignalWords{SIGTRAP, ""},
    SignalWords{SIGSYS, "a system call that a seccomp filter forbids"},
    SignalWords{SIGSTKFLT, ""},
};

Found by_crash(const RankEnd& rank) {
    const auto signal = signal_of(rank);
    const auto crash =
        std::find_if(kCrashes.begin(), kCrashes.end(),
                     [&](const SignalWords& words) { return signal == words.signal; });
    if (crash == kCrashes.end())
        return std::nullopt;
    std::string what = describe_signal(rank, *signal);
    if (signal == SIGABRT)
        if (const std::string complaint = last_complaint(rank.words); !complaint.empty())
            what += ": " + complaint;
    EndRecord record = found(Cause::crash, Certainty::certain, what);
    if (!rank.end.signal)
        record.evidence.push_back(describe_signal(rank, *signal));
    if (const std::string place = place_of_crash(rank); !place.empty())
        record.evidence.push_back(place);
    if (!crash->says.empty())
        record.evidence.emplace_back(crash->says);
    return record;
}

// It threw or panicked, and its runtime ended it by SIGABRT or with a code of its own.
Found by_exception(const RankEnd& rank) {
    const FinalError error = find_final_error(rank.words);
    if (error.line.empty() || (rank.end.signal && rank.end.signal != SIGABRT))
        return std::nullopt;
    EndRecord record = found(Cause::program_error, Certainty::certain, error.line);
    if (!error.where.empty())
        record.evidence.push_back("raised at " + error.where);
    if (has(rank.words.last_lines, "bdb.BdbQuit"))
        record.evidence = {
            "a debugger (pdb, breakpoint()) without a terminal: --debug-rank RANK gives it one"};
    return record;
}

// Another signal than one of its own doing.
Found by_killer(const RankEnd& rank) {
    const auto signal = signal_of(rank);
    if (!signal)
        return std::nullopt;
    const std::string what = describe_signal(rank, *signal);
    if (signal == SIGXCPU)
        return found(Cause::killed, Certainty::certain, what,
                     {"the CPU time limit (ulimit -t) was reached"});
    if (signal == SIGPIPE) {  // of its own doing, and often because a peer is gone
        EndRecord record = found(Cause::program_error, Certainty::likely, what,
                                 {"it wrote to a pipe or socket that nobody reads any more"});
        record.follows = true;
        return record;
    }
    if (signal != SIGKILL)
        return found(Cause::killed, rank.end.signal ? Certainty::certain : Certainty::likely, what,
                     {what == signal_name(*signal) ? "autolaunch did not send it" : what});
    if (!rank.oom_kills)
        return found(Cause::killed, Certainty::possible, what,
                     {"perhaps out of memory; the kernel's log tells: dmesg | grep -i 'killed "
                      "process'"});
    return found(Cause::killed, Certainty::likely, what,
                 {"not by this cgroup's out-of-memory killer: somebody or the scheduler sent it"});
}

// A script or a program in Python, which ended with a code of its own after one that it had
// started.
Found by_child(const RankEnd& rank) {
    const FinalError error = find_final_error(rank.words);
    Lines lines = error.line.empty() ? newest(rank.words.last_lines) : error.lines;
    for (const auto& line : newest(rank.words.last_lines))  // joblib's, after an empty line
        if (line.starts_with("The exit codes of the workers are {"))
            lines.push_back(line);
    const auto told = find_told_signal(lines);
    if (!told || signal_of(rank) || rank.end.exit_code == 0)
        return std::nullopt;
    RankEnd child = rank;
    child.end.signal = told->signal;
    for (const auto rule : {by_oom_killer, by_crash, by_killer})
        if (Found record = rule(child)) {
            record->what = error.line.empty() ? told->line : error.line;
            record->certainty = std::max(record->certainty, Certainty::likely);  // at best
            record->evidence.insert(
                record->evidence.begin(),
                "a process that it had started was killed by " + signal_name(told->signal));
            return record;
        }
    return std::nullopt;
}

// setsid tells that a signal ended its program, and not which.
Found by_hidden_signal(const RankEnd& rank) {
    const auto pid = read_hidden_end(rank.words.last_lines);
    if (!pid || signal_of(rank) || rank.end.exit_code == 0)
        return std::nullopt;
    RankEnd child = rank;
    child.end.pid = *pid;
    child.end.signal = SIGKILL;
    const std::string what = "a process that it had started was ended by a signal";
    if (Found memory = by_oom_killer(child)) {
        memory->what = what;
        return memory;
    }
    EndRecord record = found(Cause::crash, Certainty::possible, what,
                             {what + ", and setsid does not tell by which"});
    if (const std::string place = place_of_crash(child); !place.empty()) {
        record.certainty = Certainty::certain;
        record.evidence.push_back(place);
    }
    return record;
}

Found by_start(const RankEnd& rank) {
    const std::string why = why_not_started(rank.end, rank.words.last_lines);
    if (why.empty() || rank.end.last_step)
        return std::nullopt;
    std::string what = last_complaint(rank.words);
    return found(Cause::cannot_start, Certainty::likely, what.empty() ? why : std::move(what),
                 {why});
}

EndRecord by_code(const RankEnd& rank) {
    const int code = rank.end.exit_code.value_or(0);
    std::string what = last_complaint(rank.words);
    if (what.empty())
        what = fmt::format("exit code {}", code);
    EndRecord record = found(Cause::program_error, Certainty::certain, std::move(what));
    if (code == exit_code::kUnservedMpi)
        record.evidence = {"ranks use MPI, and each is a job of its own"};
    return record;
}

// The kernel, the driver and MPI know; then the program's words; then the bare end.
constexpr std::array kRules = {by_mpi,        by_checkpoints, by_full_disk, by_gpu_events,
                               by_gpu_log,    by_data_loader, by_child,     by_hidden_signal,
                               by_oom_killer, by_start,       by_words,     by_exception,
                               by_crash,      by_killer};

// A rank that could not say anything itself: what it was seen to do. And a link that is down is why
// others could not be reached, whatever the words for it.
void add_circumstances(const RankEnd& rank, EndRecord& record) {
    const auto signal = signal_of(rank);
    if (!rank.last_moment.empty() && signal && signal != SIGABRT)
        record.evidence.push_back(rank.last_moment);
    if (record.cause != Cause::gpu)
        for (const GpuTrouble& trouble : rank.gpu_troubles)
            record.evidence.push_back("NVIDIA's driver, of its GPU: " + trouble.words);
    if (rank.ports_down.empty())
        return;
    const std::string down = join(rank.ports_down, ", ") + ": up when the ranks were started";
    const bool is_a_link = record.follows || record.cause == Cause::network ||
                           record.cause == Cause::collective_timeout;
    if (!is_a_link) {
        record.evidence.push_back(down);
        return;
    }
    record.cause = Cause::network;
    record.certainty = Certainty::likely;
    record.follows = false;
    record.evidence.insert(record.evidence.begin(), down);
}

}  // namespace

EndRecord judge(const RankEnd& rank) {
    Found record;
    for (const auto rule : kRules)
        if ((record = rule(rank)))
            break;
    EndRecord judged = record ? std::move(*record) : by_code(rank);
    if (!rank.no_room.empty() && judged.cause != Cause::storage)
        judged.evidence.push_back("nothing can be written where its logs are: " + rank.no_room);
    add_circumstances(rank, judged);
    if (judged.remedy.empty())
        judged.remedy = find_final_error(rank.words).hint;
    judged.rank = rank.end.rank;
    judged.node = rank.node;
    judged.step = rank.end.last_step;
    return judged;
}

std::string error_signature(const EndRecord& record) {
    std::string signature(name_of(record.cause));
    signature += ' ';
    bool in_number = false;
    for (std::size_t at = 0; at < record.what.size(); ++at) {
        const auto letter = static_cast<unsigned char>(record.what[at]);
        const bool is_hex_mark = letter == 'x' && in_number && record.what[at - 1] == '0';
        const bool is_number =
            std::isdigit(letter) != 0 || is_hex_mark || (in_number && std::isxdigit(letter) != 0);
        if (is_number && !in_number)
            signature += '#';
        else if (!is_number)
            signature += record.what[at];
        in_number = is_number;
    }
    return signature;
}

}  // namespace autolaunch::launcher
