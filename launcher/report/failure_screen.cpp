#include "report/failure_screen.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/exit_hint.hpp"
#include "report/failure_evidence.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxLineBytes = 400;  // a longer one is data, not a message
constexpr std::size_t kNamedFailures = 3;   // of other ranks; the rest is counted
constexpr std::string_view kIndent = "    ";

std::string safe(std::string_view text) {
    const bool cut = text.size() > kMaxLineBytes;
    return escape_for_terminal(text.substr(0, kMaxLineBytes), Colours::strip) + (cut ? "…" : "");
}

// "rank 3 had finished", "ranks 0-2,5 had finished".
std::string name_ranks(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", format_list(ranks));
}

bool succeeded(const RankExited& exit) { return exit.exit_code == exit_code::kSuccess; }

std::string headline(const GenerationFailed& failure, const TextStyle& style) {
    const RankExited& first = failure.first;
    std::string where = failure.hostname.empty() ? "" : failure.hostname + ", ";
    if (failure.gpu)
        where += fmt::format("GPU {}, ", *failure.gpu);
    const std::string who = fmt::format("rank {}", first.rank);
    std::string text = failure.culprit.empty()
                           ? style.red("✗ " + who)
                           : style.red("✗ " + safe(failure.culprit)) + ", and " + who;
    text += fmt::format(" ({}pid {}) {}", where, first.pid,
                        failure.culprit.empty() ? style.red(describe_exit(first))
                                                : "gave up there: it " + describe_exit(first));
    if (first.last_step)
        text += fmt::format(" at step {}", *first.last_step);
    return text + fmt::format(", {} after it started\n", format_duration(first.ran));
}

std::string quote(std::string_view title, const std::vector<std::string>& lines,
                  const TextStyle& style) {
    std::string text = fmt::format("{}{}\n", kIndent, title);
    for (const auto& line : lines)
        text += fmt::format("{}  {} {}\n", kIndent, style.dim("|"), safe(line));
    return text;
}

std::string last_words(const GenerationFailed& failure, const TextStyle& style) {
    const FailureEvidence& evidence = failure.evidence;
    if (evidence.last_lines.empty())
        return fmt::format("{}{}\n", kIndent,
                           failure.no_room.empty() ? "it printed nothing"
                                                   : "nothing of what it printed could be written");
    return quote(evidence.from_stdout ? "it wrote nothing to stderr; the last lines of its stdout:"
                                      : "the last lines of its stderr:",
                 evidence.last_lines, style);
}

// The error file repeats what Python has printed; it is shown where it says more.
std::string error_file_words(const FailureEvidence& evidence, const TextStyle& style) {
    if (evidence.error_message.empty())
        return {};
    const std::string first_line = split(evidence.error_message, '\n').front();
    const bool printed =
        std::any_of(evidence.last_lines.begin(), evidence.last_lines.end(),
                    [&](const auto& line) { return line.find(first_line) != std::string::npos; });
    if (printed)
        return {};
    std::string text = fmt::format("{}its error file says: {}\n", kIndent, safe(first_line));
    if (evidence.callstack.empty())
        return text;
    return text + quote("the end of its call stack:", evidence.callstack, style);
}

// Where its logs are is the run directory; it may have met another disk.
std::string full_disk(const GenerationFailed& failure, const TextStyle& style) {
    std::string text;
    if (!failure.no_room.empty()) {
        const std::string& log = failure.stderr_path;
        text = fmt::format("nothing can be written where its logs are: {}; make room: df -h {}",
                           failure.no_room, log.substr(0, log.rfind('/')));
    } else if (blames_full_disk(failure.evidence, failure.first, failure.no_room) &&
               !failure.first.signal) {
        text = "a disk, a quota or a limit had no room for it: df -h, df -i, quota, ulimit -f";
    }
    return text.empty() ? "" : fmt::format("{}{}\n", kIndent, style.yellow(safe(text)));
}

std::string what_next(const GenerationFailed& failure, const TextStyle& style) {
    if (failure.restart_number) {
        std::string text =
            fmt::format("restart {} of {}", *failure.restart_number, failure.max_restarts);
        text += failure.checkpoint_step
                    ? fmt::format(" from the checkpoint of step {} …", *failure.checkpoint_step)
                    : " from the beginning: no checkpoint was reported …";
        return fmt::format("{}{}\n", kIndent, style.bold(text));
    }
    if (failure.max_restarts == 0)
        return {};
    if (failure.restart_held_back)
        return fmt::format("{}no restart before there is room: it would end as this one did\n",
                           kIndent);
    return fmt::format("{}all {} restarts are used up\n", kIndent, failure.max_restarts);
}

}  // namespace

