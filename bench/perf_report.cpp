#include "perf_report.hpp"

#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>

namespace autolaunch::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kJsonVersion = 3;  // nccl-tests 2.19

std::string now() {
    const std::time_t time = std::time(nullptr);
    std::tm local{};
    localtime_r(&time, &local);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
    return text;
}

/// Two decimals, or as many as fit the column.
std::string fitted(double value, std::size_t width) {
    for (int decimals = 2; decimals >= 0; --decimals) {
        std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
        if (text.size() <= width)
            return text;
    }
    return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string boolean(bool value) {
    return value ? "true" : "false";
}  // nccl-tests writes them as text

/// Not all of it, as nccl-tests would: the environment holds secrets, and this file is handed
/// round.
Json environment() {
    static constexpr std::array<std::string_view, 9> kPrefixes = {
        "NCCL_",         "CUDA_", "OMPI_MCA_",   "UCX_",       "OMP_",
        "SLURM_JOB_ID=", "RANK=", "WORLD_SIZE=", "LOCAL_RANK="};
    Json kept = Json::array();
    for (char** variable = environ; *variable != nullptr; ++variable)
        for (const auto prefix : kPrefixes)
            if (std::string_view(*variable).starts_with(prefix))
                kept.push_back(*variable);
    return kept;
}

}  // namespace

PerfReport::PerfReport(const PerfOptions& options, bool is_writer, FILE* out)
    : options_(options), is_writer_(is_writer), out_(out) {}

PerfReport::~PerfReport() {
    if (json_file_ == nullptr)
        return;
    write_json();
    std::fclose(json_file_);
}

void PerfReport::put(const std::string& text) {
    if (!is_writer_)
        return;
    std::fputs(text.c_str(), out_);
    std::fflush(out_);
}

void PerfReport::note(const std::string& line) { put("# " + line + "\n"); }

void PerfReport::open_json(const std::vector<std::string>& arguments) {
    if (!is_writer_ || options_.json_file.empty())
        return;
    std::string name = options_.json_file;
    for (int tried = 0; (json_file_ = std::fopen(name.c_str(), "wxe")) == nullptr; ++tried) {
        if (errno != EEXIST || tried == 10'000)
            throw SystemError(errno, "write " + name);
        name = fmt::format("{}.{}", options_.json_file, tried);
    }
    note("Writing JSON output to " + name);
    json_["version"] = kJsonVersion;
    json_["start_time"] = now();
    json_["args"] = arguments;
    json_["env"] = environment();
    json_["nccl_version"] = 0;
}

void PerfReport::header(const std::string& program, const std::string& backend,
                        const std::vector<RankLine>& ranks) {
    const bool by_factor = options_.step_factor > 1;
    const std::size_t step = by_factor ? options_.step_factor : options_.step_bytes;
    put(fmt::format("# autolaunch {} backend {} ranks {}, in nccl-tests' form\n",
                    AUTOLAUNCH_BENCH_VERSION, backend, ranks.size()));
    put(fmt::format("# Collective test starting: {}\n", program));
    put(
        fmt::format("# nThread 1 nGpus 1 minBytes {} maxBytes {} step: {}({}) warmup iters: {} "
                    "iters: {} agg iters: {} "
                    "validation: {} graph: {} unalign: {}\n",
                    options_.min_bytes, options_.max_bytes, step, by_factor ? "factor" : "bytes",
                    options_.warmup_iterations, options_.iterations, options_.aggregated,
                    options_.checks, options_.graph_launches, options_.unalign));
    if (options_.blocking == Blocking::wait_and_barrier)
        note("Blocking Enabled: wait and barrier after each call");
    if (options_.blocking == Blocking::wait)
        note("Blocking Enabled: wait after each call, no barrier");
    if (options_.blocking == Blocking::barrier_untimed)
        note("Blocking Enabled: wait and barrier after each iteration; time excludes barrier");
    put("#\n# Using devices\n");
    Json devices = Json::array();
    for (const RankLine& line : ranks) {
        put(fmt::format("#  Rank {:2} Group  0 Pid {:6} on {:>10} device {}\n", line.rank, line.pid,
                        line.hostname, line.device));
        devices.push_back({{"rank", line.rank},
                           {"group", 0},
                           {"pid", line.pid},
                           {"hostname", line.hostname},
                           {"device_info", line.device}});
    }
    json_["config"] = {{"nthreads", 1},
                       {"ngpus", 1},
                       {"minimum_bytes", options_.min_bytes},
                       {"maximum_bytes", options_.max_bytes},
                       {by_factor ? "step_factor" : "step_bytes", step},
                       {"warmup_iters", options_.warmup_iterations},
                       {"iterations", options_.iterations},
                       {"aggregated_iterations", options_.aggregated},
                       {"validation", options_.checks},
                       {"graph", options_.graph_launches},
                       {"blocking_collectives", boolean(options_.blocking != Blocking::none)},
                       {"per_iter_timing", "false"},
                       {"per_iter_skip", 0},
                       {"parallel_init", "false"},
                       {"backend", backend},
                       {"local_register", static_cast<int>(options_.registration)},
                       {"devices", devices}};
}

void PerfReport::columns() {
    const char* time = options_.report_cpu_time ? "cputime" : "time";
    const char* stamp = options_.report_timestamps ? "            timestamp" : "";
    const char* stamp_form = options_.report_timestamps ? "    %Y-%m-%d %H:%M:%S" : "";
    put(
        fmt::format("#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place               "
                    "        in-place          \n",
                    "", "", "", "", ""));
    put(
        fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  "
                    "{:>6}  {:>6}  {:>6} {}\n",
                    "size", "count", "type", "redop", "root", time, "algbw", "busbw", "#wrong",
                    time, "algbw", "busbw", "#wrong", stamp));
    put(
        fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>6}  {:>7}  "
                    "{:>6}  {:>6}  {:>6} {}\n",
                    "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
                    "(GB/s)", "(GB/s)", "", stamp_form));
    json_["results"] = Json::array();
}

