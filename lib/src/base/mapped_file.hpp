#pragma once
#include <autolaunch/export.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace autolaunch {

/// A file's bytes, as the kernel reads them in, to be gone through once from the first to the last.
/// For files that nobody cuts meanwhile: what is gone then is SIGBUS.
class AUTOLAUNCH_API MappedFile {
public:
    /// `what` is for the error: "read PATH". Throws SystemError, also where `fd` is none, with the
    /// errno that is set then.
    MappedFile(int fd, const std::string& what);
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::string_view text() const noexcept { return {static_cast<const char*>(start_), bytes_}; }

private:
    void* start_ = nullptr;
    std::size_t bytes_ = 0;
};

}  // namespace autolaunch
