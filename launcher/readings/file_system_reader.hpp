#pragma once
#include "readings/sample.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Asks file systems how full they are, each in a thread of its own: one that is mounted from a
/// server which is gone answers never, and no call that waits for it can be broken off. It is named
/// then, and asked again once it has answered.
///
/// Owner: the sampler. Threads: ask() and answers() from one; `on_answer` is called in others.
/// Blocks: never. Its threads may stay in the kernel until the process ends.
class FileSystemReader {
public:
    using Statfs = std::function<bool(const std::string& path, FileSystemSample& into)>;

    /// One that owes an answer for less than `patience` is as it was. `statfs` is for tests.
    explicit FileSystemReader(const std::vector<std::string>& paths,
                              std::chrono::milliseconds patience = std::chrono::seconds(5),
                              Statfs statfs = {});
    /// Asks all that do not owe an answer.
    void ask(std::function<void()> on_answer);
    /// Whether one of those asked owes one.
    bool waits() const;
    /// The newest answers, in the order of the paths; what cannot be looked at is left out.
    std::vector<FileSystemSample> answers() const;

private:
    struct Asked;
    std::chrono::milliseconds patience_;
    std::vector<std::shared_ptr<Asked>> asked_;
};

/// statfs(2): sizes, and the name of the type where it is one of the usual.
bool read_file_system(const std::string& path, FileSystemSample& into);

}  // namespace autolaunch::launcher
