#include "run/exit_proof.hpp"

#include "placement_watch/compute_processes.hpp"
#include "run/drain.hpp"
#include "spawn/helper_process.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>

namespace autolaunch::launcher {

namespace {

using namespace std::chrono_literals;

constexpr auto kDriverTime = 10s;
constexpr auto kShortJob = 2s;  // its ranks have hardly come to a GPU, and a driver takes as long

std::set<std::string> gpus_of(const LaunchPlan& plan) {
    std::set<std::string> gpus;
    for (const RankPlan& rank : plan.ranks)
        if (rank.binding.gpu && rank.gpu && rank.gpu->vendor == "nvidia")
            gpus.insert(rank.gpu->bdf);
    return gpus;
}

// In a process of its own: the driver's library may hang or crash.
ComputeProcesses ask_driver() {
    HelperProcess child([](int output) {
        const std::string text = encode_compute_processes(read_compute_processes({}));
        for (std::size_t written = 0; written < text.size();) {
            const ssize_t one = ::write(output, text.data() + written, text.size() - written);
            if (one <= 0)
                return;
            written += static_cast<std::size_t>(one);
        }
    });
    std::string text;
    const Deadline deadline = Deadline::after(kDriverTime);
    for (pollfd answer{child.output(), POLLIN, 0}; !deadline.passed();)
        if (::poll(&answer, 1, deadline.poll_timeout_ms()) > 0 && !child.read_some(text))
            return decode_compute_processes(text);
    return {.processes = {}, .host_namespace = true, .trouble = "NVIDIA's driver does not answer"};
}

bool is_live(pid_t pid) {
    struct stat facts {};
    return ::stat(fmt::format("/proc/{}", pid).c_str(), &facts) == 0 || errno != ENOENT;
}

// What ours had is gone with their processes. A context without a process is what a driver keeps
// that has not let go; a live process is another job's.
void look_at_gpus(const ExitProof& proof, ExitCertificate& certificate) {
    const std::set<std::string> gpus = gpus_of(proof.plan);
    if (gpus.empty())
        return;
    if (certificate.at - proof.traces.began < kShortJob)
        return certificate.not_checked.push_back(
            {"gpu", "contexts", "the job ran for less than 2 s, and the driver takes as long"});
    ComputeProcesses seen;
    try {
        seen = ask_driver();
    } catch (const Error& error) {
        seen.trouble = error.what();
    }
    if (seen.trouble.empty() && !seen.host_namespace)
        seen.trouble = "in this container, the driver's processes have other numbers than ours";
    if (!seen.trouble.empty())
        return certificate.not_checked.push_back({"gpu", "contexts", seen.trouble});
    const std::size_t before = certificate.left.size();
    for (const ComputeProcess& process : seen.processes)
        if (gpus.contains(process.bdf) && !is_live(process.pid))
            certificate.left.push_back(
                {"gpu", fmt::format("context of pid {} on {}", process.pid, process.bdf),
                 "the driver shows it, and there is no such process"});
    if (certificate.left.size() == before)
        certificate.gone.push_back({"gpu", static_cast<int>(gpus.size()),
                                    "the driver shows no context there without a live process of "
                                    "another job"});
}

std::string node_name(const EnvironmentMap& environment, const std::string& hostname) {
    const auto named = environment.find("SLURMD_NODENAME");
    return named != environment.end() && !named->second.empty()
               ? named->second
               : hostname.substr(0, hostname.find('.'));
}

}  // namespace

DrainWord drain_for(const std::vector<Remnant>& left, const std::string& run_id, bool drain,
                    const EnvironmentMap& environment, const std::string& hostname) {
    const std::string reason = fmt::format("autolaunch: job {}: {}", run_id, describe_left(left));
    DrainWord word{.command = drain_command(node_name(environment, hostname), reason)};
    if (drain) {
        word.why_not = drain_this_node(reason, environment, hostname);
        word.done = word.why_not.empty();
    } else {
        word.why_not = "nobody asked for it: --drain";
    }
    return word;
}

std::string describe_drain(const DrainWord& word) {
    return word.done ? "this node is drained"
                     : "this node should be drained: " + word.command +
                           (word.why_not.empty() ? "" : " (" + word.why_not + ")");
}

void prove_exit(const ExitProof& proof, int exit_code) {
    ExitCertificate certificate{.run_id = proof.plan.run_id,
                                .node = proof.plan.hostname,
                                .node_rank = proof.plan.node_rank,
                                .exit_code = exit_code,
                                .at = std::chrono::system_clock::now(),
                                .gone = {},
                                .left = {},
                                .not_checked = {}};
    look_for_remains(proof.traces, certificate);
    if (proof.plan.tasks_here > 1)
        certificate.not_checked.push_back(
            {"process", fmt::format("of {} other tasks on this node", proof.plan.tasks_here - 1),
             "the tasks end them, each its own"});
    look_at_gpus(proof, certificate);
    if (!certificate.clean()) {
        certificate.drain = drain_for(certificate.left, proof.plan.run_id, proof.drain,
                                      proof.environment, proof.plan.hostname);
        proof.console.write_message(
            fmt::format("{} {}: {}\n  {}", proof.console.style().red("✗"), proof.plan.hostname,
                        describe_left(certificate.left), describe_drain(*certificate.drain)));
    }
    try {
        proof.run_dir.keep_certificate(certificate_json(certificate));
    } catch (const Error& error) {
        proof.console.write_message(fmt::format("{} no certificate of the job's end is kept: {}",
                                                proof.console.style().yellow("warning:"),
                                                error.what()));
    }
}

}  // namespace autolaunch::launcher
