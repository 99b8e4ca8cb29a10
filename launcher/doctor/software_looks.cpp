#include "doctor/examination.hpp"
#include "doctor/looks.hpp"
#include "doctor/probed_folder.hpp"

#include "base/text.hpp"
#include "nccl_env/compute_hcas.hpp"
#include "nccl_env/footguns.hpp"
#include "topology/system_files.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>

namespace autolaunch::launcher {

namespace {

constexpr std::uint64_t kEnoughInodes = 1000;
constexpr auto kSlowLookup = std::chrono::seconds(1);

// NCCL's own number: 2.28.9 is 22809, before 2.9 it was 2.8.4 as 2804.
std::string nccl_version(int number) {
    if (number < 10000)
        return fmt::format("{}.{}.{}", number / 1000, number / 100 % 10, number % 100);
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

}  // namespace

// It is loaded for its version alone, in the process of this check: no CUDA context is made.
void look_at_nccl_library(Examination& exam) {
    if (exam.topology().gpus.empty())
        return exam.nothing_to_look_at("no GPU");
    void* library = ::dlopen(exam.sources().nccl_library.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr)
        return exam.nothing_to_look_at("the loader finds no NCCL; Python packages bring their own");
    using GetVersion = int (*)(int*);
    const auto get_version = reinterpret_cast<GetVersion>(::dlsym(library, "ncclGetVersion"));
    int number = 0;
    if (get_version == nullptr || get_version(&number) != 0)
        return exam.cannot_look("ncclGetVersion failed");
    exam.fact("nccl", nccl_version(number));
}

void look_at_nccl_settings(Examination& exam) {
    if (exam.topology().gpus.empty())
        return exam.nothing_to_look_at("no GPU");
    for (const std::string& warning : exam.state().nccl_conf().warnings)
        exam.found(warning);
    const ComputeHcas compute = choose_compute_hcas(exam.topology());
    for (const std::string& warning :
         find_nccl_footguns(exam.topology(), compute, exam.state().nccl_settings()))
        exam.found(warning);
}

namespace {

std::string file_system_name(long type) {
    static const std::map<long, const char*> kNames = {
        {0x6969, "nfs"},        {0x0BD00BD0, "lustre"},  {0x47504653, "gpfs"},
        {0x19830326, "beegfs"}, {0x00C36400, "ceph"},    {0x01021994, "tmpfs"},
        {0xEF53, "ext4"},       {0x58465342, "xfs"},     {0x9123683E, "btrfs"},
        {0x2FC12FC1, "zfs"},    {0x794C7630, "overlay"}, {0x65735546, "fuse"},
        {0xAAD7AAEA, "panfs"},  {0x01161970, "gfs2"},    {0x517B, "smb"},
        {0xFE534D42, "smb"}};
    const auto found = kNames.find(type);
    return found == kNames.end() ? fmt::format("type {:x}", type) : found->second;
}

}  // namespace

void look_at_folder(Examination& exam) {
    if (exam.part() >= exam.sources().folders.size())
        return exam.nothing_to_look_at("no folder was named");
    const StorageFolder& folder = exam.sources().folders[exam.part()];
    const ProbedFolder nearest = hold_nearest_folder(folder.path);
    const std::string name = fmt::format("{} ({})", folder.path, folder.purpose);
    std::string wrong = nearest.wrong;
    if (wrong.empty())
        wrong = write_probe(nearest, exam.sources().hostname);
    if (!wrong.empty()) {
        const bool is_itself = nearest.path == folder.path;
        const std::string what =
            fmt::format("{}: {}{}", name, wrong, is_itself ? "" : " in " + nearest.path.string());
        return nearest.fix.empty() ? exam.found(what)
                                   : exam.found(Severity::fail, what, nearest.fix);
    }
    struct statvfs space {};
    struct statfs type {};
    if (::fstatvfs(nearest.fd.get(), &space) != 0 || ::fstatfs(nearest.fd.get(), &type) != 0)
        return exam.found(fmt::format("{}: {}", name, std::strerror(errno)));
    const std::uint64_t total = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize;
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    exam.fact("storage." + folder.purpose, file_system_name(type.f_type));
    if (total > 0 && free < kGiB)
        exam.found(fmt::format("{}: {} MiB are free", name, free >> 20));
    else if (total > 0 && free < total / 20)
        exam.found(Severity::warn,
                   fmt::format("{}: {} of {} GiB are free", name, free / kGiB, total / kGiB));
    if (space.f_files > 0 && space.f_favail < kEnoughInodes)
        exam.found(Severity::fail, fmt::format("{}: {} inodes are free", name, space.f_favail),
                   "remove files, or ask for a larger quota");
}

void look_at_names(Examination& exam) {
    const NodeSources& sources = exam.sources();
    if (const ResolvedName own = sources.resolve(sources.hostname); own.loopback)
        exam.found(
            Severity::warn,
            fmt::format("{} finds itself at a loopback address: gloo and others would listen there",
                        sources.hostname),
            fmt::format("take {} out of the 127.x and ::1 lines of /etc/hosts", sources.hostname));
    if (sources.peers.empty())
        return exam.nothing_to_look_at("no other nodes");
    int ipv4 = 0, ipv6 = 0;
    std::vector<std::string> unknown;
    std::string why;
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& peer : sources.peers) {
        const ResolvedName resolved = sources.resolve(peer);
        if (!resolved.error.empty()) {
            unknown.push_back(peer);
            why = resolved.error;
        } else if (resolved.loopback) {
            exam.found(Severity::warn,
                       peer + " is found at a loopback address, though it is another node");
        }
        ipv4 += resolved.ipv4 ? 1 : 0;
        ipv6 += resolved.ipv6 ? 1 : 0;
    }
    const auto took = std::chrono::steady_clock::now() - start;
    const int count = static_cast<int>(sources.peers.size());
    if (!unknown.empty())
        exam.found(fmt::format("{} of {} peers are not found, such as {}: {}", unknown.size(),
                               count, unknown.front(), why));
    const bool all_alike = (ipv4 == 0 || ipv4 == count) && (ipv6 == 0 || ipv6 == count);
    if (unknown.empty() && all_alike)
        exam.fact("names", ipv6 == 0 ? "IPv4" : ipv4 == 0 ? "IPv6" : "IPv4 and IPv6");
    else if (unknown.empty())
        exam.found(
            fmt::format("{} of {} peers have an IPv4 address, {} an IPv6 one", ipv4, count, ipv6));
    if (took > kSlowLookup * count)
        exam.found(fmt::format("{} names took {:.1f} s", count,
                               std::chrono::duration<double>(took).count()));
}

}  // namespace autolaunch::launcher
