#include "cli/options.hpp"

#include "base/text.hpp"
#include "cli/option_parser.hpp"
#include "cli/option_values.hpp"
#include "cli/other_launchers.hpp"
#include "exit_codes/exit_error.hpp"
#include "manifests/manifests.hpp"
#include "spec/spec.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace autolaunch::launcher {

namespace {

std::optional<Command> subcommand_from(const std::string& word) {
    const auto found = subcommands().find(word);
    return found == subcommands().end() ? std::nullopt : std::optional(found->second);
}

/// Of one program among several: how many ranks it has, and how it is run.
void check_option_of_one(const std::string& option) {
    static const std::vector<std::string> kOfOne = {
        "--nproc-per-node", "--ntasks", "--role", "--module", "--no-python", "--run-path"};
    const std::string name = option.substr(0, option.find('='));
    if (std::find(kOfOne.begin(), kOfOne.end(), name) == kOfOne.end())
        throw UsageError(name + " concerns the whole job, not one of its programs",
                         "write it before the first program");
}

/// Mistakes that would otherwise end in "program not found".
void check_program(const CommandLine& line, bool separated) {
    if (separated || line.program.empty())
        return;
    const std::string& program = line.program[0];
    if (subcommand_from(program))
        throw UsageError("the subcommand comes first: autolaunch " + program + " ...",
                         "to run a program of that name, write -- " + program);
    if (line.spec_file.empty() && is_override(program))
        throw UsageError(program + ": there is no spec to override", "give -c FILE before it");
}

// torchrun has variables for its own options alone.
bool is_foreign(const std::string& name) {
    static const std::vector<std::string> kForeign = {"--ntasks",        "--x",
                                                      "--bind-to",       "--map-by",
                                                      "--host",          "--wdir",
                                                      "--oversubscribe", "--use-hwthread-cpus",
                                                      "--tag-output",    "--allow-run-as-root",
                                                      "--label"};
    return std::find(kForeign.begin(), kForeign.end(), name) != kForeign.end();
}

/// A variable of torchrun's that is no PET_*, where neither that nor anything else says it.
void take_default(const std::map<std::string, std::string>& environment, const char* variable,
                  std::optional<std::string>& option) {
    const auto found = environment.find(variable);
    if (!option && found != environment.end() && !found->second.empty())
        option = found->second;
}

/// PET_NPROC_PER_NODE and so on, as options. An empty one counts as not set.
std::vector<std::string> options_of_torchrun(const std::map<std::string, std::string>& environment,
                                             const OptionShapes& shapes) {
    std::vector<std::string> options;
    for (const auto& [name, shape] : shapes) {
        if (name != shape.long_name || name == "--config" || name == "--help" ||
            name == "--version" || name == "--print-completion" || name == "--drain" ||
            is_foreign(name))
            continue;
        std::string variable = "PET" + name.substr(1);
        std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) {
            return c == '-' ? '_' : static_cast<char>(std::toupper(c));
        });
        const auto found = environment.find(variable);
        if (found != environment.end() && !found->second.empty())
            options.push_back(name + '=' + found->second);
    }
    return options;
}

