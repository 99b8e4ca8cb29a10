#pragma once
// The command line of the collective benches: nccl-tests' options (its README.md and
// src/common.cu), as far as they mean something here; every other one is refused by name.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::bench {

/// -z: when a rank waits, and for whom.
enum class Blocking { none, wait_and_barrier, wait, barrier_untimed };
/// -a: which rank's time a row shows.
enum class Average { rank_0, mean, min, max };
/// -R: whose memory the buffers are.
enum class Registration { none, local, symmetric };

struct PerfOptions {
    std::size_t min_bytes = 32 << 20;
    std::size_t max_bytes = 32 << 20;
    std::size_t step_bytes = 1 << 20;
    std::size_t step_factor = 0;  ///< below 2: grow by step_bytes
    int iterations = 20;
    int warmup_iterations = 1;
    int aggregated = 1;  ///< calls in one group
    int cycles = 1;      ///< 0: for ever
    int checks = 1;
    int timeout_s = 0;  ///< 0: the communicator's own
    int graph_launches = 0;
    std::size_t unalign = 0;  ///< elements before the buffers' first
    Blocking blocking = Blocking::none;
    Average average = Average::mean;
    Registration registration = Registration::none;
    bool report_cpu_time = false;
    bool report_timestamps = false;
    std::vector<DataType> types = {DataType::f32};
    std::vector<ReduceOp> ops = {ReduceOp::sum};
    int root = 0;  ///< -1: each in turn
    std::string json_file;
    std::string backend = "auto";
    std::string given;  ///< letters of the options that were given
    bool help = false;

    bool was_given(char letter) const { return given.find(letter) != std::string::npos; }
    std::size_t next(std::size_t bytes) const {
        return step_factor > 1 ? bytes * step_factor : bytes + step_bytes;
    }
};

/// Throws std::invalid_argument naming the option.
PerfOptions parse_options(int argc, char** argv);
/// "64", "4K", "1.5M", "2G": bytes, by powers of 1024. Throws std::invalid_argument.
std::size_t parse_bytes(const std::string& text);
std::string usage(const std::string& program);
/// nccl-tests' names: int8, half, float, bfloat16, …
std::string_view long_name_of(DataType type);
/// nccl-tests' names: sum, prod, max, min, avg, mulsum.
std::string_view short_name_of(ReduceOp op);

}  // namespace autolaunch::bench
