#include "base/environment.hpp"
#include "base/text.hpp"
#include "cli/job_options.hpp"
#include "cli/option_values.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec/spec.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

/// What says how a program is found.
struct Surroundings {
    std::string python;   ///< the interpreter
    std::string path;     ///< $PATH
    std::string workdir;  ///< where ranks run; empty: here
    bool separated = false;
};

bool is_executable(const std::filesystem::path& file) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0;
}

bool is_in_path(const std::string& program, const std::string& path) {
    const auto folders = split(path, ':');
    return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
        return is_executable(std::filesystem::path(folder.empty() ? "." : folder) / program);
    });
}

/// By its first lines: what begins so is no data that happens to be called like a program.
bool looks_like_python(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    for (int lines = 0; lines < 100 && std::getline(stream, line); ++lines) {
        const bool shebang = line.starts_with("#!") && line.find("python") != std::string::npos;
        constexpr std::array<std::string_view, 4> kWords = {"import ", "from ", "def ", "print("};
        if (shebang || std::any_of(kWords.begin(), kWords.end(),
                                   [&](auto word) { return line.starts_with(word); }))
            return true;
    }
    return false;
}

/// A file that nothing but an interpreter can run: it may not be executed. Where a program in PATH
/// is called so as well, it must be Python's by its content.
bool is_plain_file(const std::string& program, const Surroundings& here) {
    std::error_code ignored;
    const std::filesystem::path file = std::filesystem::path(here.workdir) / program;
    if (!std::filesystem::is_regular_file(file, ignored) || is_executable(file))
        return false;
    return program.find('/') != std::string::npos || !is_in_path(program, here.path) ||
           looks_like_python(file);
}

bool is_python_script(const JobOptions& options, const std::string& program,
                      const Surroundings& here) {
    if (options.run_path.value_or(false))
        return true;
    return !options.no_python.value_or(false) &&
           (program.ends_with(".py") || is_plain_file(program, here));
}

/// A module of the spec, as an argv. The module names the job, where nothing else does.
void expand_module(const std::string& python, JobSpec& spec) {
    std::vector<std::string> command = {python, "-u", "-m", spec.trainer.module};
    command.insert(command.end(), spec.trainer.command.begin(), spec.trainer.command.end());
    spec.trainer.command = std::move(command);
    if (spec.name.empty())
        spec.name = spec.trainer.module;
    spec.trainer.module.clear();
}

}  // namespace

std::string python_interpreter(const std::map<std::string, std::string>& environment) {
    const auto set = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
    if (const std::string named = set("PYTHON_EXEC"); !named.empty())
        return named;
    if (const std::string venv = set("VIRTUAL_ENV"); !venv.empty())
        return venv + "/bin/python";
    return "python3";
}

namespace {

/// The words that say how a program is run may come from PET_* as all others.
JobOptions with_defaults(JobOptions options, const JobOptions& defaults) {
    if (!options.module)
        options.module = defaults.module;
    if (!options.no_python)
        options.no_python = defaults.no_python;
    if (!options.run_path)
        options.run_path = defaults.run_path;
    if (options.no_python.value_or(false) &&
        (options.module.value_or(false) || options.run_path.value_or(false)))
        throw UsageError("--no-python contradicts -m and --run-path", "leave one of them out");
    return options;
}

/// Executable, and not to be found by its name alone: mpirun and torchrun look where they stand.
bool is_only_here(const std::string& program, const Surroundings& here) {
    return program.find('/') == std::string::npos && !is_in_path(program, here.path) &&
           is_executable(std::filesystem::path(here.workdir) / program);
}

struct Program {
    std::vector<std::string> argv;
    std::string name;  ///< of a job that nothing else names; empty: as the file is called
};

/// `words` is a program with its arguments, not empty.
Program read_program(const std::vector<std::string>& words, const JobOptions& options,
                     const Surroundings& here) {
    if (words[0].empty())
        throw UsageError("the program's name is empty");
    const bool is_module = options.module.value_or(false);
    const bool is_script = !is_module && is_python_script(options, words[0], here);
    if (!is_module && !is_script) {
        Program program{words, {}};
        if (is_only_here(words[0], here))
            program.argv[0].insert(0, "./");
        return program;
    }
    Program program{{here.python, "-u"}, {}};
    if (is_module)
        program.argv.emplace_back("-m");
    auto arguments = words.begin() + 1;
    if (!here.separated && arguments != words.end() && *arguments == "--")
        ++arguments;  // argparse, and so torchrun, takes it away
    program.argv.push_back(words[0]);
    program.argv.insert(program.argv.end(), arguments, words.end());
    const std::string file = words[0].substr(words[0].rfind('/') + 1);
    program.name = is_module               ? words[0]
                   : file.ends_with(".py") ? file.substr(0, file.size() - 3)
                                           : file;
    return program;
}

int ranks_of_program(const JobOptions& options) {
    if (options.ntasks)
        return number_from(*options.ntasks, "--ntasks", 1);
    if (options.nproc_per_node)
        return number_from(*options.nproc_per_node, "-n", 1);
    return 1;
}

/// mpirun's -n counts a program's ranks in all, and so it does where there are several programs.
void choose_programs(const CommandLine& line, const Surroundings& here, JobSpec& spec) {
    spec.programs.push_back({spec.trainer.command, ranks_of_program(line.options), spec.role});
    for (const ProgramLine& more : line.more_programs) {
        const JobOptions options = with_defaults(more.options, line.defaults);
        spec.programs.push_back({read_program(more.program, options, here).argv,
                                 ranks_of_program(options), options.role.value_or(spec.role)});
    }
    int ranks = 0;
    for (const ProgramSpec& program : spec.programs)
        ranks += program.ranks;
    spec.resources.total_ranks = ranks;
    spec.resources.ranks_mode = RanksPerNode::unset;
}

/// Where nothing on the command line is a program: the spec's.
void keep_program_of_spec(const CommandLine& line, const std::string& python, JobSpec& spec) {
    if (line.options.module.value_or(false))
        throw UsageError("-m needs a module", "autolaunch -m package.train");
    if (!spec.trainer.module.empty())
        expand_module(python, spec);
    if (!spec.trainer.command.empty())
        return;
    if (!line.topology_file.empty()) {  // the question is about the machine
        spec.trainer.command = {"PROGRAM"};
        return;
    }
    throw UsageError("there is no program to run",
                     line.spec_file.empty()
                         ? "autolaunch PROGRAM [ARGS], or autolaunch -c FILE"
                         : "set trainer.command in " + line.spec_file + ", or write -- PROGRAM");
}

}  // namespace

void choose_program(const CommandLine& line, const std::map<std::string, std::string>& environment,
                    JobSpec& spec) {
    const Surroundings here{python_interpreter(environment), value_of(environment, "PATH"),
                            spec.trainer.workdir, line.separated};
    const JobOptions options = with_defaults(line.options, line.defaults);
    if (line.program.empty())
        return keep_program_of_spec(line, here.python, spec);
    Program program = read_program(line.program, options, here);
    spec.trainer.command = std::move(program.argv);
    spec.trainer.module.clear();
    if (spec.name.empty())
        spec.name = program.name;
    if (!line.more_programs.empty())
        choose_programs(line, here, spec);
}

}  // namespace autolaunch::launcher
