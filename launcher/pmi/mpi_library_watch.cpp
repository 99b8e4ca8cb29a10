#include "pmi/mpi_library_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

MpiLibraryWatch::MpiLibraryWatch(asio::io_context& io, const std::vector<std::string>& libraries,
                                 std::function<void()> on_open)
    : events_(io), on_open_(std::move(on_open)) {
    if (libraries.empty())
        return;
    const int events = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (events < 0)
        return;
    events_.assign(events);
    for (const std::string& library : libraries)
        ::inotify_add_watch(events, library.c_str(), IN_OPEN);
    wait();
}

void MpiLibraryWatch::wait() {
    events_.async_wait(asio::posix::stream_descriptor::wait_read,
                       [this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
                           if (error || alive.expired())
                               return;
                           std::array<char, 4096> bytes;
                           while (::read(events_.native_handle(), bytes.data(), bytes.size()) > 0) {
                           }
                           wait();
                           on_open_();
                       });
}

}  // namespace autolaunch::launcher
