#include "post_mortem/failure_collector.hpp"

#include "base/room_on_disk.hpp"
#include "base/text.hpp"
#include "causes/root_cause.hpp"
#include "logs/rank_files.hpp"
#include "post_mortem/core_file.hpp"
#include "post_mortem/evidence_message.hpp"
#include "post_mortem/oom_kills.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

namespace autolaunch::launcher {

namespace {

// One that has the cgroup of that task's rank. Local rank 0 runs in the agent's own task.
std::string process_of_task(const StandIns* stand_ins, int task) {
    return task == 0 ? "self" : std::to_string(stand_ins->task(task).pid);
}

std::string why_slowed(std::uint64_t reasons) {
    constexpr std::uint64_t kThermal = 0x60, kPowerBrake = 0x80;
    std::vector<std::string> why;
    if ((reasons & kThermal) != 0)
        why.emplace_back("too hot");
    if ((reasons & kPowerBrake) != 0)
        why.emplace_back("the power supply has pulled the brake");
    return join(why, ", ");
}

GpuTrouble trouble_of(const NvmlEvent& event) {
    const auto number = static_cast<int>(std::min<std::uint64_t>(event.number, 1'000'000));
    switch (event.kind) {
        case NvmlEvent::Kind::xid:
            return {GpuTrouble::Kind::xid, number, "Xid " + std::to_string(number)};
        case NvmlEvent::Kind::double_bit_ecc:
            return {GpuTrouble::Kind::double_bit_ecc, 0,
                    "an uncorrectable error of its memory (double-bit ECC)"};
        case NvmlEvent::Kind::lost:
            return {GpuTrouble::Kind::lost, 0, "it has fallen off the bus"};
        case NvmlEvent::Kind::slowed:
            break;
    }
    return {GpuTrouble::Kind::slowed, 0, "it was slowed down: " + why_slowed(event.number)};
}

std::string existing(const std::filesystem::path& path) {
    std::error_code unknown;  // one that cannot be looked at may be there
    return std::filesystem::exists(path, unknown) || unknown ? path.string() : "";
}

}  // namespace

FailureCollector::FailureCollector(const LaunchPlan& plan, int generation,
                                   const StandIns* stand_ins)
    : plan_(plan),
      generation_(generation),
      stand_ins_(stand_ins),
      knows_pids_(knows_kernel_pids()),
      ports_before_(read_hca_ports()) {
    const std::size_t tasks = stand_ins_ ? stand_ins_->tasks().size() : 0;
    for (std::size_t task = 0; task <= tasks; ++task)
        oom_kills_before_.push_back(
            read_oom_kills(process_of_task(stand_ins_, static_cast<int>(task))));
}

std::string FailureCollector::folder_of(int rank) const {
    const auto earlier = folders_.find(rank);
    return earlier != folders_.end() ? earlier->second
                                     : rank_directory(plan_.run_dir, generation_, rank).string();
}

RankEnd FailureCollector::collect(const RankExited& end, const RankCircumstances& circumstances) {
    const std::filesystem::path folder = folder_of(end.rank);
    RankEnd rank;
    rank.end = end;
    rank.node = plan_.hostname;
    rank.words =
        collect_evidence(folder / "stderr", folder / "stdout", existing(folder / "error.json"));
    rank.words.may_miss_words = circumstances.may_miss_words;
    rank.cannot_resume = circumstances.cannot_resume;
    rank.mpi_fault = circumstances.mpi_fault;
    rank.last_moment = circumstances.last_moment;
    for (const NvmlEvent& event : circumstances.gpu_events)
        rank.gpu_troubles.push_back(trouble_of(event));
    rank.ports_down = ports_gone_down(ports_before_, read_hca_ports());
    rank.no_room = why_no_room(folder);
    // Room that was kept on a file system that takes nothing any more is no room.
    rank.words.may_miss_words |= !rank.no_room.empty() && !tells_want_of_room(rank.no_room);
    rank.log_folder = folder;
    const int task = stand_ins_ != nullptr ? end.local_rank : 0;
    const auto before = oom_kills_before_.at(static_cast<std::size_t>(task));
    const auto now = read_oom_kills(process_of_task(stand_ins_, task));
    if (now && before)
        rank.oom_kills = *now - *before;
    rank.kernel_log = kernel_log_.read();
    rank.knows_pids = knows_pids_;
    const auto planned =
        std::find_if(plan_.ranks.begin(), plan_.ranks.end(),
                     [&](const RankPlan& candidate) { return candidate.rank == end.rank; });
    if (planned != plan_.ranks.end())
        rank.core = explain_core(end, plan_, *planned);
    return rank;
}

control::RankFailed FailureCollector::message(const RankEnd& rank,
                                              Clock::time_point ended_at) const {
    const std::filesystem::path folder = folder_of(rank.end.rank);
    control::RankFailed failed;
    failed.generation = generation_;
    failed.end = rank.end;
    failed.age_us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - ended_at).count());
    failed.hostname = plan_.hostname;
    for (const auto& planned : plan_.ranks)
        if (planned.rank == rank.end.rank)
            failed.gpu = planned.binding.gpu;
    failed.core = rank.core;
    failed.stderr_path = folder / "stderr";
    failed.stdout_path = folder / "stdout";
    failed.error_file_path = existing(folder / "error.json");
    put_evidence(rank.words, failed);
    failed.cannot_resume = rank.cannot_resume;
    failed.no_room = rank.no_room;
    failed.oom_kills = rank.oom_kills;
    return failed;
}

control::RankFailed FailureCollector::describe(const RankExited& end, Clock::time_point ended_at,
                                               const RankCircumstances& circumstances) {
    const RankEnd rank = collect(end, circumstances);
    control::RankFailed failed = message(rank, ended_at);
    failed.record = judge(rank);
    return failed;
}

std::optional<control::RankFailed> FailureCollector::describe_stopped(const RankExited& end,
                                                                      Clock::time_point ended_at) {
    const std::filesystem::path folder = folder_of(end.rank);
    RankEnd rank;
    rank.end = end;
    rank.node = plan_.hostname;
    rank.words = collect_evidence(folder / "stderr", folder / "stdout", folder / "error.json");
    const auto record = judge_stopped(rank);
    if (!record)
        return std::nullopt;
    control::RankFailed failed = message(rank, ended_at);
    failed.record = *record;
    return failed;
}

void shorten(control::RankFailed& failed) {
    if (!failed.record.follows)
        return;
    failed.stderr_tail.clear();
    failed.stdout_tail.clear();
    failed.error_text.clear();
}

}  // namespace autolaunch::launcher
