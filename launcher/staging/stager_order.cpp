#include "staging/stager_order.hpp"

#include "base/environment.hpp"
#include "base/workspace.hpp"
#include "remote_data/remote_source.hpp"
#include "session/environment.hpp"
#include "spec/job_spec.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// Of AWS's tools, of certificates and of proxies.
bool is_for_servers(std::string_view name) {
    static constexpr std::array<std::string_view, 10> kNames = {
        "HOME",      "SSL_CERT_FILE", "http_proxy", "https_proxy", "HTTPS_PROXY",
        "all_proxy", "ALL_PROXY",     "no_proxy",   "NO_PROXY",    "HTTP_PROXY"};
    return name.starts_with("AWS_") || name.starts_with("AUTOLAUNCH_S3_") ||
           std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace

StagerOrder stager_order(const LaunchPlan& plan) {
    const StorageSpec& storage = plan.spec.storage;
    StagerOrder order{
        .scratch = plan.staging.scratch,
        .most_bytes = storage.limit_bytes.value_or(0),
        .bytes_per_second = storage.throttle_bytes.value_or(0),
        .timeout = storage.timeout,
        .keep_s = storage.keep ? std::chrono::ceil<std::chrono::seconds>(*storage.keep).count() : 0,
        .streams = {},
        .items = {}};
    for (const StagedItem& item : plan.staging.items)
        order.items.push_back({item.name, item.from, item.verify, item.unpack, item.streams,
                               plan.staging.shared.fills});
    order.shared = {plan.staging.shared.folder, plan.staging.shared.owner,
                    plan.staging.shared.fills};
    return order;
}

MoverProcess::Program stager_program(const LaunchPlan& plan) {
    MoverProcess::Program program;
    program.name = "autolaunch-stager";
    const auto& items = plan.staging.items;
    if (std::any_of(items.begin(), items.end(),
                    [](const StagedItem& item) { return is_remote(item.from); }))
        for (std::string& line : environment_for_servers())
            program.environment.push_back(std::move(line));
    if (const Workspace made = workspace_of(plan.spec.workspace); made.open_parents)
        program.environment.push_back(std::string(env::kWorkspace) + '=' + to_text(made));
    return program;
}

std::vector<std::string> environment_for_servers() {
    std::vector<std::string> lines;
    for (const auto& [name, value] : environment_of_process())
        if (is_for_servers(name))
            lines.push_back(name + '=' + value);
    return lines;
}

}  // namespace autolaunch::launcher
