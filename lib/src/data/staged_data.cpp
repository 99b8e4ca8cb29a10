#include "base/file_system.hpp"
#include "data/stream.hpp"

#include <autolaunch/data/staged_files.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <system_error>

namespace autolaunch::data {

namespace {

void add_files_below(const std::filesystem::path& folder, std::vector<StagedFile>& files) {
    for (const std::filesystem::path& path : list_folder(folder)) {
        std::error_code error;
        if (std::filesystem::is_symlink(path, error))
            continue;  // what it leads to is there as well
        if (is_folder(path))
            add_files_below(path, files);
        else if (is_file(path))
            files.push_back({path, file_bytes(path)});
    }
}

}  // namespace

std::filesystem::path staged_data(const std::string& name) {
    std::string variable = "AUTOLAUNCH_DATA_";
    for (const char letter : name) {
        const bool is_small = letter >= 'a' && letter <= 'z';
        const bool is_word = is_small || (letter >= 'A' && letter <= 'Z') ||
                             (letter >= '0' && letter <= '9') || letter == '_';
        if (!is_word)
            throw Error(ErrorCode::invalid_argument, "\"" + name + "\" is no name of staged data",
                        "names have letters, digits and _");
        variable += is_small ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    const char* const value = std::getenv(variable.c_str());
    if (!value || *value == '\0')
        throw Error(
            ErrorCode::invalid_argument,
            "no data of the name \"" + name + "\" is on this node: " + variable + " is not set",
            "the job's spec brings it: storage: {stage_in: [{from: /shared/" + name +
                ", as: " + name + "}]}; or set " + variable + " to its path");
    return value;
}

std::vector<StagedFile> staged_files(const std::string& name) {
    const std::filesystem::path data = staged_data(name);
    std::vector<StagedFile> files;
    if (const auto stream = Stream::of(data)) {
        for (const StreamListing::File& file : stream->listing().files)
            files.push_back({stream->tree() / file.path, file.bytes});
    } else if (is_folder(data)) {
        add_files_below(data, files);
        // By their bytes, as the launcher has them: '/' is a letter among others.
        std::sort(files.begin(), files.end(), [](const StagedFile& a, const StagedFile& b) {
            return a.path.native() < b.path.native();
        });
    } else {
        files.push_back({data, file_bytes(data)});
    }
    return files;
}

double await_file(const std::filesystem::path& path, std::chrono::milliseconds patience) {
    const std::atomic<bool> never{false};
    return await_file(path, patience, never);
}

}  // namespace autolaunch::data
