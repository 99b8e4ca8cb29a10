#pragma once
// What rank 0 prints, in nccl-tests' columns, and writes as JSON (docs/performance.md).
#include "perf_collectives.hpp"
#include "perf_options.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::bench {

/// One half of a row: out of place, or in place.
struct PerfResult {
    double microseconds = 0;
    double algbw = 0;  ///< GB/s, of 1e9 bytes
    double busbw = 0;
    std::optional<std::size_t> wrong;  ///< elements of all ranks; none: not checked
};

struct RankLine {
    int rank = 0;
    int pid = 0;
    std::string hostname;
    std::string device;
};

/// Owner: the sweep. Prints nothing and writes nothing on ranks other than 0. Not thread-safe.
/// Errors: SystemError when the JSON file cannot be made.
class PerfReport {
public:
    PerfReport(const PerfOptions& options, bool is_writer, FILE* out = stdout);
    ~PerfReport();
    PerfReport(const PerfReport&) = delete;
    PerfReport& operator=(const PerfReport&) = delete;

    /// Makes the file; a name that exists gets .0, .1, … after it, as nccl-tests does.
    void open_json(const std::vector<std::string>& arguments);
    void header(const std::string& program, const std::string& backend,
                const std::vector<RankLine>& ranks);
    void note(const std::string& line);  ///< "# line"
    void columns();
    void row(std::size_t bytes, std::size_t count, DataType type, const std::string& op, int root,
             const PerfResult& apart, const PerfResult& in_place);
    /// Returns false when the average is below NCCL_TESTS_MIN_BW's 90%.
    bool footer(const std::string& program, int failed_checks, double average_busbw);
    void error(const std::string& text);

private:
    void put(const std::string& text);
    std::string body(const PerfResult& result) const;
    nlohmann::ordered_json json_of(const PerfResult& result) const;
    void write_json();

    const PerfOptions& options_;
    bool is_writer_;
    FILE* out_;
    FILE* json_file_ = nullptr;
    nlohmann::ordered_json json_;
};

}  // namespace autolaunch::bench
