#pragma once
#include "base/file_io.hpp"
#include "spec/spec.hpp"

#include <autolaunch/error.hpp>

#include <stdlib.h>

#include <fcntl.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// A folder of spec files, gone with the object.
class SpecFiles {
public:
    SpecFiles() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "autolaunch-spec-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr)
            throw autolaunch::SystemError(errno, "make a folder for a test");
        folder_ = pattern;
    }
    SpecFiles(const SpecFiles&) = delete;
    SpecFiles& operator=(const SpecFiles&) = delete;
    ~SpecFiles() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }

    std::string path(const std::string& name) const { return (folder_ / name).string(); }

    std::string write(const std::string& name, std::string_view text) const {
        std::filesystem::create_directories((folder_ / name).parent_path());
        const auto fd = autolaunch::open_file(path(name), O_WRONLY | O_CREAT | O_TRUNC);
        autolaunch::write_all(fd.get(), text, path(name));
        return path(name);
    }

    autolaunch::launcher::SpecResult load(
        const std::string& name, std::vector<std::string> overrides = {},
        std::map<std::string, std::string> environment = {}) const {
        return autolaunch::launcher::load_spec(
            {path(name), std::move(overrides), std::move(environment)});
    }

private:
    std::filesystem::path folder_;
};

/// Reads `text` as t.yaml.
inline autolaunch::launcher::SpecResult load_text(
    std::string_view text, std::vector<std::string> overrides = {},
    std::map<std::string, std::string> environment = {}) {
    const SpecFiles files;
    files.write("t.yaml", text);
    return files.load("t.yaml", std::move(overrides), std::move(environment));
}

/// The errors as they are printed, folders left out.
inline std::vector<std::string> lines_of(const autolaunch::launcher::SpecResult& result) {
    std::vector<std::string> lines;
    for (auto error : result.errors) {
        if (error.file.starts_with('/'))
            error.file = std::filesystem::path(error.file).filename().string();
        lines.push_back(to_string(error));
    }
    return lines;
}

inline std::string only_line(const autolaunch::launcher::SpecResult& result) {
    const auto lines = lines_of(result);
    return lines.size() == 1 ? lines[0] : "there are " + std::to_string(lines.size()) + " errors";
}
