#include "cli/job_options.hpp"

#include "base/hash.hpp"
#include "base/hostname.hpp"
#include "base/text.hpp"
#include "cli/debug_options.hpp"
#include "cli/option_values.hpp"
#include "cli/other_launchers.hpp"
#include "cli/sweep_element.hpp"
#include "exit_codes/exit_error.hpp"
#include "secrets/secrets.hpp"
#include "spec/preload_words.hpp"
#include "spec/spec.hpp"
#include "spec/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <utility>

namespace autolaunch::launcher {

namespace {

void apply_nnodes(const std::string& text, JobSpec& spec) {
    const auto parts = split(text, ':');
    if (parts.size() > 2)
        throw UsageError("--nnodes " + text + ": expected N or MIN:MAX");
    const int minimum = number_from(parts[0], "--nnodes", 1);
    const int maximum = parts.size() == 2 ? number_from(parts[1], "--nnodes", 1) : minimum;
    if (maximum < minimum)
        throw UsageError("--nnodes " + text + ": MAX is smaller than MIN");
    spec.resources.nodes = minimum;
    spec.resources.most_nodes = maximum;
    spec.resources.nodes_given = true;
}

void apply_nproc_per_node(const std::string& text, ResourceSpec& resources) {
    if (text == "auto") {
        resources.ranks_mode = RanksPerNode::automatic;
    } else if (text == "cpu") {
        resources.ranks_mode = RanksPerNode::cpu;
    } else if (text == "gpu") {
        resources.ranks_mode = RanksPerNode::gpu;
    } else {
        long long number = 0;
        if (!parse_integer(text, number) || number < 1 || number > 1'000'000)
            throw UsageError("--nproc-per-node " + text +
                             ": expected auto, cpu, gpu or a whole number >= 1");
        resources.ranks_mode = RanksPerNode::fixed;
        resources.ranks_per_node = static_cast<int>(number);
    }
    resources.ranks_of_each_launcher = true;
}

/// host, host:port, [::1]:port, or a bare IPv6 address.
void apply_endpoint(const std::string& text, RendezvousSpec& rendezvous) {
    const std::size_t bracket = text.starts_with('[') ? text.find(']') : std::string::npos;
    const std::size_t colon = text.rfind(':');
    const bool bare_v6 = bracket == std::string::npos && colon != text.find(':');
    std::string host = text;
    if (bracket != std::string::npos) {
        host = text.substr(1, bracket - 1);
        if (bracket + 1 < text.size() && text[bracket + 1] != ':')
            throw UsageError("--rdzv-endpoint " + text + ": expected HOST or HOST:PORT");
    } else if (colon != std::string::npos && !bare_v6) {
        host = text.substr(0, colon);
    }
    const bool has_port =
        colon != std::string::npos && !bare_v6 && (bracket == std::string::npos || colon > bracket);
    if (has_port)
        rendezvous.port = number_from(text.substr(colon + 1), "--rdzv-endpoint's port", 0, 65535);
    if (host.empty())
        throw UsageError("--rdzv-endpoint " + text + ": expected HOST or HOST:PORT");
    rendezvous.address = host;
    rendezvous.address_is_meeting_place = true;
}

/// torchrun's words, in any case.
bool truth_from(std::string word, const char* option) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (word == "1" || word == "true" || word == "t" || word == "yes" || word == "y")
        return true;
    if (word == "0" || word == "false" || word == "f" || word == "no" || word == "n")
        return false;
    throw UsageError(std::string(option) + ' ' + word + ": expected true or false");
}

void apply_rdzv_conf(const std::string& text, RendezvousSpec& rendezvous,
                     std::vector<std::string>& notes) {
    for (const auto& pair : split(text, ',')) {
        if (trim(pair).empty())
            continue;
        const std::size_t equals = pair.find('=');
        const std::string key(trim(pair.substr(0, equals)));
        if (equals == std::string::npos || key.empty())
            throw UsageError("--rdzv-conf " + text + ": expected KEY=VALUE,KEY=VALUE");
        if (key == "timeout" || key == "join_timeout") {
            const auto timeout = duration_from(pair.substr(equals + 1));
            if (!timeout)
                throw UsageError("--rdzv-conf " + pair + ": expected a number of seconds");
            rendezvous.timeout = *timeout;
        } else if (key == "last_call_timeout") {
            const auto timeout = duration_from(pair.substr(equals + 1));
            if (!timeout)
                throw UsageError("--rdzv-conf " + pair + ": expected a number of seconds");
            rendezvous.last_call = *timeout;
        } else if (key == "is_host") {
            rendezvous.is_host = truth_from(pair.substr(equals + 1), "--rdzv-conf is_host");
        } else {
            notes.push_back("--rdzv-conf " + key +
                            " has no effect: autolaunch is its own rendezvous");
        }
    }
}

/// torchrun's -r and -t: one choice for all local ranks, or a choice for some.
struct StreamChoice {
    unsigned common = 0;
    std::map<int, unsigned> by_local_rank;

