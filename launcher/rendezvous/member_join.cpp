#include "rendezvous/member_join.hpp"

#include "control/node_member.hpp"
#include "control/peer_text.hpp"
#include "control/rendezvous_error.hpp"
#include "exit_codes/exit_codes.hpp"
#include "rendezvous/welcome.hpp"

#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

// Before a head is sought again whose connection broke.
constexpr std::chrono::milliseconds kPauseAfterBreak{200};
// The head keeps its own deadline and tells us; this is for one that does not.
constexpr std::chrono::seconds kLongerThanHead{10};

/// What the head says reaches the member from now on: a command may follow the Welcome at once.
std::unique_ptr<NodeMember> make_member(asio::io_context& io, const std::string& who, int node_rank,
                                        int node_count,
                                        const std::shared_ptr<ControlConnection>& connection) {
    auto member = std::make_unique<NodeMember>(io, node_rank, node_count);
    member->set_link(link_to_head(*member, who, connection));
    return member;
}

}  // namespace

MemberJoin::MemberJoin(asio::io_context& io, std::shared_ptr<ControlSecurity> security,
                       Options options)
    : io_(io),
      security_(std::move(security)),
      options_(std::move(options)),
      deadline_(io),
      again_(io) {}

void MemberJoin::start(Handler on_done) {
    on_done_ = std::move(on_done);
    deadline_.expires_after(options_.timeout);
    deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error && self->on_done_)
            self->on_deadline();
    });
    search();
}

void MemberJoin::stop() {
    on_done_ = {};
    deadline_.cancel();
    again_.cancel();
    if (search_ != nullptr)
        search_->stop();
    if (connection_ != nullptr)
        connection_->set_handlers({});
    connection_.reset();
}

void MemberJoin::search() {
    search_ = std::make_shared<HeadSearch>(io_, security_, options_.search);
    search_->start([weak = weak_from_this()](std::shared_ptr<ControlConnection> connection) {
        const auto self = weak.lock();
        if (self && self->on_done_)
            self->on_found(std::move(connection));
    });
}

void MemberJoin::on_found(std::shared_ptr<ControlConnection> connection) {
    connection_ = std::move(connection);
    const auto weak = weak_from_this();
    connection_->set_handlers({.on_ready = {},
                               .on_message =
                                   [weak](control::Message&& message) {
                                       const auto self = weak.lock();
                                       if (self && self->on_done_)
                                           self->on_message(std::move(message));
                                   },
                               .on_end =
                                   [weak](const ConnectionEnd& end) {
                                       const auto self = weak.lock();
                                       if (self && self->on_done_)
                                           self->on_end(end);
                                   }});
    connection_->set_frame_limit(control::kFrameLimit);
    connection_->send(options_.join);
    if (std::exchange(met_head_, true))
        return;
    deadline_.expires_after(options_.timeout + kLongerThanHead);
    deadline_.async_wait([self = shared_from_this()](const asio::error_code& error) {
        if (!error && self->on_done_)
            self->on_deadline();
    });
}

void MemberJoin::on_message(control::Message&& message) {
    if (std::holds_alternative<control::AskEnvironment>(message)) {
        connection_->send(options_.environment);
    } else if (const auto* refused = std::get_if<control::Refused>(&message)) {
        fail(exit_code::kNoHost, refused->reason, refused->hint);
    } else if (auto* welcome = std::get_if<control::Welcome>(&message)) {
        on_welcome(std::move(*welcome));
    } else {
        fail(
            exit_code::kNoHost,
            "the head, " + options_.head_name + ", says what it should not before it has let us in",
            "is it another version of autolaunch?");
    }
}

void MemberJoin::on_welcome(control::Welcome&& welcome) {
    const bool is_late = !welcome.now.empty();  // others have come and gone before it
    if (welcome.self < 1 || (!is_late && welcome.self >= options_.node_count))
        return fail(exit_code::kNoHost,
                    "the head, " + options_.head_name + ", gave this node a rank that is none", "");
    const std::string address = numeric_address(connection_->remote_endpoint());
    const std::string local_address = numeric_address(connection_->local_endpoint());
    const std::string who = "the head, " + options_.head_name + " (" + address + "),";
    const auto nodes = static_cast<int>(read_welcome(welcome).nodes.size());
    auto member = make_member(io_, who, welcome.self, nodes, std::exchange(connection_, nullptr));
    finish({nullptr, std::move(welcome), address, std::move(member), local_address});
}

void MemberJoin::on_end(const ConnectionEnd& end) {
    broken_off_ = end.reason.empty() ? "it was closed" : end.reason;
    connection_->set_handlers({});
    connection_.reset();
    again_.expires_after(kPauseAfterBreak);
    again_.async_wait([weak = weak_from_this()](const asio::error_code& error) {
        const auto self = weak.lock();
        if (!error && self && self->on_done_)
            self->search();
    });
}

void MemberJoin::on_deadline() {
    if (connection_ != nullptr)
        return fail(exit_code::kNoHost,
                    "the head, " + options_.head_name + ", has not said whether the job starts",
                    "");
    SearchRecord record;
    record.head_name = options_.head_name;
    record.timeout = options_.timeout;
    record.broken_off = broken_off_;
    search_->describe(record);
    const Diagnosis diagnosis = diagnose(record);
    const int code = search_->key_was_refused() ? exit_code::kNotPermitted : exit_code::kNoHost;
    fail(code, diagnosis.what, diagnosis.hint);
}

void MemberJoin::fail(int exit_code, const std::string& what, const std::string& hint) {
    finish({std::make_exception_ptr(RendezvousError(exit_code, what, hint)), {}, {}, nullptr});
}

void MemberJoin::finish(Outcome&& outcome) {
    const Handler on_done = std::exchange(on_done_, {});
    stop();
    on_done(std::move(outcome));
}

}  // namespace autolaunch::launcher
