#include "placement_watch/compute_processes.hpp"

#include "base/text.hpp"
#include "spawn/process_tree.hpp"
#include "topology/nvml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {
namespace {

constexpr int kMostAncestors = 256;
// PROC_PID_INIT_INO of the kernel: the namespace that the machine starts with.
constexpr std::string_view kHostNamespace = "pid:[4026531836]";

bool parse_pid(const std::string& text, pid_t& pid) {
    long long number = 0;
    if (!parse_integer(text, number) || number < 0)
        return false;
    pid = static_cast<pid_t>(number);
    return true;
}

// "process  GPU|MIG  BDF  UUID  PID  RANK", with tabs.
bool parse_process(const std::vector<std::string>& fields, ComputeProcess& process) {
    if (fields.size() != 6 || fields[0] != "process")
        return false;
    process.on_part = fields[1] == "MIG";
    process.bdf = fields[2];
    process.uuid = fields[3];
    return parse_pid(fields[4], process.pid) && parse_pid(fields[5], process.rank_pid);
}

}  // namespace

pid_t find_rank_above(pid_t process, const std::vector<pid_t>& ranks,
                      const std::string& proc_root) {
    for (int steps = 0; process > 1 && steps < kMostAncestors; ++steps) {
        if (std::find(ranks.begin(), ranks.end(), process) != ranks.end())
            return process;
        process = parent_of(process, proc_root);
    }
    return 0;
}

ComputeProcesses read_compute_processes(const std::vector<pid_t>& ranks, const std::string& library,
                                        const std::string& proc_root) {
    ComputeProcesses seen;
    std::error_code error;
    seen.host_namespace =
        std::filesystem::read_symlink(proc_root + "/self/ns/pid", error) == kHostNamespace;
    const auto nvml = Nvml::load(seen.trouble, library);
    if (!nvml)
        return seen;
    const auto add = [&](const NvmlDevice& device, const std::string& uuid, bool on_part,
                         const std::vector<NvmlDevice::Process>& processes) {
        for (const NvmlDevice::Process& process : processes)
            seen.processes.push_back({device.bdf, uuid, on_part, process.pid,
                                      find_rank_above(process.pid, ranks, proc_root)});
    };
    for (const NvmlDevice& device : nvml->devices({.processes = true})) {
        if (!device.mig_enabled)
            add(device, device.uuid, false, device.compute_processes);
        for (const NvmlDevice::MigDevice& part : device.mig_devices)
            add(device, part.uuid, true, part.compute_processes);
    }
    return seen;
}

std::string encode_compute_processes(const ComputeProcesses& seen) {
    std::string text = seen.host_namespace ? "namespace\thost\n" : "namespace\town\n";
    std::string trouble = seen.trouble;
    std::replace(trouble.begin(), trouble.end(), '\n', ' ');
    if (!trouble.empty())
        text += "trouble\t" + trouble + '\n';
    for (const ComputeProcess& process : seen.processes)
        text += fmt::format("process\t{}\t{}\t{}\t{}\t{}\n", process.on_part ? "MIG" : "GPU",
                            process.bdf, process.uuid, process.pid, process.rank_pid);
    return text + "end\n";
}

ComputeProcesses decode_compute_processes(std::string_view text) {
    ComputeProcesses seen;
    const ComputeProcesses broken = {
        {}, true, "the process that asks NVIDIA's driver ended before it answered"};
    if (!text.ends_with("end\n"))
        return broken;
    for (const std::string& line : split(text.substr(0, text.size() - 4), '\n')) {
        const auto fields = split(line, '\t');
        ComputeProcess process;
        if (line.empty())
            continue;
        if (fields.size() == 2 && fields[0] == "namespace") {
            seen.host_namespace = fields[1] == "host";
        } else if (fields.size() == 2 && fields[0] == "trouble") {
            seen.trouble = fields[1];
        } else if (parse_process(fields, process)) {
            seen.processes.push_back(std::move(process));
        } else {
            return broken;
        }
    }
    return seen;
}

}  // namespace autolaunch::launcher