/// torchrun's defaults for options.
JobOptions options_from_environment(const std::map<std::string, std::string>& environment) {
    JobOptions defaults;
    // A parser of all options takes longer to make than a rank to start.
    const auto first = environment.lower_bound("PET_");
    if (first != environment.end() && first->first.starts_with("PET_")) {
        OptionParser parser(Command::run);
        CommandLine ignored;
        try {
            parser.parse(options_of_torchrun(environment, parser.shapes()), ignored);
        } catch (const UsageError& error) {
            throw UsageError(std::string("a PET_* variable: ") + error.what(),
                             "unset it, or correct it");
        }
        defaults = parser.job_options();
    }
    take_default(environment, "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
                 defaults.log_line_prefix_template);
    take_default(environment, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", defaults.shutdown_timeout);
    return defaults;
}

/// `-c 1` of srun and mpirun would be taken for a spec.
void check_config(const CommandLine& line) {
    const std::string& file = line.spec_file;
    if (!file.empty() &&
        std::all_of(file.begin(), file.end(), [](unsigned char c) { return std::isdigit(c) != 0; }))
        throw UsageError("-c " + file + ": -c is the spec, and no file is called so",
                         "ranks are -n " + file + "; CPUs of a rank are srun's: srun -c " + file +
                             " autolaunch …; a spec of that name is ./" + file);
}

/// mpirun's `-n 1 ./a : -n 3 ./b`: what follows each `:` is a program more.
void take_more_programs(CommandLine& line, const OptionParser& parser) {
    const auto is_colon = [](const std::string& word) { return word == ":"; };
    auto end = std::find_if(line.program.begin(), line.program.end(), is_colon);
    std::vector<std::string> rest(end, line.program.end());
    line.program.erase(end, line.program.end());
    while (!rest.empty()) {
        rest.erase(rest.begin());
        const auto next = std::find_if(rest.begin(), rest.end(), is_colon);
        const SplitArguments split =
            split_arguments({rest.begin(), next}, parser.shapes(), foreign_options());
        if (split.program.empty())
            throw UsageError("there is no program behind a `:`",
                             "autolaunch -n 1 ./a : -n 3 ./b; a program that takes a `:` as its "
                             "argument comes after --");
        for (const auto& option : split.options)
            check_option_of_one(option);
        OptionParser own(Command::run);
        CommandLine ignored;
        own.parse(split.options, ignored);
        line.more_programs.push_back({own.job_options(), split.program});
        rest.erase(rest.begin(), next);
    }
}

/// `validate FILE` needs no -c.
void take_file_of_validate(CommandLine& line) {
    auto& words = line.program;
    if (line.spec_file.empty() && !words.empty()) {
        line.spec_file = words[0];
        words.erase(words.begin());
    }
    const auto first_other = std::find_if_not(words.begin(), words.end(), is_override);
    line.overrides.insert(line.overrides.end(), words.begin(), first_other);
    words.erase(words.begin(), first_other);
    if (line.spec_file.empty())
        throw UsageError("validate needs a file", "autolaunch validate train.yaml");
    // A program, as one would run it with this spec, is no part of what is checked, but a second
    // file is a mistake.
    if (!words.empty())
        throw UsageError(words[0] + ": validate takes one file, then KEY=VALUE");
}

/// `topo FILE`: that machine, else this one.
void take_file_of_topo(CommandLine& line) {
    if (line.program.size() > 1)
        throw UsageError(line.program[1] + ": topo takes one file at most");
    if (!line.program.empty())
        line.topology_file = line.program[0];
    if (line.json && line.svg)
        throw UsageError("--json and --svg exclude each other");
}

void check_lint(const CommandLine& line) {
    if (line.rules != line.program.empty())
        throw UsageError(line.rules ? "--rules takes no file" : "lint needs a file",
                         "autolaunch lint job.sh train.yaml");
    if (line.markdown && !line.rules)
        throw UsageError("--markdown goes with --rules");
}

/// What is printed is submitted by others.
void check_manifest(const CommandLine& line) {
    const SubmitOptions& submit = line.submit;
    if (!manifest_kind_from(submit.to))
        throw UsageError("--to " + submit.to + ": expected slurm, or one of " + manifest_kinds());
    if (submit.wait || submit.hold || submit.snapshot || submit.stage_first || line.json)
        throw UsageError("--to " + submit.to +
                             " prints what kubectl submits: --wait, --hold, --snapshot, "
                             "--stage-first and --json do not go with it",
                         "autolaunch submit -c " + line.spec_file + " --to " + submit.to +
                             " | kubectl apply -f -");
    if (!line.program.empty())
        throw UsageError(line.program[0] + ": --to " + submit.to + " takes KEY=VALUE only",
                         "the program is the spec's; another one: trainer.command='[" +
                             join(line.program, ", ") + "]'");
}

void check_submit(const CommandLine& line) {
    if (line.spec_file.empty())
        throw UsageError("submit needs a spec: what to ask for is its slurm_config",
                         "autolaunch submit -c train.yaml");
    if (line.submit.to != "slurm")
        return check_manifest(line);
    if (!line.submit.earlier_run.empty())
        throw UsageError("--run goes with --to kubernetes, jobset or volcano",
                         "for Slurm the newest of the spec's own runs counts");
    if (line.dry_run && (line.submit.wait || line.submit.hold))
        throw UsageError("--dry-run submits nothing: --wait and --hold do not go with it");
}

struct CheckpointWord {
    const char* word;
    CheckpointAction action;
    std::size_t min_paths, max_paths;
    const char* example;
};
constexpr CheckpointWord kCheckpointWords[] = {
    {"ls", CheckpointAction::list, 1, 1, "autolaunch ckpt ls runs/a/checkpoints"},
    {"show", CheckpointAction::show, 1, 1, "autolaunch ckpt show runs/a/checkpoints"},
    {"verify", CheckpointAction::verify, 1, 1'000'000, "autolaunch ckpt verify runs/a/checkpoints"},
    {"diff", CheckpointAction::diff, 2, 2, "autolaunch ckpt diff step-00001200 step-00001300"},
    {"export", CheckpointAction::export_tensors, 2, 2,
     "autolaunch ckpt export runs/a/checkpoints model.safetensors"},
    {"reshard", CheckpointAction::reshard, 2, 2,
     "autolaunch ckpt reshard runs/a/checkpoints resharded --ranks 8"},
    {"prune", CheckpointAction::prune, 1, 1, "autolaunch ckpt prune runs/a/checkpoints --keep 3"},
    {"convert", CheckpointAction::convert, 2, 2,
     "autolaunch ckpt convert model.safetensors checkpoints"},
    {"keygen", CheckpointAction::new_key, 1, 1, "autolaunch ckpt keygen mac.txt"}};

const CheckpointWord& checkpoint_word(const std::string& word) {
    std::vector<std::string> words;
    for (const auto& known : kCheckpointWords) {
        if (word == known.word)
            return known;
        words.push_back(known.word);
    }
    const std::string close = nearest(word, words);
    throw UsageError(
        word.empty() ? "ckpt needs to know what to do" : word + ": ckpt cannot do that",
        close.empty() ? "one of " + join(words, ", ") : "did you mean " + close + "?");
}

/// Options that one of ckpt's words alone understands.
void check_checkpoint_options(const CheckpointWord& known,
                              const std::vector<std::string>& options) {
    using Action = CheckpointAction;
    static const std::vector<Action> kAuthenticated = {
        Action::list,           Action::show,    Action::verify, Action::diff,
        Action::export_tensors, Action::reshard, Action::convert};
    static const std::map<std::string, std::vector<Action>> kOf = {
        {"--tensors", {Action::show}},
        {"--only", {Action::show, Action::diff, Action::export_tensors}},
        {"--all", {Action::export_tensors}},
        {"--dtype", {Action::export_tensors, Action::reshard}},
        {"--max-file-size", {Action::export_tensors}},
        {"--ranks", {Action::reshard, Action::convert}},
        {"--keep", {Action::prune}},
        {"--every", {Action::prune}},
        {"--dry-run", {Action::prune}},
        {"--step", {Action::convert}},
        {"--python", {Action::convert}},
        {"--identity", {Action::verify, Action::diff, Action::export_tensors, Action::reshard}},
        {"--identity-command",
         {Action::verify, Action::diff, Action::export_tensors, Action::reshard}},
        // Not prune: with a wrong key it would delete what is right.
        {"--authentication-key", kAuthenticated},
        {"--authentication-key-command", kAuthenticated},
        {"--recipient", {Action::reshard, Action::convert}},
        {"--signing-key", {Action::reshard, Action::convert}},
        {"--public-key", {Action::verify}},
        {"--signing", {Action::new_key}},
        {"--vault-transit", {Action::new_key}},
        {"--plain", {Action::reshard}},
        {"--trust-source", {Action::reshard}},
        {"--config", {Action::list, Action::show, Action::verify}}};
    const auto given = [&](const std::string& name) {
        return std::any_of(options.begin(), options.end(), [&](const std::string& option) {
            return option.substr(0, option.find('=')) == name;
        });
    };
    for (const auto& [name, actions] : kOf)
        if (given(name) && std::find(actions.begin(), actions.end(), known.action) == actions.end())
            throw UsageError(name + " does not go with ckpt " + known.word,
                             "see autolaunch ckpt --help");
    if (known.action == Action::prune && !given("--keep"))
        throw UsageError("prune needs --keep", "how many of the newest checkpoints stay");
    if (known.action == Action::reshard && !given("--ranks"))
        throw UsageError("reshard needs --ranks", "how many ranks it is for");
}

/// Words and options in any order.
struct MixedWords {
    std::vector<std::string> options, words;
};
MixedWords take_apart(std::vector<std::string> rest, const OptionParser& parser) {
    MixedWords taken;
    auto& [options, words] = taken;
    bool only_words = false;
    while (!rest.empty()) {
        const SplitArguments split =
            only_words ? SplitArguments{{}, {}, rest} : split_arguments(rest, parser.shapes());
        options.insert(options.end(), split.options.begin(), split.options.end());
        words.insert(words.end(), split.overrides.begin(), split.overrides.end());
        const std::size_t before = rest.size() - split.program.size();
        only_words = only_words || (before > 0 && rest[before - 1] == "--");
        if (split.program.empty())
            break;
        words.push_back(split.program[0]);
        rest.assign(split.program.begin() + 1, split.program.end());
    }
    return taken;
}

/// What starts no program, with files, options and KEY=VALUE in any order.
SplitArguments split_mixed(Command command, std::vector<std::string> rest,
                           const OptionParser& parser) {
    SplitArguments split;
    auto [options, words] = take_apart(std::move(rest), parser);
    split.options = std::move(options);
    const bool has_config =
        std::any_of(split.options.begin(), split.options.end(),
                    [](const std::string& option) { return option.starts_with("--config="); });
    const bool has_overrides = command == Command::validate || command == Command::stage_in ||
                               (command == Command::doctor && has_config);
    for (std::string& word : words)
        (has_overrides && is_override(word) ? split.overrides : split.program)
            .push_back(std::move(word));
    return split;
}

/// --help or --version, which nothing else counts beside.
bool asks_about_us(const OptionParser& parser, CommandLine& line) {
    if (parser.help_wanted()) {
        line.command = Command::help;
        line.help = parser.help();
    } else if (parser.version_wanted()) {
        line.command = Command::version;
    } else if (line.json && line.command == Command::run) {
        throw UsageError("--json goes with a command, or with --version",
                         "what a run does is in its run directory's events.jsonl; autolaunch plan "
                         "--json: what it would do");
    }
    return parser.help_wanted() || parser.version_wanted();
}

void check_top(const CommandLine& line, const std::vector<std::string>& words) {
    if (words.size() > 1)
        throw UsageError("top takes one run or job", "autolaunch top runs/4711");
    if (line.json && !line.once)
        throw UsageError("--json goes with --once", "autolaunch top --once --json");
    if (line.once && line.replay)
        throw UsageError("--once and --replay exclude each other",
                         "--once shows how the job is now, or was at its end");
}

void check_report(const CommandLine& line, const std::vector<std::string>& words) {
    const bool sums = !line.accounts.since.empty();
    if (!sums && words.empty())
        throw UsageError("report needs a run directory, or --since",
                         "autolaunch report runs/latest");
    if (!sums && (line.accounts.csv || !line.accounts.rates.empty() || line.accounts.by != "user"))
        throw UsageError("--by, --rate and --csv go with --since",
                         "autolaunch report --since 30d --by user");
    if (sums && !line.html_file.empty())
        throw UsageError("--html is of run directories, and --since has none",
                         "autolaunch report --since 30d --csv");
    if (line.accounts.csv && line.json)
        throw UsageError("--csv and --json exclude each other");
}

/// `gc RUNS...`
void check_gc(CommandLine& line, const std::vector<std::string>& words) {
    GcOptions& options = line.gc;
    if (!options.older_than.empty() && !duration_from(options.older_than))
        throw UsageError(options.older_than + " is no duration", "autolaunch gc --older-than 7d");
    options.folders = words;
    if (options.shared &&
        (options.epilog || !words.empty() || !line.spec_file.empty() || !options.scratch.empty()))
        throw UsageError("gc --shared is of the site's shared cache alone",
                         "autolaunch gc --shared --apply, by its owner");
    if (options.epilog && (!words.empty() || !line.spec_file.empty()))
        throw UsageError("gc --epilog is of staged data alone, on the node where a job was",
                         "autolaunch gc --epilog --apply");
}

/// `stage-in -c FILE KEY=VALUE...`: what starts is one process a node that ends at once.
void check_stage_in(CommandLine& line) {
    check_config(line);
    if (line.spec_file.empty())
        throw UsageError("stage-in needs a spec, which says what is staged",
                         "autolaunch stage-in -c train.yaml");
    if (!line.program.empty())
        throw UsageError(line.program[0] + ": stage-in takes options and KEY=VALUE only");
    if (line.stage_in.readable_by_all && !line.stage_in.shared)
        throw UsageError("--readable-by-all goes with --shared",
                         "autolaunch stage-in -c data.yaml --shared --readable-by-all");
    line.program = {"/bin/true"};
}

/// `stage-out JOBS...`
void check_stage_out(CommandLine& line, const std::vector<std::string>& words) {
    StageOutOptions& options = line.stage_out;
    options.jobs = words;
    if (options.discard && (options.list || words.empty()))
        throw UsageError("--discard removes what was not copied: it wants the job's name",
                         "autolaunch stage-out --list says the names");
}

/// `report RUN_DIR...`, `clean`, `gc`, `stage-out`, `drain NODE`, `attach JOB`, `top JOB` and
/// `login FILE`.
CommandLine parse_words_line(Command command, std::vector<std::string> rest) {
    CommandLine line;
    line.command = command;
    OptionParser parser(command);
    MixedWords taken = take_apart(std::move(rest), parser);
    parser.parse(taken.options, line);
    if (asks_about_us(parser, line))
        return line;
    if (command == Command::report)
        check_report(line, taken.words);
    if (command == Command::clean && !taken.words.empty())
        throw UsageError(taken.words[0] + ": clean takes options alone",
                         "autolaunch clean --job 4711");
    if (command == Command::gc)
        check_gc(line, taken.words);
    if (command == Command::stage_out)
        check_stage_out(line, taken.words);
    if (command == Command::drain && taken.words.size() != 1)
        throw UsageError(taken.words.empty() ? "drain needs a node" : "drain takes one node",
                         "autolaunch drain node7 --job runs/4711");
    if (command == Command::attach && taken.words.size() > 1)
        throw UsageError("attach takes one job", "autolaunch attach runs/4711");
    if (command == Command::top)
        check_top(line, taken.words);
    if (command == Command::login &&
        (taken.words.size() != 1 || line.login.issuer.empty() || line.login.client_id.empty()))
        throw UsageError("login needs an issuer, a client's name and a file for the token",
                         "autolaunch login --issuer https://login.example.org --client-id "
                         "autolaunch token.jwt");
    line.program = std::move(taken.words);
    return line;
}

void choose_rendering(const std::vector<std::string>& words, CommandLine& line) {
    const bool firewall = words.size() == 3 && words[1] == "nftables";
    if (words.size() != 3 || (words[1] != "slurm" && !firewall))
        throw UsageError("policy render needs to know for what, and a folder",
                         "autolaunch policy render slurm DIR, or autolaunch policy render nftables "
                         "DIR --interface IF --network nodes=CIDR");
    if (line.json)
        throw UsageError("--json does not go with policy render", "it writes files");
    line.policy.action = firewall ? PolicyAction::render_nftables : PolicyAction::render_slurm;
    line.policy.folder = words[2];
}

/// `policy show`, `policy render WHAT DIR` and `policy diff`, with options in any order.
CommandLine parse_policy_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::policy;
    OptionParser parser(Command::policy);
    auto [options, words] = take_apart(std::move(rest), parser);
    parser.parse(options, line);
    if (asks_about_us(parser, line))
        return line;
    line.policy.json = line.json;
    const std::string word = words.empty() ? "" : words[0];
    if (word == "render")
        choose_rendering(words, line);
    if (line.policy.action != PolicyAction::render_nftables &&
        (!line.policy.interface.empty() || !line.policy.networks.empty()))
        throw UsageError("--interface and --network go with policy render nftables alone");
    if (word == "render")
        return line;
    if (word != "show" && word != "diff")
        throw UsageError(
            word.empty() ? "policy needs to know what to do" : word + ": policy cannot do that",
            "one of show, render slurm DIR, render nftables DIR, diff");
    if (words.size() > 1)
        throw UsageError(words[1] + ": policy " + word + " takes options alone",
                         "autolaunch policy " + word + " --site FILE");
    line.policy.action = word == "show" ? PolicyAction::show : PolicyAction::diff;
    return line;
}

