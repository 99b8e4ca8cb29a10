#pragma once
#include "report/run_files.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Where the files of a run are read: in its folder, or through the head of the running job, which
/// has them where this machine has not. See RunFolder. May throw Error where nobody answers.
class RunSource {
public:
    virtual ~RunSource() = default;
    virtual std::vector<RunFile> list() = 0;
    virtual RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most) = 0;
};

class FolderSource : public RunSource {
public:
    explicit FolderSource(const std::filesystem::path& path) : folder_(path) {}
    std::vector<RunFile> list() override { return folder_.list(); }
    RunFilePart read(const std::string& name, std::uint64_t offset, std::size_t most) override {
        return folder_.read(name, offset, most);
    }

private:
    RunFolder folder_;
};

}  // namespace autolaunch::launcher
