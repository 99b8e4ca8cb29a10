#pragma once
#include <autolaunch/cxx20.hpp>

#include <autolaunch/borrowed.hpp>
#include <autolaunch/export.hpp>
#include <autolaunch/store.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace autolaunch {

class Communicator;
class FlightRecorder;   // private: lib/src/flight/flight_recorder.hpp
class GenerationWatch;  // private: lib/src/session/generation_watch.hpp

/// Which program started this process, by the environment it left.
enum class LaunchedBy { autolaunch, torchrun, mpi, slurm, nobody };

/// Who this process is in the job. Ranks are 0-based; without a launcher it is rank 0 of 1.
struct RankInfo {
    LaunchedBy launched_by = LaunchedBy::nobody;
    int rank = 0;
    int world_size = 1;
    int local_rank = 0;
    int local_world_size = 1;
    int node_rank = 0;
    int node_count = 1;
    int generation = 0;  ///< attempt number; grows by one with every restart
    int max_restarts = 0;
    std::string run_id;  ///< equal on all ranks of the job, different between jobs; empty when
                         ///< nobody launched us
    bool serves_mpi =
        false;  ///< the launcher tells MPI who this rank is: MPI_Init finds the others
};

/// What a trainer tells about a step it finished. Only `step` is required; report what you know.
struct StepReport {
    std::int64_t step = 0;
    std::optional<std::int64_t> total_steps = {};
    std::optional<double> loss = {};
    std::optional<std::int64_t> tokens = {};  ///< processed by the whole job in this step
    std::optional<double> seconds = {};       ///< wall time of this step
    /// For which this rank has waited for its input, since the report before this one.
    std::optional<double> input_seconds = {};
};

/// This process's place in a job, and its line to the launcher's agent on this node.
///
/// Owner: the trainer, one per process, alive as long as the training runs. Threads: any. Blocks:
/// only from_environment() and store(), each with a deadline, and the destructor of a rank 0 that
/// serves the store: up to 10 s for the other ranks to leave it. Reports never block and never fail
/// the trainer: when the agent is slow or gone they are dropped, and without a launcher they go
/// nowhere.
class AUTOLAUNCH_API Session {
public:
    /// Reads autolaunch's, torchrun's, Open MPI's, MPICH's (PMI) or Slurm's environment, in this
    /// order; without any, rank 0 of 1. Throws Error{invalid_argument} naming the variable when the
    /// environment contradicts itself. A spare (restart.warm_processes) waits here to be a rank.
    /// From here on an Error that nobody catches ends the process with its hint() on stderr, too,
    /// below its what(); a handler that the program gave std::set_terminate() has the last word.
    [[nodiscard]] static Session from_environment();
    /// The same from a given environment; opens no socket.
    static RankInfo read_environment(const std::map<std::string, std::string>& environment);

    Session(Session&&) noexcept;
    Session& operator=(Session&&) noexcept;
    ~Session();

    const RankInfo& info() const& noexcept;
    const RankInfo& info() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    int rank() const noexcept { return info().rank; }
    int world_size() const noexcept { return info().world_size; }
    int local_rank() const noexcept { return info().local_rank; }

    /// The job's store, connected at the first call. Keys are private to this generation. Under
    /// bare srun or an MPI launcher rank 0 serves it; one rank alone has one of its own.
    Store& store() &;
    Store& store() && AUTOLAUNCH_NOT_FROM_A_TEMPORARY;

    void report_step(const StepReport& report);
    /// A checkpoint of `step` is published at `path`; `stall_seconds` is how long training stood
    /// still for it, `save_seconds` how long it took from its begin until it was published (0: it
    /// is in memory alone). By the latter the launcher knows when the job must be asked to stop at
    /// the latest; where it is not given, it takes the former. `bytes`: of the checkpoint. The
    /// Checkpointer calls this by itself.
    void report_checkpoint(std::int64_t step, const std::filesystem::path& path,
                           double stall_seconds, std::optional<double> save_seconds = {},
                           std::optional<std::int64_t> bytes = {});
    /// A checkpoint of `bytes` is at `path`, in a further place, of which `copied` were moved now,
    /// in `seconds`. From it `autolaunch plan` knows how long the next one takes. The Checkpointer
    /// calls this by itself.
    void report_checkpoint_drained(std::int64_t step, const std::filesystem::path& path,
                                   std::int64_t bytes, std::int64_t copied, double seconds);
    /// The job's ranks have read the state of a checkpoint; one of the job's is deleted. For its
    /// event log and its audit trail; one rank says it for all. The Checkpointer calls these by
    /// itself.
    void report_checkpoint_loaded(std::int64_t step, const std::filesystem::path& path);
    void report_checkpoint_deleted(const std::filesystem::path& path);
    /// Free text for the job's event log. What begins with "warning: " is shown on the screen, too,
    /// as far as a rank says it a few times only.
    void report_message(const std::string& text);
    /// None of the checkpoints that are there can be used, for this reason, and a restart would
    /// find the same ones: when the job's ranks then fail, the launcher tries none and ends with
    /// exit code 74. An empty reason takes it back, and so does the next step or checkpoint that
    /// is reported. The Checkpointer calls this by itself.
    void report_cannot_resume(const std::string& reason);