constexpr std::pair<const char*, RenderTarget> kRenderWords[] = {
    {"prometheus", RenderTarget::prometheus},
    {"alertmanager", RenderTarget::alertmanager},
    {"grafana", RenderTarget::grafana},
    {"slurm", RenderTarget::slurm}};

RenderTarget render_target_from(const std::string& word) {
    std::vector<std::string> words;
    for (const auto& [known, target] : kRenderWords) {
        if (word == known)
            return target;
        words.emplace_back(known);
    }
    const std::string close = nearest(word, words);
    throw UsageError(
        word.empty() ? "render needs to know for what" : word + ": render knows nothing of it",
        close.empty() ? "one of " + join(words, ", ") : "did you mean " + close + "?");
}

/// Options that one of render's targets alone understands.
void check_render_options(const std::string& target, const std::vector<std::string>& options) {
    static const std::map<std::string, std::string> kOf = {
        {"--site", "alertmanager"}, {"--textfile-dir", "slurm"}, {"--job-mapping-dir", "slurm"}};
    for (const std::string& option : options) {
        const auto of = kOf.find(option.substr(0, option.find('=')));
        if (of != kOf.end() && of->second != target)
            throw UsageError(of->first + " does not go with render " + target,
                             "it is of render " + of->second);
    }
}

