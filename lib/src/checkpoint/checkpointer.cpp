#include <autolaunch/checkpoint/checkpointer.hpp>

#include "checkpoint/checkpoint_engine.hpp"
#include "checkpoint/commit/node_catalog.hpp"
#include "checkpoint/encryption_environment.hpp"
#include "checkpoint/job_drains.hpp"
#include "checkpoint/memory/memory_copies.hpp"
#include "checkpoint/options_of_spec.hpp"
#include "checkpoint/place/further_places.hpp"
#include "checkpoint/s3/routed_storage.hpp"
#include "checkpoint/save/save_clock.hpp"
#include "checkpoint/start_place.hpp"
#include "session/checkpoint_settings.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>
#include <autolaunch/session.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace autolaunch {

namespace {

constexpr double kLeave_s = 1;  // what is left to a process to end in

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// On the clock of now_s().
std::optional<double> deadline_of(const SaveSchedule& schedule) {
    auto deadline = schedule.deadline;
    if (const char* text = std::getenv("SLURM_JOB_END_TIME"); !deadline && text)
        deadline = slurm_deadline(text);
    if (!deadline)
        return std::nullopt;
    return now_s() +
           std::chrono::duration<double>(*deadline - std::chrono::system_clock::now()).count();
}

// What the spec says wins. Several Checkpointers are not told apart but by their directories.
CheckpointOptions of_this_job(Session& session, bool tells, CheckpointOptions options) {
    const auto environment = environment_of_process();
    options.encryption = with_environment(std::move(options.encryption), environment);
    const CheckpointSettings settings =
        checkpoint_settings_from(value_of(environment, env::kCheckpoint));
    if (is_meant(settings, options.directory))
        return with_settings(std::move(options), settings);
    if (tells)
        session.report_message("warning: checkpoint: the spec's settings are for " +
                               settings.directory + ", and not for what is saved to " +
                               options.directory.string());
    return options;
}

// What the ranks of a checkpoint agree by. On GPUs each agreement of a save beside training would
// be a kernel put there by a second thread: between training's calls in another order on each rank,
// while NCCL wants one, and spinning until the slowest disk is done. On one node the CPUs' memory
// serves as well.
Communicator off_the_gpus(Session& session, Communicator world) {
    constexpr std::chrono::minutes kSlowestDisk{30};
    if (world.backend() != "nccl")
        return world;
    const RankInfo& job = session.info();
    const bool is_of_job =
        job.node_count == 1 && world.size() == job.world_size && world.rank() == job.rank;
    if (world.any_rank(!is_of_job))
        return world;
    return Communicator::world(session, {.backend = "cpu", .timeout = kSlowestDisk});
}

}  // namespace

class Checkpointer::Impl {
public:
    Impl(Session& job, Communicator ranks, const CheckpointOptions& options)
        : session(job),
          world(ranks),
          wait_at_end(options.drain.wait_at_end),
          clock(options.schedule, job.info().node_count, deadline_of(options.schedule), now_s()),
          leaders(find_leaders(ranks, options)),
          drains(make_drains(options)),
          memory(
              memory::make_copies(job.info(), job.agent_socket(), ranks, options,
                                  [&job](const std::string& text) { job.report_message(text); })),
          engine(make_routed_storage(), std::move(ranks), options,
                 {.published =
                      [this](std::int64_t step, const std::filesystem::path& path,
                             double stall_seconds) {
                          if (spread())
                              remember_stall(step, stall_seconds);
                          else
                              session.report_checkpoint(step, path, stall_seconds,
                                                        engine.durable_seconds(),
                                                        engine.published_bytes());
                          if (drains)
                              drains->wake(step);
                      },
                  .note = [&job](const std::string& text) { job.report_message(text); },
                  .pinned = [this] { return drains ? drains->pinned() : std::set<std::int64_t>(); },
                  .loaded = [this](std::int64_t step,
                                   const std::filesystem::path& path) { tell_loaded(step, path); },
                  .deleted =
                      [&job](const std::filesystem::path& path) {
                          job.report_checkpoint_deleted(path);
                      }},
                 {job.info().run_id, job.info().generation}, leaders) {
        if (!options.restore_from.empty())
            start.emplace(options, world,
                          CheckpointEvents{
                              .published = {},
                              .note = [&job](const std::string& text) { job.report_message(text); },
                              .loaded =
                                  [this](std::int64_t step, const std::filesystem::path& path) {
                                      tell_loaded(step, path);
                                  }});
    }

