#include "pmi/mpi_linkage.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "pmi/elf_file.hpp"
#include "pmi/pmixd_process.hpp"
#include "spawn/program_search.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <set>
#include <system_error>

namespace autolaunch::launcher {

namespace fs = std::filesystem;

namespace {

constexpr int kMostSteps = 4;
constexpr std::size_t kMostFiles = 64;

#if defined(__x86_64__)
constexpr const char* kMultiarch = "x86_64-linux-gnu";
#elif defined(__aarch64__)
constexpr const char* kMultiarch = "aarch64-linux-gnu";
#else
constexpr const char* kMultiarch = "powerpc64le-linux-gnu";
#endif

// Never the way to MPI, and needed by everybody.
bool is_runtime(std::string_view name) {
    constexpr std::array<std::string_view, 9> kRuntime = {
        "libc.so",  "libm.so",     "libdl.so",     "librt.so",  "libpthread.so",
        "ld-linux", "libgcc_s.so", "libstdc++.so", "libutil.so"};
    return std::any_of(kRuntime.begin(), kRuntime.end(),
                       [&](auto prefix) { return name.starts_with(prefix); });
}

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
    for (const auto& line : environment)
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == '=')
            return line.substr(name.size() + 1);
    return {};
}

void add_folders(const std::string& list, const std::string& origin,
                 std::vector<std::string>& folders) {
    if (list.empty())
        return;
    for (std::string folder : split(list, ':')) {
        for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"})
            if (const auto at = folder.find(word); at != std::string::npos)
                folder.replace(at, word.size(), origin);
        if (!folder.empty())
            folders.push_back(std::move(folder));
    }
}

/// Where the loader looks at last: its standard folders and those of /etc/ld.so.conf.d, read when
/// first needed.
class SystemFolders {
public:
    const std::vector<std::string>& get() {
        if (folders_.empty()) {
            for (const std::string base : {"/lib/", "/usr/lib/"})
                folders_.push_back(base + kMultiarch);
            for (const char* folder :
                 {"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"})
                folders_.emplace_back(folder);
            read_configured();
        }
        return folders_;
    }

private:
    void read_configured() {
        std::error_code missing;
        for (const fs::path& file : list_folder("/etc/ld.so.conf.d", missing)) {
            if (file.extension() != ".conf")
                continue;
            try {
                for (const auto& line : split(read_file(file), '\n'))
                    if (const auto folder = trim(line); folder.starts_with('/'))
                        folders_.emplace_back(folder);
            } catch (const Error&) {  // not for us to read
            }
        }
    }
    std::vector<std::string> folders_;
};

/// A breadth-first walk from the program through what it needs.
class LinkageSearch {
public:
    explicit LinkageSearch(const std::vector<std::string>& environment)
        : library_path_(value_of(environment, "LD_LIBRARY_PATH")) {}

    MpiLinkage run(const std::string& program) {
        waiting_.push_back({program, 0});
        MpiLinkage indirect;
        for (std::size_t files = 0; !waiting_.empty() && files < kMostFiles; ++files) {
            const Step step = waiting_.front();
            waiting_.pop_front();
            const auto file = read_elf(step.path);
            if (!file)
                continue;
            if (const MpiLinkage found = linkage_of(*file); found.mode != MpiMode::none) {
                if (!found.through_libautolaunch)
                    return found;
                indirect = found;
            } else if (step.depth < kMostSteps) {
                follow(*file, step);
            }
        }
        return indirect;
    }

private:
    struct Step {
        std::string path;
        int depth;
    };

    static MpiLinkage linkage_of(const ElfFile& file) {
        for (const auto& name : file.needed)
            if (const MpiMode mode = mode_of_library(name); mode != MpiMode::none)
                return {mode, name, file.has_our_note};
        return {};
    }

    void follow(const ElfFile& file, const Step& step) {
        const std::string origin = fs::path(step.path).parent_path();
        std::vector<std::string> folders;
        if (file.runpath.empty())
            add_folders(file.rpath, origin, folders);
        add_folders(library_path_, origin, folders);
        add_folders(file.runpath, origin, folders);
        for (const auto& name : file.needed) {
            if (is_runtime(name) || !seen_.insert(name).second)
                continue;
            if (const std::string path = find(name, folders); !path.empty())
                waiting_.push_back({path, step.depth + 1});
        }
    }

    std::string find(const std::string& name, const std::vector<std::string>& folders) {
        if (name.find('/') != std::string::npos)
            return name;
        std::error_code error;
        for (const auto* list : {&folders, &system_.get()})
            for (const auto& folder : *list)
                if (std::string path = folder + '/' + name; fs::exists(path, error))
                    return path;
        return {};
    }

    std::string library_path_;
    SystemFolders system_;
    std::deque<Step> waiting_;
    std::set<std::string> seen_;
};

const char* name_of(MpiMode mode) { return mode == MpiMode::pmix ? "PMIx" : "PMI-1"; }

}  // namespace

// libmpi.so.12 is the name of MPICH's common ABI (Intel MPI, MVAPICH, Cray); Open MPI's numbers
// start at 20.
MpiMode mode_of_library(std::string_view name) {
    constexpr std::string_view kOpenMpi = "libmpi.so.";
    if (name.starts_with("libmpich.so.") || name == "libmpi.so.12")
        return MpiMode::pmi1;
    long long number = 0;
    if (name.starts_with(kOpenMpi)) {
        const std::string_view rest = name.substr(kOpenMpi.size());
        if (parse_integer(rest.substr(0, rest.find('.')), number) && number >= 20)
            return MpiMode::pmix;
    }
    return MpiMode::none;
}

MpiLinkage find_mpi_linkage(const std::string& program,
                            const std::vector<std::string>& environment) {
    return LinkageSearch(environment).run(program);
}

MpiChoice choose_mpi(const MpiFacts& facts) {
    if (facts.setting == "none")
        return {MpiMode::none, true, "trainer.mpi is none"};
    if (facts.setting == "pmix")
        return {MpiMode::pmix, true, "trainer.mpi is pmix"};
    if (facts.setting == "pmi1")
        return {MpiMode::pmi1, true, "trainer.mpi is pmi1"};
    const MpiLinkage& linkage = facts.linkage;
    if (linkage.mode == MpiMode::none)
        return {MpiMode::none, false, "the program is linked with no MPI"};
    if (linkage.through_libautolaunch) {
        const bool may_use_it = facts.several_nodes || facts.backend == "mpi";
        if (!may_use_it)
            return {MpiMode::none, false, "libautolaunch uses shared memory on one node"};
        if (linkage.mode == MpiMode::pmix && !facts.has_pmixd)
            return {MpiMode::none, false, "there is no autolaunch-pmixd"};
    }
    return {linkage.mode, false,
            "the program needs " + linkage.library + ", which takes " + name_of(linkage.mode)};
}

MpiChoice choose_mpi(const LaunchPlan& plan, const EnvironmentMap& environment) {
    MpiFacts facts;
    facts.setting = plan.spec.trainer.mpi;
    facts.backend = plan.spec.distributed.backend;
    facts.several_nodes = plan.node_count > 1;
    if (facts.setting == "auto") {
        const auto of_rank = rank_environment(plan, plan.ranks.front(), {}, environment);
        const ProgramSearch program =
            find_program(plan.ranks.front().argv.front(), of_rank, plan.workdir);
        if (program.error_number == 0)
            facts.linkage = find_mpi_linkage(program.path, of_rank);
        facts.has_pmixd = facts.linkage.mode != MpiMode::pmix || !find_pmixd(of_rank).empty();
    }
    return choose_mpi(facts);
}

}  // namespace autolaunch::launcher