    /// A part of the loop begins that reports no steps, such as an evaluation, and may take as long
    /// as it likes; with an empty name it is over. The launcher, which notices a job that stands
    /// still by steps that do not come, waits meanwhile.
    void report_phase(const std::string& name);

    /// True once the launcher asked the job to stop. Calling it declares that this trainer stops by
    /// itself at the next step: the agent then sends it no SIGTERM before restart.grace_period is
    /// over. Ranks learn it at different steps, so agree on it (Communicator::any_rank) before
    /// leaving the training loop.
    ///
    /// From the first call on, SIGTERM, SIGINT, SIGHUP and SIGQUIT that the launcher did not send
    /// (a scheduler that signals all processes of a job) do not end a process that has no handler
    /// for them: the launcher got them, too, and asks for the stop. When it has not asked after
    /// 5 s, the next call ends the process by the signal.
    bool stop_requested();
    /// When a rank that has not ended by itself is killed: the end of restart.grace_period. Nothing
    /// before the launcher asked to stop. Never blocks.
    std::optional<std::chrono::steady_clock::time_point> stop_deadline();
    /// True once for every checkpoint that the launcher asked for. Agree on it as on
    /// stop_requested().
    [[nodiscard]] bool checkpoint_requested();

    /// Runs the training loop, and again after another rank was lost: this process stays, and goes
    /// on in the next generation (docs/recovery.md). The loop must make everything that it trains
    /// with from this session, load the newest checkpoint (Checkpointer::load_latest()), and let
    /// errors of the library pass. Where that cannot be, the launcher restarts the process as
    /// always: with MPI, whose processes cannot lose one, and on a GPU that stays broken.
    void run(const std::function<void()>& loop);
    /// The same by hand, in parts. From here on calls that wait for other ranks throw
    /// GenerationChanged, on every rank, when one of them is lost and the job goes on.
    void expect_changes();
    /// After GenerationChanged, when nothing that was made from this session is used any more, and
    /// communicators on GPUs and what was made from them are destroyed: waits for the next
    /// generation and joins it. info() and store() are then its; MASTER_PORT and others of the
    /// environment stay as they were. Throws Error{closed} where none follows, and other errors
    /// where this process cannot go on, as the GPU is still in use or broken: end then.
    void rejoin();

    /// The run directory (AUTOLAUNCH_RUN_DIR); empty without the launcher.
    const std::filesystem::path& run_dir() const& noexcept;
    const std::filesystem::path& run_dir() const&& AUTOLAUNCH_NOT_FROM_A_TEMPORARY;
    /// The free-form part of the spec as JSON text ("{}" without one): the file named by
    /// AUTOLAUNCH_TRAINER_CONFIG.
    std::string trainer_config() const;

private:
    friend class Communicator;
    friend class Checkpointer;
    /// Made at the first call, and given to the agent where there is one; null where there is no
    /// memory for it.
    std::shared_ptr<FlightRecorder> flight_recorder();
    /// Another connection to the job's store, for waits that must not hold up store(). Throws
    /// Error{unsupported} where one process on one node serves it by itself.
    Store new_store();
    /// store(), for what may outlive the generation.
    std::shared_ptr<Store> shared_store();
    /// Of this generation; never null.
    std::shared_ptr<GenerationWatch> generation_watch();
    /// Lost ranks cannot be replaced any more, for what is used; said to the agent.
    void cannot_rejoin(const std::string& why);
    /// The agent's socket; empty without the launcher.
    std::filesystem::path agent_socket() const;

    class Impl;
    explicit Session(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace autolaunch
