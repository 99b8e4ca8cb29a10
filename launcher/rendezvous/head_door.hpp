#pragma once
#include "control/control_connection.hpp"
#include "control/control_message.hpp"
#include "rendezvous/head_listener.hpp"
#include "rendezvous/reception.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

/// The head's door while the job runs, at one of the job's ports as before: who proves the key may
/// ask to be taken in as a node, which is checked as at the beginning (version, program, spec,
/// environment), or ask something else of the job.
///
/// Owner: Joined. Threads: the one that runs the context. Blocks: never. Nobody waits longer than
/// the silence limit and some seconds.
class HeadDoor {
public:
    struct Options {
        std::vector<std::uint16_t> ports;
        ControlConnectionOptions connection;
        control::Join head;  ///< what the head itself brings
        control::EnvironmentTable environment;
        std::string spec_name;
    };
    enum class Admission { taken, refused, later };
    using Guest = std::shared_ptr<ControlConnection>;
    struct Handlers {
        /// `later`: is asked again. The receiver of a node that is taken owns its connection;
        /// `refusal` is told to one that is not.
        std::function<Admission(const control::Join& join, const Guest& guest,
                                std::string& refusal)>
            on_node;
        /// The receiver owns the connection.
        std::function<void(const control::Ask& ask, const Guest& guest)> on_ask;
        std::function<void(const std::string& text)> on_warning;  ///< environments that differ
    };

    /// Listens when it returns. Throws RendezvousError when no port is free.
    HeadDoor(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options);
    HeadDoor(const HeadDoor&) = delete;
    HeadDoor& operator=(const HeadDoor&) = delete;
    ~HeadDoor();

    /// Until then everybody waits.
    void set_handlers(Handlers handlers);
    std::uint16_t port() const { return listener_.port(); }

private:
    struct Visit {
        Guest guest;
        std::string address;
        std::chrono::steady_clock::time_point until;
        std::optional<control::Join> join;
        bool awaits_environment = false;
        std::string differences;  ///< of its environment
        std::optional<control::Ask> ask;
    };
    using Place = std::list<Visit>::iterator;

    void on_proven(Guest guest, const std::string& address);
    void on_message(Place place, control::Message&& message);
    void on_join(Visit& visit, const control::Join& join);
    std::string objection_to(const Visit& visit, std::string& hint) const;
    /// True: the visit is over.
    bool serve(Visit& visit);
    void refuse(Visit& visit, const std::string& reason, const std::string& hint);
    void serve_all();
    void look_again();

    Options options_;
    Handlers handlers_;
    std::list<Visit> visits_;
    asio::steady_timer again_;
    bool looks_again_ = false;
    Reception reception_;
    HeadListener listener_;
};

}  // namespace autolaunch::launcher