std::string PerfReport::body(const PerfResult& result) const {
    const std::string wrong = result.wrong
                                  ? fmt::format("{:6g}", static_cast<double>(*result.wrong))
                                  : std::string("   N/A");
    return fmt::format("  {}  {}  {}  {}", fitted(result.microseconds, 7), fitted(result.algbw, 6),
                       fitted(result.busbw, 6), wrong);
}

Json PerfReport::json_of(const PerfResult& result) const {
    Json json = {{options_.report_cpu_time ? "cpu_time" : "time", result.microseconds},
                 {"alg_bw", result.algbw},
                 {"bus_bw", result.busbw}};
    json["nwrong"] = result.wrong ? Json(static_cast<double>(*result.wrong)) : Json(nullptr);
    return json;
}

void PerfReport::row(std::size_t bytes, std::size_t count, DataType type, const std::string& op,
                     int root, const PerfResult& apart, const PerfResult& in_place) {
    const std::string stamp =
        options_.report_timestamps ? fmt::format("{:>21}", now()) : std::string();
    put(fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}{}\n", bytes, count, long_name_of(type),
                    op, root, body(apart), body(in_place), stamp));
    if (json_file_ == nullptr)
        return;
    json_["results"].push_back({{"size", bytes},
                                {"count", count},
                                {"type", long_name_of(type)},
                                {"redop", op},
                                {"root", fmt::format("{:6}", root)},
                                {"out_of_place", json_of(apart)},
                                {"in_place", json_of(in_place)},
                                {"actual_iterations", options_.iterations},
                                {"experiment_name", ""}});
}

bool PerfReport::footer(const std::string& program, int failed_checks, double average_busbw) {
    const char* text = std::getenv("NCCL_TESTS_MIN_BW");
    const double least = text == nullptr ? -1 : std::atof(text) * 0.9;
    const bool fast_enough = text == nullptr || average_busbw >= least;
    put(fmt::format("# {:<20} : {} {}\n", "Out of bounds values", failed_checks,
                    failed_checks == 0 ? "OK" : "FAILED"));
    put(fmt::format("# {:<20} : {:g} {}\n", "Avg bus bandwidth", average_busbw,
                    text == nullptr ? ""
                    : fast_enough   ? "OK"
                                    : "FAILED"));
    put(fmt::format("#\n# Collective test concluded: {}\n#\n", program));
    json_["out_of_bounds"] = {{"count", failed_checks}, {"okay", boolean(failed_checks == 0)}};
    json_["average_bus_bandwidth"] = {
        {"bandwidth", average_busbw},
        {"okay", text == nullptr ? "unchecked" : boolean(fast_enough)}};
    return fast_enough;
}

void PerfReport::error(const std::string& text) { json_["errors"].push_back(text); }

void PerfReport::write_json() {
    if (!json_.contains("errors"))
        json_["errors"] = Json::array();
    json_["end_time"] = now();
    const std::string text = json_.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    if (std::fputs(text.c_str(), json_file_) < 0 || std::fflush(json_file_) != 0)
        std::perror("cannot write the JSON output");
}

}  // namespace autolaunch::bench
