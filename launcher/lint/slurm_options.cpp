#include "lint/slurm_options.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace autolaunch::launcher {

namespace {

enum class Takes { nothing, value, optional_value };

struct Shape {
    std::string name;
    char letter = 0;
    Takes takes = Takes::nothing;
};

// One word an option: name, then = for a value, [ for an optional one, then /LETTER for its short
// form.
constexpr const char* kBoth =
    "account=/A acctg-freq= bb= bbf= begin=/b chdir=/D cluster-constraint= clusters=/M comment= "
    "constraint=/C "
    "container= "
    "container-id= contiguous core-spec=/S cores-per-socket= cpu-freq= cpus-per-gpu= "
    "cpus-per-task=/c deadline= "
    "delay-boot= dependency=/d distribution=/m error=/e exclude=/x exclusive[ export= extra= "
    "extra-node-info=/B gid= "
    "gpu-bind= "
    "gpu-freq= "
    "gpus=/G gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= help/h hint= hold/H "
    "input=/i job-name=/J "
    "licenses=/L mail-type= mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= "
    "mincpus= network= nice[ "
    "no-kill[/k nodefile=/F nodelist=/w nodes=/N ntasks=/n ntasks-per-core= ntasks-per-gpu= "
    "ntasks-per-node= "
    "ntasks-per-socket= ntasks-per-tres= open-mode= oom-kill-step[ output=/o overcommit/O "
    "oversubscribe/s partition=/p "
    "power= prefer= priority= profile= propagate[ qos=/q quiet/Q reboot reservation= resv-ports[ "
    "segment= signal= "
    "sockets-per-node= spread-job spread-segments stepmgr switches= test-only thread-spec= "
    "threads-per-core= time=/t "
    "time-min= tmp= tres-bind= tres-per-job= tres-per-node= tres-per-socket= tres-per-task= uid= "
    "usage use-min-nodes "
    "verbose/v version/V wckey= consolidate-segments";
constexpr const char* kSbatch =
    "array=/a batch= export-file= get-user-env[ ignore-pbs kill-on-invalid-dep= no-requeue "
    "parsable requeue wait/W "
    "wait-all-nodes= wait-for-children wrap=";
constexpr const char* kSrun =
    "accel-bind= async bcast[ bcast-exclude= compress[ cpu-bind= cpu_bind= disable-status/X "
    "epilog= exact "
    "external-launcher het-group= pack-group= immediate[/I interactive jobid= kill-on-bad-exit[/K "
    "label/l mem_bind= "
    "mpi= "
    "msg-timeout= multi-prog no-allocate/Z overlap preserve-env/E prolog= pty[ quit-on-interrupt/q "
    "relative=/r "
    "send-libs[ "
    "slurmd-debug= task-epilog= task-prolog= threads=/T unbuffered/u wait=/W whole x11[ "
    "treewidth=";

constexpr const char* kSalloc =
    "bell get-user-env[ immediate[/I kill-command[/K no-bell no-shell wait-all-nodes= x11[";

// What widespread plugins add. They have no short forms, and are not abbreviated here.
struct PluginOptions {
    const char* plugin;
    const char* names;
};
constexpr std::array<PluginOptions, 7> kPlugins = {{
    {"pyxis",
     "container-image= container-mounts= container-workdir= container-name= container-save= "
     "container-mount-home no-container-mount-home container-remap-root no-container-remap-root "
     "container-entrypoint no-container-entrypoint container-entrypoint-log container-writable "
     "container-readonly container-env="},
    {"shifter", "image= volume= module= entrypoint["},
    {"uenv", "uenv= view= repo="},
    {"CSCS' container engine", "environment="},
    {"auks", "auks[ spankcredstore["},
    {"JSC's", "cuda-mps disable-perfparanoid disable-dcgm"},
    {"singularity's or apptainer's", "singularity-container= singularity-bind= singularity-args="},
}};

std::vector<Shape> shapes_from(const char* table) {
    std::vector<Shape> shapes;
    for (std::string entry : split(table, ' ')) {
        Shape shape;
        if (entry.size() > 2 && entry[entry.size() - 2] == '/') {
            shape.letter = entry.back();
            entry.resize(entry.size() - 2);
        }
        if (entry.ends_with('='))
            shape.takes = Takes::value;
        if (entry.ends_with('['))
            shape.takes = Takes::optional_value;
        if (shape.takes != Takes::nothing)
            entry.pop_back();
        shape.name = entry;
        shapes.push_back(std::move(shape));
    }
    return shapes;
}

const std::vector<Shape>& shapes_of(SlurmProgram program) {
    static const auto with = [](const char* own) {
        auto shapes = shapes_from(own);
        for (auto& shape : shapes_from(kBoth))
            shapes.push_back(std::move(shape));
        return shapes;
    };
    static const std::vector<Shape> kForSbatch = with(kSbatch);
    static const std::vector<Shape> kForSrun = with(kSrun);
    static const std::vector<Shape> kForSalloc = with(kSalloc);
    return program == SlurmProgram::sbatch ? kForSbatch
           : program == SlurmProgram::srun ? kForSrun
                                           : kForSalloc;
}

/// The option called `name`, or the only one that begins so.
const Shape* find_long(const std::vector<Shape>& shapes, std::string_view name) {
    const Shape* found = nullptr;
    int begin_so = 0;
    for (const auto& shape : shapes) {
        if (shape.name == name)
            return &shape;
        if (!shape.name.starts_with(name))
            continue;
        ++begin_so;
        found = &shape;
    }
    return begin_so == 1 ? found : nullptr;
}

/// {its shape, whose it is}; a nullptr where no plugin that is known here has it.
std::pair<const Shape*, const char*> find_of_plugin(std::string_view name) {
    static const auto kShapes = [] {
        std::vector<std::pair<Shape, const char*>> shapes;
        for (const auto& plugin : kPlugins)
            for (auto& shape : shapes_from(plugin.names))
                shapes.emplace_back(std::move(shape), plugin.plugin);
        return shapes;
    }();
    for (const auto& [shape, plugin] : kShapes)
        if (shape.name == name)
            return {&shape, plugin};
    return {nullptr, ""};
}

UnknownOption unknown_option(const std::vector<Shape>& shapes, const Word& word,
                             const std::string& name) {
    std::vector<std::string> names;
    for (const auto& shape : shapes)
        names.push_back("--" + shape.name);
    const std::string written = word.value.substr(0, word.value.find('='));
    return {written, name.empty() ? std::string() : nearest("--" + name, names), word.line};
}

Word value_from(const Word& word, std::size_t offset) {
    Word value = word;
    value.value = word.value.substr(std::min(offset, word.value.size()));
    value.raw = value.value;
    return value;
}

struct Reader {
    std::span<const Word> words;
    const std::vector<Shape>& shapes;
    ParsedOptions parsed;

