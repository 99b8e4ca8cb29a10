#include "rendezvous/head_join.hpp"

#include "base/text.hpp"
#include "control/head_hub.hpp"
#include "control/peer_text.hpp"
#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rendezvous/welcome.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Once something is wrong or only the comparison of environments is left, for so long the others
// are waited for.
constexpr std::chrono::milliseconds kGrace{2000};
constexpr std::chrono::milliseconds kTimeToHear{
    1200};  // a connection that is closed has a second for what was sent

Reception::Options reception_options(const HeadJoin::Options& options) {
    Reception::Options reception;
    reception.connection = options.connection;
    reception.most_waiting += 2 * static_cast<std::size_t>(options.expectation.node_count);
    return reception;
}

}  // namespace

HeadJoin::HeadJoin(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options)
    : io_(io),
      security_(std::move(security)),
      options_(std::move(options)),
      roll_(options_.expectation),
      environments_(options_.environment),
      deadline_(io),
      grace_(io),
      last_call_(io) {}

void HeadJoin::after(asio::steady_timer& timer, std::chrono::milliseconds pause,
                     void (HeadJoin::*then)()) {
    timer.expires_after(pause);
    timer.async_wait([weak = weak_from_this(), then](const asio::error_code& error) {
        const auto self = weak.lock();
        if (!error && self && self->on_done_)
            ((*self).*then)();
    });
}

void HeadJoin::start(Handler on_done) {
    on_done_ = std::move(on_done);
    reception_.emplace(
        io_, security_, reception_options(options_),
        [this](std::shared_ptr<ControlConnection> connection, const std::string& address) {
            on_proven(std::move(connection), address);
        });
    listener_ = std::make_unique<HeadListener>(
        io_, options_.ports,
        [this](asio::ip::tcp::socket socket) { reception_->take(std::move(socket)); });
    after(deadline_, options_.timeout, &HeadJoin::on_deadline);
    proceed();  // one node may be enough
}

void HeadJoin::stop() {
    on_done_ = {};
    deadline_.cancel();
    grace_.cancel();
    last_call_.cancel();
    listener_.reset();
    reception_.reset();
    for (auto& [visitor, guest] : guests_)
        guest.connection->set_handlers({});
    guests_.clear();
}

void HeadJoin::on_proven(std::shared_ptr<ControlConnection> connection,
                         const std::string& address) {
    const RollCall::Visitor visitor = next_visitor_++;
    const auto weak = weak_from_this();
    connection->set_handlers({.on_ready = {},
                              .on_message =
                                  [weak, visitor](control::Message&& message) {
                                      const auto self = weak.lock();
                                      if (self && self->on_done_)
                                          self->on_message(visitor, std::move(message));
                                  },
                              .on_end =
                                  [weak, visitor](const ConnectionEnd&) {
                                      const auto self = weak.lock();
                                      if (self && self->on_done_)
                                          self->on_end(visitor);
                                  }});
    guests_.emplace(visitor, Guest{std::move(connection), address, std::nullopt});
}

void HeadJoin::on_message(RollCall::Visitor visitor, control::Message&& message) {
    const auto found = guests_.find(visitor);
    if (found == guests_.end() || refusal_)
        return;
    Guest& guest = found->second;
    if (const auto* join = std::get_if<control::Join>(&message);
        join != nullptr && !guest.environment_digest) {
        on_join(visitor, *join);
    } else if (const auto* table = std::get_if<control::EnvironmentTable>(&message);
               table && guest.environment_digest) {
        environments_.answer(*guest.environment_digest, *table);
    } else {
        return on_end(visitor);  // no node of ours speaks like this
    }
    proceed();
}

void HeadJoin::on_join(RollCall::Visitor visitor, const control::Join& join) {
    Guest& guest = guests_.at(visitor);
    guest.environment_digest = join.environment_digest;
    guest.door = join.door;
    guest.incarnation = join.incarnation;
    roll_.enter(visitor, guest.address, join);
    if (environments_.must_ask(join.node_name, join.environment_digest))
        guest.connection->send(control::AskEnvironment{});
}

void HeadJoin::on_end(RollCall::Visitor visitor) {
    const auto found = guests_.find(visitor);
    if (found == guests_.end())
        return;
    found->second.connection->set_handlers({});
    guests_.erase(found);
    roll_.leave(visitor);
    if (refusal_ && guests_.empty())
        on_all_heard();
}

// Starts, refuses, or waits: for more nodes, and once it is clear what comes of it for a moment
// longer, so that one sentence can name all nodes that differ, and so that environments can be
// compared.
void HeadJoin::proceed() {
    const bool complete = roll_.complete() || (roll_.enough() && last_call_over_);
    const bool in_order = !roll_.has_objections();
    if (in_order && !complete)
        return call_last();
    if (complete && in_order && (environments_.outstanding() == 0 || grace_over_))
        return welcome_all();
    if (!in_order && (complete || grace_over_))
        return refuse_job(roll_.objections());
    if (std::exchange(grace_runs_, true))
        return;
    grace_.expires_after(kGrace);
    grace_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
        const auto self = weak.lock();
        if (error || !self || !self->on_done_)
            return;
        self->grace_over_ = true;
        self->proceed();
    });
}

