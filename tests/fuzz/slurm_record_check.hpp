#pragma once
#include "rendezvous/slurm_lookup.hpp"
#include "require.hpp"
#include "stopping/maintenance.hpp"
#include "stopping/over_time_limit.hpp"
#include "stopping/requeue.hpp"
#include "stopping/slurm_job_record.hpp"
#include "submission/array_numbers.hpp"
#include "submission/batch_script.hpp"
#include "submission/cluster_answers.hpp"
#include "submission/dependencies.hpp"
#include "submission/job_end.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch::launcher {

namespace slurm_record {

inline const std::chrono::system_clock::time_point kNow =
    std::chrono::system_clock::from_time_t(1'795'866'582);

/// Of a running job, and of one that ends.
inline std::size_t check_jobs(std::string_view bytes) {
    std::size_t found = 0;
    if (const auto job = parse_slurm_job(bytes, "3")) {
        ++found;
        const StopKnown why = explain_stop(*job, 0, kNow, std::chrono::seconds(30));
        fuzz::require(*origin_name(why.origin) != '\0');
        time_in_queue(*job);
        choose_requeue(job, parse_requeue_settings(bytes, 75), 0, "3");
    }
    JobEnd end;
    if (end.take(bytes)) {
        ++found;
        fuzz::require(!end.is_over() || (end.exit_code() >= 0 && end.exit_code() < 256));
        end.state();
    }
    return found;
}

/// Of partitions, limits, reservations and the configuration.
inline std::size_t check_cluster(std::string_view bytes) {
    std::size_t found = parse_partitions(bytes).size() + parse_qos_limits(bytes).size() +
                        parse_association_limits(bytes).size();
    for (const MaintenanceFacts& one : parse_maintenance(bytes, kNow))
        fuzz::require(one.ends_at >= kNow);
    if (const auto next = next_maintenance(bytes, {"node1", "node2"}, kNow))
        fuzz::require(next->node == "node1" || next->node == "node2");
    partition_over_time(bytes, "main");
    cluster_over_time(bytes);
    fuzz::require(time_to_notice(bytes).count() >= 0);
    found += slurm_daemons(bytes, bytes).size();
    tres_count(std::string(bytes));
    config_value(bytes, "RequeueExit");
    parse_estimate(bytes);
    read_node_address(bytes);
    return found;
}

/// A script that was rendered reads back as what it was rendered of.
inline void check_script(std::string_view bytes) {
    const std::string text(bytes);
    const BatchScript script = read_batch_script(text);
    comes_to_autolaunch(text);
    std::string why;
    if (const auto array = parse_array(bytes, why))
        fuzz::require(array->count > 0 && array->highest >= 0);
    else
        fuzz::require(!why.empty());
    fuzz::require(list_array(bytes).size() <= 100'000);
    why.clear();
    if (!parse_dependency(bytes, why))
        fuzz::require(!why.empty());
    if (why_no_script_text(bytes).empty()) {
        BatchScript ours;
        ours.program = {"autolaunch", text};
        fuzz::require(read_batch_script(render_batch_script(ours)) == ours);
    }
}

}  // namespace slurm_record

/// What Slurm's commands say of jobs and of the cluster, and batch scripts, as anything. Aborts
/// where figures of it are none. How much was understood.
inline std::size_t check_slurm_record_bytes(std::string_view bytes) {
    slurm_record::check_script(bytes);
    return slurm_record::check_jobs(bytes) + slurm_record::check_cluster(bytes);
}

}  // namespace autolaunch::launcher
