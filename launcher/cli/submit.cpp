#include "cli/submit.hpp"

#include "audit/audit_settings.hpp"
#include "audit/audit_trail.hpp"
#include "base/hostname.hpp"
#include "base/workspace.hpp"
#include "cli/audited.hpp"
#include "cli/build_info.hpp"
#include "cli/job_options.hpp"
#include "cli/print_manifest.hpp"
#include "cli/site_gate.hpp"
#include "cli/spec_errors.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "policy/job_site.hpp"
#include "policy/job_workspace.hpp"
#include "spec/interpolate.hpp"
#include "submission/submit_command.hpp"
#include "submission/sweep_command.hpp"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace autolaunch::launcher {

namespace {

/// Of a shell within another job: that one's variables are not the new one's.
EnvironmentMap without_job(EnvironmentMap environment) {
    if (environment.contains("SLURM_JOB_ID"))
        std::erase_if(environment, [](const auto& variable) {
            return is_variable_of_slurm(variable.first) && variable.first != "SLURM_CONF";
        });
    return environment;
}

/// The roles of the administrator's file, for what the spec asks; its time limit included. Throws
/// Forbidden.
void require_role(const JobSite& site, const JobSpec& spec, const Screen& screen) {
    const PolicyVerdict verdict = site.judge(claim_of_spec(spec, site.settings().action));
    for (const std::string& line : verdict.uncompared)
        screen.complain("autolaunch: " + line);
    require_allowed(verdict);
}

/// One job's request; nothing where its spec has errors, which are in `errors` then. Throws
/// Forbidden.
std::optional<SubmitRequest> request_for(const CommandLine& line, JobRequest job,
                                         const EnvironmentMap& environment, const Screen& screen,
                                         std::vector<SpecError>& errors) {
    const JobSite site = JobSite::read(job.site, job.errors);
    settle_workspace(job.spec, site, job.errors);
    settle_with_site(job.spec, job.checkpoint, site, job.errors);
    errors.insert(errors.end(), job.errors.begin(), job.errors.end());
    if (!job.errors.empty())
        return std::nullopt;
    require_role(site, job.spec, screen);
    if (!line.dry_run) {
        AuditTrail trail(
            audit_settings_of(site.settings()), environment, hostname(),
            [&screen](const std::string& text) { screen.complain("autolaunch: " + text); });
        audit_submission(trail, job.spec, build_info::kVersion, line.submit.to);
    }
    set_workspace(workspace_of(job.spec.workspace));
    SubmitRequest request;
    request.environment = environment;
    request.read = {.spec = std::move(job.spec),
                    .root = std::move(job.root),
                    .sweep = std::move(job.sweep),
                    .stored = std::move(job.stored)};
    request.words = line.program;
    request.overrides = line.overrides;
    request.version = build_info::kVersion;
    request.dry_run = line.dry_run;
    request.hold = line.submit.hold;
    request.wait = line.submit.wait;
    request.json = line.json;
    request.snapshot = line.submit.snapshot;
    request.stage_first = line.submit.stage_first;
    request.say = [&screen](const std::string& text) { screen.complain("autolaunch: " + text); };
    request.print = [&screen, json = line.json](const std::string& text) {
        if (json)
            screen.print_json(text);
        else
            screen.print(text);
    };
    for (const std::string& note : job.notes)
        request.say(note);
    return request;
}

/// Each stage has a spec of its own: its file lies beside the pipeline's.
int submit_stages(const CommandLine& line, const JobRequest& pipeline,
                  const EnvironmentMap& environment, const Screen& screen) {
    if (!line.program.empty())
        throw UsageError("a pipeline takes no PROGRAM: each stage has a spec",
                         "trainer.command of the stage's spec");
    if (line.submit.stage_first)
        throw UsageError("--stage-first is of one job, and a pipeline has several",
                         "leave it out: each stage's job stages for itself");
    std::vector<SpecError> errors;
    for (const Entry& entry : pipeline.root.entries)
        if (entry.key != "pipeline")
            errors.push_back(error_at(entry.key_at, entry.key,
                                      "stands beside pipeline, whose stages have specs of their "
                                      "own; `include` it there"));
    std::vector<StageRequest> stages;
    for (const StageSpec& stage : pipeline.spec.pipeline) {
        CommandLine own = line;
        own.overrides.clear();
        own.spec_file = std::filesystem::path(line.spec_file).parent_path() / stage.spec;
        JobRequest job = job_request(own, environment);
        if (!job.spec.pipeline.empty()) {
            errors.push_back({own.spec_file, 0, 0, "pipeline", "is a stage of another pipeline"});
            continue;
        }
        auto request = request_for(own, std::move(job), environment, screen, errors);
        if (request)
            stages.push_back({stage.name, stage.after, std::move(*request)});
    }
    if (!errors.empty())
        return complain_of_spec(errors, screen);
    const int code = submit_pipeline(stages, errors);
    return errors.empty() ? code : complain_of_spec(errors, screen);
}

/// For the pods of Kubernetes: what is known here of the job's variables is all that they get.
int print_for_kubectl(const CommandLine& line, ManifestKind kind, const EnvironmentMap& environment,
                      const Screen& screen) {
    SpecResult read = load_spec({line.spec_file, line.overrides, environment});
    if (read.sweep.given)
        read.errors.push_back(error_at(read.sweep.at, "sweep",
                                       "makes an array of Slurm's, and no manifest; write one spec "
                                       "an element"));
    const JobSite site = JobSite::read(read.site, read.errors);
    settle_workspace(read.spec, site, read.errors);
    settle_with_site(read.spec, read.checkpoint, site, read.errors);
    if (!read.errors.empty())
        return complain_of_spec(read.errors, screen);
    read.spec.secrets = secret_values(environment);
    require_role(site, read.spec, screen);
    return print_manifest(read, kind, line.submit.earlier_run, environment);
}

}  // namespace

int submit_job(const CommandLine& line, const std::map<std::string, std::string>& environment,
               const Screen& screen) {
    if (const auto kind = manifest_kind_from(line.submit.to))
        return print_for_kubectl(line, *kind, environment, screen);
    const EnvironmentMap outside = without_job(environment);
    JobRequest job = job_request(line, outside);
    if (job.errors.empty() && !job.spec.pipeline.empty())
        return submit_stages(line, job, outside, screen);
    std::vector<SpecError> errors;
    const auto request = request_for(line, std::move(job), outside, screen, errors);
    if (!request)
        return complain_of_spec(errors, screen);
    const int code = submit_to_slurm(*request, errors);
    return errors.empty() ? code : complain_of_spec(errors, screen);
}

int run_sweep(const CommandLine& line, const std::map<std::string, std::string>& environment,
              const Screen& screen) {
    SweepRequest request = line.sweep;
    request.json = line.json;
    request.dry_run = line.dry_run;
    request.environment = without_job(environment);
    request.say = [&screen](const std::string& text) { screen.complain("autolaunch: " + text); };
    request.print = [&screen, json = line.json](const std::string& text) {
        json ? screen.print_json(text) : screen.print(text);
    };
    return run_sweep_command(request);
}

}  // namespace autolaunch::launcher
