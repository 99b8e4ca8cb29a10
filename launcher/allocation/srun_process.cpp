#include "allocation/srun_process.hpp"

#include "allocation/adapters.hpp"
#include "base/file_system.hpp"
#include "base/read_at_most.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <unistd.h>
#include <climits>
#include <filesystem>
#include <set>
#include <sstream>
#include <system_error>

namespace fs = std::filesystem;

namespace autolaunch::launcher {

namespace {

constexpr std::size_t kMostOfAFile = std::size_t{8} << 20;
constexpr std::string_view kListens = "0A";  // TCP_LISTEN in /proc/net/tcp

std::string read_proc(const std::string& path) {
    try {
        return read_at_most(path, kMostOfAFile);
    } catch (const Error&) {  // it is over, or another user's
        return {};
    }
}

// "  0: 0100007F:1F90 00000000:0000 0A …": addresses and ports in hexadecimal, the inode 10th.
void add_listening(const std::string& table, long long port, std::set<std::string>& sockets) {
    const std::string ending = fmt::format(":{:04X}", port);
    for (const std::string& line : split(table, '\n')) {
        std::istringstream stream(line);
        std::vector<std::string> words;
        for (std::string word; words.size() < 10 && stream >> word;)
            words.push_back(word);
        if (words.size() == 10 && words[1].ends_with(ending) && words[3] == kListens)
            sockets.insert("socket:[" + words[9] + "]");
    }
}

bool holds_one_of(const std::string& process, const std::set<std::string>& sockets) {
    std::error_code error;
    for (const fs::path& descriptor : list_folder(process + "/fd", error)) {
        char target[PATH_MAX];
        const ssize_t size = ::readlink(descriptor.c_str(), target, sizeof target);
        if (size > 0 && sockets.contains(std::string(target, static_cast<std::size_t>(size))))
            return true;
    }
    return false;
}

std::vector<std::string> parts_of(const std::string& text) {
    std::vector<std::string> parts = split(text, '\0');
    if (!parts.empty() && parts.back().empty())
        parts.pop_back();
    return parts;
}

SrunProcess describe(const std::string& process) {
    SrunProcess found{parts_of(read_proc(process + "/cmdline")), {}};
    for (const std::string& entry : parts_of(read_proc(process + "/environ")))
        if (const std::size_t equals = entry.find('='); equals != std::string::npos)
            found.environment.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    return found;
}

}  // namespace

std::optional<SrunProcess> find_srun(const EnvironmentMap& environment,
                                     const std::string& proc_root) {
    long long port = 0;
    if (!parse_integer(lookup(environment, "SLURM_SRUN_COMM_PORT").value_or(""), port) || port < 1)
        return std::nullopt;
    std::set<std::string> sockets;
    for (const char* table : {"/self/net/tcp", "/self/net/tcp6"})
        add_listening(read_proc(proc_root + table), port, sockets);
    if (sockets.empty())
        return std::nullopt;
    std::error_code error;
    for (const fs::path& process : list_folder(proc_root, error)) {
        long long number = 0;
        if (parse_integer(process.filename().string(), number) &&
            trim(read_proc(process.string() + "/comm")) == "srun" &&
            holds_one_of(process.string(), sockets))
            return describe(process.string());
    }
    return std::nullopt;
}

}  // namespace autolaunch::launcher