std::string describe_exit(const RankExited& exit) {
    if (exit.signal)
        return fmt::format("was killed by {}{}", signal_name(*exit.signal),
                           exit.core_dumped ? " (core dumped)" : "");
    return fmt::format("exited with code {}", exit.exit_code.value_or(0));
}

std::string describe_others(const GenerationFailed& failure) {
    std::vector<int> finished, failed, killed;
    std::vector<std::string> parts;
    std::size_t stopped = 0;
    for (const auto& other : failure.others) {
        if (other.asked_to_stop) {
            ++stopped;
            if (other.signal == SIGKILL)
                killed.push_back(other.rank);
        } else if (succeeded(other)) {
            finished.push_back(other.rank);
        } else if (failed.push_back(other.rank); failed.size() <= kNamedFailures) {
            const auto later =
                std::max(other.ran - failure.first.ran, std::chrono::milliseconds(0));
            parts.push_back(fmt::format("rank {} {} {} later", other.rank, describe_exit(other),
                                        format_duration(later)));
        }
    }
    if (failed.size() > kNamedFailures)
        parts.push_back(fmt::format("{} more failed after that", failed.size() - kNamedFailures));
    if (stopped > 0)
        parts.insert(parts.begin(), fmt::format("{} other rank{} stopped in {}", stopped,
                                                stopped == 1 ? " was" : "s were",
                                                format_duration(failure.stopped_others_in)));
    if (!killed.empty())
        parts.push_back(fmt::format("{} did not end on SIGTERM, and {} killed by SIGKILL",
                                    name_ranks(killed), killed.size() == 1 ? "was" : "were"));
    if (!finished.empty())
        parts.push_back(name_ranks(finished) + " had finished");
    return join(parts, " · ");
}

std::string failure_screen(const GenerationFailed& failure, const TextStyle& style) {
    std::string text = "\n" + headline(failure, style);
    text += last_words(failure, style);
    text += error_file_words(failure.evidence, style);
    text += full_disk(failure, style);
    const std::string hint =
        exit_hint(failure.first, failure.oom_kills, failure.evidence.last_lines);
    if (!hint.empty())
        text += fmt::format("{}{}\n", kIndent, style.yellow(hint));
    const std::string others = describe_others(failure);
    if (!others.empty())
        text += fmt::format("{}{}\n", kIndent, others);
    if (!failure.flight.empty())
        text += fmt::format("{}where the ranks were:\n{}", kIndent,
                            flight_screen(failure.flight, failure.flight_path));
    text += what_next(failure, style);
    const std::string& log =
        failure.evidence.from_stdout ? failure.stdout_path : failure.stderr_path;
    if (!log.empty())
        text += fmt::format("{}more: less {}\n", kIndent, safe(log));
    return text;
}

std::string failure_screen(const NodeLost& lost, const TextStyle& style) {
    std::string text = "\n" + style.red(fmt::format("✗ {} was lost", safe(lost.node)));
    text += fmt::format(", with {}, {} after the start\n", name_ranks(lost.ranks),
                        format_duration(lost.ran));
    text += fmt::format("{}{}\n", kIndent, safe(lost.why));
    if (lost.stopped > 0)
        text +=
            fmt::format("{}{} rank{} on the other nodes {} stopped in {}\n", kIndent, lost.stopped,
                        lost.stopped == 1 ? "" : "s", lost.stopped == 1 ? "was" : "were",
                        format_duration(lost.stopped_others_in));
    if (!lost.flight.empty())
        text += fmt::format("{}where the ranks were:\n{}", kIndent,
                            flight_screen(lost.flight, lost.flight_path));
    return text + fmt::format(
                      "{}{}\n", kIndent,
                      style.yellow(
                          "the scheduler may know why: the node's state, its memory, its network"));
}

std::string flight_screen(const std::vector<std::string>& lines, const std::string& path) {
    std::string text;
    for (const auto& line : lines)
        text += fmt::format("{0}  {1}\n", kIndent, safe(line));
    if (!path.empty())
        text += fmt::format("{0}  all of it: {1}\n", kIndent, safe(path));
    return text;
}

}  // namespace autolaunch::launcher