    // Of the directories that nodes have of their own; empty where all ranks see one.
    static std::vector<int> find_leaders(Communicator& ranks, const CheckpointOptions& options) {
        if (!options.node_local)
            return {};
        if (further_places(options).empty())
            throw Error(
                ErrorCode::invalid_argument,
                "node_local needs a second place: a node that is lost takes its files along",
                "set CheckpointOptions::drain.place to a directory that all nodes share, or to a "
                "bucket");
        return leaders_of_directories(ranks, *make_posix_storage(), options.directory);
    }

    bool spread() const {
        return std::any_of(leaders.begin(), leaders.end(), [](int leader) { return leader != 0; });
    }

    std::unique_ptr<DrainChain> make_drains(const CheckpointOptions& options) {
        JobDrainEvents events{
            .drained = [this](const DrainedCheckpoint& one) { tell_drained(one); },
            .note = [this](const std::string& text) { session.report_message(text); },
            .deleted =
                [this](const std::filesystem::path& path) {
                    session.report_checkpoint_deleted(path);
                },
            .make_board =
                [this](const std::string& prefix) {
                    return make_store_noticeboard(session.new_store(), prefix);
                }};
        // What is on the nodes alone is lost with one of them: it counts from here on.
        if (spread())
            events.counts = [this](const DrainedCheckpoint& one) {
                session.report_checkpoint(one.step, one.path, stall_of(one.step), {},
                                          static_cast<std::int64_t>(one.total_bytes));
            };
        return make_job_drains(world, options, leaders, events);
    }

    void tell_drained(const DrainedCheckpoint& checkpoint) {
        char text[64];
        std::snprintf(text, sizeof text, " (%.3f GB copied in %.1f s)",
                      static_cast<double>(checkpoint.bytes) / 1e9, checkpoint.seconds);
        session.report_message("checkpoint: drained to " + checkpoint.path.string() + text);
        session.report_checkpoint_drained(
            checkpoint.step, checkpoint.path, static_cast<std::int64_t>(checkpoint.total_bytes),
            static_cast<std::int64_t>(checkpoint.bytes), checkpoint.seconds);
    }

    // Once of each: an evaluation may read the same one again and again.
    void tell_loaded(std::int64_t step, const std::filesystem::path& path) {
        if (world.rank() == 0 && told_loaded.emplace(step, path).second)
            session.report_checkpoint_loaded(step, path);
    }

    void remember_stall(std::int64_t step, double seconds) {
        const std::lock_guard lock(stalls_mutex);
        stalls[step] = seconds;
    }
    double stall_of(std::int64_t step) {
        const std::lock_guard lock(stalls_mutex);
        const auto found = stalls.find(step);
        const double seconds = found == stalls.end() ? 0 : found->second;
        stalls.erase(stalls.begin(), stalls.upper_bound(step));
        return seconds;
    }

    // The engine ends first: what it saves to the end is drained too.
    struct LastWait {
        Impl& impl;
        ~LastWait() {
            if (impl.drains && std::uncaught_exceptions() == 0)
                impl.drain_the_last();
        }
    };

    void drain_the_last() {
        const auto left = drains->finish(Deadline::after(time_at_end()));
        if (world.rank() != 0)
            return;
        for (const DrainChain::LeftBehind& one : left)
            session.report_message("warning: checkpoint: left behind: " + in_words(one) +
                                   "; the next job of that directory copies it");
    }