/// `render TARGET [FILE...]`, with options in any order.
CommandLine parse_render_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::render;
    OptionParser parser(Command::render);
    auto [options, words] = take_apart(std::move(rest), parser);
    parser.parse(options, line);
    if (asks_about_us(parser, line))
        return line;
    line.render.target = render_target_from(words.empty() ? "" : words[0]);
    check_render_options(words[0], options);
    if (line.render.overwrite && line.render.folder.empty())
        throw UsageError("--force goes with --output DIR", "printing replaces nothing");
    words.erase(words.begin());
    line.render.files = std::move(words);
    line.render.json = line.json;
    return line;
}

/// `audit verify` and `audit show`, with paths and options in any order.
CommandLine parse_audit_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::audit;
    OptionParser parser(Command::audit);
    auto [options, words] = take_apart(std::move(rest), parser);
    parser.parse(options, line);
    if (asks_about_us(parser, line))
        return line;
    line.audit.json = line.json;
    const std::string word = words.empty() ? "" : words[0];
    if (word != "verify" && word != "show")
        throw UsageError(
            word.empty() ? "audit needs to know what to do" : word + ": audit cannot do that",
            "one of verify, show");
    const AuditRequest& asked = line.audit;
    if (word == "verify" &&
        !(asked.job.empty() && asked.user.empty() && asked.kind.empty() && asked.since.empty()))
        throw UsageError("audit verify looks at whole trails",
                         "--job, --user, --kind and --since are of audit show");
    line.audit.action = word == "show" ? AuditAction::show : AuditAction::verify;
    words.erase(words.begin());
    line.audit.paths = std::move(words);
    return line;
}

