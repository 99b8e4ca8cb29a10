#pragma once
#include "base/file_io.hpp"

#include <asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace autolaunch {

inline constexpr std::chrono::milliseconds kAcceptPause{100};  // when descriptors have run out

/// Hands every connection that `acceptor` takes to `start`, until the acceptor is closed. Out of
/// descriptors or memory it pauses: trying again at once would spin. `start` is copied along and
/// keeps the owner of acceptor and timer alive. Asio accepts without SOCK_CLOEXEC, so that is made
/// good here.
template <class Acceptor, class Start>
void accept_connections(Acceptor& acceptor, asio::steady_timer& pause, Start start) {
    acceptor.async_accept([&acceptor, &pause, start](const asio::error_code& error, auto socket) {
        if (!acceptor.is_open())
            return;
        if (!error) {
            close_on_exec(socket.native_handle());
            start(std::move(socket));
            accept_connections(acceptor, pause, start);
            return;
        }
        pause.expires_after(kAcceptPause);
        pause.async_wait([&acceptor, &pause, start](const asio::error_code& canceled) {
            if (!canceled && acceptor.is_open())
                accept_connections(acceptor, pause, start);
        });
    });
}

}  // namespace autolaunch
