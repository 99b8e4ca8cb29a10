#include "perf_options.hpp"

#include "base/text.hpp"

#include <fmt/format.h>
#include <getopt.h>

#include <array>
#include <stdexcept>

namespace autolaunch::bench {
namespace {

constexpr std::array<DataType, 6> kTypes = {DataType::f32, DataType::f64, DataType::bf16,
                                            DataType::i32, DataType::i64, DataType::u8};
constexpr std::array<ReduceOp, 4> kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max};

constexpr int kBackend = 1000;
constexpr option kLongOptions[] = {{"minbytes", required_argument, nullptr, 'b'},
                                   {"maxbytes", required_argument, nullptr, 'e'},
                                   {"stepbytes", required_argument, nullptr, 'i'},
                                   {"stepfactor", required_argument, nullptr, 'f'},
                                   {"iters", required_argument, nullptr, 'n'},
                                   {"warmup_iters", required_argument, nullptr, 'w'},
                                   {"check", required_argument, nullptr, 'c'},
                                   {"datatype", required_argument, nullptr, 'd'},
                                   {"op", required_argument, nullptr, 'o'},
                                   {"backend", required_argument, nullptr, kBackend},
                                   {"help", no_argument, nullptr, 'h'},
                                   {nullptr, 0, nullptr, 0}};

long long parse_number(char name, const std::string& text, long long least) {
    long long value = 0;
    if (!parse_integer(text, value) || value < least || value > 1'000'000'000) {
        throw std::invalid_argument(fmt::format("-{} takes a number from {}, not '{}'", name, least, text));
    }
    return value;
}

std::vector<DataType> parse_types(const std::string& text) {
    if (text == "all") return {kTypes.begin(), kTypes.end()};
    for (const DataType type : kTypes) {
        if (text == long_name_of(type)) return {type};
    }
    throw std::invalid_argument("-d takes float, double, bfloat16, int32, int64, uint8 or all, not '" + text + "'");
}

std::vector<ReduceOp> parse_ops(const std::string& text) {
    if (text == "all") return {kOps.begin(), kOps.end()};
    for (const ReduceOp op : kOps) {
        if (text == name_of(op)) return {op};
    }
    throw std::invalid_argument("-o takes sum, prod, min, max or all, not '" + text + "'");
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
            options.step_factor = static_cast<std::size_t>(parse_number('f', value, 2));
            break;
        case 'n':
            options.iterations = static_cast<int>(parse_number('n', value, 1));
            break;
        case 'w':
            options.warmup_iterations = static_cast<int>(parse_number('w', value, 0));
            break;
        case 'c':
            options.check = parse_number('c', value, 0) != 0;
            break;
        case 'd':
            options.types = parse_types(value);
            break;
        case 'o':
            options.ops = parse_ops(value);
            break;
        case kBackend:
            options.backend = value;
            break;
        case 'h':
            options.help = true;
            break;
        default:
            throw std::invalid_argument("unknown option, or a value is missing");
    }
}

}  // namespace

const char* long_name_of(DataType type) {
    switch (type) {
        case DataType::f32:
            return "float";
        case DataType::f64:
            return "double";
        case DataType::bf16:
            return "bfloat16";
        case DataType::i32:
            return "int32";
        case DataType::i64:
            return "int64";
        case DataType::u8:
            return "uint8";
        default:
            break;
    }
    return "unknown";
}

std::size_t parse_bytes(const std::string& text) {
    static constexpr std::string_view kUnits = "KMG";
    std::string digits = text;
    int shift = 0;
    if (!digits.empty()) {
        const char unit = static_cast<char>(digits.back() & ~0x20);  // upper case
        const auto at = kUnits.find(unit);
        if (at != std::string_view::npos) {
            shift = 10 * (static_cast<int>(at) + 1);
            digits.pop_back();
        }
    }
    long long value = 0;
    if (!parse_integer(digits, value) || value < 0 || value > (1ll << 40) >> shift) {
        throw std::invalid_argument("'" + text + "' is not a size; 64, 4K, 1M and 2G are");
    }
    return static_cast<std::size_t>(value) << shift;
}

PerfOptions parse_options(int argc, char** argv) {
    PerfOptions options;
    opterr = 0;
    optind = 1;
    for (int name; (name = getopt_long(argc, argv, "b:e:i:f:n:w:c:d:o:h", kLongOptions, nullptr)) != -1;) {
        apply(options, name, optarg == nullptr ? "" : optarg);
    }
    if (optind < argc) throw std::invalid_argument(fmt::format("'{}' is not an option", argv[optind]));
    if (options.max_bytes < options.min_bytes) throw std::invalid_argument("-e is below -b");
    if (options.step_factor == 0 && options.step_bytes == 0) throw std::invalid_argument("-i must be above 0");
    return options;
}

std::string usage(const std::string& program) {
    return fmt::format(
        "usage: {} [options], under autolaunch, mpirun, torchrun, srun or alone\n"
        "  -b SIZE   smallest message (32M)      -e SIZE   largest message (32M)\n"
        "  -i SIZE   step between sizes (1M)     -f N      or factor between sizes\n"
        "  -n N      timed iterations (20)       -w N      warm-up iterations (5)\n"
        "  -c 0|1    check every element (1)     -d TYPE   float double bfloat16 int32 int64 uint8 all\n"
        "  -o OP     sum prod min max all        --backend NAME   auto self shm mpi\n"
        "SIZE takes K, M and G.\n",
        program);
}

}  // namespace autolaunch::bench