/// `sweep status SWEEP` and `sweep resubmit SWEEP [ELEMENT...]`, with options in any order.
CommandLine parse_sweep_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::sweep;
    OptionParser parser(Command::sweep);
    auto [options, words] = take_apart(std::move(rest), parser);
    parser.parse(options, line);
    if (asks_about_us(parser, line))
        return line;
    const std::string word = words.empty() ? "" : words[0];
    if (word != "status" && word != "resubmit")
        throw UsageError(
            word.empty() ? "sweep needs to know what to do" : word + ": sweep cannot do that",
            "one of status, resubmit");
    if (words.size() < 2)
        throw UsageError("sweep " + word + " needs a sweep",
                         "autolaunch sweep " + word +
                             " runs/.submitted/NAME-DATE-TIME-XXXX, or the array's number");
    if (word == "status" && (words.size() > 2 || line.dry_run))
        throw UsageError(words.size() > 2 ? words[2] + ": sweep status takes one sweep"
                                          : "--dry-run is of sweep resubmit");
    line.sweep.action =
        word == "status" ? SweepRequest::Action::status : SweepRequest::Action::resubmit;
    line.sweep.sweep = words[1];
    for (std::size_t i = 2; i < words.size(); ++i)
        line.sweep.elements.push_back(number_from(words[i], "sweep resubmit's ELEMENT", 0));
    return line;
}

