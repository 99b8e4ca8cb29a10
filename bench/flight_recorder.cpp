// flight_recorder: what writing down a call costs, beside the same loop without it, and beside
// reading a clock.
//
//     flight_recorder [calls a sample, 100] [samples, 20000]
//
// A sample is the mean of that many calls, so that reading the clock around it does not count; the
// table has the median and the 99th percentile of the samples. The calls are all_reduces on the
// backend `self` of one rank, 8 bytes, in place.
#include "flight/flight_recorder.hpp"
#include "comm/call_dispatcher.hpp"
#include "comm/self/self_backend.hpp"
#include "flight/flight_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

using namespace autolaunch;

namespace {

struct Spread {
    double median = 0, p99 = 0;
};

template <class Call>
double sample(int calls, Call call) {
    const std::uint64_t begun = flight::monotonic_ns();
    for (int i = 0; i < calls; ++i)
        call();
    return static_cast<double>(flight::monotonic_ns() - begun) / calls;
}

Spread spread_of(std::vector<double>& samples) {
    std::sort(samples.begin(), samples.end());
    return {samples[samples.size() / 2], samples[samples.size() * 99 / 100]};
}

void show(const std::string& name, const Spread& spread, const Spread& base) {
    fmt::print("{:<44} {:>8.1f} {:>8.1f} {:>+9.1f} {:>+9.1f}\n", name, spread.median, spread.p99,
               spread.median - base.median, spread.p99 - base.p99);
}

}  // namespace

int main(int argc, char** argv) {
    const int calls = argc > 1 ? std::atoi(argv[1]) : 100;
    const int count = argc > 2 ? std::atoi(argv[2]) : 20000;
    if (calls <= 0 || count <= 0)
        return 2;
    const auto backend = std::make_shared<SelfBackend>();
    const auto recorder = FlightRecorder::create(0, 0);
    CallDispatcher bare(backend);
    CallDispatcher plain(backend, FlightRing(recorder, "world", 0, 1, "self"));
    CallDispatcher labelled(backend, FlightRing(recorder, "labelled", 0, 1, "self"));
    labelled.set_label("transformer.h.13 gradients");
    double value = 1;
    const CollectiveCall call{.send = &value, .recv = &value, .count = 1, .type = DataType::f64};
    FlightRing queued(recorder, "queued", 0, 1, "self");
    const FlightCall recorded = flight_call(call, DeviceType::cpu);
    const flight::Clock clock = recorder->clock();

    std::vector<double> without, with, with_label, with_queue, ticks, clock_gettime;
    volatile std::uint64_t sink = 0;
    for (int i = 0; i < count; ++i) {  // in turns: what disturbs one disturbs all
        without.push_back(sample(calls, [&] { bare.submit(call, {}); }));
        with.push_back(sample(calls, [&] { plain.submit(call, {}); }));
        with_label.push_back(sample(calls, [&] { labelled.submit(call, {}); }));
        with_queue.push_back(sample(calls, [&] {
            auto entry = queued.enqueue(recorded, false);
            queued.start(entry);
            queued.end(entry, false);
        }));
        ticks.push_back(sample(calls, [&] { sink = flight::ticks(clock); }));
        clock_gettime.push_back(sample(calls, [&] { sink = flight::monotonic_ns(); }));
    }
    const auto written = flight::read_contents(flight::memory_source(recorder->memory()));
    const auto expected = static_cast<std::uint64_t>(calls) * static_cast<std::uint64_t>(count);
    for (const auto& group : written.value().groups) {
        if (group.collectives == expected && group.calls.size() == flight::kEntries &&
            group.lost == 0)
            continue;
        fmt::print(stderr, "{}: not all calls were recorded\n", group.name);
        return 1;
    }
    const Spread base = spread_of(without);
    fmt::print("# the recorder's clock: {}\n",
               clock == flight::Clock::time_stamp_counter ? "time stamp counter" : "clock_gettime");
    fmt::print("{:<44} {:>8} {:>8} {:>9} {:>9}\n", "# ns a call", "median", "p99", "+median",
               "+p99");
    show("all_reduce, not recorded", base, base);
    show("all_reduce, recorded", spread_of(with), base);
    show("all_reduce, recorded with a label of 26 bytes", spread_of(with_label), base);
    show("the recorder's part of a call on a queue", spread_of(with_queue), {});
    show("reading the recorder's clock once", spread_of(ticks), {});
    show("clock_gettime(CLOCK_MONOTONIC) once", spread_of(clock_gettime), {});
    return 0;
}
