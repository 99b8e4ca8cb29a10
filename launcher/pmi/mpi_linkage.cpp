#include "pmi/mpi_linkage.hpp"

#include "base/file_io.hpp"
#include "base/file_system.hpp"
#include "base/text.hpp"
#include "pmi/elf_file.hpp"
#include "pmi/mpi_library_watch.hpp"
#include "pmi/pmix_offer.hpp"
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

// What a program starts, or loads later, may use MPI all the same. One rank alone is rank 0 of 1
// anyway.
MpiChoice offer(const MpiFacts& facts, const std::string& why) {
    if (!facts.several_ranks)
        return {MpiMode::none, false, why + ", and one rank needs nobody"};
    return {MpiMode::offered, false,
            why + (facts.has_pmixd ? "; PMIx and PMI-1 start when a rank asks for them"
                                   : "; PMI-1 starts when a rank asks for it, and PMIx cannot "
                                     "be had: there is no autolaunch-pmixd for it")};
}

}  // namespace

// libmpi.so.12 is the name of MPICH's common ABI (Intel MPI, MVAPICH, Cray); Open MPI's numbers
// start at 20. libmpi_abi.so is MPI 5's own ABI, which all of them have. Files have longer names
// than what programs need: libmpi.so.40.30.4.
MpiMode mode_of_library(std::string_view name) {
    constexpr std::string_view kNumbered = "libmpi.so.";
    if (name.starts_with("libmpich.so."))
        return MpiMode::pmi1;
    if (name.starts_with("libmpi_abi.so."))
        return MpiMode::offered;
    long long number = 0;
    if (!name.starts_with(kNumbered))
        return MpiMode::none;
    const std::string_view rest = name.substr(kNumbered.size());
    if (!parse_integer(rest.substr(0, rest.find('.')), number))
        return MpiMode::none;
    return number >= 20 ? MpiMode::pmix : number == 12 ? MpiMode::pmi1 : MpiMode::none;
}

std::vector<std::string> list_mpi_libraries(const std::vector<std::string>& environment) {
    constexpr std::array<const char*, 7> kNames = {
        "libmpi.so.12",   "libmpi.so.20",    "libmpi.so.40",   "libmpi.so.80",
        "libmpich.so.12", "libmpi_abi.so.0", "libmpi_abi.so.1"};
    std::vector<std::string> folders, libraries;
    add_folders(value_of(environment, "LD_LIBRARY_PATH"), {}, folders);
    SystemFolders system;
    folders.insert(folders.end(), system.get().begin(), system.get().end());
    std::error_code error;
    for (const auto& folder : folders)
        for (const char* name : kNames)
            if (std::string path = folder + '/' + name; fs::exists(path, error))
                libraries.push_back(std::move(path));
    return libraries;
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
        return offer(facts, "the program is linked with no MPI");
    if (linkage.mode == MpiMode::offered)
        return offer(facts, "the program needs " + linkage.library + ", which any MPI may be");
    if (linkage.through_libautolaunch) {
        const bool may_use_it = facts.several_nodes || facts.backend == "mpi";
        if (!may_use_it)
            return offer(facts, "libautolaunch uses shared memory on one node");
        if (linkage.mode == MpiMode::pmix && !facts.has_pmixd)
            return {MpiMode::none, false, "there is no autolaunch-pmixd"};
    }
    return {linkage.mode, false,
            "the program needs " + linkage.library + ", which takes " + name_of(linkage.mode)};
}

MpiChoice choose_mpi_together(const std::vector<ProgramMpi>& programs) {
    MpiChoice together = programs.front().choice;
    const bool alike = std::all_of(programs.begin(), programs.end(), [&](const ProgramMpi& one) {
        return one.choice.mode == together.mode;
    });
    if (alike)
        return together;
    together.mode = MpiMode::offered;
    together.reason.clear();
    for (const ProgramMpi& one : programs)
        together.reason +=
            (together.reason.empty() ? "" : "; ") + one.name + ": " +
            (one.choice.mode == MpiMode::offered ? "no MPI, or any" : one.choice.reason);
    return together;
}

std::string find_mpi_conflict(const std::vector<ProgramMpi>& programs) {
    const auto of = [&](MpiMode mode) {
        return std::find_if(programs.begin(), programs.end(),
                            [&](const ProgramMpi& one) { return one.choice.mode == mode; });
    };
    const auto pmix = of(MpiMode::pmix), pmi1 = of(MpiMode::pmi1);
    if (pmix == programs.end() || pmi1 == programs.end())
        return {};
    return pmix->name + " and " + pmi1->name + " are linked with two MPIs (" + pmix->choice.reason +
           "; " + pmi1->choice.reason +
           "), which cannot be one job: in MPI_Init each waits for all ranks. Build them with the "
           "same MPI";
}

void plan_mpi(LaunchPlan& plan, const EnvironmentMap& environment) {
    MpiFacts facts;
    facts.setting = plan.spec.trainer.mpi;
    facts.backend = plan.spec.distributed.backend;
    facts.several_nodes = plan.node_count > 1;
    facts.several_ranks = plan.world_size > 1;
    std::vector<ProgramMpi> programs;
    for (const RankPlan& rank : plan.ranks) {
        const std::string& name = rank.argv.front();
        const auto is_known = [&](const ProgramMpi& one) { return one.name == name; };
        if (std::any_of(programs.begin(), programs.end(), is_known))
            continue;
        if (facts.setting == "auto") {
            const auto of_rank = rank_environment(plan, rank, {}, environment);
            const ProgramSearch program = find_program(name, of_rank, plan.workdir);
            facts.linkage =
                program.error_number == 0 ? find_mpi_linkage(program.path, of_rank) : MpiLinkage{};
            facts.has_pmixd = facts.linkage.mode == MpiMode::pmix ? !find_pmixd(of_rank).empty()
                                                                  : can_offer_pmix(of_rank);
        }
        programs.push_back({name, choose_mpi(facts)});
    }
    plan.mpi = choose_mpi_together(programs);
    if (std::string conflict = find_mpi_conflict(programs); !conflict.empty())
        plan.warnings.push_back(std::move(conflict));
}

}  // namespace autolaunch::launcher
