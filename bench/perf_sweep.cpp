#include "perf_sweep.hpp"

#include "seconds_since.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <stdexcept>

namespace autolaunch::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kStagingBytes = 1 << 20;
constexpr std::size_t kMostPlans = 4096;
constexpr std::size_t kWidest = 8;  // bytes of an element

}  // namespace

PerfSweep::PerfSweep(const CollectiveSpec& spec, const PerfOptions& options, PerfGroup& group,
                     PerfReport& report)
    : spec_(spec),
      options_(options),
      group_(group),
      device_(group.device()),
      report_(report),
      program_(std::string(spec.name) + "_perf"),
      staging_(kStagingBytes) {
    check_options();
    const std::size_t bytes = options.max_bytes + options.unalign * kWidest;
    for (auto* buffer : {&send_, &recv_})
        *buffer = options.registration == Registration::none ? device_.allocate(bytes)
                                                             : group_.allocate(bytes);
}

void PerfSweep::check_options() const {
    if (spec_.has_root && options_.root >= group_.size())
        throw std::invalid_argument(
            fmt::format("-r {}: there are ranks 0 to {}", options_.root, group_.size() - 1));
    if (options_.aggregated > 1 && spec_.power_of_two)
        throw std::invalid_argument(
            program_ + " is groups already, one after the other; -m cannot make one of them");
    if (options_.graph_launches > 0 && group_.is_synchronous())
        throw std::invalid_argument("-G: backend " + group_.name() +
                                    " works on CPUs, which have no CUDA graphs");
    for (const char* name : {"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"})
        if (std::getenv(name) != nullptr)
            throw std::invalid_argument(std::string(name) +
                                        " is set, but all ranks are one group here; unset it");
}

void PerfSweep::say_what_changes_nothing() {
    if (options_.was_given('o') && !spec_.reduces)
        report_.note(fmt::format("-o: {} has no operation", spec_.name));
    if (options_.was_given('r') && !spec_.has_root)
        report_.note(fmt::format("-r: {} has no root", spec_.name));
    if (options_.registration != Registration::none)
        report_.note(fmt::format("-R {}: buffers of {}", static_cast<int>(options_.registration),
                                 group_.allocation_name()));
    if (!group_.is_synchronous())
        return;
    if (options_.blocking == Blocking::wait)
        report_.note("-z 2 changes nothing: calls of backend " + group_.name() +
                     " return when they are done");
    if (options_.report_cpu_time)
        report_.note("-C 1 changes nothing: calls of backend " + group_.name() +
                     " return when they are done");
}

void PerfSweep::list_ranks() {
    char hostname[128] = {};
    gethostname(hostname, sizeof hostname - 1);
    const auto texts =
        group_.gather(fmt::format("{}\n{}\n{}", getpid(), hostname, device_.description()));
    std::vector<RankLine> lines;
    for (const std::string& text : texts) {
        const auto pid_end = text.find('\n');
        const auto host_end = text.find('\n', pid_end + 1);
        lines.push_back({static_cast<int>(lines.size()), std::atoi(text.c_str()),
                         text.substr(pid_end + 1, host_end - pid_end - 1),
                         text.substr(host_end + 1)});
    }
    report_.header(program_, group_.name(), lines);
}

int PerfSweep::run() {
    list_ranks();
    say_what_changes_nothing();
    report_.columns();
    if (spec_.power_of_two && !std::has_single_bit(static_cast<unsigned>(group_.size()))) {
        report_.note(fmt::format("nRanks {} is not a power of 2, skipping", group_.size()));
    } else {
        for (const DataType type : options_.types) {
            for (const ReduceOp op :
                 spec_.reduces ? options_.ops : std::vector<ReduceOp>{ReduceOp::sum}) {
                const bool all_roots = spec_.has_root && options_.root < 0;
                for (int root = all_roots ? 0 : options_.root;
                     root < (all_roots ? group_.size() : options_.root + 1); ++root)
                    run_sizes(type, op, spec_.has_root ? root : -1);
            }
        }
    }
    const bool fast_enough =
        report_.footer(program_, failed_checks_, results_ == 0 ? 0 : busbw_sum_ / results_);
    return failed_checks_ == 0 && fast_enough ? 0 : 1;
}

