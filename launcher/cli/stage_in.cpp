#include "cli/stage_in.hpp"

#include "exit_codes/exit_error.hpp"
#include "site/site_file.hpp"
#include "staging/plan_staging.hpp"

#include <string>

namespace autolaunch::launcher {

namespace {

/// A server asks who it is that reads; that others would get the same nobody here can know.
void require_for_all(const StorageSpec& storage, const StageInOptions& options) {
    for (const StageInSpec& item : storage.stage_in)
        if (item.from.find("://") != std::string::npos && !options.readable_by_all)
            throw ExitError(exit_code::kBadSpec, ErrorCode::invalid_argument,
                            "storage.stage_in: " + item.name +
                                " comes from a server, and in the shared cache everybody reads it",
                            "where that server gives it to everybody, say --readable-by-all");
}

void require_shared_cache(const SiteSettings& site) {
    if (site.find(kSharedCacheKey) == nullptr)
        throw ExitError(exit_code::kBadSite, ErrorCode::invalid_argument,
                        std::string(kSiteFile) + " names no shared cache",
                        std::string(kSharedCacheKey) +
                            ": /local/datasets, a folder on each node's "
                            "own disk");
}

}  // namespace

JobSpec staging_alone(const JobSpec& job, const StageInOptions& options, const SiteSettings& site) {
    if (job.storage.stage_in.empty())
        throw ExitError(exit_code::kBadSpec, ErrorCode::invalid_argument,
                        job.spec_file + ": storage.stage_in names nothing to stage",
                        "docs/guides/data.md");
    JobSpec spec;
    spec.storage = job.storage;
    spec.storage.stage_out.clear();
    spec.storage.is_all = true;
    for (StageInSpec& item : spec.storage.stage_in)
        item.streams = false;
    if (options.shared) {
        require_shared_cache(site);
        require_for_all(spec.storage, options);
        spec.storage.fills_shared = true;
    }
    spec.trainer.command = job.trainer.command;
    spec.trainer.workdir = job.trainer.workdir;
    spec.trainer.mpi = "none";
    spec.resources.nodes = job.resources.nodes;
    spec.resources.most_nodes = job.resources.most_nodes;
    spec.resources.nodes_given = job.resources.nodes_given;
    spec.resources.ranks_mode = RanksPerNode::fixed;
    spec.resources.ranks_per_node = 1;
    spec.resources.binding = "none";
    spec.nccl.manage = false;
    spec.rendezvous = job.rendezvous;
    spec.rendezvous.preflight = Preflight::off;
    spec.workspace = job.workspace;
    spec.monitoring.log_path = job.monitoring.log_path;
    spec.monitoring.resource_tracking = false;
    spec.name = job.name.empty() ? "stage-in" : job.name + " stage-in";
    spec.run_dir = job.run_dir;
    spec.run_id = job.run_id;
    spec.node_rank = job.node_rank;
    spec.local_addr = job.local_addr;
    spec.spec_file = job.spec_file;
    spec.source_digest = job.source_digest;
    spec.secrets = job.secrets;
    spec.uses_kerberos = job.uses_kerberos;
    return spec;
}

}  // namespace autolaunch::launcher
