#include "perf_options.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <utility>

namespace autolaunch::bench {
namespace {

// In nccl-tests' order, which is the rows' with "all".
constexpr std::array<std::pair<DataType, std::string_view>, kDataTypes> kTypes = {
    {{DataType::i8, "int8"},
     {DataType::u8, "uint8"},
     {DataType::i32, "int32"},
     {DataType::u32, "uint32"},
     {DataType::i64, "int64"},
     {DataType::u64, "uint64"},
     {DataType::f16, "half"},
     {DataType::f32, "float"},
     {DataType::f64, "double"},
     {DataType::bf16, "bfloat16"}}};
const std::array<std::pair<ReduceOp, std::string_view>, 6> kOps = {
    {{ReduceOp::sum, "sum"},
     {ReduceOp::prod, "prod"},
     {ReduceOp::max, "max"},
     {ReduceOp::min, "min"},
     {ReduceOp::avg, "avg"},
     {ReduceOp::pre_multiplied_sum(1),
      "mulsum"}}};  // each rank brings its own factor (perf_values.hpp)

constexpr int kBackend = 1000;
constexpr char kShortOptions[] = "t:g:b:e:i:f:n:m:w:N:p:I:K:c:o:d:r:z:y:T:hG:C:a:R:x:D:V:J:S:M:u:";
constexpr option kLongOptions[] = {{"nthreads", required_argument, nullptr, 't'},
                                   {"ngpus", required_argument, nullptr, 'g'},
                                   {"minbytes", required_argument, nullptr, 'b'},
                                   {"maxbytes", required_argument, nullptr, 'e'},
                                   {"stepbytes", required_argument, nullptr, 'i'},
                                   {"stepfactor", required_argument, nullptr, 'f'},
                                   {"iters", required_argument, nullptr, 'n'},
                                   {"agg_iters", required_argument, nullptr, 'm'},
                                   {"warmup_iters", required_argument, nullptr, 'w'},
                                   {"run_cycles", required_argument, nullptr, 'N'},
                                   {"parallel_init", required_argument, nullptr, 'p'},
                                   {"check", required_argument, nullptr, 'c'},
                                   {"op", required_argument, nullptr, 'o'},
                                   {"datatype", required_argument, nullptr, 'd'},
                                   {"root", required_argument, nullptr, 'r'},
                                   {"blocking", required_argument, nullptr, 'z'},
                                   {"stream_null", required_argument, nullptr, 'y'},
                                   {"timeout", required_argument, nullptr, 'T'},
                                   {"cudagraph", required_argument, nullptr, 'G'},
                                   {"report_cputime", required_argument, nullptr, 'C'},
                                   {"report_timestamps", required_argument, nullptr, 'S'},
                                   {"output_file", required_argument, nullptr, 'J'},
                                   {"average", required_argument, nullptr, 'a'},
                                   {"local_register", required_argument, nullptr, 'R'},
                                   {"cta_policy", required_argument, nullptr, 'x'},
                                   {"device_implementation", required_argument, nullptr, 'D'},
                                   {"device_cta_count", required_argument, nullptr, 'V'},
                                   {"memory", required_argument, nullptr, 'M'},
                                   {"unalign", required_argument, nullptr, 'u'},
                                   {"per_iter_timing", required_argument, nullptr, 'I'},
                                   {"per_iter_skip", required_argument, nullptr, 'K'},
                                   {"backend", required_argument, nullptr, kBackend},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};

// nccl-tests' options that mean nothing here: only the value that asks for nothing is taken.
struct Refusal {
    char name;
    long long harmless;
    const char* why;
};
constexpr std::array<Refusal, 10> kRefused = {
    {{'t', 1, "a rank is a process here: autolaunch -n N starts N on each node"},
     {'g', 1, "a rank has one GPU here: autolaunch -n N starts N on each node"},
     {'p', 0, "every rank joins by itself, so there is nothing to do in parallel"},
     {'y', 0, "calls are not put on CUDA's null stream"},
     {'x', -1, "the CTA policy is NCCL's own: set NCCL_CTA_POLICY"},
     {'D', 0, "there is no device-side implementation"},
     {'V', 16, "there is no device-side implementation"},
     {'M', 0, "GPU memory is not reported"},
     {'I', 0, "iterations are not timed one by one"},
     {'K', 0, "iterations are not timed one by one"}}};

int parse_number(char name, const std::string& text, long long least,
                 long long most = 1'000'000'000) {
    long long value = 0;
    if (!parse_integer(text, value) || value < least || value > most) {
        throw std::invalid_argument(
            most < 100
                ? fmt::format("-{} takes a number from {} to {}, not '{}'", name, least, most, text)
                : fmt::format("-{} takes a number from {}, not '{}'", name, least, text));
    }
    return static_cast<int>(value);
}

template <class Value, std::size_t count>
std::vector<Value> parse_names(char name, const std::string& text,
                               const std::array<std::pair<Value, std::string_view>, count>& known) {
    std::vector<Value> all;
    std::vector<std::string> names = {"all"};
    for (const auto& [value, its_name] : known) {
        if (text == its_name)
            return {value};
        all.push_back(value);
        names.emplace_back(its_name);
    }
    if (text == "all")
        return all;
    throw std::invalid_argument(
        fmt::format("-{} takes {}, not '{}'", name, join(names, ", "), text));
}

int parse_root(const std::string& text) { return text == "all" ? -1 : parse_number('r', text, -1); }

void refuse(char name, const std::string& value) {
    for (const auto& refusal : kRefused) {
        if (refusal.name != name)
            continue;
        long long number = 0;
        if (parse_integer(value, number) && number == refusal.harmless)
            return;
        throw std::invalid_argument(
            fmt::format("-{} {} is not possible: {}", name, value, refusal.why));
    }
}

void apply_measurement(PerfOptions& options, int name, const std::string& value) {
    switch (name) {
        case 'n':
            options.iterations = parse_number('n', value, 1);
            break;
        case 'm':
            options.aggregated = parse_number('m', value, 1);
            break;
        case 'w':
            options.warmup_iterations = parse_number('w', value, 0);
            break;
        case 'N':
            options.cycles = parse_number('N', value, 0);
            break;
        case 'c':
            options.checks = parse_number('c', value, 0);
            break;
        case 'z':
            options.blocking = static_cast<Blocking>(parse_number('z', value, 0, 3));
            break;
        case 'T':
            options.timeout_s = parse_number('T', value, 0);
            break;
        case 'G':
            options.graph_launches = parse_number('G', value, 0);
            break;
        case 'C':
            options.report_cpu_time = parse_number('C', value, 0, 1) != 0;
            break;
        case 'S':
            options.report_timestamps = parse_number('S', value, 0, 1) != 0;
            break;
        case 'a':
            options.average = static_cast<Average>(parse_number('a', value, 0, 3));
            break;
        case 'R':
            options.registration = static_cast<Registration>(parse_number('R', value, 0, 2));
            break;
        case 'u':
            options.unalign = static_cast<std::size_t>(parse_number('u', value, 0));
            break;
        default:
            refuse(static_cast<char>(name), value);
    }
}

void apply(PerfOptions& options, int name, const std::string& value) {
    switch (name) {
        case 'b':
            options.min_bytes = parse_bytes(value);
            break;
        case 'e':
            options.max_bytes = parse_bytes(value);
            break;
        case 'i':
            options.step_bytes = parse_bytes(value);
            break;
        case 'f':
            options.step_factor = static_cast<std::size_t>(parse_number('f', value, 0));
            break;
        case 'd':
            options.types = parse_names('d', value, kTypes);
            break;
        case 'o':
            options.ops = parse_names('o', value, kOps);
            break;
        case 'r':
            options.root = parse_root(value);
            break;
        case 'J':
            options.json_file = value;
            break;
        case 'h':
            options.help = true;
            break;
        case kBackend:
            options.backend = value;
            break;
        case '?':
            throw std::invalid_argument(
                fmt::format("'{}' is no option, or its value is missing", value));
        default:
            apply_measurement(options, name, value);
    }
}

void check_together(const PerfOptions& options) {
    if (options.max_bytes < options.min_bytes)
        throw std::invalid_argument("-e is below -b");
    if (options.step_factor < 2 && options.step_bytes == 0)
        throw std::invalid_argument("-i must be above 0");
    if (options.step_factor > 1 && options.min_bytes == 0)
        throw std::invalid_argument("-f multiplies, so -b must be above 0");
    const bool inner =
        options.blocking == Blocking::wait || options.blocking == Blocking::wait_and_barrier;
    if (inner && options.aggregated > 1)
        throw std::invalid_argument(
            "-z 1 and -z 2 wait after every call, but -m makes one operation of several");
    if (options.blocking != Blocking::none && options.graph_launches > 0)
        throw std::invalid_argument("-z waits between calls, but -G makes one graph of them");
    if (!options.json_file.empty() && !options.json_file.ends_with(".json"))
        throw std::invalid_argument("-J writes JSON only: a name that ends in .json");
}

}  // namespace

std::string_view long_name_of(DataType type) {
    for (const auto& [value, name] : kTypes)
        if (value == type)
            return name;
    return "unknown";
}

std::string_view short_name_of(ReduceOp op) {
    for (const auto& [value, name] : kOps)
        if (value.kind() == op.kind())
            return name;
    return "unknown";
}

std::size_t parse_bytes(const std::string& text) {
    static constexpr std::string_view kUnits = "KMG";
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    const bool has_number = end != text.c_str() && std::isfinite(value) && value >= 0;
    while (*end == ' ')
        ++end;
    if (*end != '\0') {
        const auto unit = kUnits.find(static_cast<char>(*end & ~0x20));  // upper case
        if (unit == std::string_view::npos || end[1] != '\0')
            value = -1;
        else
            value = std::ldexp(value, 10 * (static_cast<int>(unit) + 1));
    }
    if (!has_number || value < 0 || value > std::ldexp(1, 40)) {
        throw std::invalid_argument("'" + text + "' is not a size; 64, 4K, 1.5M and 2G are");
    }
    return static_cast<std::size_t>(value);
}

PerfOptions parse_options(int argc, char** argv) {
    PerfOptions options;
    opterr = 0;
    optind = 1;
    for (int name; (name = getopt_long(argc, argv, kShortOptions, kLongOptions, nullptr)) != -1;) {
        if (name == '?') {
            apply(options, name, argv[std::min(optind, argc) - 1]);
        } else {
            if (name < 128)
                options.given += static_cast<char>(name);
            apply(options, name, optarg == nullptr ? "" : optarg);
        }
    }
    if (optind < argc)
        throw std::invalid_argument(fmt::format("'{}' is not an option", argv[optind]));
    check_together(options);
    return options;
}

std::string usage(const std::string& program) {
    return fmt::format(
        "usage: {} [options], under autolaunch, srun, mpirun, torchrun or alone; nccl-tests' "
        "options and columns\n"
        "  -b,--minbytes SIZE      smallest message (32M); sizes take K, M and G\n"
        "  -e,--maxbytes SIZE      largest message (32M)\n"
        "  -i,--stepbytes SIZE     step between sizes (1M)\n"
        "  -f,--stepfactor N       or factor between sizes\n"
        "  -n,--iters N            timed iterations (20)\n"
        "  -m,--agg_iters N        calls in one group an iteration (1)\n"
        "  -w,--warmup_iters N     calls before, of each size (1)\n"
        "  -N,--run_cycles N       all sizes N times (1); 0: for ever\n"
        "  -c,--check N            calls whose every element is checked, of each size (1)\n"
        "  -d,--datatype TYPE      int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 "
        "all (float)\n"
        "  -o,--op OP              sum prod max min avg mulsum all (sum)\n"
        "  -r,--root N             root of broadcast, reduce, gather and scatter (0), or all\n"
        "  -a,--average 0|1|2|3    time of rank 0, the ranks' mean, their least or largest (1)\n"
        "  -z,--blocking 0|1|2|3   wait and barrier after each call (1), wait (2), barrier that is "
        "not timed (3)\n"
        "  -R,--local_register N   1 or 2: buffers of Communicator::allocate() (0)\n"
        "  -G,--cudagraph N        launches of the iterations as a CUDA graph (0); on GPUs only\n"
        "  -T,--timeout SECONDS    no call takes longer (600)\n"
        "  -u,--unalign N          buffers begin N elements further (0)\n"
        "  -C,--report_cputime 1   time until the calls return\n"
        "  -S,--report_timestamps 1  the time of day in each row\n"
        "  -J,--output_file FILE   the results as JSON, too; FILE ends in .json\n"
        "     --backend NAME       auto cpu self shm mpi shm+mpi nccl (auto)\n"
        "  -h,--help               this text\n",
        program);
}

}  // namespace autolaunch::bench
