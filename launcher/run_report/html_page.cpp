#include "base/text.hpp"
#include "report/units.hpp"
#include "run_report/gpu_time_part.hpp"
#include "run_report/html_text.hpp"
#include "run_report/report.hpp"
#include "run_report/timeline_svg.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostOpenNodes = 16;

// Colours of kinds are told apart without hue too: each differs in lightness from its neighbours,
// and legend, titles and tables say the same in words.
constexpr std::string_view kPageStyle = R"(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2733; --faint: #5a6875; --edge: #d5dce3;
  --panel: #f5f7f9; --bad: #b3261e; --good: #1a7f37; --focus: #0b57d0;
  --queue: #c9b6e4; --launch: #7a5fb0; --initialisation: #e0a83a; --steps: #2f8f5b; --checkpoint_stall: #8fc7e8;
  --detection: #d9534f; --recovery: #a33b6b; --lost_work: #f0906a; --idle: #b4bcc4; --loss: #1f6fb2; --cold: #e3e7eb;
  --use-used: var(--steps); --use-input: var(--initialisation); --use-checkpoint: var(--checkpoint_stall);
  --use-peer: #4a63b8; --use-throttled: var(--detection); --use-start: var(--launch); --use-recovery: var(--recovery);
  --use-lost_work: var(--lost_work); --use-ended: var(--idle); --use-nobody: #39434d; --use-unexplained: var(--queue);
  --use-unmeasured: #f3f0e2; }
@media (prefers-color-scheme: dark) { :root { --page: #12181f; --ink: #e4e9ee; --faint: #9aa7b4; --edge: #33404c;
  --panel: #1b232c; --bad: #ff8a80; --good: #6fd08c; --focus: #8ab4f8;
  --queue: #8d78b3; --launch: #b79cf0; --initialisation: #e0b04a; --steps: #46b377; --checkpoint_stall: #6fb3d9;
  --detection: #e86a65; --recovery: #d0709b; --lost_work: #f09a75; --idle: #66717c; --loss: #6cb2ee; --cold: #2a343e;
  --use-peer: #7f97ea; --use-nobody: #cdd6df; --use-unmeasured: #3d3a2a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, "DejaVu Sans", "Liberation Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
p { margin: .4rem 0; } a { color: var(--focus); } code { font-family: "DejaVu Sans Mono", monospace; font-size: .9em; }
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { position: static; }
.faint, caption, .axis { color: var(--faint); font-size: .9rem; }
.bad { color: var(--bad); } .good { color: var(--good); } .bad, .good { font-weight: 600; }
dl.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }
dl.facts div { background: var(--panel); border: 1px solid var(--edge); border-radius: .4rem; padding: .5rem .75rem; }
dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; font-size: 1.1rem; font-weight: 600; }
svg { display: block; width: 100%; } svg.bar { height: 4.5rem; } svg.low { height: 2.25rem; } svg.chart { height: 9rem;
  background: var(--panel); border: 1px solid var(--edge); border-radius: .3rem; }
.axis { display: flex; justify-content: space-between; gap: 1rem; margin: .2rem 0; }
h4 { font-size: .95rem; margin: 1.1rem 0 .4rem; }
figure.plot { margin: 1rem 0; display: grid; grid-template-columns: 4.5rem minmax(0, 1fr); column-gap: .5rem; }
figure.plot figcaption { grid-column: 2; font-size: .95rem; font-weight: 600; margin-bottom: .2rem; }
.scale { display: flex; flex-direction: column; justify-content: space-between; text-align: right; color: var(--faint);
  font-size: .85rem; height: 9rem; } figure.plot .axis { grid-column: 2; }
.axis.ticks { gap: 0; font-size: .85rem; }
.rows { display: grid; grid-template-columns: fit-content(15rem) minmax(0, 1fr); column-gap: .75rem; margin: .5rem 0; }
.names span { display: block; height: 18px; margin-bottom: 3px; line-height: 18px; font-size: .8rem; color: var(--faint);
  white-space: nowrap; overflow: hidden; text-overflow: ellipsis; text-align: right; }
ul.receipt { list-style: none; margin: .4rem 0 .8rem; padding: .6rem .85rem; background: var(--panel); border: 1px solid var(--edge);
  border-radius: .4rem; font-size: .95rem; }
.stall { fill: var(--loss); } .failure { stroke: var(--bad); stroke-width: 2; stroke-dasharray: 4 3; fill: none;
  vector-effect: non-scaling-stroke; }
