// The collective benches see wrong results, say what an option does not change, and refuse what
// they cannot do.
#include "../../bench/perf_sweep.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace perf_sweep_test {

using namespace autolaunch;
using namespace autolaunch::bench;

namespace {

/// One rank that copies, and then spoils what it was told to.
class SpoilingGroup final : public PerfGroup {
public:
    std::function<void(const CollectiveCall&)> spoil = [](const CollectiveCall&) {};

    std::string name() const override { return "spoiling"; }
    int rank() const override { return 0; }
    int size() const override { return 1; }
    PerfDevice& device() override { return device_; }
    bool is_synchronous() const override { return true; }
    std::shared_ptr<void> allocate(std::size_t bytes) override { return device_.allocate(bytes); }
    std::string allocation_name() const override { return "a test"; }
    void start(const std::vector<CollectiveCall>& calls) override {
        for (const CollectiveCall& call : calls) {
            if (call.send != nullptr && call.send != call.recv)
                std::memcpy(call.recv, call.send, bytes_of(call));
            spoil(call);
            ++started;
        }
    }
    void begin_batch() override { ++batches; }
    void finish_batch() override {}
    void wait() override {}
    void barrier() override {}
    double reduce(double value, ReduceOp) override { return value; }
    std::vector<std::string> gather(const std::string& text) override { return {text}; }