// Once there are enough, the others have so long.
void HeadJoin::call_last() {
    if (!roll_.enough() || std::exchange(last_call_runs_, true))
        return;
    last_call_.expires_after(options_.last_call);
    last_call_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
        const auto self = weak.lock();
        if (error || !self || !self->on_done_)
            return;
        self->last_call_over_ = true;
        self->proceed();
    });
}

// Our own is reached where each of them has reached us.
void HeadJoin::add_doors(const RollCall::Start& start, control::Welcome& welcome) const {
    const control::Join& head = options_.expectation.head;
    welcome.doors.push_back(":" + std::to_string(head.door));
    welcome.incarnations.push_back(head.incarnation);
    for (std::size_t node = 1; node < start.visitors.size(); ++node) {
        const Guest& guest = guests_.at(start.visitors[node]);
        welcome.doors.push_back(guest.address + ":" + std::to_string(guest.door));
        welcome.incarnations.push_back(guest.incarnation);
    }
}

void HeadJoin::welcome_all() {
    RollCall::Start start = roll_.start();
    control::Welcome welcome = make_welcome(start.roster);
    HeadHub::Connections connections(start.visitors.size());
    Outcome outcome;
    if (options_.expectation.head.door != 0)
        add_doors(start, welcome);
    outcome.doors = welcome.doors;
    outcome.incarnations = welcome.incarnations;
    for (std::size_t node = 1; node < start.visitors.size(); ++node) {
        Guest& guest = guests_.at(start.visitors[node]);
        welcome.self = static_cast<int>(node);
        guest.connection->send(welcome);
        connections[node] = std::move(guest.connection);
        guests_.erase(start.visitors[node]);
    }
    if (connections.size() > 1)
        outcome.head_address = numeric_address(connections[1]->local_endpoint());
    outcome.warnings = environments_.warnings(options_.expectation.head.node_name);
    auto hub = std::make_unique<HeadHub>(io_, start.roster, std::move(connections));
    outcome.member = hub->make_own_member();
    outcome.head = std::move(hub);
    outcome.roster = std::move(start.roster);
    finish(std::move(outcome));
}

WaitRecord HeadJoin::wait_record() const {
    WaitRecord record;
    record.head_name = options_.expectation.head.node_name;
    record.node_count = options_.expectation.node_count;
    record.timeout = options_.timeout;
    record.missing_count = record.node_count - static_cast<int>(roll_.present());
    record.missing = roll_.missing();
    record.own_addresses = own_addresses();
    record.port = listener_->port();
    record.ports = options_.ports;
    record.ipv4_only = listener_->ipv4_only();
    record.strangers = reception_->strangers();
    for (const auto& [visitor, guest] : guests_)
        record.strangers.erase(guest.address);  // a second try was let in
    return record;
}

void HeadJoin::on_deadline() {
    if (roll_.has_objections())
        return refuse_job(roll_.objections());
    const WaitRecord record = wait_record();
    const Diagnosis diagnosis = diagnose(record);
    const bool key_refused = std::any_of(
        record.strangers.begin(), record.strangers.end(),
        [](const auto& entry) { return entry.second.told == Stranger::Told::another_key; });
    refuse_all(diagnosis.what,
               options_.expectation.head.node_name + ", the head, prints what is known of them",
               std::make_exception_ptr(
                   RendezvousError(key_refused ? exit_code::kNotPermitted : exit_code::kNoHost,
                                   diagnosis.what, diagnosis.hint)));
}

void HeadJoin::refuse_job(const std::vector<Objection>& objections) {
    std::vector<std::string> hints;
    for (std::size_t i = 0; i < objections.size(); ++i) {
        if (i > 0)
            hints.push_back("also: " + objections[i].what);
        hints.push_back(objections[i].hint);
    }
    const std::string hint = join(hints, "\n");
    refuse_all(objections.front().what, hint,
               std::make_exception_ptr(
                   RendezvousError(exit_code::kNoHost, objections.front().what, hint)));
}

void HeadJoin::refuse_all(const std::string& reason, const std::string& hint,
                          std::exception_ptr error) {
    refusal_ = std::move(error);
    listener_.reset();
    reception_.reset();
    deadline_.cancel();
    grace_.cancel();
    last_call_.cancel();
    for (auto& [visitor, guest] : guests_) {
        guest.connection->send(control::Refused{reason, hint});
        guest.connection->close();
    }
    after(deadline_, guests_.empty() ? std::chrono::milliseconds(0) : kTimeToHear,
          &HeadJoin::on_all_heard);
}

void HeadJoin::on_all_heard() { finish({refusal_, {}, {}, {}, {}, {}}); }

void HeadJoin::finish(Outcome&& outcome) {
    const Handler on_done = std::exchange(on_done_, {});
    stop();
    on_done(std::move(outcome));
}

}  // namespace autolaunch::launcher
