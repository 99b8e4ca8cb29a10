#pragma once
#include "accounting/sacct_jobs.hpp"
#include "run_report/run_record.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

enum class UsageBy { user, account };

/// What an hour of each costs; nothing: it has no price.
struct UsageRates {
    std::optional<double> gpu = {}, cpu = {}, node = {};
    bool any() const { return gpu || cpu || node; }
};

/// Failures of generations of one cause, and of how many of them the job has gone on.
struct Recovery {
    int failures = 0, recovered = 0;
};

/// What is known of one user or account. What nobody tells is nothing, never 0.
struct UsageRow {
    std::string name;
    int jobs = 0, ended = 0, completed = 0;         ///< a job that was requeued is one
    int with_record = 0;                            ///< of them, those whose run directory was read
    std::map<std::string, Recovery> recovery = {};  ///< by cause, of those
    std::optional<double> gpu_hours = {};           ///< held, by sacct
    double cpu_hours = 0, node_hours = 0;
    double gpu_seconds_known = 0, gpu_seconds_used = 0;  ///< of run directories, where measured
    std::optional<double> wait_median = {}, wait_longest = {};  ///< seconds in the queue
    std::optional<double> cost = {};

    std::optional<double> completion() const;
    std::optional<double> gpu_used() const;
};

struct Usage {
    std::vector<UsageRow> rows = {};      ///< by name, and the sum of all last
    std::vector<std::string> notes = {};  ///< what is missing, and why: a sentence each
};

struct UsageRequest {
    AccountTime since, now;
    UsageBy by = UsageBy::user;
    UsageRates rates = {};
};

/// `runs`: records of run directories by the job's id or raw id. Time is counted from `since` on,
/// also of jobs that began before. Pure.
Usage usage_of(const UsageRequest& request, const std::vector<SacctJob>& jobs,
               const std::map<std::string, RunRecord>& runs);

}  // namespace autolaunch::launcher
