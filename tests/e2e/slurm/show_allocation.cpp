// What autolaunch reads from the environment of this task, on one line. With --time-left also what
// squeue says, in seconds, and how long it took, in milliseconds.

#include "allocation/allocation.hpp"
#include "allocation/hostlist.hpp"
#include "allocation/time_left_query.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

using namespace autolaunch;
using namespace autolaunch::launcher;

namespace {

std::string describe(const Allocation& allocation) {
    std::string text = allocation.source + ' ' + compress_hostlist(allocation.node_names) + '#' +
                       std::to_string(allocation.node_rank) + " job " + allocation.job_id +
                       " task " + std::to_string(allocation.local_task) + '/' +
                       std::to_string(allocation.tasks_on_node.value_or(0));
    if (!allocation.on_every_node)
        text += " alone";
    if (allocation.gpus.names)
        text += " gpus [" + join(*allocation.gpus.names, ",") + ']';
    if (!allocation.topology_address.empty())
        text += " at " + allocation.topology_address;
    if (!allocation.head_address.empty())
        text += " head " + allocation.head_address;
    if (allocation.restart_count > 0)
        text += " restart " + std::to_string(allocation.restart_count);
    return text;
}

void show_time_left(const EnvironmentMap& environment) {
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    const auto job = environment.find("SLURM_JOB_ID");
    TimeLeftQuery query(job == environment.end() ? "" : job->second);
    const auto left = query.wait(Deadline::after(std::chrono::seconds(20)));
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
    std::printf("left %lld took %lld\n", left ? static_cast<long long>(left->count()) : -1LL,
                static_cast<long long>(took.count()));
}

}  // namespace

int main(int argc, char** argv) {
    EnvironmentMap environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string text = *entry;
        if (const auto equals = text.find('='); equals != std::string::npos)
            environment[text.substr(0, equals)] = text.substr(equals + 1);
    }
    std::array<char, 256> hostname{};
    ::gethostname(hostname.data(), hostname.size() - 1);
    try {
        std::printf("%s\n", describe(read_allocation(environment, hostname.data())).c_str());
        if (argc > 1 && std::string(argv[1]) == "--time-left")
            show_time_left(environment);
    } catch (const Error& error) {
        std::printf("error: %s\n", error.what());
    }
}
