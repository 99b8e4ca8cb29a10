#pragma once
// The command line of the collective benches: nccl-tests' options, as far as they mean something here.
#include <autolaunch/comm/types.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace autolaunch::bench {

struct PerfOptions {
    std::size_t min_bytes = 32 << 20;
    std::size_t max_bytes = 32 << 20;
    std::size_t step_bytes = 1 << 20;
    std::size_t step_factor = 0;  ///< 0: grow by step_bytes
    int iterations = 20;
    int warmup_iterations = 5;
    bool check = true;
    std::vector<DataType> types = {DataType::f32};
    std::vector<ReduceOp> ops = {ReduceOp::sum};
    std::string backend = "auto";
    bool help = false;
};

/// Throws std::invalid_argument naming the option.
PerfOptions parse_options(int argc, char** argv);
/// "64", "4K", "1M", "2G": bytes, by powers of 1024. Throws std::invalid_argument.
std::size_t parse_bytes(const std::string& text);
std::string usage(const std::string& program);
/// nccl-tests' names: float, double, bfloat16, int32, int64, uint8.
const char* long_name_of(DataType type);

}  // namespace autolaunch::bench