.grid { stroke: var(--edge); fill: none; } .line { fill: none; stroke-width: 2; }
.grid, .line { vector-effect: non-scaling-stroke; }
.line.steps { stroke: var(--steps); fill: none; } .line.loss { stroke: var(--loss); }
.saved { fill: var(--loss); } .failed { fill: var(--bad); } .rank { fill: var(--steps); }
ul.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; list-style: none; padding: 0; margin: .5rem 0; font-size: .9rem; }
ul.legend svg { display: inline-block; width: .85rem; height: .85rem; margin-right: .4rem; vertical-align: -.08rem; }
ol.failures ul { margin: .3rem 0; padding-left: 1.2rem; }
ol.failures { list-style: none; padding: 0; margin: 0; }
ol.failures > li { border-left: 4px solid var(--bad); background: var(--panel); padding: .5rem .85rem; margin: .6rem 0; border-radius: 0 .3rem .3rem 0; }
.cause { display: inline-block; border: 1px solid var(--bad); color: var(--bad); border-radius: 1rem; padding: 0 .6rem; font-size: .85rem; }
.scroll { overflow-x: auto; margin: .5rem 0; } table { border-collapse: collapse; width: 100%; font-size: .92rem; overflow-wrap: normal; }
caption { text-align: left; padding: .2rem 0; } th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--edge);
  vertical-align: top; white-space: nowrap; } td:last-child { white-space: normal; min-width: 12rem; } thead th { color: var(--faint); font-weight: 600; }
tbody th { font-weight: 500; } details { margin: .5rem 0; } summary { cursor: pointer; padding: .25rem 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--edge); }
@media print { body { max-width: none; } }
)";

std::string kind_styles() {
    std::string styles;
    for (std::size_t i = 0; i < kLedgerKinds; ++i)
        styles +=
            fmt::format(".{0} {{ fill: var(--{0}); }}\n", ledger_key(static_cast<LedgerKind>(i)));
    return styles;
}

std::string fact(std::string_view name, const std::string& value, std::string_view style = {}) {
    return fmt::format("<div><dt>{}</dt><dd class=\"{}\">{}</dd></div>\n", name, style,
                       html(value));
}

std::string percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string legend(const Ledger& ledger, const std::vector<RecordSpan>& spans) {
    std::string items;
    for (std::size_t i = 0; i < kLedgerKinds; ++i) {
        const auto kind = static_cast<LedgerKind>(i);
        const bool drawn = std::any_of(spans.begin(), spans.end(), [kind](const RecordSpan& span) {
            return span.kind == kind;
        });
        if (drawn || ledger.of(kind) > 0)
            items += fmt::format(
                "<li><svg aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect "
                "width=\"10\" height=\"10\" class=\"{}\"/></svg>{}</li>\n",
                ledger_key(kind), ledger_words(kind));
    }
    return "<ul class=\"legend\" aria-label=\"colours\">\n" + items + "</ul>\n";
}

std::string facts_of(const RunRecord& record) {
    std::string text = "<dl class=\"facts\">\n";
    text += fact("outcome", outcome_words(record), record.exit_code == 0 ? "good" : "bad");
    text += fact("time", format_duration(length_of(record)));
    text += fact("ranks", std::to_string(record.world_size));
    text += fact("nodes", std::to_string(record.node_count));
    text += fact("goodput", percent(goodput(record.ledger)));
    text += fact(record.ledger.unit == "gpu" ? "GPU time used" : "time used",
                 percent(share_used(record.ledger)));
    text += fact("failures", std::to_string(record.ledger.failures));
    if (const auto between = mean_time_to_failure(record.ledger))
        text += fact("mean time to failure", format_duration(*between));
    text += fact("restarts", std::to_string(record.restarts));
    if (record.last_step)
        text += fact("step", record.total_steps
                                 ? fmt::format("{} of {}", *record.last_step, *record.total_steps)
                                 : std::to_string(*record.last_step));
    return text + "</dl>\n";
}

std::string timeline_part(const RunRecord& record) {
    const std::string picture = timeline_svg(record);
    if (picture.empty())
        return {};
    std::string text = "<h3>Timeline</h3>\n" + picture;
    text += fmt::format("<p class=\"axis\"><span>{} UTC</span><span>{} UTC</span></p>\n",
                        format_moment(*record.started), format_moment(*record.last_seen));
    text += legend(record.ledger, record.spans);
    std::vector<std::vector<std::string>> rows;
    for (const RecordSpan& span : record.spans)
        rows.push_back({format_moment(span.from), ledger_words(span.kind),
                        format_duration(span.to - span.from), std::to_string(span.generation)});
    return text +
           html_details("the timeline as a table",
                        html_table("timeline (UTC)", {"from", "what", "for", "generation"}, rows));
}

