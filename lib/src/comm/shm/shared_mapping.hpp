#pragma once
// Memory that processes share, and how they find it.
#include "base/unique_fd.hpp"

#include <cstddef>
#include <optional>
#include <string>

namespace autolaunch::shm {

/// One mapping of a memfd: it never has a name in a file system, so there is nothing to leak,
/// whenever a rank is killed, and the size of /dev/shm does not matter. One process creates it and
/// publishes "<pid> <descriptor> <token>"; the others open /proc/<pid>/fd/<descriptor>, which needs
/// one user and one PID namespace. Others may write into the store that it is published in, so it
/// counts only as two numbers and 32 hexadecimal digits that lead to a memory file of our own user,
/// of sealed size, which begins with that token.
///
/// Owner: one. Threads: any. Blocks: never.
class SharedMapping {
public:
    static constexpr std::size_t kTokenBytes = 64;  ///< the rest of the memory starts as zeros
    static constexpr std::size_t kHugePage = 2 * 1024 * 1024;

    static SharedMapping create(const char* name, std::size_t bytes);
    /// Nothing when the address leads to other memory by now. Throws Error{closed} when the creator
    /// is gone, SystemError when its descriptors may not be opened, Error{corrupt} when it is no
    /// address, or leads to what is no memory of a rank's.
    static std::optional<SharedMapping> attach(const std::string& address, std::size_t bytes);

    SharedMapping(SharedMapping&& other) noexcept;
    SharedMapping& operator=(SharedMapping&&) = delete;
    ~SharedMapping();

    std::byte* data() const noexcept { return base_; }  ///< at a multiple of kHugePage
    std::size_t bytes() const noexcept { return bytes_; }
    const std::string& address() const noexcept { return address_; }
    /// Closes the descriptor: from then on nobody can attach, and the mappings alone keep the
    /// memory.
    void close_to_newcomers() noexcept { fd_.reset(); }
    /// Asks the kernel for huge pages from `offset` on; without, it is the same memory.
    void advise_huge_pages(std::size_t offset) noexcept;
    /// Takes the memory for a range from this thread's NUMA node, zeroed, and enters it in the page
    /// tables: one call instead of a fault for every page. False, and errno, when there is no more
    /// memory. Before Linux 5.14 nothing happens, and pages come when they are touched.
    bool take_pages(std::size_t offset, std::size_t bytes) const noexcept;
    /// Enters what another rank has taken in this process's page tables.
    void map_pages(std::size_t offset, std::size_t bytes) const noexcept;

private:
    SharedMapping(UniqueFd fd, std::size_t bytes, std::string address);

    UniqueFd fd_;
    std::size_t bytes_;
    std::string address_;
    std::byte* base_ = nullptr;
};

}  // namespace autolaunch::shm
