#include "session/nesting.hpp"

#include "base/text.hpp"
#include "session/environment.hpp"

#include <vector>

namespace autolaunch {
namespace {

// Slurm numbers its own steps from the top: batch, extern and interactive step are no srun tasks.
constexpr long long kFirstSpecialStep = 0xFFFFFFF0LL;

bool has(const Environment& environment, const char* name) {
    return !value_of(environment, name).empty();
}

std::string step_number(const Environment& environment) {
    const std::string number = value_of(environment, "SLURM_STEP_ID");
    return number.empty() ? value_of(environment, "SLURM_STEPID") : number;
}

/// "4711.0:43543" in a step of srun, which has that port; "4711" elsewhere in a job of Slurm.
std::string slurm_step(const Environment& environment) {
    std::string job = value_of(environment, "SLURM_JOB_ID");
    if (job.empty())
        job = value_of(environment, "SLURM_JOBID");
    if (!is_srun_task(environment))
        return job;
    return job + '.' + step_number(environment) + ':' +
           value_of(environment, "SLURM_SRUN_COMM_PORT");
}

std::string job_of(const std::string& step) { return step.substr(0, step.find('.')); }

std::string port_of(const std::string& step) {
    const std::size_t colon = step.find(':');
    return colon == std::string::npos ? std::string() : step.substr(colon + 1);
}

// The script of a job that a rank submitted has a job of its own, and inherits the rank's step.
ToldBy told_by_slurm(const Environment& environment, const std::string& now,
                     const std::string& of_rank) {
    if (now.empty() || now == of_rank)
        return ToldBy::autolaunch;
    const bool same_srun = !port_of(now).empty() && port_of(now) == port_of(of_rank);
    if (is_srun_task(environment) && !same_srun)
        return ToldBy::srun;
    return job_of(now) == job_of(of_rank) ? ToldBy::autolaunch : ToldBy::sbatch;
}

/// Of an mpirun; empty where srun or a rank's own agent serves PMIx.
std::string mpirun_name(const Environment& environment) {
    const std::string name_space = value_of(environment, "PMIX_NAMESPACE");
    const bool of_mpirun = has(environment, "OMPI_COMM_WORLD_RANK") &&
                           !name_space.starts_with("autolaunch-") &&
                           !name_space.starts_with("slurm.");
    return of_mpirun ? name_space : std::string();
}

/// Hydra gives its job no name.
std::string hydra_rank(const Environment& environment) {
    const bool of_hydra =
        has(environment, "MPI_LOCALNRANKS") && value_of(environment, env::kMpi) != "pmi1";
    return of_hydra ? value_of(environment, "PMI_RANK") : std::string();
}

/// "4711.0" of "slurm=4711.0 pmix=x".
std::string part_of(const std::string& launchers, const std::string& name) {
    for (const std::string& part : split(launchers, ' '))
        if (part.starts_with(name + '='))
            return part.substr(name.size() + 1);
    return {};
}

}  // namespace

bool is_srun_task(const Environment& environment) {
    long long number = 0;
    return has(environment, "SLURM_PROCID") && parse_integer(step_number(environment), number) &&
           number < kFirstSpecialStep;
}

std::string launchers_above(const Environment& environment) {
    std::vector<std::string> parts;
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty())
            parts.push_back(std::string(name) + '=' + value);
    };
    add("slurm", slurm_step(environment));
    add("pmix", mpirun_name(environment));
    add("pmi", hydra_rank(environment));
    return join(parts, " ");
}

ToldBy told_last(const Environment& environment) {
    if (!has(environment, env::kSocket) && !has(environment, env::kGeneration))
        return ToldBy::others;
    const std::string of_rank = value_of(environment, env::kWithin);
    const auto is_new = [&](const std::string& value, const char* name) {
        return !value.empty() && value != part_of(of_rank, name);
    };
    if (is_new(mpirun_name(environment), "pmix"))
        return ToldBy::open_mpi;
    if (is_new(hydra_rank(environment), "pmi"))
        return ToldBy::hydra;
    return told_by_slurm(environment, slurm_step(environment), part_of(of_rank, "slurm"));
}

}  // namespace autolaunch