void PerfSweep::run_sizes(DataType type, ReduceOp op, int root) {
    if (const std::string why =
            group_.refusal(type, spec_.reduces ? std::optional(op) : std::nullopt);
        !why.empty()) {
        report_.note(fmt::format("{} {}: skipped, {}", long_name_of(type), short_name_of(op), why));
        return;
    }
    const std::size_t quantum = std::max<std::size_t>(1, device_.block_alignment() / size_of(type));
    const ReduceOp own_op = PerfValues::op_of(op, group_.rank());
    for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
        for (std::size_t bytes = options_.min_bytes; bytes <= options_.max_bytes;
             bytes = options_.next(bytes)) {
            PerfCase one{group_.rank(), group_.size(), root, 0, type, own_op, false};
            one.each = each_of(spec_, bytes / size_of(type), group_.size(), quantum);
            const PerfResult apart = measure(one);
            one.in_place = true;
            const PerfResult in_place = measure(one);
            report_.row(message_elements(spec_, one) * size_of(type), one.each, type,
                        spec_.reduces ? std::string(short_name_of(op)) : "none", root, apart,
                        in_place);
        }
    }
}

PerfResult PerfSweep::measure(const PerfCase& one) {
    const std::vector<Plan> plans = plans_of(one);
    const bool checked = options_.checks > 0 && (spec_.in_place_defined || !one.in_place);
    if (options_.checks > 0) {
        const PerfValues values(one.type, one.op, spec_.reduces, one.size, 0);
        write_inputs(one, place(spec_, one, memory(send_, one.type), memory(recv_, one.type)),
                     values);
    }
    for (int i = 0; i < options_.warmup_iterations; ++i)
        start(plans[static_cast<std::size_t>(i) % plans.size()]);
    group_.wait();

    const Times times = time(plans);
    PerfResult result;
    result.microseconds = (options_.report_cpu_time ? times.cpu_seconds : times.seconds) * 1e6;
    const double bytes = static_cast<double>(message_elements(spec_, one) * size_of(one.type));
    result.algbw = bytes * spec_.moved_share(one.size) / times.seconds / 1e9;
    result.busbw = result.algbw * spec_.bus_factor(one.size);
    busbw_sum_ += result.busbw;
    ++results_;
    for (int i = 0; checked && i < options_.checks && result.wrong.value_or(0) == 0; ++i)
        result.wrong = check(one, plans[0], ++seed_);
    return result;
}

std::byte* PerfSweep::memory(const std::shared_ptr<void>& buffer, DataType type) const {
    return static_cast<std::byte*>(buffer.get()) + options_.unalign * size_of(type);
}

std::vector<PerfSweep::Plan> PerfSweep::plans_of(const PerfCase& one) const {
    const std::size_t bytes = message_elements(spec_, one) * size_of(one.type);
    const std::size_t calls = static_cast<std::size_t>(options_.iterations) * options_.aggregated;
    const std::size_t parts = bytes == 0 ? 1 : std::max<std::size_t>(1, options_.max_bytes / bytes);
    std::vector<Plan> plans;
    for (std::size_t part = 0; part < std::min({parts, calls, kMostPlans}); ++part) {
        const std::size_t shift = part * bytes;
        plans.push_back(spec_.steps(one, place(spec_, one, memory(send_, one.type) + shift,
                                               memory(recv_, one.type) + shift)));
    }
    return plans;
}

void PerfSweep::start(const Plan& plan) {
    for (const Step& step : plan) {
        if (!step.calls.empty())
            group_.start(step.calls);
        else
            device_.copy(step.copy_to, step.copy_from, step.copy_bytes);
    }
}

