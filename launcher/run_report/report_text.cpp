#include "base/text.hpp"
#include "idle/receipt.hpp"
#include "report/units.hpp"
#include "run_report/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace autolaunch::launcher {

namespace {

constexpr int kBarColumns = 60;
constexpr std::size_t kMostShownRows = 40;            // of a table on a terminal; --json has all
constexpr std::string_view kKindSigns = "qli#cdrx.";  // by LedgerKind

std::string plural_of(std::int64_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string clock_of(RecordTime at) { return format_moment(at).substr(11); }

std::string heading(std::string_view words, const TextStyle& style) {
    return "\n" + style.bold(words) + "\n";
}

std::string head_lines(const RunRecord& record, const TextStyle& style) {
    std::string text = style.bold(fmt::format("job {} {}", record.run_id, record.job_name));
    text += fmt::format("   {}, {}   {}\n", plural_of(record.node_count, "node"),
                        plural_of(record.world_size, "rank"), record.run_dir);
    text += "  " + (record.exit_code.value_or(1) == 0 ? style.green(outcome_words(record))
                                                      : style.red(outcome_words(record)));
    if (record.started)
        text += fmt::format(" · {} · started {} UTC", format_duration(length_of(record)),
                            format_moment(*record.started));
    if (record.restarts > 0)
        text += " · " + plural_of(record.restarts, "restart");
    if (record.ledger.attempts > 1)
        text += fmt::format(" · started {} times", record.ledger.attempts);
    if (record.last_step) {
        text += fmt::format(" · step {}", *record.last_step);
        if (record.total_steps)
            text += fmt::format("/{}", *record.total_steps);
    }
    return text + '\n';
}

// Each column shows what took the most of its time.
std::string bar_of(const RunRecord& record) {
    const auto whole = length_of(record).count();
    std::string bar;
    std::size_t at = 0;
    for (int column = 0; column < kBarColumns && whole > 0; ++column) {
        const RecordTime from =
            *record.started + std::chrono::milliseconds(whole * column / kBarColumns);
        const RecordTime to =
            *record.started + std::chrono::milliseconds(whole * (column + 1) / kBarColumns);
        while (at < record.spans.size() && record.spans[at].to <= from)
            ++at;
        std::int64_t longest = 0;
        char sign = ' ';
        for (std::size_t span = at; span < record.spans.size() && record.spans[span].from < to;
             ++span) {
            const auto length =
                (std::min(record.spans[span].to, to) - std::max(record.spans[span].from, from))
                    .count();
            if (length > longest) {
                longest = length;
                sign = kKindSigns[static_cast<std::size_t>(record.spans[span].kind)];
            }
        }
        bar += sign;
    }
    return bar;
}

std::string timeline(const RunRecord& record, const TextStyle& style) {
    if (record.spans.empty())
        return {};
    std::string text = heading("timeline", style) + "  [" + bar_of(record) + "]\n  ";
    for (const LedgerKind kind :
         {LedgerKind::queue, LedgerKind::launch, LedgerKind::initialisation, LedgerKind::steps,
          LedgerKind::lost_work, LedgerKind::recovery, LedgerKind::idle}) {
        const bool seen = std::any_of(record.spans.begin(), record.spans.end(),
                                      [&](const RecordSpan& span) { return span.kind == kind; });
        if (seen)
            text += fmt::format("{} {}  ", kKindSigns[static_cast<std::size_t>(kind)],
                                ledger_words(kind));
    }
    return text + '\n';
}

std::string ledger_table(const Ledger& ledger, const TextStyle& style) {
    const double total = static_cast<double>(total_ms(ledger));
    if (total <= 0)
        return {};
    std::string text = heading(
        fmt::format("time of {}", plural_of(ledger.units, ledger.unit == "gpu" ? "GPU" : "rank")),
        style);
    for (std::size_t i = 0; i < kLedgerKinds; ++i) {
        const auto kind = static_cast<LedgerKind>(i);
        if (ledger.of(kind) == 0)
            continue;
        const auto each = std::chrono::milliseconds(ledger.of(kind) / std::max(ledger.units, 1));
        text +=
            fmt::format("  {:<17} {:>5.1f}%  {}\n", ledger_words(kind),
                        100 * static_cast<double>(ledger.of(kind)) / total, format_duration(each));
    }
    text += fmt::format("  goodput {:.1f}% · used {:.1f}%", 100 * goodput(ledger),
                        100 * share_used(ledger));
    if (const auto between = mean_time_to_failure(ledger))
        text += " · mean time to failure " + format_duration(*between);
    if (!ledger.steps_reported)
        text += " · no steps were reported: running counts as steps";
    return text + '\n';
}

std::string gpu_lines(const RunRecord& record, const TextStyle& style) {
    const JobGpuTime& job = record.gpu_time;
    const auto lines = receipt_of(job).lines();
    if (lines.empty())
        return {};
    std::string text = heading("GPUs", style);
    for (const std::string& line : lines)
        text += "  " + line + '\n';
    std::size_t shown = 0;
    for (const GpuTime& gpu : job.gpus) {
        if (++shown > kMostShownRows)
            return text + fmt::format("  … and {} GPUs more: --json has all\n",
                                      job.gpus.size() - kMostShownRows);
        const double held = gpu.time.held();
        text += fmt::format("  {} {:<12} used {:>5.1f}%", gpu.node, gpu.bdf,
                            held > 0 ? 100 * gpu.time.of(GpuUse::used) / held : 0);
        for (std::size_t at = 0; at < kGpuUses; ++at)
            if (const auto use = static_cast<GpuUse>(at);
                use != GpuUse::used && gpu.time.of(use) >= 0.005 * held && held > 0)
                text +=
                    fmt::format(" · {:.0f}% {}", 100 * gpu.time.of(use) / held, gpu_use_words(use));
        text += '\n';
    }
    return text;
}

std::string failure_lines(const RunRecord& record, const TextStyle& style) {
    if (record.failures.empty())
        return {};
    std::string text = heading("failures", style);
    std::size_t shown = 0;
    for (const RecordFailure& failure : record.failures) {
        if (++shown > kMostShownRows)
            return text + fmt::format("  … and {} more: --json has all\n",
                                      record.failures.size() - kMostShownRows);
        text += fmt::format("  {}  {} {} {}", clock_of(failure.at), style.red("✗"), failure.who,
                            failure.how);
        if (!failure.cause.empty())
            text += fmt::format("  [{}{}]", failure.cause,
                                failure.certainty.empty() ? "" : ", " + failure.certainty);
        text += '\n';
        for (const std::string& more : {failure.what, failure.remedy, failure.follows})
            if (!more.empty())
                text += "            " + more + '\n';
        if (!failure.log.empty())
            text += "            " + failure.log + '\n';
    }
    return text;
}

std::string place_lines(const RunRecord& record, const TextStyle& style) {
    if (record.ranks.empty())
        return {};
    std::string text = heading("placement", style);
    if (record.ranks.size() <= kMostShownRows) {
        for (const RecordRank& rank : record.ranks) {
            text += fmt::format("  rank {:<5} {:<16}", rank.rank, rank.node);
            text += rank.gpu ? fmt::format(" GPU {:<3}", *rank.gpu) : std::string();
            text += rank.cpus.empty() ? std::string() : fmt::format(" CPUs {:<12}", rank.cpus);
            text += rank.failed ? " " + style.red(rank.end) : " " + rank.end;
            text += '\n';
        }
        return text;
    }
    const std::vector<RankGroup> groups = fold_ranks(record.ranks);
    std::size_t shown = 0;
    for (const RankGroup& group : groups) {
        if (++shown > kMostShownRows)
            return text + fmt::format("  … and {} nodes more: --json has all\n",
                                      groups.size() - kMostShownRows);
        text += fmt::format("  ranks {}-{}  {}", group.first, group.last, group.node);
        text += group.gpus.empty() ? "" : "  GPUs " + format_list(group.gpus);
        text += group.failed > 0 ? style.red(fmt::format("  {} failed", group.failed)) : "";
        text += '\n';
    }
    return text;
}

// ASCII, which every terminal has.
std::string sparkline(const std::vector<RecordPace>& pace) {
    constexpr std::string_view kLevels = "_.-=+*#";
    double most = 0;
    for (const RecordPace& one : pace)
        most = std::max(most, one.steps_per_second);
    std::string line;
    const std::size_t columns = std::min<std::size_t>(pace.size(), kBarColumns);
    for (std::size_t column = 0; column < columns && most > 0; ++column) {
        const double value = pace[column * pace.size() / columns].steps_per_second;
        const auto level = static_cast<std::size_t>(value / most * (kLevels.size() - 1) + 0.5);
        line += kLevels[std::min(level, kLevels.size() - 1)];
    }
    return line;
}

std::string pace_lines(const RunRecord& record, const TextStyle& style) {
    if (record.pace.empty())
        return {};
    std::vector<double> sorted;
    for (const RecordPace& pace : record.pace)
        sorted.push_back(pace.steps_per_second);
    std::sort(sorted.begin(), sorted.end());
    std::string text = heading("throughput", style);
    text += fmt::format("  [{}]\n", sparkline(record.pace));
    text += fmt::format("  steps/s: median {:.3g}, least {:.3g}, most {:.3g}",
                        sorted[sorted.size() / 2], sorted.front(), sorted.back());
    if (record.pace.back().tokens_per_second)
        text += fmt::format(" · {} tok/s last", format_rate(*record.pace.back().tokens_per_second));
    if (record.pace.back().loss)
        text += fmt::format(" · loss {:.4g} last", *record.pace.back().loss);
    if (record.checkpoint_count > 0)
        text += fmt::format("\n  {}, {:.3g} s of stall in all",
                            plural_of(record.checkpoint_count, "checkpoint"), record.stall_seconds);
    return text + '\n';
}

std::string list_lines(std::string_view title, const std::vector<std::string>& lines,
                       const TextStyle& style) {
    std::string text;
    for (std::size_t i = 0; i < lines.size() && i < kMostShownRows; ++i)
        text += "  " + lines[i] + '\n';
    if (lines.size() > kMostShownRows)
        text += fmt::format("  … and {} more: --json has all\n", lines.size() - kMostShownRows);
    return text.empty() ? text : heading(title, style) + text;
}

std::string certificate_lines(const RunRecord& record, const TextStyle& style) {
    std::vector<std::string> lines;
    std::size_t clean = 0;
    for (const RecordCertificate& certificate : record.certificates) {
        clean += certificate.clean ? 1 : 0;
        for (const std::string& left : certificate.left)
            lines.push_back(style.red("✗ ") + certificate.node + ": " + left);
    }
    if (clean > 0)
        lines.push_back(plural_of(static_cast<std::int64_t>(clean), "node") +
                        ": nothing is left of the job");
    return list_lines("left behind", lines, style);
}

}  // namespace

std::string report_text(const std::vector<RunRecord>& records, const TextStyle& style) {
    std::string text;
    for (const RunRecord& record : records) {
        text += text.empty() ? "" : "\n";
        text += head_lines(record, style) + timeline(record, style) +
                ledger_table(record.ledger, style) + gpu_lines(record, style) +
                failure_lines(record, style) + pace_lines(record, style) +
                place_lines(record, style) + certificate_lines(record, style) +
                list_lines("data", record.data, style) +
                list_lines("warnings", record.warnings, style) +
                list_lines("not known", record.gaps, style);
    }
    if (records.size() < 2)
        return text;
    const RunSummary all = summarise(records);
    text += heading(fmt::format("all {} jobs", all.runs), style);
    text += fmt::format(
        "  {} of {} that ended completed, {} without a person · used {:.1f}% · "
        "goodput {:.1f}%",
        all.completed, all.ended, all.completed_without_person, 100 * all.share_used,
        100 * all.goodput);
    if (all.mean_time_to_failure)
        text += " · mean time to failure " + format_duration(*all.mean_time_to_failure);
    return text + '\n';
}

}  // namespace autolaunch::launcher
