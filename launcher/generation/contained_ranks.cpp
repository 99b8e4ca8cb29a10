#include "generation/contained_ranks.hpp"

#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/text.hpp"
#include "containers/container_argv.hpp"
#include "session/environment.hpp"
#include "spawn/process_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kContainerRemovalTimeout = std::chrono::seconds(3);
constexpr auto kBetweenRemovalLooks = std::chrono::milliseconds(10);

std::string command_name_of(pid_t pid) {
    try {
        return std::string(trim(read_file(fmt::format("/proc/{}/comm", pid))));
    } catch (const Error&) {
        return {};
    }
}

std::string variable_in(const std::vector<std::string>& environment, const std::string& name) {
    for (const std::string& line : environment)
        if (line.starts_with(name + '='))
            return line.substr(name.size() + 1);
    return {};
}

std::vector<ContainerBind> binds_of_start(const LaunchPlan& plan, const RankPlace& place,
                                          const std::vector<std::string>& environment) {
    const std::string sockets = place.sockets.string();
    std::vector<ContainerBind> binds = {{sockets, sockets, true, "the agent's sockets"}};
    for (const SecretSpec& secret : plan.spec.given_secrets) {
        const std::string file = variable_in(environment, secret.name + "_FILE");
        if (secret.as == SecretSpec::As::file && !file.empty())
            binds.push_back({file, file, false, "secrets." + secret.name});
    }
    // What comes is seen inside as it does: its folder is there, and not yet each file.
    const std::string streams = variable_in(environment, env::kStreams);
    if (!streams.empty() && std::any_of(plan.staging.items.begin(), plan.staging.items.end(),
                                        [](const StagedItem& item) { return item.streams; }))
        binds.push_back({streams, streams, false, "storage.stage_in, what still comes"});
    for (const StagedItem& item : plan.staging.items)
        if (const std::string data = variable_in(environment, item.variable);
            !data.empty() && (streams.empty() || !data.starts_with(streams + '/')))
            binds.push_back({data, data, false, "storage.stage_in: " + item.name});
    for (const OutItem& item : plan.staging.out)
        if (const std::string out = variable_in(environment, item.variable); !out.empty())
            binds.push_back({out, out, true, "storage.stage_out: " + item.name});
    return binds;
}

}  // namespace

std::string pid_file_of(const RankPlace& place) {
    return place.sockets / fmt::format("container-{}-{}.pid", place.generation, place.rank);
}

ChildSpec in_container(const LaunchPlan& plan, const RankPlace& place, ChildSpec child,
                       bool has_input) {
    const std::string label = place.sockets.filename();
    child.environment = container_environment(plan.container, std::move(child.environment));
    const ContainerStart start{.environment = child.environment,
                               .binds = binds_of_start(plan, place, child.environment),
                               .name = fmt::format("{}-{}-{}", label, place.generation, place.rank),
                               .label = label,
                               .pid_file = pid_file_of(place),
                               .has_input = has_input};
    child.argv = container_argv(plan.container, start, child.argv);
    return child;
}

std::vector<pid_t> container_helpers(const ContainerChoice& container) {
    std::vector<pid_t> helpers;
    if (container.runtime != kPodman)
        return helpers;
    for (const pid_t pid : list_children())
        if (const std::string name = command_name_of(pid);
            name == "conmon" || name.starts_with("podman") || name.starts_with("catatonit"))
            helpers.push_back(pid);
    return helpers;
}

void await_container_ends(const ContainerChoice& container) {
    if (container.runtime != kPodman)
        return;
    const auto is_conmon = [](pid_t pid) { return command_name_of(pid) == "conmon"; };
    const Deadline deadline = Deadline::after(kContainerRemovalTimeout);
    while (!running_children(is_conmon).empty() && !deadline.passed())
        std::this_thread::sleep_for(kBetweenRemovalLooks);
}

}  // namespace autolaunch::launcher
