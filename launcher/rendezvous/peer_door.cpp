#include "rendezvous/peer_door.hpp"

#include <utility>

namespace autolaunch::launcher {

PeerDoor::PeerDoor(asio::io_context& io)
    : io_(io), listener_(io, {0}, [this](asio::ip::tcp::socket socket) {
          if (reception_)
              reception_->take(std::move(socket));
          else if (waiting_.size() < kMostWaiting)
              waiting_.push_back(std::move(socket));
      }) {}

void PeerDoor::open(const JobIdentity& identity, const JobKey& key,
                    const ControlConnectionOptions& connection, Handler handler) {
    Reception::Options options;
    options.connection = connection;
    reception_.emplace(io_, ControlSecurity::for_peers(identity, key, ControlRole::head), options,
                       [handler = std::move(handler)](const Visitor& visitor, const std::string&) {
                           handler(visitor);
                       });
    for (asio::ip::tcp::socket& socket : std::exchange(waiting_, {}))
        reception_->take(std::move(socket));
}

}  // namespace autolaunch::launcher