    void take(const Shape& shape, std::optional<Word> attached, bool short_form) {
        const Word& word = words[parsed.rest];
        SlurmOption option{shape.name, {}, false, short_form, word.line, word.raw};
        if (attached && shape.takes != Takes::nothing) {
            option.value = *attached;
            option.has_value = true;
        } else if (shape.takes == Takes::value && parsed.rest + 1 < words.size()) {
            option.value = words[++parsed.rest];
            option.separate = option.value.raw;
            option.has_value = true;
        }
        parsed.options.push_back(std::move(option));
    }

    void read_long(const Word& word) {
        const std::size_t equals = word.value.find('=');
        const std::string name =
            word.value.substr(2, equals == std::string::npos ? equals : equals - 2);
        const Shape* shape = find_long(shapes, name);
        if (shape == nullptr) {
            take_foreign(word, name, equals != std::string::npos);
            return;
        }
        take(*shape,
             equals == std::string::npos ? std::nullopt
                                         : std::optional(value_from(word, equals + 1)),
             false);
    }

    /// One that Slurm itself does not know: misspelt, or a plugin's.
    void take_foreign(const Word& word, const std::string& name, bool has_value) {
        const auto [shape, plugin] = find_of_plugin(name);
        UnknownOption unknown = unknown_option(shapes, word, name);
        if (shape == nullptr && !unknown.nearest.empty() && !name.starts_with("container-")) {
            parsed.unknown.push_back(std::move(unknown));
            return;
        }
        parsed.of_plugins.push_back({unknown.written, plugin, word.line, name, {}});
        std::optional<std::string>& value = parsed.of_plugins.back().value;
        if (has_value)
            value = word.value.substr(word.value.find('=') + 1);
        else if (shape != nullptr && shape->takes == Takes::value && parsed.rest + 1 < words.size())
            value = words[++parsed.rest].value;
    }

    void read_short(const Word& word) {
        for (std::size_t i = 1; i < word.value.size(); ++i) {
            const auto shape = std::find_if(shapes.begin(), shapes.end(), [&](const Shape& other) {
                return other.letter == word.value[i];
            });
            if (shape == shapes.end()) {
                parsed.unknown.push_back(unknown_option(shapes, word, ""));
                return;
            }
            const bool more = i + 1 < word.value.size();
            if (shape->takes == Takes::nothing) {
                take(*shape, std::nullopt, true);
                continue;
            }
            take(*shape, more ? std::optional(value_from(word, i + 1)) : std::nullopt, true);
            return;
        }
    }
};

}  // namespace

ParsedOptions parse_slurm_options(std::span<const Word> words, SlurmProgram program) {
    Reader reader{words, shapes_of(program), {}};
    auto& at = reader.parsed.rest;
    for (; at < words.size(); ++at) {
        const Word word = words[at];
        if (word.value.size() < 2 || word.value[0] != '-')
            break;
        if (word.value == "--") {
            ++at;
            break;
        }
        if (word.value[1] == '-') {
            reader.read_long(word);
        } else {
            reader.read_short(word);
        }
    }
    return std::move(reader.parsed);
}

}  // namespace autolaunch::launcher
