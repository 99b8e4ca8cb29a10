// Session::read_environment: who this process is, by the environment that its launcher left. Pure.
#include <autolaunch/session.hpp>

#include "base/environment.hpp"
#include "base/text.hpp"
#include "session/environment.hpp"
#include "session/nesting.hpp"
#include "session/task_counts.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

namespace autolaunch {
namespace {

/// Reads whole numbers and words from the environment; errors name the variable and its value.
class Reader {
public:
    explicit Reader(const Environment& environment) : environment_(environment) {}

    const std::string* find(const char* name) const {
        const auto found = environment_.find(name);
        return found != environment_.end() && !found->second.empty() ? &found->second : nullptr;
    }
    bool has(const char* name) const { return find(name) != nullptr; }
    std::string text(const char* name) const { return has(name) ? *find(name) : std::string(); }
    /// The first of the names that is set.
    const char* first_of(std::initializer_list<const char*> names) const {
        for (const char* name : names) {
            if (has(name))
                return name;
        }
        return *names.begin();
    }
    int number(const char* name, int when_unset) const {
        return has(name) ? parse(name) : when_unset;
    }
    int required(const char* name, const std::string& because) const {
        if (has(name))
            return parse(name);
        throw Error(ErrorCode::invalid_argument, std::string(name) + " is not set, but " + because,
                    std::string("set ") + name + ", or unset the other");
    }

private:
    int parse(const char* name) const {
        const std::string& value = *find(name);
        long long number = 0;
        if (parse_integer(value, number) && number >= 0 &&
            number <= std::numeric_limits<int>::max()) {
            return static_cast<int>(number);
        }
        throw Error(ErrorCode::invalid_argument,
                    std::string(name) + "=" + value + " is not a number of 0 or more",
                    std::string("correct or unset ") + name);
    }

