#include "cli/submit.hpp"

#include "base/workspace.hpp"
#include "cli/build_info.hpp"
#include "cli/job_options.hpp"
#include "cli/site_gate.hpp"
#include "exit_codes/exit_codes.hpp"
#include "policy/job_site.hpp"
#include "policy/job_workspace.hpp"
#include "spec/interpolate.hpp"
#include "submission/submit_command.hpp"

#include <algorithm>

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

int report(const std::vector<SpecError>& errors, const Screen& screen) {
    for (const SpecError& error : errors)
        screen.complain("autolaunch: " + to_string(error));
    const bool unreadable =
        std::all_of(errors.begin(), errors.end(), [](const SpecError& e) { return e.unreadable; });
    return unreadable ? exit_code::kNoInput : exit_code::kBadSpec;
}

/// The roles of the administrator's file, for what the spec asks; its time limit included. Throws
/// Forbidden.
void require_role(const JobSite& site, const JobSpec& spec, const Screen& screen) {
    const PolicyVerdict verdict = site.judge(claim_of_spec(spec, site.settings().action));
    for (const std::string& line : verdict.uncompared)
        screen.complain("autolaunch: " + line);
    require_allowed(verdict);
}

}  // namespace

int submit_job(const CommandLine& line, const std::map<std::string, std::string>& environment,
               const Screen& screen) {
    SubmitRequest request;
    request.environment = without_job(environment);
    JobRequest job = job_request(line, request.environment);
    const JobSite site = JobSite::read(job.site, job.errors);
    settle_workspace(job.spec, site, job.errors);
    settle_with_site(job.spec, job.checkpoint, site, job.errors);
    if (!job.errors.empty())
        return report(job.errors, screen);
    require_role(site, job.spec, screen);
    set_workspace(workspace_of(job.spec.workspace));
    request.read = {
        .spec = std::move(job.spec), .root = std::move(job.root), .stored = std::move(job.stored)};
    request.words = line.program;
    request.overrides = line.overrides;
    request.version = build_info::kVersion;
    request.dry_run = line.dry_run;
    request.hold = line.submit.hold;
    request.wait = line.submit.wait;
    request.json = line.json;
    request.snapshot = line.submit.snapshot;
    request.say = [&screen](const std::string& text) { screen.complain("autolaunch: " + text); };
    request.print = [&screen, &line](const std::string& text) {
        if (line.json)
            screen.print_json(text);
        else
            screen.print(text);
    };
    for (const std::string& note : job.notes)
        request.say(note);
    std::vector<SpecError> errors;
    const int code = submit_to_slurm(request, errors);
    return errors.empty() ? code : report(errors, screen);
}

}  // namespace autolaunch::launcher