    unsigned of(int local_rank) const {
        const auto found = by_local_rank.find(local_rank);
        return found == by_local_rank.end() ? common : found->second;
    }
};

StreamChoice streams_from(const std::optional<std::string>& text, const char* option) {
    StreamChoice choice;
    if (!text)
        return choice;
    if (text->find(':') == std::string::npos) {
        choice.common = static_cast<unsigned>(number_from(*text, option, 0, 3));
        return choice;
    }
    for (const auto& pair : split(*text, ',')) {
        const auto parts = split(trim(pair), ':');
        if (parts.size() != 2)
            throw UsageError(std::string(option) + ' ' + *text +
                             ": expected RANK:STREAMS, as 0:1,1:2");
        const int local_rank = number_from(parts[0], option, 0);
        choice.by_local_rank[local_rank] =
            static_cast<unsigned>(number_from(parts[1], option, 0, 3));
    }
    return choice;
}

/// A redirected stream is not shown, unless it is teed. Files hold both in any case.
void apply_streams(const JobOptions& options, LoggingSpec& logging) {
    if (!options.redirects && !options.tee)
        return;
    const StreamChoice redirects = streams_from(options.redirects, "--redirects");
    const StreamChoice tee = streams_from(options.tee, "--tee");
    const auto shown = [](unsigned redirected, unsigned teed) {
        return static_cast<StdStreams>((3U & ~redirected) | teed);
    };
    logging.console_default = shown(redirects.common, tee.common);
    logging.console_by_local_rank.clear();
    for (const auto* choice : {&redirects, &tee}) {
        for (const auto& [local_rank, streams] : choice->by_local_rank)
            logging.console_by_local_rank[local_rank] =
                shown(redirects.of(local_rank), tee.of(local_rank));
    }
}

std::vector<int> ranks_from(const std::string& text) {
    std::vector<int> ranks;
    for (const auto& part : split(text, ','))
        ranks.push_back(number_from(std::string(trim(part)), "--local-ranks-filter", 0));
    return ranks;
}

std::vector<int> signals_from(const std::string& text) {
    static const std::map<std::string, int> kSignals = {{"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},
                                                        {"SIGHUP", SIGHUP},   {"SIGQUIT", SIGQUIT},
                                                        {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}};
    std::vector<int> signals;
    for (const auto& part : split(text, ',')) {
        const auto found = kSignals.find(std::string(trim(part)));
        if (found == kSignals.end())
            throw UsageError("--signals-to-handle " + text + ": \"" + part +
                                 "\" is none of the signals that can stop a job",
                             "there are SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2");
        if (std::find(signals.begin(), signals.end(), found->second) == signals.end())
            signals.push_back(found->second);
    }
    return signals;
}

/// A word, or what each local rank gets: entries with semicolons between them, as commas are within
/// them.
void apply_binding(const std::string& text, ResourceSpec& resources) {
    constexpr std::array<std::string_view, 5> kWords = {"node", "socket", "exclusive",
                                                        "core-complex", "none"};
    if (std::find(kWords.begin(), kWords.end(), text) != kWords.end()) {
        resources.binding = text;
        resources.binding_list.clear();
        return;
    }
    const auto entries = split(text, ';');
    for (const auto& entry : entries)
        if (!is_binding_entry(entry))
            throw UsageError(
                "--numa-binding " + text + (entries.size() > 1 ? ": \"" + entry + "\"" : "") +
                    ": expected node, socket, exclusive, core-complex or none, or an entry a local "
                    "rank",
                "an entry is CPUs (0-7,64-71), NUMA nodes (numa:1) or cores (core:0-3), as "
                "'0-7,64-71;8-15,72-79'");
    resources.binding_list = entries;
}

std::string mpi_from(const std::string& word) {
    constexpr std::array<std::string_view, 4> kWords = {"auto", "none", "pmix", "pmi1"};
    if (std::find(kWords.begin(), kWords.end(), word) == kWords.end())
        throw UsageError("--mpi " + word + ": expected auto, none, pmix or pmi1");
    return word;
}

PreloadSpec preload_option(const std::string& words) {
    const auto preload = preload_from(words);
    if (!preload)
        throw UsageError("--preload " + words + ": expected auto, off or modules, as torch,numpy");
    return *preload;
}

std::string preload_from_option(const std::string& word) {
    if (word != "shared" && word != "node")
        throw UsageError("--preload-from " + word + ": expected shared or node");
    return word;
}

std::string stdio_from(const std::string& word) {
    if (word != "file" && word != "pty")
        throw UsageError("--stdio " + word + ": expected file or pty");
    return word;
}

std::chrono::milliseconds grace_from(const std::string& text) {
    const auto grace = duration_from(text);
    if (!grace)
        throw UsageError("--shutdown-timeout " + text + ": expected a number of seconds");
    return *grace;
}

void apply_ranks_per_node(int ranks, ResourceSpec& resources) {
    resources.ranks_mode = RanksPerNode::fixed;
    resources.ranks_per_node = ranks;
    resources.ranks_of_each_launcher = true;
}

/// What mpirun and srun call otherwise.
void apply_foreign(const JobOptions& options, JobSpec& spec) {
    if (options.ntasks) {
        spec.resources.total_ranks = number_from(*options.ntasks, "--ntasks", 1);
        if (!options.nproc_per_node)
            spec.resources.ranks_mode = RanksPerNode::unset;
    }
    if (options.map_by)
        if (const int ranks = ranks_per_node_from_map_by(*options.map_by); ranks > 0)
            apply_ranks_per_node(ranks, spec.resources);
    if (options.host) {
        const int slots = slots_of_this_machine(*options.host, hostname());
        if (!options.ntasks && !options.nproc_per_node && !options.map_by)
            apply_ranks_per_node(slots, spec.resources);
    }
    if (options.bind_to) {
        spec.resources.binding = binding_from_bind_to(*options.bind_to);
        spec.resources.binding_list.clear();
    }
    if (options.wdir)
        spec.trainer.workdir = *options.wdir;
}

void apply_rendezvous(const JobOptions& options, JobSpec& spec, std::vector<std::string>& notes) {
    if (options.rdzv_endpoint)
        apply_endpoint(*options.rdzv_endpoint, spec.rendezvous);
    if (options.rdzv_backend && *options.rdzv_backend != "c10d" &&
        *options.rdzv_backend != "static")
        notes.push_back("--rdzv-backend " + *options.rdzv_backend +
                        " has no effect: autolaunch is its own rendezvous, as with c10d");
    if (options.rdzv_conf)
        apply_rdzv_conf(*options.rdzv_conf, spec.rendezvous, notes);
    if (options.rdzv_id)
        spec.run_id = *options.rdzv_id;
    if (options.master_addr && options.rdzv_endpoint) {
        notes.push_back("--master-addr " + *options.master_addr +
                        " has no effect beside --rdzv-endpoint, which names the place");
    } else if (options.master_addr) {
        spec.rendezvous.address = *options.master_addr;
        spec.rendezvous.address_is_meeting_place = false;
    }
    if (options.master_port)
        spec.rendezvous.port = number_from(*options.master_port, "--master-port", 0, 65535);
    if (options.local_addr)
        spec.local_addr = *options.local_addr;
    if (options.node_rank)
        spec.node_rank = number_from(*options.node_rank, "--node-rank", 0);
    if (options.standalone.value_or(false)) {
        spec.standalone = true;
        spec.resources.nodes = 1;
        spec.resources.most_nodes = 1;
        spec.resources.spare_nodes = 0;
        spec.node_rank.reset();
        spec.rendezvous.address.clear();
        spec.rendezvous.address_is_meeting_place = false;
        spec.rendezvous.port = 0;
    }
}

// Options that a node may have of its own are left out: its rank and address, --nproc-per-node,
// where its logs go, and the program's arguments.
std::uint64_t digest(const CommandLine& line, std::uint64_t of_files) {
    std::string text = hex64(of_files);
    for (const auto& word : line.overrides)
        text += '\n' + word;
    for (const JobOptions* options : {&line.defaults, &line.options})
        for (const auto* option :
             {&options->nnodes, &options->spare_nodes, &options->max_restarts, &options->role,
              &options->input, &options->debug_rank, &options->gdb_rank})
            text += '\n' + option->value_or("");
    return hash64(text.data(), text.size());
}

/// The spec of the command line; of one that makes many jobs the one that this start is of.
SpecResult read_spec(const CommandLine& line, const std::map<std::string, std::string>& environment,
                     JobRequest& request) {
    const SpecRequest asked{line.spec_file,
                            line.overrides,
                            environment,
                            request.spec,
                            line.secrets,
                            {},
                            line.command == Command::submit};
    SpecResult read = load_spec(asked);
    if (read.errors.empty() && read.sweep.given && line.command != Command::submit)
        return choose_element(asked, std::move(read),
                              line.command == Command::plan || line.command == Command::stage_in,
                              request.notes);
    return read;
}

}  // namespace

void apply_options(const JobOptions& options, JobSpec& spec, std::vector<std::string>& notes) {
    if (options.nnodes)
        apply_nnodes(*options.nnodes, spec);
    if (options.spare_nodes)
        spec.resources.spare_nodes = number_from(*options.spare_nodes, "--spare-nodes", 0);
    if (options.nproc_per_node)
        apply_nproc_per_node(*options.nproc_per_node, spec.resources);
    if (options.max_restarts) {
        spec.restart.max_restarts = number_from(*options.max_restarts, "--max-restarts", 0);
        spec.restart.as_torchrun = true;
    }
    if (options.numa_binding)
        apply_binding(*options.numa_binding, spec.resources);
    if (options.mpi)
        spec.trainer.mpi = mpi_from(*options.mpi);
    if (options.preload)
        spec.trainer.preload = preload_option(*options.preload);
    if (options.preload_from)
        spec.trainer.preload_from = preload_from_option(*options.preload_from);
    if (options.role)
        spec.role = *options.role;
    if (options.signals_to_handle)
        spec.stop_signals = signals_from(*options.signals_to_handle);
    if (options.log_dir)
        spec.run_dir = *options.log_dir;
    if (options.log_line_prefix_template)
        spec.logging.prefix_template = *options.log_line_prefix_template;
    if (options.shutdown_timeout)
        spec.restart.grace_period = grace_from(*options.shutdown_timeout);
    if (options.virtual_local_rank)
        spec.resources.virtual_local_rank = *options.virtual_local_rank;
    apply_foreign(options, spec);
    if (options.local_ranks_filter)
        spec.logging.local_ranks_filter = ranks_from(*options.local_ranks_filter);
    if (options.quiet)
        spec.logging.quiet = *options.quiet;
    if (options.no_prefix)
        spec.logging.prefix = !*options.no_prefix;
    if (options.stdio)
        spec.logging.stdio = stdio_from(*options.stdio);
    if (options.no_line_buffering)
        spec.logging.line_buffered = !*options.no_line_buffering;
    apply_streams(options, spec.logging);
    apply_rendezvous(options, spec, notes);
    apply_debug_options(options, spec, notes);
}

JobRequest job_request(const CommandLine& line,
                       const std::map<std::string, std::string>& environment) {
    JobRequest request;
    apply_options(line.defaults, request.spec, request.notes);
    if (!line.spec_file.empty()) {
        SpecResult read = read_spec(line, environment, request);
        request.spec = std::move(read.spec);
        request.errors = std::move(read.errors);
        request.site = std::move(read.site);
        request.checkpoint = std::move(read.checkpoint);
        request.root = std::move(read.root);
        request.stored = std::move(read.stored);
        request.sweep = std::move(read.sweep);
        if (!request.errors.empty())
            return request;
        if (!request.spec.pipeline.empty()) {
            if (line.command != Command::submit)
                request.errors.push_back(
                    {line.spec_file, 0, 0, "pipeline",
                     "is of several jobs: autolaunch submit -c " + line.spec_file});
            return request;
        }
        request.spec.name = request.spec.slurm.job_name;
    }
    request.notes.insert(request.notes.begin(), line.notes.begin(), line.notes.end());
    apply_options(line.options, request.spec, request.notes);
    export_variables(line.options.exported, environment, request.spec.trainer.env, request.notes);
    choose_program(line, environment, request.spec);
    request.spec.secrets = secret_values(environment);
    for (const auto& secret : secret_values(request.spec.trainer.env))
        request.spec.secrets.push_back(secret);
    request.spec.source_digest = digest(line, request.spec.source_digest);
    return request;
}

}  // namespace autolaunch::launcher