    // A process that is killed while it waits has ended badly; one that leaves the rest to the next
    // job has not.
    std::chrono::milliseconds time_at_end() {
        heed_stop();
        const auto left = clock.seconds_left(now_s());
        if (!left)
            return wait_at_end;
        const auto most = std::chrono::milliseconds(
            static_cast<std::int64_t>(std::max(*left - kLeave_s, 0.0) * 1000));
        return std::min(wait_at_end, most);
    }

    // The end of the time limit, or of the grace that the launcher gives those it asks to stop: the
    // nearer one.
    void heed_stop() {
        const auto end = session.stop_deadline();
        if (!end || std::exchange(heeded_stop, true))
            return;
        const double now = now_s();
        clock.end_by(
            now + std::chrono::duration<double>(*end - std::chrono::steady_clock::now()).count());
        const auto left = clock.seconds_left(now), save = clock.expected_save();
        if (world.rank() != 0 || !left || !save || *save <= *left)
            return;
        char text[160];
        std::snprintf(text, sizeof text,
                      "checkpoint: a save may take %.1f s, and the job is killed in %.1f s; set "
                      "restart.grace_period "
                      "higher, or save more often",
                      *save, *left);
        session.report_message(text);
    }

    // What comes of an attempt to go on from a checkpoint: a restart would find the same files.
    // What ended it from outside (a peer that died, a server that did not answer) is no reason.
    template <class Attempt>
    auto resuming(const Attempt& attempt) {
        try {
            auto found = attempt();
            goes_on();
            return found;
        } catch (const Error& error) {
            const bool is_for_good =
                error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch ||
                error.code() == ErrorCode::system || error.code() == ErrorCode::unsupported;
            if (is_for_good) {
                session.report_cannot_resume(error.what());
                said_cannot_resume = true;
            }
            throw;
        }
    }
    void goes_on() {
        if (std::exchange(said_cannot_resume, false))
            session.report_cannot_resume("");
    }

    // Ranks hear of requests at different steps, and their clocks differ: rank 0's counts.
    SaveDecision should_save(std::int64_t step) {
        goes_on();
        if (const auto cost = engine.take_cost())
            clock.cost(cost->stall_seconds, cost->durable_seconds);
        heed_stop();
        std::array<std::uint8_t, static_cast<std::size_t>(SaveReason::stop) + 1> found = {};
        const auto set = [&](SaveReason reason) { found[static_cast<std::size_t>(reason)] = 1; };
        const SaveReason due = clock.due(step, now_s());
        if (world.rank() == 0)
            set(due);
        if (session.checkpoint_requested())
            set(SaveReason::requested);
        if (session.stop_requested())
            set(SaveReason::stop);
        world.all_reduce(std::span<std::uint8_t>(found), ReduceOp::max).wait();
        std::size_t strongest = found.size() - 1;
        while (strongest > 0 && !found[strongest])
            --strongest;
        return {static_cast<SaveReason>(strongest)};
    }

    Session& session;
    Communicator world;
    std::chrono::milliseconds wait_at_end;
    SaveClock clock;
    bool heeded_stop = false;
    bool said_cannot_resume = false;
    std::vector<int> leaders;
    std::set<std::pair<std::int64_t, std::filesystem::path>> told_loaded;
    std::mutex stalls_mutex;
    std::map<std::int64_t, double> stalls;  // of steps that are not drained yet
    std::unique_ptr<DrainChain> drains;
    LastWait last_wait{*this};
    std::unique_ptr<memory::MemoryCopies> memory;
    CheckpointEngine engine;
    std::optional<StartPlace> start;
};

Checkpointer::Checkpointer(Session& session, Communicator world, const CheckpointOptions& options)
    : impl_(std::make_unique<Impl>(session, off_the_gpus(session, world),
                                   of_this_job(session, world.rank() == 0, options))) {}

