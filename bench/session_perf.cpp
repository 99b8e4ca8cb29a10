// main() of NAME_perf: from the environment to a measured group. Session, Communicator, sweep.
#include "session_perf.hpp"

#include "communicator_group.hpp"
#include "gpu_device.hpp"
#include "perf_options.hpp"
#include "perf_report.hpp"
#include "perf_sweep.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

using namespace autolaunch;

namespace {

// As nccl-tests: 4 is a timeout. 1 is a wrong result, 2 whatever kept it from measuring.
constexpr int kFailed = 2;
constexpr int kTimedOut = 4;

Communicator join(Session& session, const bench::PerfOptions& options) {
    CommunicatorOptions communicator_options;
    communicator_options.backend = options.backend;
    if (options.timeout_s > 0)
        communicator_options.timeout = std::chrono::seconds(options.timeout_s);
    return Communicator::world(session, communicator_options);
}

std::unique_ptr<bench::PerfDevice> device_of(const Session& session,
                                             const Communicator& communicator) {
    if (communicator.backend() != "nccl")
        return std::make_unique<bench::HostDevice>(session.local_rank());
#if AUTOLAUNCH_PERF_ON_GPUS
    return bench::open_gpu(session.info());
#else
    throw Error(ErrorCode::unsupported,
                "these benches measure on CPUs only: the libraries are shared ones",
                "build with BUILD_SHARED_LIBS=OFF, or choose another --backend");
#endif
}

int measure(Session& session, const bench::PerfOptions& options,
            const std::vector<std::string>& arguments) {
    const auto& spec = bench::collective_named(bench::kMeasuredCollective);
    Communicator world = join(session, options);
    bench::CommunicatorGroup group(world, device_of(session, world));
    bench::PerfReport report(options, session.rank() == 0);
    report.open_json(arguments);
    try {
        return bench::PerfSweep(spec, options, group, report).run();
    } catch (const std::exception& error) {
        report.error(error.what());
        throw;
    }
}

/// What every rank finds wrong in the same way is said once, by rank 0. The first rank that ends
/// has all others ended, so they wait until it has been said; a rank that is alone with it says it
/// itself.
void say_once(Session& session, const std::string& text) {
    constexpr const char* kSaid = "perf/said";
    constexpr auto kLongest = std::chrono::seconds(5);
    try {
        if (session.rank() != 0) {
            session.store().get(kSaid, kLongest);
            return;
        }
        std::fputs(text.c_str(), stderr);
        session.store().set(kSaid, "");
    } catch (const Error&) {  // nobody to agree with
        if (session.rank() != 0)
            std::fputs(text.c_str(), stderr);
    }
}

bool is_everybodys(const Error& error) {
    return error.code() == ErrorCode::invalid_argument || error.code() == ErrorCode::unsupported;
}

int run(Session& session, int argc, char** argv) {
    try {
        const auto options = bench::parse_options(argc, argv);
        if (options.help) {
            if (session.rank() == 0)
                std::fputs(bench::usage(argv[0]).c_str(), stdout);
            return 0;
        }
        return measure(session, options, {argv, argv + argc});
    } catch (const TimeoutError& error) {
        char hostname[128] = {};
        gethostname(hostname, sizeof hostname - 1);
        std::fprintf(stderr, "%s: Test timeout: rank %d: %s\n", hostname, session.rank(),
                     error.what());
        return kTimedOut;
    } catch (const Error& error) {
        const std::string hint = error.hint().empty() ? "" : "\n  " + error.hint();
        const auto text =
            fmt::format("{}: rank {}: {}{}\n", argv[0], session.rank(), error.what(), hint);
        is_everybodys(error) ? say_once(session, text) : void(std::fputs(text.c_str(), stderr));
    } catch (const std::invalid_argument& error) {
        say_once(session, fmt::format("{}: {}\n  {} -h lists the options\n", argv[0], error.what(),
                                      argv[0]));
    }
    return kFailed;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        Session session = Session::from_environment();
        return run(session, argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    }
    return kFailed;
}