/// All iterations; `untimed` grows by what was spent in barriers that are none of the operation's.
void PerfSweep::iterate(const std::vector<Plan>& plans, double& untimed) {
    std::size_t next = 0;
    for (int iteration = 0; iteration < options_.iterations; ++iteration) {
        if (options_.aggregated > 1)
            group_.begin_batch();
        for (int i = 0; i < options_.aggregated; ++i) {
            start(plans[next]);
            if (++next == plans.size())
                next = 0;
            if (options_.blocking == Blocking::wait_and_barrier ||
                options_.blocking == Blocking::wait)
                group_.wait();
            if (options_.blocking == Blocking::wait_and_barrier)
                group_.barrier();
        }
        if (options_.aggregated > 1)
            group_.finish_batch();
        if (options_.blocking == Blocking::barrier_untimed) {
            group_.wait();
            const auto begin = Clock::now();
            group_.barrier();
            untimed += seconds_since(begin);
        }
    }
}

PerfSweep::Times PerfSweep::time(const std::vector<Plan>& plans) {
    double calls = static_cast<double>(options_.iterations) * options_.aggregated;
    double untimed = 0;
    group_.barrier();
    auto begin = Clock::now();
    if (options_.graph_launches > 0) {
        device_.begin_graph();
        iterate(plans, untimed);
        device_.end_graph();
        group_.barrier();
        calls *= options_.graph_launches;
        begin = Clock::now();
        for (int i = 0; i < options_.graph_launches; ++i)
            device_.launch_graph();
    } else {
        iterate(plans, untimed);
    }
    Times times;
    times.cpu_seconds = (seconds_since(begin) - untimed) / calls;
    group_.wait();
    times.seconds = over_ranks((seconds_since(begin) - untimed) / calls);
    return times;
}

double PerfSweep::over_ranks(double value) {
    switch (options_.average) {
        case Average::rank_0:
            return value;
        case Average::min:
            return group_.reduce(value, ReduceOp::min);
        case Average::max:
            return group_.reduce(value, ReduceOp::max);
        case Average::mean:
            break;
    }
    return group_.reduce(value, ReduceOp::sum) / group_.size();
}

/// One more call, on fresh inputs and into poisoned memory; wrong elements of all ranks.
std::size_t PerfSweep::check(const PerfCase& one, const Plan& plan, std::uint64_t seed) {
    const PerfValues values(one.type, one.op, spec_.reduces, one.size, seed);
    const CallBuffers at = place(spec_, one, memory(send_, one.type), memory(recv_, one.type));
    device_.set(at.recv, 0xff, elements_of(spec_.recv, one.each, one.size) * size_of(one.type));
    write_inputs(one, at, values);
    start(plan);
    group_.wait();
    const std::size_t wrong = count_wrong(one, at.recv, values);
    const double ranks_with_wrong = group_.reduce(wrong == 0 ? 0 : 1, ReduceOp::sum);
    failed_checks_ += static_cast<int>(ranks_with_wrong);
    return static_cast<std::size_t>(group_.reduce(static_cast<double>(wrong), ReduceOp::sum));
}

void PerfSweep::write_inputs(const PerfCase& one, const CallBuffers& at, const PerfValues& values) {
    if (spec_.root_sends && one.rank != one.root)
        return;
    const std::size_t width = size_of(one.type);
    const std::size_t count = elements_of(spec_.send, one.each, one.size);
    const std::size_t piece = kStagingBytes / width;
    for (std::size_t done = 0; done < count; done += piece) {
        const std::size_t now = std::min(piece, count - done);
        values.write(staging_.data(), {Origin::From::input, one.rank, done, now});
        device_.write(at.send + done * width, staging_.data(), now * width);
    }
}

std::size_t PerfSweep::count_wrong(const PerfCase& one, const std::byte* recv,
                                   const PerfValues& values) {
    const std::size_t width = size_of(one.type);
    const std::size_t piece = kStagingBytes / width;
    std::size_t wrong = 0;
    for (const Origin& origin : spec_.expected(one)) {
        for (std::size_t done = 0; done < origin.count; done += piece) {
            const std::size_t now = std::min(piece, origin.count - done);
            device_.read(staging_.data(), recv + done * width, now * width);
            wrong += values.count_wrong(staging_.data(),
                                        {origin.from, origin.rank, origin.first + done, now});
        }
        recv += origin.count * width;
    }
    return wrong;
}

}  // namespace autolaunch::bench
