#include "cli/debug_options.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"
#include "spec/rank_words.hpp"

#include <cstddef>

namespace autolaunch::launcher {

namespace {

int rank_from(const std::string& text, const char* option) {
    long long number = 0;
    if (!parse_integer(text, number) || number < 0 || number > 1'000'000)
        throw UsageError(std::string(option) + ' ' + text +
                         ": expected a rank, a whole number >= 0");
    return static_cast<int>(number);
}

InputSpec input_of(const std::string& word) {
    const auto input = input_from(word);
    if (!input)
        throw UsageError("--stdin " + word + ": expected none, all or a rank");
    return *input;
}

void apply_wrap(const std::vector<std::string>& wraps, TrainerSpec& trainer) {
    for (const auto& text : wraps) {
        const std::size_t equals = text.find('=');
        const std::string ranks = text.substr(0, equals);
        if (equals == std::string::npos || !rank_set_from(ranks) ||
            trim(text.substr(equals + 1)).empty())
            throw UsageError("--wrap " + text + ": expected RANKS=COMMAND",
                             "such as --wrap 0='perf record' or --wrap all='strace -f'");
        trainer.wrap[ranks] = text.substr(equals + 1);
    }
}

/// That rank alone is on the screen, nothing comes between, and its end is the job's.
void apply_debugging(const JobOptions& options, JobSpec& spec, std::vector<std::string>& notes) {
    if (!options.debug_rank && !options.gdb_rank)
        return;
    if (options.debug_rank && options.gdb_rank)
        throw UsageError("--debug-rank and --gdb exclude each other",
                         "there is one terminal, and --gdb gives it to its rank, too");
    if (options.input)
        throw UsageError("--stdin contradicts --debug-rank and --gdb",
                         "the debugged rank has the terminal; leave --stdin out");
    if (options.gdb_rank) {
        spec.debug_rank = rank_from(*options.gdb_rank, "--gdb");
        spec.trainer.wrap[*options.gdb_rank] = "gdb -q --args";
    } else {
        spec.debug_rank = rank_from(*options.debug_rank, "--debug-rank");
    }
    spec.trainer.input = {.to = InputSpec::To::none, .rank = 0, .chosen = true};
    spec.logging.console_default = StdStreams::none;
    spec.logging.console_by_local_rank.clear();
    spec.logging.progress = false;
    if (spec.restart.max_restarts > 0 || !spec.restart.on.empty())
        notes.push_back("no restarts while rank " + std::to_string(*spec.debug_rank) +
                        " is debugged");
    spec.restart.max_restarts = 0;
    spec.restart.on.clear();
}

}  // namespace

void apply_debug_options(const JobOptions& options, JobSpec& spec,
                         std::vector<std::string>& notes) {
    if (options.input)
        spec.trainer.input = input_of(*options.input);
    apply_wrap(options.wrap, spec.trainer);
    apply_debugging(options, spec, notes);
}

}  // namespace autolaunch::launcher