    int started = 0;
    int batches = 0;

private:
    HostDevice device_{0};
};

struct Outcome {
    int status;
    std::string printed;
};

Outcome sweep(SpoilingGroup& group, const char* collective, std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    std::vector<char*> argv;
    for (auto& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    const PerfOptions options = parse_options(static_cast<int>(words.size()), argv.data());
    // Closed and freed also where the sweep refuses.
    struct Printed {
        char* text = nullptr;
        std::size_t length = 0;
        FILE* out = open_memstream(&text, &length);
        ~Printed() {
            std::fclose(out);
            std::free(text);
        }
    } printed;
    int status = -1;
    {
        PerfReport report(options, true, printed.out);
        status = PerfSweep(collective_named(collective), options, group, report).run();
    }
    std::fflush(printed.out);
    Outcome outcome{status, std::string(printed.text, printed.length)};
    return outcome;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

std::string refusal_of(const char* collective, const std::vector<std::string>& words) {
    SpoilingGroup group;
    try {
        sweep(group, collective, words);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "it was accepted";
}

}  // namespace

TEST_CASE("a right result passes, a wrong element is counted in its column and in the footer") {
    SpoilingGroup group;
    const Outcome right = sweep(group, "all_reduce", {"-b", "4K", "-e", "4K", "-n", "3"});
    CHECK(right.status == 0);
    CHECK(has(right.printed, "# Out of bounds values : 0 OK\n"));
    CHECK(group.started ==
          2 * (1 + 3 + 1));  // warm-up, timed and checked, out of place and in place

    group.spoil = [](const CollectiveCall& call) {
        if (call.send != call.recv)
            static_cast<float*>(call.recv)[7] += 1;
    };
    const Outcome wrong = sweep(group, "all_reduce", {"-b", "4K", "-e", "4K", "-n", "3"});
    CHECK(wrong.status == 1);
    CHECK(has(wrong.printed, "# Out of bounds values : 1 FAILED\n"));
    const auto row = wrong.printed.find("        4096          1024     float     sum      -1");
    REQUIRE(row != std::string::npos);
    CHECK(has(wrong.printed.substr(row, 87), "       1  "));

    CHECK(sweep(group, "all_reduce", {"-b", "4K", "-e", "4K", "-c", "0"}).status == 0);
}

TEST_CASE("a call that does nothing is seen, by every bench") {
    for (const auto& spec : all_collectives()) {
        if (spec.name == "sendrecv" || spec.name == "hypercube" || spec.name == "broadcast")
            continue;  // one rank: none
        SpoilingGroup group;
        group.spoil = [](const CollectiveCall& call) {
            if (call.send != call.recv)
                std::memset(call.recv, 0xff, bytes_of(call));
        };
        INFO(spec.name);
        CHECK(sweep(group, std::string(spec.name).c_str(), {"-b", "4K", "-e", "4K"}).status == 1);
    }
}

TEST_CASE("options that change nothing say so, those that cannot be are refused") {
    SpoilingGroup group;
    const auto said = [&](std::vector<std::string> words) {
        words.insert(words.end(), {"-b", "64", "-e", "64"});
        return sweep(group, "all_gather", words).printed;
    };
    CHECK(has(said({"-o", "max"}), "# -o: all_gather has no operation\n"));
    CHECK(has(said({"-r", "0"}), "# -r: all_gather has no root\n"));
    CHECK(has(said({"-z", "2"}),
              "# -z 2 changes nothing: calls of backend spoiling return when they are done\n"));
    CHECK(has(said({"-C", "1"}), "# -C 1 changes nothing"));
    CHECK(has(said({"-R", "2"}), "# -R 2: buffers of a test\n"));
    CHECK(has(said({"-t", "1", "-g", "1", "-p", "0"}), "# Avg bus bandwidth"));

    CHECK(has(refusal_of("all_reduce", {"-G", "1"}), "-G: backend spoiling works on CPUs"));
    CHECK(has(refusal_of("all_reduce", {"-g", "2"}),
              "-g 2 is not possible: a rank has one GPU here"));
    CHECK(has(refusal_of("all_reduce", {"--nthreads", "2"}),
              "-t 2 is not possible: a rank is a process here"));
    CHECK(has(refusal_of("broadcast", {"-r", "1"}), "-r 1: there are ranks 0 to 0"));
    CHECK(has(refusal_of("hypercube", {"-m", "2"}), "-m cannot"));
    CHECK(has(refusal_of("all_reduce", {"-m", "2", "-z", "1"}), "-m makes one operation"));
    CHECK(has(refusal_of("all_reduce", {"-d", "f8e4m3"}), "-d takes all, int8, uint8"));
    CHECK(has(refusal_of("all_reduce", {"-o", "nand"}), "-o takes all, sum, prod"));
    CHECK(has(refusal_of("all_reduce", {"-b", "8X"}), "'8X' is not a size"));
    CHECK(has(refusal_of("all_reduce", {"-b", "2M", "-e", "1M"}), "-e is below -b"));
    CHECK(has(refusal_of("all_reduce", {"--nonesuch"}), "'--nonesuch' is no option"));
    CHECK(has(refusal_of("all_reduce", {"-J", "out.txt"}), "ends in .json"));
}

TEST_CASE("sizes, groups, cycles and roots") {
    SpoilingGroup group;
    CHECK(parse_bytes("1.5K") == 1536);
    CHECK(parse_bytes("2g") == std::size_t(2) << 30);
    sweep(group, "reduce", {"-b", "64", "-e", "64", "-n", "4", "-m", "5", "-w", "0", "-c", "0"});
    CHECK(group.started == 2 * 4 * 5);
    CHECK(group.batches == 2 * 4);
    const std::string printed =
        sweep(group, "reduce", {"-b", "8", "-e", "32", "-f", "2", "-N", "2", "-r", "all"}).printed;
    std::size_t rows = 0;
    for (std::size_t at = 0;
         (at = printed.find("     float     sum       0", at)) != std::string::npos; ++at)
        ++rows;
    CHECK(rows == 6);
}

TEST_CASE("bandwidths are nccl-tests'") {
    const auto factors = [](const char* name, double ranks) {
        const auto& spec = collective_named(name);
        return spec.bus_factor(ranks) * spec.moved_share(ranks);
    };
    CHECK(factors("all_reduce", 8) == doctest::Approx(1.75));
    for (const char* name :
         {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "hypercube"})
        CHECK(factors(name, 8) == doctest::Approx(0.875));
    for (const char* name : {"broadcast", "reduce", "sendrecv"})
        CHECK(factors(name, 8) == 1);
    CHECK_THROWS_AS(collective_named("all_to_one"), std::invalid_argument);
}

}  // namespace perf_sweep_test
