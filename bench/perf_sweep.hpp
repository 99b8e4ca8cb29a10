#pragma once
// The sweep over sizes, types, operations and roots: timing and checking, as nccl-tests does them.
#include "perf_collectives.hpp"
#include "perf_group.hpp"
#include "perf_options.hpp"
#include "perf_report.hpp"
#include "perf_values.hpp"

#include <memory>
#include <string>
#include <vector>

namespace autolaunch::bench {

/// Successive calls use successive parts of the buffers as long as there are any, so that large
/// buffers are not found in a cache. Time is that of the loop over the calls, by the host's clock,
/// until the last of them is done.
///
/// Owner: main(). Threads: one. Blocks: collective. Errors: those of the group, and
/// std::invalid_argument when an option does not fit it.
class PerfSweep {
public:
    PerfSweep(const CollectiveSpec& spec, const PerfOptions& options, PerfGroup& group,
              PerfReport& report);

    /// What the program exits with: 0, or 1 when a result was wrong or the average below
    /// NCCL_TESTS_MIN_BW.
    int run();

private:
    using Plan = std::vector<Step>;  // the operation on one part of the buffers

    struct Times {
        double seconds = 0;
        double cpu_seconds = 0;  // until the calls returned
    };

    void check_options() const;
    void say_what_changes_nothing();
    void list_ranks();
    void run_sizes(DataType type, ReduceOp op, int root);
    PerfResult measure(const PerfCase& one);
    std::vector<Plan> plans_of(const PerfCase& one) const;
    void start(const Plan& plan);
    void iterate(const std::vector<Plan>& plans, double& untimed);
    Times time(const std::vector<Plan>& plans);
    double over_ranks(double value);
    std::size_t check(const PerfCase& one, const Plan& plan, std::uint64_t seed);
    void write_inputs(const PerfCase& one, const CallBuffers& at, const PerfValues& values);
    std::size_t count_wrong(const PerfCase& one, const std::byte* recv, const PerfValues& values);
    std::byte* memory(const std::shared_ptr<void>& buffer, DataType type) const;

    const CollectiveSpec& spec_;
    const PerfOptions& options_;
    PerfGroup& group_;
    PerfDevice& device_;
    PerfReport& report_;
    std::string program_;
    std::shared_ptr<void> send_;
    std::shared_ptr<void> recv_;
    std::vector<std::byte> staging_;
    std::uint64_t seed_ = 0;
    int failed_checks_ = 0;
    double busbw_sum_ = 0;
    int results_ = 0;
};

}  // namespace autolaunch::bench
