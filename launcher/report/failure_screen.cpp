#include "report/failure_screen.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "report/terminal_text.hpp"
#include "report/units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <span>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMaxLineBytes = 400;  // a longer one is data, not a message
constexpr std::size_t kMaxCauseBytes = 1500;
constexpr std::size_t kShownLines = 20;  // of its last words
constexpr std::size_t kShownEvidence = 3;
constexpr std::size_t kNamedFailures = 3;  // of other ranks; the rest is counted
constexpr std::string_view kIndent = "    ";

std::string safe(std::string_view text, std::size_t most = kMaxLineBytes) {
    const bool cut = text.size() > most;
    return escape_for_terminal(text.substr(0, most), Colours::strip) + (cut ? "…" : "");
}

// "rank 3 had finished", "ranks 0-2,5 had finished".
std::string name_ranks(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", format_list(ranks));
}

bool succeeded(const RankExited& exit) { return exit.exit_code == exit_code::kSuccess; }

// One that was stopped before it had ended failed by what it said.
std::string describe_failure(const GenerationFailed& failure) {
    return failure.first.asked_to_stop ? "failed: " + safe(failure.record.what)
                                       : describe_exit(failure.first);
}

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
                        failure.culprit.empty() ? style.red(describe_failure(failure))
                                                : "gave up there: it " + describe_exit(first));
    if (first.last_step)
        text += fmt::format(" at step {}", *first.last_step);
    return text + fmt::format(", {} after it started\n", format_duration(first.ran));
}

std::string quote(std::string_view title, const std::vector<std::string>& lines,
                  const TextStyle& style) {
    std::string text = fmt::format("{}{}\n", kIndent, title);
    const std::size_t left_out = lines.size() - std::min(lines.size(), kShownLines);
    for (const auto& line : std::span(lines).subspan(left_out))
        text += fmt::format("{}  {} {}\n", kIndent, style.dim("|"), safe(line));
    return text;
}

std::string last_words(const GenerationFailed& failure, const TextStyle& style) {
    const FailureEvidence& evidence = failure.evidence;
    if (evidence.last_lines.empty())
        return fmt::format("{}{}\n", kIndent,
                           failure.no_room.empty() ? "it printed nothing"
                                                   : "nothing of what it printed could be written");
    if (!failure.no_room.empty() && evidence.may_miss_words)
        return quote("the last lines that found room; what it said after them is lost:",
                     evidence.last_lines, style);
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

// "999 other ranks failed the same way · 3 followed"
std::string count_line(const EndRecord& record) {
    std::vector<std::string> parts;
    if (record.alike > 0)
        parts.push_back(fmt::format("{} other rank{} failed the same way", record.alike,
                                    record.alike == 1 ? "" : "s"));
    if (record.followers > 0)
        parts.push_back(fmt::format("{} failed because of it", record.followers));
    return parts.empty() ? "" : fmt::format("{}{}\n", kIndent, join(parts, " · "));
}

// "cause: out_of_memory, certain · the kernel killed 1 process of this job's cgroup"
std::string cause_line(const GenerationFailed& failure, const TextStyle& style) {
    const EndRecord& record = failure.record;
    std::string text =
        fmt::format("cause: {}, {}", name_of(record.cause), name_of(record.certainty));
    const auto& lines = failure.evidence.last_lines;
    const bool printed = std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
        return line.find(split(record.what, '\n').front()) != std::string::npos;
    });
    if (record.evidence.empty() && !printed)
        text += " · " + record.what;
    std::size_t shown = 0;
    for (const auto& sentence : record.evidence)
        if (sentence != failure.culprit && shown++ < kShownEvidence)
            text += " · " + split(sentence, '\n').front();
    if (!record.remedy.empty())
        text += "; " + record.remedy;
    return fmt::format("{}{}\n", kIndent, style.yellow(safe(text, kMaxCauseBytes)));
}

template <class Failure>
std::string what_next(const Failure& failure, const TextStyle& style) {
    if (!failure.restart_number)
        return failure.no_restart.empty()
                   ? ""
                   : fmt::format("{}no restart: {}\n", kIndent, safe(failure.no_restart));
    std::string text = "restart " + failure.restart_account;
    if (failure.restart_delay.count() > 0)
        text += " in " + format_duration(failure.restart_delay);
    // A program that keeps its own checkpoints tells nobody of them.
    text += failure.checkpoint_step
                ? fmt::format(" from the checkpoint of step {} …", *failure.checkpoint_step)
                : ": no checkpoint was reported, so only the program knows where it goes on …";
    return fmt::format("{}{}\n", kIndent, style.bold(text));
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
    text += cause_line(failure, style);
    if (!failure.core.empty())
        text += fmt::format("{}{}\n", kIndent, safe(failure.core));
    text += count_line(failure.record);
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
    if (lost.goes_on)
        text += fmt::format("{}the job goes on without it, as it may (--nnodes MIN:MAX, spares)\n",
                            kIndent);
    return text + fmt::format(
                      "{0}{1}\n{0}{2}\n", kIndent, style.yellow("cause: node_lost"),
                      style.yellow(
                          "the scheduler may know why: the node's state, its memory, its network"));
}

std::string failure_screen(const JobHung& hung, const TextStyle& style) {
    const StandstillNoticed& found = hung.found;
    std::string text = "\n" + style.red("✗ " + safe(hung.record.what));
    const bool is_named = !found.ranks.empty();  // then by the first line
    text += !is_named ? fmt::format(": {}\n", found.headline)
                      : fmt::format(", and the job stands still: {}\n", found.headline);
    text += flight_screen({found.lines.begin() + (is_named ? 1 : 0), found.lines.end()}, "");
    text += flight_screen(found.flight, found.path);
    for (const std::string& path : hung.stacks)
        text += fmt::format("{}where its threads are: less {}\n", kIndent, safe(path));
    std::string cause =
        fmt::format("cause: {}, {}", name_of(hung.record.cause), name_of(hung.record.certainty));
    if (!hung.record.remedy.empty())
        cause += " · " + hung.record.remedy;
    text += fmt::format("{}{}\n", kIndent, style.yellow(safe(cause, kMaxCauseBytes)));
    if (hung.stopped > 0)
        text +=
            fmt::format("{}{} rank{} stopped in {}\n", kIndent, hung.stopped,
                        hung.stopped == 1 ? " was" : "s were", format_duration(hung.stopped_in));
    return text + what_next(hung, style);
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