/// `ckpt WORD` with paths and options in any order.
CommandLine parse_checkpoint_line(std::vector<std::string> rest) {
    CommandLine line;
    line.command = Command::ckpt;
    OptionParser parser(Command::ckpt);
    auto [options, words] = take_apart(std::move(rest), parser);
    parser.parse(options, line);
    if (asks_about_us(parser, line))
        return line;
    const CheckpointWord& known = checkpoint_word(words.empty() ? "" : words[0]);
    words.erase(words.begin());
    if (!line.spec_file.empty()) {
        const auto paths = std::stable_partition(words.begin(), words.end(), is_override);
        line.overrides.assign(words.begin(), paths);
        words.erase(words.begin(), paths);
    }
    const bool names_places = !line.spec_file.empty() && words.empty();
    if ((words.size() < known.min_paths && !names_places) || words.size() > known.max_paths)
        throw UsageError(words.size() < known.min_paths
                             ? std::string("ckpt ") + known.word + " needs a path"
                             : words.back() + ": that is one path too many",
                         known.example);
    check_checkpoint_options(known, options);
    line.checkpoints.action = known.action;
    line.checkpoints.paths = std::move(words);
    return line;
}

}  // namespace

const std::map<std::string, Command>& subcommands() {
    static const std::map<std::string, Command> kCommands = {{"run", Command::run},
                                                             {"plan", Command::plan},
                                                             {"validate", Command::validate},
                                                             {"schema", Command::schema},
                                                             {"topo", Command::topo},
                                                             {"lint", Command::lint},
                                                             {"doctor", Command::doctor},
                                                             {"ckpt", Command::ckpt},
                                                             {"report", Command::report},
                                                             {"clean", Command::clean},
                                                             {"drain", Command::drain},
                                                             {"attach", Command::attach},
                                                             {"policy", Command::policy},
                                                             {"audit", Command::audit},
                                                             {"login", Command::login},
                                                             {"submit", Command::submit},
                                                             {"sweep", Command::sweep},
                                                             {"top", Command::top},
                                                             {"render", Command::render},
                                                             {"gc", Command::gc},
                                                             {"stage-out", Command::stage_out},
                                                             {"stage-in", Command::stage_in}};
    return kCommands;
}

