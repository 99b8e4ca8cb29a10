#include "cli/program.hpp"

#include "base/file_io.hpp"
#include "base/hostname.hpp"
#include "base/text.hpp"
#include "checkpoints/checkpoint_command.hpp"
#include "cli/build_info.hpp"
#include "cli/job_options.hpp"
#include "cli/options.hpp"
#include "exit_codes/exit_codes.hpp"
#include "exit_codes/exit_error.hpp"
#include "lint/lint_files.hpp"
#include "plan/launch_plan.hpp"
#include "report/terminal_text.hpp"
#include "run/node_tasks.hpp"
#include "run/run.hpp"
#include "run/run_doctor.hpp"
#include "spec/schema.hpp"
#include "spec/spec.hpp"
#include "topology/load_capture.hpp"
#include "topology/read_topology.hpp"
#include "topology_view/topology_json.hpp"
#include "topology_view/topology_svg.hpp"
#include "topology_view/topology_text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

namespace autolaunch::launcher {

namespace {

using Environment = std::map<std::string, std::string>;

void print(const std::string& text) { write_all(STDOUT_FILENO, text, "the standard output"); }

/// Nobody is left to be told when stderr cannot be written.
void complain(const std::string& text) {
    std::fputs(("autolaunch: " + text + '\n').c_str(), stderr);
}

/// For what all tasks of a job see, who have the same command line: the first node's agent says it.
bool others_tell(const Environment& environment) {
    return looks_like_stand_in(environment) || looks_like_later_node(environment);
}

// A node may have another file of that name than the first one: it says that there are errors, and
// not which.
int report_errors(const std::vector<SpecError>& errors, const Environment& environment) {
    if (!others_tell(environment)) {
        for (const auto& error : errors)
            complain(to_string(error));
    } else if (!looks_like_stand_in(environment)) {
        complain(hostname() + ": the spec has " + std::to_string(errors.size()) +
                 (errors.size() == 1 ? " error" : " errors") +
                 " here; the first node of the job lists its own");
    }
    const bool unreadable =
        std::all_of(errors.begin(), errors.end(), [](const SpecError& e) { return e.unreadable; });
    return unreadable ? exit_code::kNoInput : exit_code::kBadSpec;
}

std::string version_text() {
    return std::string("autolaunch ") + build_info::kVersion + "\ncommit    " +
           build_info::kCommit + "\ncompiler  " + build_info::kCompiler + '\n' +
           build_info::kOptions;
}

int validate(const CommandLine& line, const Environment& environment) {
    const SpecResult result = load_spec({line.spec_file, line.overrides, environment});
    if (!result.errors.empty())
        return report_errors(result.errors, environment);
    print(line.spec_file + ": valid\n");
    return exit_code::kSuccess;
}

int topo(const CommandLine& line) {
    const NodeTopology topology =
        line.topology_file.empty()
            ? read_local_topology({.cpu_model = true, .details = true, .driver_facts = true})
            : load_capture(line.topology_file);
    print(line.json  ? topology_json(topology)
          : line.svg ? topology_svg(topology)
                     : topology_text(topology));
    return exit_code::kSuccess;
}

void complain_about(const Error& error) {
    complain(error.what());
    if (error.hint().empty())
        return;
    for (const auto& line : split(error.hint(), '\n'))
        complain("  " + line);
}

int run_lint(const CommandLine& line, const Environment& environment) {
    try {
        const LintOutcome outcome = lint_files({.files = line.program,
                                                .kind = line.lint_kind,
                                                .slurm_conf = line.slurm_conf,
                                                .rules = line.rules,
                                                .markdown = line.markdown,
                                                .json = line.json},
                                               environment);
        print(outcome.text);
        return outcome.exit_code;
    } catch (const SystemError& error) {  // a folder, or no permission
        complain_about(error);
        return exit_code::kNoInput;
    }
}

int run_checkpoints(const CommandLine& line) {
    try {
        const CheckpointOutcome outcome = run_checkpoint_command(line.checkpoints);
        print(outcome.text);
        return outcome.exit_code;
    } catch (const Error& error) {
        // It may quote names of somebody else's files.
        const auto shown = [](const std::string& text) {
            return escape_for_terminal(text, Colours::strip);
        };
        complain_about(Error(error.code(), shown(error.what()), shown(error.hint())));
        const auto* system = dynamic_cast<const SystemError*>(&error);
        if (system != nullptr && system->error_number() == EEXIST)
            return exit_code::kCannotCreate;
        const bool data = error.code() == ErrorCode::corrupt || error.code() == ErrorCode::mismatch;
        return data ? exit_code::kBadData : exit_code_of(error);
    }
}

int doctor(const CommandLine& line, const Environment& environment) {
    SpecResult result;
    if (!line.spec_file.empty())
        result = load_spec({line.spec_file, line.overrides, environment});
    if (!result.errors.empty())
        return report_errors(result.errors, environment);
    return run_doctor({line.doctor, line.json, result.spec, build_info::kVersion}, environment);
}

int run_or_plan(const CommandLine& line, const Environment& environment) {
    const JobRequest request = job_request(line, environment);
    if (!request.errors.empty())
        return report_errors(request.errors, environment);
    if (!others_tell(environment))
        for (const auto& note : request.notes)
            complain(note);
    if (line.command == Command::run)
        return run_job(request.spec, environment, build_info::kVersion);
    if (looks_like_stand_in(environment))
        return exit_code::kSuccess;  // the node's first task shows it
    const LaunchPlan plan = line.topology_file.empty()
                                ? plan_here(request.spec, environment)
                                : plan_elsewhere(request.spec, environment, line.topology_file);
    print(line.json ? plan_json(plan) : plan_table(plan));
    return exit_code::kSuccess;
}

int dispatch(const CommandLine& line, const Environment& environment) {
    switch (line.command) {
        case Command::help:
            print(line.help);
            return exit_code::kSuccess;
        case Command::version:
            print(version_text());
            return exit_code::kSuccess;
        case Command::schema:
            print(line.markdown ? schema_markdown() : json_schema() + '\n');
            return exit_code::kSuccess;
        case Command::topo:
            return topo(line);
        case Command::validate:
            return validate(line, environment);
        case Command::lint:
            return run_lint(line, environment);
        case Command::doctor:
            return doctor(line, environment);
        case Command::ckpt:
            return run_checkpoints(line);
        case Command::plan:
        case Command::run:
            return run_or_plan(line, environment);
    }
    return exit_code::kInternal;
}

}  // namespace

int run_program(const std::vector<std::string>& arguments, const Environment& environment) {
    try {
        return dispatch(parse_command_line(arguments, environment), environment);
    } catch (const UsageError& error) {
        if (!others_tell(environment))
            complain_about(error);
        return exit_code::kUsage;
    } catch (const Error& error) {
        complain_about(error);
        return exit_code_of(error);
    } catch (const std::bad_alloc&) {
        complain("out of memory");
        return exit_code::kSystem;
    } catch (const std::exception& error) {
        complain(std::string("internal error: ") + error.what() + " (please report it)");
        return exit_code::kInternal;
    }
}

}  // namespace autolaunch::launcher
