#include "rendezvous/coordinator.hpp"

#include <autolaunch/error.hpp>

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace autolaunch::launcher {

namespace {

StoreServerOptions store_options(const LaunchPlan& plan) {
    StoreServerOptions options;
    options.address = listening_address(master_address(plan.spec));
    options.port = static_cast<std::uint16_t>(plan.spec.rendezvous.port);
    return options;
}

std::unique_ptr<StoreServer> open_store(asio::io_context& io, const StoreServerOptions& options) {
    try {
        return std::make_unique<StoreServer>(io, options);
    } catch (const SystemError& error) {
        std::string hint = error.hint();
        if (error.error_number() == EADDRINUSE) hint = "leave --master-port out, and a free port is taken";
        if (error.error_number() == EADDRNOTAVAIL) hint = "the master address must be one of this machine's";
        throw SystemError(error.error_number(),
                          "listen on " + options.address + " port " + std::to_string(options.port), hint);
    }
}

}  // namespace

Coordinator::Coordinator(const LaunchPlan& plan, std::filesystem::path socket_directory)
    : plan_(plan), socket_directory_(std::move(socket_directory)) {}

GenerationSockets Coordinator::open(asio::io_context& io, int generation, SessionServer::Callback on_message) {
    GenerationSockets sockets;
    sockets.store = open_store(io, store_options(plan_));
    const auto path = socket_directory_ / ("agent-" + std::to_string(generation));
    sockets.session = std::make_unique<SessionServer>(io, path, std::move(on_message));
    sockets.facts.generation = generation;
    sockets.facts.master_addr = master_address(plan_.spec);
    sockets.facts.master_port = sockets.store->port();
    sockets.facts.socket_path = path;
    sockets.facts.run_dir = plan_.run_dir;
    return sockets;
}

std::string master_address(const JobSpec& spec) {
    if (!spec.rendezvous.address.empty()) return spec.rendezvous.address;
    return spec.local_addr.empty() ? "127.0.0.1" : spec.local_addr;
}

std::string listening_address(const std::string& address) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = ::getaddrinfo(address.c_str(), nullptr, &hints, &found);
    if (error != 0)
        throw Error(ErrorCode::invalid_argument,
                    "the master address " + address + " cannot be resolved: " + ::gai_strerror(error),
                    "leave --master-addr and --rdzv-endpoint out: one node needs neither");
    char text[NI_MAXHOST] = {};
    const int named = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    ::freeaddrinfo(found);
    if (named != 0) throw Error(ErrorCode::invalid_argument, "the master address " + address + " has no numeric form");
    return text;
}

}  // namespace autolaunch::launcher
