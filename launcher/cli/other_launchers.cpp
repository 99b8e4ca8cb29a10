#include "cli/other_launchers.hpp"

#include "base/text.hpp"
#include "exit_codes/exit_error.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr const char* kNodesBySrun =
    "autolaunch logs in to no other machine: let srun or mpirun start it on each "
    "(srun -w HOSTS autolaunch …, mpirun --map-by ppr:1:node autolaunch …), or give every node the "
    "same --nnodes and --rdzv-endpoint";
constexpr const char* kForSrun =
    "it is for srun, which starts autolaunch: srun OPTIONS autolaunch …";
constexpr const char* kByEnvironment =
    "say it in the environment, which ranks inherit: OMPI_MCA_NAME=VALUE autolaunch …";

struct ForeignName {
    const char* name;
    const char* ours;
};
constexpr std::array<ForeignName, 15> kNames = {{
    {"-np", "--ntasks"},
    {"--np", "--ntasks"},
    {"--n", "--ntasks"},
    {"-npernode", "--nproc-per-node"},
    {"--npernode", "--nproc-per-node"},
    {"-ppn", "--nproc-per-node"},
    {"--ppn", "--nproc-per-node"},
    {"-host", "--host"},
    {"-hosts", "--host"},
    {"--hosts", "--host"},
    {"-bind-to", "--bind-to"},
    {"-map-by", "--map-by"},
    {"-wdir", "--wdir"},
    {"-oversubscribe", "--oversubscribe"},
    {"--ntasks-per-node", "--nproc-per-node"},
}};

}  // namespace

const ForeignOptions& foreign_options() {
    static const ForeignOptions kOptions = {
        {"-N",
         "-N is nodes for srun (here: --nnodes N) and ranks a node for mpirun (here: -n N): write "
         "which of them"},
        {"--hostfile", kNodesBySrun},
        {"-hostfile", kNodesBySrun},
        {"--machinefile", kNodesBySrun},
        {"-machinefile", kNodesBySrun},
        {"-f", kNodesBySrun},
        {"-w", kNodesBySrun},
        {"--nodelist", kNodesBySrun},
        {"--mca", kByEnvironment},
        {"-mca", kByEnvironment},
        {"--prtemca", kByEnvironment},
        {"-genv", "say it as -x NAME=VALUE"},
        {"-env", "say it as -x NAME=VALUE"},
        {"--rank-by", "ranks fill node after node; see autolaunch plan"},
        {"-rank-by", "ranks fill node after node; see autolaunch plan"},
        {"--report-bindings", "autolaunch plan shows where each rank would run, and why"},
        {"--display-map", "autolaunch plan shows where each rank would run, and why"},
        {"--display", "autolaunch plan shows where each rank would run, and why"},
        {"--cpu-bind", "say it as --numa-binding node, socket, exclusive, core-complex or none"},
        {"--distribution", "ranks fill node after node; see autolaunch plan"},
        {"--cpus-per-task",
         "a rank has its share of the CPUs that srun grants: srun --cpus-per-task=N autolaunch …"},
        {"--gpus-per-task",
         "a rank has its share of the GPUs: srun --gpus-per-node=N autolaunch …"},
        {"--gpus", kForSrun},
        {"--gpus-per-node", kForSrun},
        {"--gres", kForSrun},
        {"--mem", kForSrun},
        {"--time", kForSrun},
        {"--partition", kForSrun},
        {"-p", kForSrun},
        {"--account", kForSrun},
        {"--exclusive", kForSrun},
        {"--overlap", kForSrun},
        {"--jobid", kForSrun},
        {"--het-group", kForSrun},
        {"--export", "ranks inherit the whole environment; say -x NAME=VALUE for more"},
        {"--multi-prog", "say it as: autolaunch -n 1 ./a : -n 3 ./b"},
        {"-l", "each line has its rank in front: say nothing"},
    };
    return kOptions;
}

void add_foreign_names(OptionShapes& shapes) {
    for (const ForeignName& name : kNames)
        if (const auto ours = shapes.find(name.ours); ours != shapes.end())
            shapes.emplace(name.name, OptionShape(ours->second));
}

std::string binding_from_bind_to(const std::string& text) {
    static const std::map<std::string, std::string> kWords = {
        {"none", "none"},          {"numa", "node"},           {"socket", "socket"},
        {"package", "socket"},     {"board", "none"},          {"core", "exclusive"},
        {"hwthread", "exclusive"}, {"l3cache", "core-complex"}};
    const auto found = kWords.find(text.substr(0, text.find(':')));
    if (found == kWords.end())
        throw UsageError("--bind-to " + text + ": no way to bind ranks",
                         "there are none, core, hwthread, l3cache, numa, socket and package");
    return found->second;
}

int ranks_per_node_from_map_by(const std::string& text) {
    const auto parts = split(text, ':');
    long long number = 0;
    if (parts.size() >= 3 && parts[0] == "ppr" && parts[2] == "node" &&
        parse_integer(parts[1], number) && number > 0 && number < 1'000'000)
        return static_cast<int>(number);
    constexpr std::array<std::string_view, 4> kInOrder = {"slot", "core", "hwthread", "seq"};
    if (std::find(kInOrder.begin(), kInOrder.end(), parts[0]) != kInOrder.end())
        return 0;
    throw UsageError("--map-by " + text + ": autolaunch cannot lay ranks out so",
                     "ranks fill node after node; --map-by ppr:N:node and -n N say how many a "
                     "node, --numa-binding where on it");
}

int slots_of_this_machine(const std::string& hosts, const std::string& hostname) {
    int slots = 0;
    for (const auto& entry : split(hosts, ',')) {
        const std::string host = entry.substr(0, entry.find(':'));
        const bool here = host == "localhost" || host == "127.0.0.1" || host == "::1" ||
                          host == hostname ||
                          host.substr(0, host.find('.')) == hostname.substr(0, hostname.find('.'));
        if (!here)
            throw UsageError("--host " + hosts + ": " + host + " is another machine", kNodesBySrun);
        long long number = 1;
        if (entry.find(':') != std::string::npos &&
            (!parse_integer(entry.substr(entry.find(':') + 1), number) || number < 1 ||
             number > 1'000'000))
            throw UsageError("--host " + hosts + ": expected HOST or HOST:SLOTS");
        slots += static_cast<int>(number);
    }
    return slots;
}

void export_variables(const std::vector<std::string>& names,
                      const std::map<std::string, std::string>& environment,
                      std::map<std::string, std::string>& trainer_env,
                      std::vector<std::string>& notes) {
    for (const auto& text : names) {
        const std::size_t equals = text.find('=');
        const std::string name = text.substr(0, equals);
        if (name.empty())
            throw UsageError("-x " + text + ": expected NAME or NAME=VALUE");
        const auto here = environment.find(name);
        if (equals != std::string::npos)
            trainer_env[name] = text.substr(equals + 1);
        else if (here != environment.end())
            trainer_env[name] = here->second;
        else
            notes.push_back("-x " + name + ": it is not set here, so nothing is handed on");
    }
}

}  // namespace autolaunch::launcher
