#pragma once
#include "base/unique_fd.hpp"

#include <autolaunch/export.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace autolaunch {

/// A memory file (memfd_create(2)) of this size, all zero, which nobody can make shorter or longer:
/// whoever maps it can rely on that. `name` is shown in /proc alone. Empty where the system has no
/// memory files; errno says why.
AUTOLAUNCH_API UniqueFd create_memory_file(const char* name, std::uint64_t bytes);

/// All of a file in memory, shared with whoever else maps it. Move-only.
class AUTOLAUNCH_API SharedMapping {
public:
    SharedMapping() = default;
    /// For reading and writing. Throws SystemError.
    SharedMapping(const UniqueFd& file, std::uint64_t bytes);
    SharedMapping(SharedMapping&& other) noexcept;
    SharedMapping& operator=(SharedMapping&& other) noexcept;
    ~SharedMapping();

    std::byte* data() const noexcept { return data_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

private:
    std::byte* data_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace autolaunch