CommandLine parse_command_line(const std::vector<std::string>& arguments,
                               const std::map<std::string, std::string>& environment) {
    CommandLine line;
    std::vector<std::string> rest = arguments;
    if (const auto command = rest.empty() ? std::nullopt : subcommand_from(rest[0])) {
        line.command = *command;
        rest.erase(rest.begin());
    }
    if (line.command == Command::ckpt)
        return parse_checkpoint_line(std::move(rest));
    if (line.command == Command::policy)
        return parse_policy_line(std::move(rest));
    if (line.command == Command::render)
        return parse_render_line(std::move(rest));
    if (line.command == Command::audit)
        return parse_audit_line(std::move(rest));
    if (line.command == Command::sweep)
        return parse_sweep_line(std::move(rest));
    if (line.command == Command::report || line.command == Command::clean ||
        line.command == Command::drain || line.command == Command::attach ||
        line.command == Command::top || line.command == Command::login ||
        line.command == Command::gc || line.command == Command::stage_out)
        return parse_words_line(line.command, std::move(rest));
    OptionParser parser(line.command);
    const bool of_a_job = line.command == Command::run || line.command == Command::plan ||
                          line.command == Command::submit;
    // Behind a program's name all is the program's.
    SplitArguments split = of_a_job ? split_arguments(rest, parser.shapes(), foreign_options())
                                    : split_mixed(line.command, std::move(rest), parser);
    parser.parse(split.options, line);
    if (asks_about_us(parser, line))
        return line;
    if (!parser.completion_wanted().empty()) {
        line.command = Command::completion;
        line.shell = parser.completion_wanted();
        return line;
    }
    line.overrides = std::move(split.overrides);
    line.program = std::move(split.program);
    line.options = parser.job_options();
    if (line.command == Command::doctor) {
        if (!line.program.empty())
            throw UsageError(line.program[0] + ": doctor takes options and KEY=VALUE only");
    } else if (line.command == Command::validate) {
        take_file_of_validate(line);
    } else if (line.command == Command::topo) {
        take_file_of_topo(line);
    } else if (line.command == Command::lint) {
        check_lint(line);
    } else if (line.command == Command::stage_in) {
        check_stage_in(line);
    } else if (line.command == Command::schema) {
        if (!line.program.empty())
            throw UsageError(line.program[0] + ": schema takes no arguments");
    } else {
        check_config(line);
        check_program(line, split.separated);
        if (line.command == Command::submit)
            check_submit(line);
        else if (!split.separated)
            take_more_programs(line, parser);
        line.separated = split.separated;
        line.defaults = options_from_environment(environment);
    }
    return line;
}

}  // namespace autolaunch::launcher
