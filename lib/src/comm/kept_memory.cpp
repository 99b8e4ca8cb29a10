#include "comm/kept_memory.hpp"

#include <mutex>
#include <utility>
#include <vector>

namespace autolaunch {

void keep_until_exit(std::shared_ptr<void> memory) {
    // Never destroyed: MPI's own threads may outlive every destructor.
    static auto* const mutex = new std::mutex;
    static auto* const kept = new std::vector<std::shared_ptr<void>>;
    const std::scoped_lock lock(*mutex);
    kept->push_back(std::move(memory));
}

}  // namespace autolaunch