std::string ledger_part(const Ledger& ledger) {
    const auto total = static_cast<double>(total_ms(ledger));
    if (total <= 0)
        return {};
    const std::string unit = ledger.unit == "gpu" ? "GPU" : "rank";
    std::vector<std::vector<std::string>> rows;
    for (std::size_t i = 0; i < kLedgerKinds; ++i) {
        const auto kind = static_cast<LedgerKind>(i);
        if (ledger.of(kind) > 0)
            rows.push_back(
                {ledger_words(kind), percent(static_cast<double>(ledger.of(kind)) / total),
                 format_duration(
                     std::chrono::milliseconds(ledger.of(kind) / std::max(ledger.units, 1)))});
    }
    rows.push_back(
        {"sum", "100%",
         format_duration(std::chrono::milliseconds(total_ms(ledger) / std::max(ledger.units, 1)))});
    std::string text = "<h3>Where the time went</h3>\n" + ledger_svg(ledger);
    text +=
        html_table(fmt::format("time of {} {}{}", ledger.units, unit, ledger.units == 1 ? "" : "s"),
                   {"what", "share", "each " + unit}, rows);
    if (!ledger.steps_reported)
        text += "<p class=\"faint\">No steps were reported: running counts as steps.</p>\n";
    return text;
}

std::string paragraph(const std::string& text, std::string_view element = "p") {
    return text.empty() ? text : fmt::format("<{0}>{1}</{0}>\n", element, html(text));
}

std::string failures_part(const RunRecord& record) {
    if (record.failures.empty())
        return {};
    std::string text = "<h3>Failures</h3>\n<ol class=\"failures\">\n";
    for (const RecordFailure& failure : record.failures) {
        text += fmt::format("<li><p><strong>{} {}</strong>", html(failure.who), html(failure.how));
        if (!failure.cause.empty())
            text += fmt::format(" <span class=\"cause\">{}{}</span>", html(failure.cause),
                                failure.certainty.empty() ? "" : ", " + html(failure.certainty));
        text += fmt::format("</p>\n<p class=\"faint\">{} UTC · generation {}</p>\n",
                            format_moment(failure.at), failure.generation);
        text += paragraph(failure.what);
        if (!failure.evidence.empty()) {
            text += "<ul class=\"faint\">\n";
            for (const std::string& sentence : failure.evidence)
                text += paragraph(sentence, "li");
            text += "</ul>\n";
        }
        text += paragraph(failure.remedy) + paragraph(failure.follows);
        text += failure.log.empty() ? "" : "<p>" + paragraph(failure.log, "code") + "</p>\n";
        text += "</li>\n";
    }
    return text + "</ol>\n";
}

std::string pace_part(const RunRecord& record) {
    const std::string picture = pace_plot(record), stalls = stalls_plot(record);
    if (picture.empty())
        return stalls.empty() ? stalls : "<h3>Checkpoints</h3>\n" + stalls;
    std::vector<std::vector<std::string>> rows;
    const std::size_t every = std::max<std::size_t>(record.pace.size() / 50, 1);
    for (std::size_t i = 0; i < record.pace.size(); i += every) {
        const RecordPace& pace = record.pace[i];
        rows.push_back({std::to_string(pace.step), format_moment(pace.at),
                        fmt::format("{:.4g}", pace.steps_per_second),
                        pace.tokens_per_second ? format_rate(*pace.tokens_per_second) : "",
                        pace.loss ? fmt::format("{:.5g}", *pace.loss) : ""});
    }
    std::string text =
        "<h3>Throughput</h3>\n" + picture + tokens_plot(record) + loss_plot(record) + stalls;
    if (record.checkpoint_count > 0)
        text += fmt::format("<p>{} checkpoints, {:.3g} s of stall in all.</p>\n",
                            record.checkpoint_count, record.stall_seconds);
    return text +
           html_details("throughput as a table",
                        html_table("throughput",
                                   {"step", "time (UTC)", "steps/s", "tokens/s", "loss"}, rows));
}

std::string rank_table(const RunRecord& record) {
    std::vector<std::vector<std::string>> rows;
    for (const RecordRank& rank : record.ranks)
        rows.push_back(
            {std::to_string(rank.rank), html(rank.node), rank.gpu ? std::to_string(*rank.gpu) : "",
             html(rank.cpus), rank.pid ? std::to_string(*rank.pid) : "",
             rank.failed ? "<span class=\"bad\">" + html(rank.end) + "</span>" : html(rank.end),
             html(rank.reason)});
    return html_table("placement of the ranks",
                      {"rank", "node", "GPU", "CPUs", "pid", "end", "why there"}, rows);
}

