#include "python_start/import_watch.hpp"

#include "base/file_io.hpp"
#include "base/text.hpp"

#include <autolaunch/error.hpp>

#include <fmt/format.h>

#include <cstdlib>
#include <sstream>

namespace autolaunch::launcher {

namespace {

// One look may see a job that a person has stopped, and goes on with all its processes.
constexpr int kMostStopped = 2;

std::string read_of(pid_t pid, const char* name) {
    try {
        return read_file(fmt::format("/proc/{}/{}", pid, name));
    } catch (const Error&) {
        return {};  // it has ended, which its socket says
    }
}

std::uint64_t number_behind(const std::string& text, const std::string& name) {
    const auto at = text.find(name);
    return at == std::string::npos ? 0
                                   : std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

}  // namespace

ImportSample sample_import(pid_t pid) {
    ImportSample sample;
    const std::string stat = read_of(pid, "stat");
    const auto name_end = stat.rfind(") ");
    if (name_end == std::string::npos)
        return sample;
    constexpr std::size_t kFaults = 9, kUser = 11, kSystem = 12;  // behind the name, from 0
    const auto fields = split(stat.substr(name_end + 2), ' ');
    if (fields.size() <= kSystem)
        return sample;
    sample.state = fields[0].front();
    for (const std::size_t field : {kFaults, kUser, kSystem})
        sample.work += std::strtoull(fields[field].c_str(), nullptr, 10);
    const std::string io = read_of(pid, "io");
    sample.work += number_behind(io, "rchar: ") + number_behind(io, "syscr: ");
    return sample;
}

std::string ImportWatch::why_given_up(const ImportSample& sample, Clock::time_point now) {
    stopped_ = sample.state == 'T' ? stopped_ + 1 : 0;
    if (stopped_ >= kMostStopped)
        return "the interpreter that was to import for them is stopped";
    if (sample.state != 'T' && sample.work != work_) {
        work_ = sample.work;
        moved_at_ = now;
    }
    if (now - begun_at_ >= limits_.all)
        return fmt::format("the imports took longer than {} s", limits_.all.count() / 1000);
    if (now - moved_at_ >= limits_.idle)
        return fmt::format("the imports have done nothing for {} s", limits_.idle.count() / 1000);
    return {};
}

}  // namespace autolaunch::launcher