    const Environment& environment_;
};

/// `index_name` must be below `count_name`.
void check_below(int index, const char* index_name, int count, const char* count_name) {
    if (index < count)
        return;
    throw Error(ErrorCode::invalid_argument,
                std::string(index_name) + "=" + std::to_string(index) + " must be below " +
                    count_name + "=" + std::to_string(count),
                "ranks count from 0: correct the one that is wrong, or unset both");
}

/// Where only ranks on this node are told: nodes are filled in order and equally, which is every
/// launcher's default.
void assume_equal_nodes(RankInfo& info) {
    info.node_rank = (info.rank - info.local_rank) / info.local_world_size;
    info.node_count = (info.world_size + info.local_world_size - 1) / info.local_world_size;
}

RankInfo read_torchrun(const Reader& reader, LaunchedBy launched_by) {
    const std::string because = launched_by == LaunchedBy::autolaunch
                                    ? std::string(env::kSocket) + " or " + env::kGeneration + " is"
                                    : std::string(env::kRank) + " or " + env::kRunId + " is";
    RankInfo info;
    info.launched_by = launched_by;
    info.rank = reader.required(env::kRank, because);
    info.world_size = reader.required(env::kWorldSize, because);
    check_below(info.rank, env::kRank, info.world_size, env::kWorldSize);
    info.local_rank = reader.number(reader.first_of({env::kTrueLocalRank, env::kLocalRank}), 0);
    info.local_world_size = reader.number(env::kLocalWorldSize, info.local_rank + 1);
    check_below(info.local_rank, env::kLocalRank, info.local_world_size, env::kLocalWorldSize);
    check_below(info.local_world_size - 1, env::kLocalWorldSize, info.world_size, env::kWorldSize);
    check_below(info.local_rank, env::kLocalRank, info.rank + 1, "RANK + 1");
    assume_equal_nodes(info);
    info.node_rank = reader.number(env::kGroupRank, info.node_rank);
    info.node_count =
        reader.number(env::kGroupWorldSize, std::max(info.node_count, info.node_rank + 1));
    check_below(info.node_rank, env::kGroupRank, info.node_count, env::kGroupWorldSize);
    info.generation = reader.number(reader.first_of({env::kGeneration, env::kRestartCount}), 0);
    info.max_restarts = reader.number(env::kMaxRestarts, 0);
    info.run_id = reader.text(env::kRunId);
    info.serves_mpi = launched_by == LaunchedBy::autolaunch && reader.has(env::kMpi);
    return info;
}

struct MpiNames {
    const char* rank;
    const char* size;
    const char* local_rank;
    const char* local_size;
    const char* job;
};

RankInfo read_mpi(const Reader& reader, const MpiNames& names) {
    RankInfo info;
    info.launched_by = LaunchedBy::mpi;
    info.serves_mpi = true;
    info.rank = reader.required(names.rank, std::string(names.size) + " is");
    info.world_size = reader.required(names.size, std::string(names.rank) + " is");
    check_below(info.rank, names.rank, info.world_size, names.size);
    info.local_rank = reader.required(names.local_rank, std::string(names.rank) + " is");
    info.local_world_size = reader.required(names.local_size, std::string(names.rank) + " is");
    check_below(info.local_rank, names.local_rank, info.local_world_size, names.local_size);
    check_below(info.local_world_size - 1, names.local_size, info.world_size, names.size);
    assume_equal_nodes(info);
    info.run_id = reader.text(reader.first_of({names.job, "PMIX_NAMESPACE", "PMI_JOBID"}));
    return info;
}

RankInfo read_slurm(const Reader& reader) {
    const char* ntasks = reader.first_of({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
    const char* nnodes = reader.first_of({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
    const char* counts = reader.first_of({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
    RankInfo info;
    info.launched_by = LaunchedBy::slurm;
    info.rank = reader.required("SLURM_PROCID", "SLURM_STEP_ID is");
    info.world_size = reader.required(ntasks, "SLURM_PROCID is");
    check_below(info.rank, "SLURM_PROCID", info.world_size, ntasks);
    info.node_rank = reader.number("SLURM_NODEID", 0);
    info.node_count = reader.number(nnodes, 1);
    check_below(info.node_rank, "SLURM_NODEID", info.node_count, nnodes);
    info.local_rank = reader.required("SLURM_LOCALID", "SLURM_PROCID is");
    info.local_world_size = info.node_count == 1 ? info.world_size : info.local_rank + 1;
    if (reader.has(counts))
        info.local_world_size = tasks_on_node(counts, *reader.find(counts), info.node_rank);
    check_below(info.local_rank, "SLURM_LOCALID", info.local_world_size, counts);
    info.generation = reader.number("SLURM_RESTART_COUNT", 0);
    const char* job = reader.first_of({"SLURM_JOB_ID", "SLURM_JOBID"});
    info.run_id =
        reader.text(job) + "." + reader.text(reader.first_of({"SLURM_STEP_ID", "SLURM_STEPID"}));
    return info;
}

constexpr MpiNames kOpenMpi = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
                               "PMIX_NAMESPACE"};
constexpr MpiNames kHydra = {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
                             "PMI_JOBID"};

}  // namespace

RankInfo Session::read_environment(const std::map<std::string, std::string>& environment) {
    const Reader reader(environment);
    switch (told_last(environment)) {
        case ToldBy::autolaunch:
            return read_torchrun(reader, LaunchedBy::autolaunch);
        case ToldBy::sbatch:
            return {};
        case ToldBy::srun:
            return read_slurm(reader);
        case ToldBy::open_mpi:
            return read_mpi(reader, kOpenMpi);
        case ToldBy::hydra:
            return read_mpi(reader, kHydra);
        case ToldBy::others:
            break;
    }
    // WORLD_SIZE alone is what many job scripts export for all tasks; who a task is, Slurm or MPI
    // tells.
    if (reader.has(env::kRank) || reader.has(env::kRunId))
        return read_torchrun(reader, LaunchedBy::torchrun);
    if (reader.has(kOpenMpi.rank) || reader.has(kOpenMpi.size))
        return read_mpi(reader, kOpenMpi);
    // srun --mpi=pmi2 sets PMI_RANK, too, but tells the place on the node in Slurm's own names
    // only.
    const bool is_hydra = reader.has(kHydra.local_rank) || !is_srun_task(environment);
    if (is_hydra && (reader.has(kHydra.rank) || reader.has(kHydra.size)))
        return read_mpi(reader, kHydra);
    if (is_srun_task(environment))
        return read_slurm(reader);
    return {};
}

}  // namespace autolaunch
