#include "cli/program.hpp"

#include "accounting/read_accounts.hpp"
#include "accounting/usage_text.hpp"
#include "audit/audit_command.hpp"
#include "audit/audit_trail.hpp"
#include "base/file_limit.hpp"
#include "base/file_system.hpp"
#include "base/hostname.hpp"
#include "base/owned_folder.hpp"
#include "base/text.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "cli/audit_lines.hpp"
#include "cli/audited.hpp"
#include "cli/build_info.hpp"
#include "cli/checkpoint_places.hpp"
#include "cli/completion.hpp"
#include "cli/gc.hpp"
#include "cli/job_options.hpp"
#include "cli/options.hpp"
#include "cli/site_gate.hpp"
#include "cli/spec_errors.hpp"
#include "cli/stage_in.hpp"
#include "cli/stage_out.hpp"
#include "cli/submit.hpp"
#include "cli/top.hpp"
#include "cli/version_text.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/lint_files.hpp"
#include "oidc/device_flow.hpp"
#include "plan/launch_plan.hpp"
#include "plan/store_exposure.hpp"
#include "policy/job_site.hpp"
#include "policy/job_workspace.hpp"
#include "report/screen.hpp"
#include "run/ask_job.hpp"
#include "run/checkpoint_times.hpp"
#include "run/clean.hpp"
#include "run/container_doctor.hpp"
#include "run/node_tasks.hpp"
#include "run/run.hpp"
#include "run/run_doctor.hpp"
#include "run_report/report.hpp"
#include "run_report/run_reader.hpp"
#include "sampler/sampler.hpp"
#include "secrets/secrets.hpp"
#include "site/site_file.hpp"
#include "site/site_text.hpp"
#include "site/site_vault.hpp"
#include "spec/schema.hpp"
#include "spec/spec.hpp"
#include "spec/units.hpp"
#include "staging/plan_staging.hpp"
#include "submission/code_state.hpp"
#include "sweep/elements.hpp"
#include "topology/load_capture.hpp"
#include "topology/read_topology.hpp"
#include "topology_view/topology_json.hpp"
#include "topology_view/topology_svg.hpp"
#include "topology_view/topology_text.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <new>
#include <system_error>