Checkpointer::Checkpointer(Checkpointer&&) noexcept = default;
Checkpointer& Checkpointer::operator=(Checkpointer&&) noexcept = default;
Checkpointer::~Checkpointer() = default;

CheckpointInfo Checkpointer::save(std::int64_t step, const fsdp::State& state,
                                  const SaveOptions& options) {
    impl_->goes_on();
    impl_->clock.began(now_s());
    return impl_->engine.save(step, state, options);
}

void Checkpointer::save_async(std::int64_t step, const fsdp::State& state,
                              const SaveOptions& options) {
    impl_->goes_on();
    impl_->clock.began(now_s());
    impl_->engine.save_async(step, state, options);
}

void Checkpointer::prepare_async(const fsdp::State& state) { impl_->engine.prepare_async(state); }
void Checkpointer::wait_copied() { impl_->engine.wait_copied(); }
std::optional<CheckpointInfo> Checkpointer::finish() { return impl_->engine.finish(); }
std::optional<SaveProgress> Checkpointer::progress() const { return impl_->engine.progress(); }

bool Checkpointer::wait_drained(std::chrono::milliseconds timeout) {
    return !impl_->drains || impl_->world.rank() != 0 ||
           impl_->drains->wait_idle(Deadline::after(timeout));
}

SaveDecision Checkpointer::should_save(std::int64_t step) { return impl_->should_save(step); }

CheckpointInfo Checkpointer::save_to_memory(std::int64_t step, const fsdp::State& state,
                                            const SaveOptions& options) {
    impl_->goes_on();
    const double start = now_s();
    CheckpointInfo saved = impl_->memory->save(step, state, options);
    if (impl_->world.rank() == 0)
        impl_->session.report_checkpoint(step, saved.path, now_s() - start, 0);
    return saved;
}

std::optional<CheckpointInfo> Checkpointer::latest(std::int64_t before) {
    return impl_->resuming([&] {
        auto found = impl_->engine.latest(before, impl_->memory->latest(before));
        if (!found && impl_->start && before == INT64_MAX)
            found = impl_->start->find();
        return found;
    });
}

std::vector<std::string> Checkpointer::load(const CheckpointInfo& checkpoint,
                                            const fsdp::State& state, const LoadOptions& options) {
    return impl_->resuming([&] {
        if (impl_->start && impl_->start->has(checkpoint))
            return impl_->start->load(checkpoint, state, options);
        if (!checkpoint.in_memory)
            return impl_->engine.load(checkpoint, state, options);
        auto missing = impl_->memory->load(checkpoint, state, options);
        impl_->tell_loaded(checkpoint.step, checkpoint.path);
        return missing;
    });
}

std::optional<CheckpointInfo> Checkpointer::load_latest(const fsdp::State& state,
                                                        const LoadOptions& options) {
    memory::MemoryCopies& memory = *impl_->memory;
    return impl_->resuming([&] {
        auto loaded =
            impl_->engine.load_latest(state, options,
                                      {[&](std::int64_t before) { return memory.latest(before); },
                                       [&](const CheckpointInfo& newest) {
                                           memory.load(newest, state, options);
                                           impl_->tell_loaded(newest.step, newest.path);
                                       }});
        if (!loaded && impl_->start) {
            loaded = impl_->start->find();
            impl_->start->load(*loaded, state, options);
        }
        return loaded;
    });
}

std::vector<std::string> Checkpointer::load_opaque(const CheckpointInfo& checkpoint,
                                                   const std::string& name) {
    if (impl_->start && impl_->start->has(checkpoint))
        return impl_->start->load_opaque(checkpoint, name);
    return checkpoint.in_memory ? impl_->memory->load_opaque(checkpoint, name)
                                : impl_->engine.load_opaque(checkpoint, name);
}

}  // namespace autolaunch
