#include "supervise/supervise.hpp"

#include "exit_codes/exit_codes.hpp"
#include "restart_policy/node_limits.hpp"
#include "sampler/plan_sampler.hpp"
#include "supervise/headship.hpp"

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

// A fork must not make the other nodes believe that this one is lost.
WarmParent::Times warm_times(const JobSpec& spec) {
    WarmParent::Times times;
    times.answer = std::min(times.answer, spec.rendezvous.lost_after / 4);
    return times;
}

WarmProcesses::Times spare_times(const JobSpec& spec) {
    WarmProcesses::Times times;
    times.answer = std::min(times.answer, spec.rendezvous.lost_after / 4);
    return times;
}

// The job is over, and its code is settled: who asks for its end from here on, while files are
// written and helpers ended, has it, and does not change the code.
void hear_no_more_signals() {
    sigset_t ending;
    sigemptyset(&ending);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT})
        sigaddset(&ending, signal);
    ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
}

// A node that comes later is not in its own roster yet.
std::string own_name(const PreparedJob& job) {
    const auto& nodes = job.joined.roster.nodes;
    const auto self = static_cast<std::size_t>(job.joined.roster.self);
    return self < nodes.size() ? nodes[self].name : job.plan.hostname;
}

// What the head has not asked this node for: it was drained, or has lost the head. An agent that
// nobody waits for any more is about to be killed.
int finish_stage_out(StageOut& stage_out, const PreparedJob& job, int exit_code) {
    if (job.pulse != nullptr && job.pulse->parent_is_gone())
        return 0;
    const OutEnd end = exit_code == exit_code::kSuccess   ? OutEnd::succeeded
                       : exit_code == exit_code::kRequeue ? OutEnd::requeued
                                                          : OutEnd::failed;
    return stage_out.finish_alone(
        end, job.plan.spec.storage.timeout,
        [&job](const std::string& line) { job.output.console.write_message(line); });
}

}  // namespace

int supervise(asio::io_context& io, const PreparedJob& job, UniqueFd keeper_gone,
              const Inheritance& inherited) {
    GpuInquiry gpu_inquiry(io);
    RankMemory memory = make_rank_memory(job.plan);
    StopFacts stop_facts{.saves = SaveTimes::read(job.plan.run_dir)};
    WarmParent python(io, job.plan.preload, warm_times(job.plan.spec));
    WarmProcesses warm(spare_times(job.plan.spec));
    HandOver packages(io, *job.joined.member, job.joined.summary.local_address);
    JobSecrets secrets(io, job.plan, *job.joined.member, job.coordinator.socket_directory(),
                       inherited.environment);
    StageIn stage_in(io, job.plan, *job.joined.member, job.joined.summary.local_address);
    StageOut stage_out(io, job.plan, *job.joined.member, own_name(job));
    const bool writes_out = !job.plan.staging.out.empty();
    const bool keeps_warm = job.plan.spec.restart.warm_processes && may_start_anew(job.plan.spec);
    JobInput input({io, job.plan, *job.joined.member, job.joined.roster, job.shell});
    const auto node_rank = static_cast<std::size_t>(job.plan.node_rank);
    NodeSampler sampler(io,
                        sampler_settings(job.plan,
                                         node_rank < job.joined.roster.nodes.size()
                                             ? job.joined.roster.nodes[node_rank].name
                                             : std::string(),
                                         job.joined.summary.local_address),
                        {.warn =
                             [&job](const std::string& text) {
                                 job.joined.member->report(control::NodeWarning{text});
                             },
                         .measured =
                             [&job](const NodeMeasures& measures) {
                                 job.joined.member->report(control::NodeMeasured{measures});
                             }});
    const NodeContext context{io,
                              job.plan,
                              job.coordinator,
                              *job.joined.member,
                              job.joined.roster,
                              job.run_dir.trainer_config_path(),
                              job.stand_ins,
                              &gpu_inquiry,
                              &memory,
                              job.pulse,
                              &input,
                              job.traces,
                              job.joined.head || job.joined.peers ? &stop_facts : nullptr,
                              job.plan.preload.wants_interpreter() ? &python : nullptr,
                              keeps_warm ? &warm : nullptr,
                              job.plan.spec.trainer.preload_from == "node" ? &packages : nullptr,
                              job.plan.spec.given_secrets.empty() ? nullptr : &secrets,
                              job.plan.staging.items.empty() ? nullptr : &stage_in,
                              writes_out ? &stage_out : nullptr,
                              &sampler,
                              job.replan,
                              job.add_node,
                              job.check,
                              job.joined.late};
    NodeSupervisor node(context, job.joined.roster.nodes[0].name, job.output,
                        std::move(keeper_gone));
    secrets.set_handlers({.learned =
                              [&job](const std::vector<std::string>& values) {
                                  job.output.console.hide_secrets(values);
                                  job.output.reporter.hide_secrets(values);
                              },
                          .warn = [&node](const std::string& text) { node.warn(text); }});
    stage_in.set_report([&node](Happening happening) { node.tell(std::move(happening)); });
    stage_in.set_failure([&node](const ExitError& error) { node.cannot_go_on(error); });
    stage_out.set_report([&node](Happening happening) { node.tell(std::move(happening)); });
    Headship headship(io, job, node, stop_facts, input, writes_out ? &stage_out : nullptr);
    sampler.set_job([&headship] { return headship.job_facts(); });
    headship.start();
    int exit_code = node.run(inherited);
    sampler.end();
    headship.leave();
    if (const int left = finish_stage_out(stage_out, job, exit_code); exit_code == 0)
        exit_code = left;
    hear_no_more_signals();
    if (job.traces != nullptr) {
        job.traces->memory_files = memory.made();
        job.traces->processes += python.made() + warm.made() + packages.started() +
                                 sampler.started() + stage_in.started() + stage_out.started();
    }
    return exit_code;
}

}  // namespace autolaunch::launcher
