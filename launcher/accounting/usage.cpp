#include "accounting/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr const char* kAll = "all";
constexpr double kHour = 3600;

/// Seconds from `since` on for which a run of a job held its nodes.
double held_seconds(const SacctJob& job, const UsageRequest& request) {
    if (!job.start)
        return 0;
    const AccountTime from = std::max(*job.start, request.since);
    const AccountTime to = std::min(job.end.value_or(request.now), request.now);
    return std::max(static_cast<double>((to - from).count()), 0.0);
}

/// What a row is made of.
struct Gathered {
    std::map<std::string, const SacctJob*> newest;  ///< of each job its last run
    std::vector<double> waits;
    std::set<const RunRecord*> records;
    double gpu_seconds = 0, cpu_seconds = 0, node_seconds = 0;
};

const RunRecord* record_of(const SacctJob& job, const std::map<std::string, RunRecord>& runs) {
    for (const std::string& id : {job.id, job.raw_id})
        if (const auto found = runs.find(id); found != runs.end())
            return &found->second;
    return nullptr;
}

void gather(const SacctJob& job, const UsageRequest& request,
            const std::map<std::string, RunRecord>& runs, Gathered& into) {
    const SacctJob*& newest = into.newest[job.raw_id.empty() ? job.id : job.raw_id];
    if (newest == nullptr ||
        newest->start.value_or(AccountTime{}) <= job.start.value_or(AccountTime::max()))
        newest = &job;
    const double seconds = held_seconds(job, request);
    into.gpu_seconds += seconds * static_cast<double>(job.gpus.value_or(0));
    into.cpu_seconds += seconds * static_cast<double>(job.cpus);
    into.node_seconds += seconds * static_cast<double>(job.nodes);
    if (job.eligible && job.start && *job.start >= request.since && *job.start >= *job.eligible)
        into.waits.push_back(static_cast<double>((*job.start - *job.eligible).count()));
    if (const RunRecord* record = record_of(job, runs))
        into.records.insert(record);
}

// A failure is recovered from when another generation has come after it.
void add_record(const RunRecord& record, UsageRow& row) {
    ++row.with_record;
    int newest = 0;
    for (const RecordSpan& span : record.spans)
        newest = std::max(newest, span.generation);
    for (const RecordFailure& failure : record.failures) {
        Recovery& recovery = row.recovery[failure.cause.empty() ? "unknown" : failure.cause];
        ++recovery.failures;
        recovery.recovered += failure.generation < newest ? 1 : 0;
    }
    const GpuUseSeconds total = record.gpu_time.total();
    row.gpu_seconds_known += total.held() - total.of(GpuUse::unmeasured);
    row.gpu_seconds_used += total.of(GpuUse::used);
}

UsageRow row_of(const std::string& name, Gathered gathered, const UsageRequest& request,
                bool gpus_told) {
    UsageRow row{.name = name};
    for (const auto& [id, job] : gathered.newest) {
        ++row.jobs;
        row.ended += job->is_over() ? 1 : 0;
        row.completed += job->is_completed() ? 1 : 0;
    }
    for (const RunRecord* record : gathered.records)
        add_record(*record, row);
    if (gpus_told)
        row.gpu_hours = gathered.gpu_seconds / kHour;
    row.cpu_hours = gathered.cpu_seconds / kHour;
    row.node_hours = gathered.node_seconds / kHour;
    if (!gathered.waits.empty()) {
        std::sort(gathered.waits.begin(), gathered.waits.end());
        row.wait_median = gathered.waits[gathered.waits.size() / 2];
        row.wait_longest = gathered.waits.back();
    }
    const UsageRates& rates = request.rates;
    if (rates.any() && (!rates.gpu || row.gpu_hours))
        row.cost = rates.gpu.value_or(0) * row.gpu_hours.value_or(0) +
                   rates.cpu.value_or(0) * row.cpu_hours + rates.node.value_or(0) * row.node_hours;
    return row;
}

std::vector<std::string> notes_of(const UsageRow& all, const UsageRequest& request,
                                  bool gpus_told) {
    std::vector<std::string> notes;
    if (all.jobs == 0) {
        notes.emplace_back("sacct knows of no job in that time that you may see");
        return notes;
    }
    if (!gpus_told)
        notes.emplace_back(
            std::string("sacct tells of no GPUs: no job had one, or slurm.conf has no "
                        "AccountingStorageTRES=gres/gpu") +
            (request.rates.gpu ? "; without them there is no cost" : ""));
    if (all.with_record < all.jobs)
        notes.push_back(fmt::format(
            "{} of {} jobs have no run directory that was found and can be read: how their GPUs "
            "were used and what they recovered from is not known; name the folders of their runs",
            all.jobs - all.with_record, all.jobs));
    if (all.with_record > 0 && !all.gpu_used())
        notes.emplace_back("no run directory has samples of GPUs: how they were used is not known");
    return notes;
}

}  // namespace

std::optional<double> UsageRow::completion() const {
    return ended > 0 ? std::optional(static_cast<double>(completed) / ended) : std::nullopt;
}

std::optional<double> UsageRow::gpu_used() const {
    return gpu_seconds_known > 0 ? std::optional(gpu_seconds_used / gpu_seconds_known)
                                 : std::nullopt;
}

Usage usage_of(const UsageRequest& request, const std::vector<SacctJob>& jobs,
               const std::map<std::string, RunRecord>& runs) {
    std::map<std::string, Gathered> groups;
    Gathered all;
    bool gpus_told = false;
    for (const SacctJob& job : jobs) {
        gpus_told = gpus_told || job.gpus.has_value();
        const std::string& name = request.by == UsageBy::user ? job.user : job.account;
        gather(job, request, runs, groups[name.empty() ? "(none)" : name]);
        gather(job, request, runs, all);
    }
    Usage usage;
    for (auto& [name, gathered] : groups)
        usage.rows.push_back(row_of(name, std::move(gathered), request, gpus_told));
    usage.rows.push_back(row_of(kAll, std::move(all), request, gpus_told));
    usage.notes = notes_of(usage.rows.back(), request, gpus_told);
    return usage;
}

}  // namespace autolaunch::launcher
