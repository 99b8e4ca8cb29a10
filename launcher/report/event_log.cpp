#include "report/event_log.hpp"

#include "base/file_io.hpp"
#include "report/event_json.hpp"

#include <fcntl.h>

namespace autolaunch::launcher {

EventLog::EventLog(const std::filesystem::path& path)
    : path_(path), fd_(open_file(path, O_WRONLY | O_CREAT | O_APPEND, 0644)) {}

void EventLog::append(const Event& event) {
    write_all(fd_.get(), to_json_line(event) + '\n', path_.string());
}

}  // namespace autolaunch::launcher