namespace autolaunch::launcher {

namespace {

using Environment = std::map<std::string, std::string>;

/// Of the least that a command does; each rank takes more.
constexpr std::size_t kFewestFiles = 16, kNeededFiles = 32;
const std::string kNewestRun = "runs/latest";

/// What a subcommand has to work with, besides what was typed.
struct Place {
    const Environment& environment;
    Screen screen;
};

void complain(const std::string& text, const Screen& screen) {
    screen.complain("autolaunch: " + text);
}

/// For what all tasks of a job see, who have the same command line: the first node's agent says it.
bool others_tell(const Environment& environment) {
    return looks_like_stand_in(environment) || looks_like_later_node(environment);
}

void complain_once(const std::string& text, const Place& place) {
    if (!others_tell(place.environment))
        complain(text, place.screen);
}

// A node may have another file of that name than the first one: it says that there are errors, and
// not which.
int report_errors(const std::vector<SpecError>& errors, const Place& place) {
    for (const auto& error : errors)
        complain_once(to_string(error), place);
    if (looks_like_later_node(place.environment) && !looks_like_stand_in(place.environment))
        complain(hostname() + ": the spec has " + std::to_string(errors.size()) +
                     (errors.size() == 1 ? " error" : " errors") +
                     " here; the first node of the job lists its own, and `autolaunch validate` on "
                     "this node these",
                 place.screen);
    return exit_code_of_spec(errors);
}

std::string words_on_the_way(const JobSpec& spec) {
    const int nodes =
        std::max({spec.resources.nodes, spec.resources.most_nodes, spec.slurm.nodes.value_or(1)});
    const std::string words = sent_in_the_clear(nodes, spec.rendezvous);
    return words.empty() ? words : "between the nodes, in the clear: " + words + "\n";
}

int validate(const CommandLine& line, const Place& place) {
    SpecResult result =
        load_spec({line.spec_file, line.overrides, place.environment, {}, line.secrets});
    const JobSite site = JobSite::read(result.site, result.errors);
    settle_workspace(result.spec, site, result.errors);
    settle_with_site(result.spec, result.checkpoint, site, result.errors);
    const auto elements =
        result.errors.empty() ? sweep_elements(result.sweep) : std::vector<SweepElement>();
    check_elements(result, elements, result.errors);
    const auto record = site.record(JobSite::Slurm::ask, result.spec.checkpoint.recipients.size());
    const PolicyVerdict verdict = site.judge(claim_of_spec(result.spec, site.settings().action));
    keep_verdict(verdict, *record);
    if (line.json)
        place.screen.print_json(with_site(errors_json(line.spec_file, result.errors), *record));
    if (!result.errors.empty())
        return line.json ? exit_code_of_spec(result.errors) : report_errors(result.errors, place);
    if (!line.json)
        place.screen.print(line.spec_file + ": valid" +
                           (elements.empty()
                                ? ""
                                : ", a sweep of " + std::to_string(elements.size()) + " elements") +
                           "\n" + site_table(*record) + words_on_the_way(result.spec));
    require_allowed(verdict);
    return exit_code::kSuccess;
}

int topo(const CommandLine& line, const Screen& screen) {
    const NodeTopology topology =
        line.topology_file.empty()
            ? read_local_topology({.cpu_model = true, .details = true, .driver_facts = true})
            : load_capture(line.topology_file);
    if (line.json)
        screen.print_json(topology_json(topology));
    else
        screen.print(line.svg ? topology_svg(topology) : topology_text(topology));
    return exit_code::kSuccess;
}

void complain_about(const Error& error, const Screen& screen) {
    complain(error.what(), screen);
    if (error.hint().empty())
        return;
    for (const auto& line : split(error.hint(), '\n'))
        complain("  " + line, screen);
}

// Of an error before the nodes meet every node may have the same: the first one tells it whole, the
// others in a line, since it may be theirs alone. Why they do not meet each of them tells: it has
// tried its own ways.
void complain_of_node(const Error& error, const Environment& environment, const Screen& screen) {
    const int code = exit_code_of(error);
    const bool forbidden = dynamic_cast<const Forbidden*>(&error) != nullptr;
    const bool do_not_meet =
        code == exit_code::kNoHost || (code == exit_code::kNotPermitted && !forbidden);
    if (do_not_meet || !others_tell(environment))
        return complain_about(error, screen);
    const std::string hint = error.hint().substr(0, error.hint().find('\n'));
    complain(hostname() + ": " + error.what() + (hint.empty() ? "" : " (" + hint + ")"), screen);
}

int run_lint(const CommandLine& line, const Place& place) {
    try {
        const LintOutcome outcome = lint_files({.files = line.program,
                                                .kind = line.lint_kind,
                                                .slurm_conf = line.slurm_conf,
                                                .rules = line.rules,
                                                .markdown = line.markdown,
                                                .json = line.json},
                                               place.environment);
        if (line.json)
            place.screen.print_json(outcome.text);
        else
            place.screen.print(outcome.text);
        return outcome.exit_code;
    } catch (const SystemError& error) {  // a folder, or no permission
        complain_about(error, place.screen);
        return exit_code::kNoInput;
    }
}

// What is made is a checkpoint, which a job may go on from; or what leaves the cluster: whole
// tensors, and what was encrypted and is plain then.
void require_permission(const CheckpointRequest& request) {
    const bool makes_one =
        request.action == CheckpointAction::reshard || request.action == CheckpointAction::convert;
    if (makes_one)
        require_action("checkpoint");
    if (request.action == CheckpointAction::export_tensors || request.plain)
        require_action("export");
}

/// `site`: with the job's own sections, where there is a job. What starts no agent records nothing.
AuditTrail audit_trail(const SiteSettings& site, const Place& place) {
    AuditSettings settings = audit_settings_of(site);
    settings.enabled = settings.enabled && !looks_like_stand_in(place.environment);
    return {std::move(settings), place.environment, hostname(),
            [&place](const std::string& text) { complain_once(text, place); }};
}

int run_checkpoints(const CommandLine& line, const Place& place) {
    const Screen& screen = place.screen;
    const bool of_places = !line.spec_file.empty() && line.checkpoints.paths.empty();
    CheckpointRequest request = line.checkpoints;
    if (!line.spec_file.empty()) {
        const SpecResult result = load_spec({line.spec_file, line.overrides, place.environment});
        if (!result.errors.empty())
            return report_errors(result.errors, place);
        request = with_spec(std::move(request), result.spec, current_folder());
    }
    try {
        require_permission(request);
        const auto site = read_site_file();
        AuditTrail trail = audit_trail(site ? *site : SiteSettings{}, place);
        audit_before(trail, request);
        request.vault = {site ? vault_of(*site) : VaultSpec{}, place.environment};
        const CheckpointOutcome outcome =
            of_places ? run_on_places(request) : run_checkpoint_command(request);
        audit_after(trail, request, outcome);
        for (const std::string& one : outcome.passed_over)
            complain("passed over " + one, screen);
        if (line.json)
            screen.print_json(outcome.text);
        else
            screen.print(outcome.text);
        return outcome.exit_code;
    } catch (const Error& error) {
        complain_about(error, screen);
        const auto* system = dynamic_cast<const SystemError*>(&error);
        if (system != nullptr && system->error_number() == EEXIST)
            return exit_code::kCannotCreate;
        const bool data = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch;
        return data ? exit_code::kBadData : exit_code_of(error);
    }
}

int doctor(const CommandLine& line, const Place& place) {
    SpecResult result;
    if (!line.spec_file.empty())
        result = load_spec({line.spec_file, line.overrides, place.environment});
    if (!result.errors.empty())
        return report_errors(result.errors, place);
    const DoctorRequest request{line.doctor, line.json, result.spec, build_info::kVersion};
    return line.doctor.container.empty() ? run_doctor(request, place.environment)
                                         : run_container_doctor(request, place.environment);
}

int report_accounts(const CommandLine& line, const Place& place) {
    const UsageRequest request = usage_request(
        line.accounts, std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()));
    const Usage usage = read_accounts(request, line.program, secret_values(place.environment));
    if (line.json) {
        place.screen.print_json(usage_json(usage, request));
    } else if (line.accounts.csv) {
        for (const std::string& note : usage.notes)
            complain("not known: " + note, place.screen);
        place.screen.print(usage_csv(usage, request));
    } else {
        place.screen.print(usage_table(usage, request));
    }
    return exit_code::kSuccess;
}

int report_runs(const CommandLine& line, const Place& place) {
    if (!line.accounts.since.empty())
        return report_accounts(line, place);
    std::vector<RunRecord> records;
    RunReading reading{.secrets = secret_values(place.environment)};
    if (!line.html_file.empty())
        reading.parts = kGpuCourseParts;
    for (const std::string& run_dir : line.program)
        records.push_back(read_run(run_dir, reading));
    if (!line.html_file.empty()) {
        const std::filesystem::path file = line.html_file;
        OwnedFolder::open(file.parent_path())
            .replace(file.filename(), report_html(records, build_info::kVersion));
    }
    if (line.json)
        place.screen.print_json(report_json(records));
    else if (line.html_file.empty())
        place.screen.print(report_text(records, style_of_stdout()));
    else
        place.screen.print(line.html_file + ": written\n");
    return exit_code::kSuccess;
}

int run_policy(const CommandLine& line, const Screen& screen) {
    const PolicyOutcome outcome = run_policy_command(line.policy);
    for (const std::string& note : outcome.notes)
        complain(note, screen);
    if (line.json)
        screen.print_json(outcome.text);
    else
        screen.print(outcome.text);
    return outcome.exit_code;
}

int run_render(const CommandLine& line, const Place& place) {
    const RenderOutcome outcome = run_render_command(line.render);
    for (const std::string& note : outcome.notes)
        complain(note, place.screen);
    // Masked, it would not be what was meant; there is no secret in it.
    const Screen screen(place.environment, Secrets::show);
    if (line.json)
        screen.print_json(outcome.text);
    else
        screen.print(outcome.text);
    return exit_code::kSuccess;
}

int run_audit(const CommandLine& line, const Place& place) {
    const auto site = read_site_file();
    const AuditOutcome outcome =
        run_audit_command(line.audit, audit_settings_of(site ? *site : SiteSettings{}),
                          place.environment, hostname());
    if (line.json)
        place.screen.print_json(outcome.text);
    else
        place.screen.print(outcome.text);
    return outcome.exit_code;
}

// The token goes into its file alone.
int log_in(const CommandLine& line, const Screen& screen) {
    const std::filesystem::path file = absolute_path(line.program.front());
    const OwnedFolder folder = OwnedFolder::open(file.parent_path());
    try {
        const oidc::Login login = oidc::login_by_device(
            line.login, [&screen](const std::string& what) { complain(what, screen); });
        constexpr mode_t kOwnersAlone = 0600;
        folder.replace(file.filename(), login.token, kOwnersAlone);
        const auto left = std::chrono::duration_cast<std::chrono::seconds>(
            login.expires - std::chrono::system_clock::now());
        screen.print(file.string() + ": the token of " + mask_secrets(login.subject, {}) +
                     ", for " + std::to_string(std::max<long long>(left.count(), 0)) + " s\n");
        return exit_code::kSuccess;
    } catch (const Error& error) {
        complain_about(error, screen);
        const bool refused = error.code() == ErrorCode::mismatch ||
                             error.code() == ErrorCode::corrupt ||
                             error.code() == ErrorCode::invalid_argument;
        return refused ? exit_code::kBadData : exit_code::kUnavailable;
    }
}

/// What a job that was submitted, or was not, has to know of that at its start.
void tell_of_submission(const JobSpec& spec, const Place& place) {
    const SlurmSpec& slurm = spec.slurm;
    const bool prepares = !slurm.modules.empty() || !slurm.setup.empty() || !slurm.venv.empty() ||
                          !slurm.conda.empty();
    if (others_tell(place.environment))
        return;
    if (prepares && !was_submitted(spec.spec_file))
        complain(
            "slurm_config.modules, venv, conda and setup are the batch script's of autolaunch "
            "submit: here they do nothing",
            place.screen);
    if (const std::string changed = changed_code(spec.spec_file); !changed.empty())
        complain(changed, place.screen);
}

int start_job(const CommandLine& line, const JobSite& site, const JobRequest& request,
              const std::shared_ptr<SiteRecord>& record, const Place& place) {
    if (const std::string keys = record ? not_acted_on(*record) : ""; !keys.empty())
        complain_once(keys, place);
    if (line.command == Command::run)
        tell_of_submission(request.spec, place);
    AuditTrail trail = audit_trail(site.settings(), place);
    audit_submission(trail, request.spec, build_info::kVersion);
    const StartGate gate = gate_of(
        site, request.spec, record, place.environment,
        [&place](const std::string& uncompared) { complain_once(uncompared, place); },
        [&trail](const PolicyVerdict& verdict) { audit_decision(trail, verdict); });
    return run_job(request.spec, place.environment, build_info::kVersion, line.drain, gate,
                   audit_witness(trail), request.sweep);
}

int run_or_plan(const CommandLine& line, const Place& place) {
    const Environment& environment = place.environment;
    JobRequest request = job_request(line, environment);
    const JobSite site = JobSite::read(request.site, request.errors);
    settle_workspace(request.spec, site, request.errors);
    settle_with_site(request.spec, request.checkpoint, site, request.errors);
    if (!request.errors.empty())
        return report_errors(request.errors, place);
    if (line.command == Command::stage_in) {
        request.spec = staging_alone(request.spec, line.stage_in, site.settings());
        request.spec.logging.quiet = line.options.quiet.value_or(false);  // the spec's is the job's
    }
    for (const auto& note : request.notes)
        complain_once(note, place);
    const bool starts = line.command != Command::plan;
    const auto record = site.empty()
                            ? nullptr
                            : site.record(starts ? JobSite::Slurm::leave : JobSite::Slurm::ask,
                                          request.spec.checkpoint.recipients.size());
    request.spec.site = record;
    request.spec.vault = vault_of(site.settings());
    if (starts)
        return start_job(line, site, request, record, place);
    if (looks_like_stand_in(environment))
        return exit_code::kSuccess;  // the node's first task shows it
    const LaunchPlan plan = line.topology_file.empty()
                                ? plan_here(request.spec, environment)
                                : plan_elsewhere(request.spec, environment, line.topology_file);
    const PolicyVerdict verdict = judge_plan(site, plan, environment);
    if (record)
        keep_verdict(verdict, *record);
    if (line.json)
        place.screen.print_json(plan_json(plan, line.secrets));
    else
        place.screen.print(plan_table(plan, line.secrets) +
                           checkpoint_times(plan, runs_before(plan)));
    require_allowed(verdict);
    return exit_code::kSuccess;
}

int dispatch(const CommandLine& line, const Environment& environment) {
    const Place place = {environment, Screen(environment, line.secrets)};
    const Screen& screen = place.screen;
    switch (line.command) {
        case Command::help:
            screen.print(line.help);
            return exit_code::kSuccess;
        case Command::version:
            if (line.json)
                screen.print_json(version_json());
            else
                screen.print(version_text());
            return exit_code::kSuccess;
        case Command::completion:
            screen.print(completion_script(line.shell));
            return exit_code::kSuccess;
        case Command::schema:
            screen.print(line.markdown ? schema_markdown() : json_schema() + '\n');
            return exit_code::kSuccess;
        case Command::topo:
            return topo(line, screen);
        case Command::validate:
            return validate(line, place);
        case Command::lint:
            return run_lint(line, place);
        case Command::doctor:
            return doctor(line, place);
        case Command::ckpt:
            return run_checkpoints(line, place);
        case Command::report:
            return report_runs(line, place);
        case Command::policy:
            return run_policy(line, screen);
        case Command::render:
            return run_render(line, place);
        case Command::audit:
            return run_audit(line, place);
        case Command::login:
            return log_in(line, screen);
        case Command::gc:
            return collect_left(line, environment, screen);
        case Command::stage_out:
            return finish_stage_out(line, environment, screen);
        case Command::clean:
            return clean_node({line.job, line.dry_run, line.drain, line.json}, environment);
        case Command::drain:
            return (line.take_back ? take_back_node_of_job : drain_node_of_job)(
                {line.job.empty() ? kNewestRun : line.job, line.secret_file}, line.program.front(),
                environment);
        case Command::attach:
            return attach_to_job(
                {line.program.empty() ? kNewestRun : line.program.front(), line.secret_file},
                environment);
        case Command::top:
            return top_of_job(
                line, {line.program.empty() ? kNewestRun : line.program.front(), line.secret_file},
                environment, screen);
        case Command::submit:
            return submit_job(line, environment, screen);
        case Command::sweep:
            return run_sweep(line, environment, screen);
        case Command::plan:
        case Command::run:
        case Command::stage_in:
            return run_or_plan(line, place);
    }
    return exit_code::kInternal;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment) {
    if (arguments == std::vector<std::string>{kSamplerArgument})
        run_sampler();
    const Screen screen(environment);
    try {
        require_file_limit(kFewestFiles, kNeededFiles);
        return dispatch(parse_command_line(arguments, environment), environment);
    } catch (const UsageError& error) {
        if (!others_tell(environment))
            complain_about(error, screen);
        return exit_code::kUsage;
    } catch (const Error& error) {
        complain_of_node(error, environment, screen);
        return exit_code_of(error);
    } catch (const std::bad_alloc&) {
        complain("out of memory", screen);
        return exit_code::kSystem;
    } catch (const std::system_error& error) {
        // Of libraries, which do not know our errors.
        const bool files = error.code() == std::errc::too_many_files_open;
        complain_about(Error(ErrorCode::system, std::string("cannot go on: ") + error.what(),
                             files ? explain_file_limit() : ""),
                       screen);
        return exit_code::kSystem;
    } catch (const std::exception& error) {
        complain(std::string("internal error: ") + error.what() + " (please report it)", screen);
        return exit_code::kInternal;
    }
}

}  // namespace autolaunch::launcher