std::string placement_part(const RunRecord& record) {
    if (record.ranks.empty())
        return {};
    std::string text = "<h3>Placement</h3>\n";
    if (record.ranks.size() <= kUnfoldedRanks)
        return text + ranks_svg(record) + rank_table(record);
    std::vector<std::vector<std::string>> rows;
    for (const RankGroup& group : fold_ranks(record.ranks))
        rows.push_back({fmt::format("{}–{}", group.first, group.last), html(group.node),
                        group.gpus.empty() ? "" : format_list(group.gpus), html(group.cpus),
                        group.failed == 0
                            ? ""
                            : fmt::format("<span class=\"bad\">{} failed</span>", group.failed)});
    return text + ranks_svg(record) +
           html_details(
               fmt::format("placement of {} ranks by node", record.ranks.size()),
               html_table("placement by node", {"ranks", "node", "GPUs", "CPUs", "failed"}, rows));
}

std::string list_part(std::string_view title, const std::vector<std::string>& lines) {
    if (lines.empty())
        return {};
    std::string text = fmt::format("<h3>{}</h3>\n<ul>\n", title);
    for (const std::string& line : lines)
        text += "<li>" + html(line) + "</li>\n";
    return text + "</ul>\n";
}

// What is left comes first, and is never folded.
std::string certificates_part(const RunRecord& record) {
    if (record.certificates.empty())
        return {};
    std::vector<std::vector<std::string>> clean, unclean;
    for (const RecordCertificate& certificate : record.certificates) {
        std::string left;
        for (const std::string& one : certificate.left)
            left += (left.empty() ? "" : "<br>") + html(one);
        if (certificate.clean)
            clean.push_back(
                {html(certificate.node), "<span class=\"good\">nothing is left</span>", ""});
        else
            unclean.push_back(
                {html(certificate.node), "<span class=\"bad\">left behind</span>", left});
    }
    const auto table = [](std::string_view caption, const auto& rows) {
        return rows.empty() ? std::string() : html_table(caption, {"node", "", "what"}, rows);
    };
    const std::string others = table("clean nodes", clean);
    return "<h3>Left behind</h3>\n" + table("what nodes were left with", unclean) +
           (clean.size() > kMostOpenNodes
                ? html_details(fmt::format("{} clean nodes", clean.size()), others)
                : others);
}

std::string run_part(const RunRecord& record, std::size_t number) {
    return fmt::format(
               "<article id=\"run-{0}\" aria-labelledby=\"title-{0}\">\n"
               "<h2 id=\"title-{0}\">Job {1} {2}</h2>\n<p class=\"faint\"><code>{3}</code>"
               "</p>\n",
               number, html(record.run_id), html(record.job_name), html(record.run_dir)) +
           facts_of(record) + timeline_part(record) + ledger_part(record.ledger) +
           gpu_time_part(record) + failures_part(record) + pace_part(record) +
           placement_part(record) + certificates_part(record) + list_part("Data", record.data) +
           list_part("Warnings", record.warnings) + list_part("Not known", record.gaps) +
           "</article>\n";
}

std::string summary_part(const std::vector<RunRecord>& records) {
    if (records.size() < 2)
        return {};
    const RunSummary all = summarise(records);
    std::string text = "<dl class=\"facts\">\n";
    text += fact("jobs", std::to_string(all.runs));
    text += fact("completed", fmt::format("{} of {}", all.completed, all.ended));
    text +=
        fact("without a person", fmt::format("{} of {}", all.completed_without_person, all.ended));
    text += fact("time used", percent(all.share_used));
    text += fact("goodput", percent(all.goodput));
    if (all.mean_time_to_failure)
        text += fact("mean time to failure", format_duration(*all.mean_time_to_failure));
    text += "</dl>\n<nav aria-label=\"jobs\"><ul>\n";
    for (std::size_t i = 0; i < records.size(); ++i)
        text +=
            fmt::format("<li><a href=\"#run-{}\">{} {}</a>: {}</li>\n", i, html(records[i].run_id),
                        html(records[i].job_name), html(outcome_words(records[i])));
    return text + "</ul></nav>\n";
}

}  // namespace

std::string report_html(const std::vector<RunRecord>& records, const std::string& version) {
    const std::string title = records.size() == 1
                                  ? "Job " + records[0].run_id + " " + records[0].job_name
                                  : fmt::format("{} jobs", records.size());
    std::string page = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>{} · autolaunch report</title>\n<style>{}{}</style>\n</head>\n<body>\n"
        "<a class=\"skip\" href=\"#main\">to the report</a>\n"
        "<header><h1>autolaunch report</h1></header>\n<main id=\"main\">\n",
        html(title), kPageStyle, kind_styles() + gpu_use_styles());
    page += summary_part(records);
    for (std::size_t i = 0; i < records.size(); ++i)
        page += run_part(records[i], i);
    return page + fmt::format(
                      "</main>\n<footer><p class=\"faint\">Made by autolaunch {}. Times "
                      "are UTC.</p></footer>\n</body>\n</html>\n",
                      html(version));
}

}  // namespace autolaunch::launcher
