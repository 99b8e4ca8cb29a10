#include "rendezvous/head_door.hpp"

#include "exit_codes/exit_codes.hpp"
#include "rendezvous/environment_comparison.hpp"
#include "rendezvous/roll_call.hpp"

#include <iterator>
#include <system_error>
#include <utility>

namespace autolaunch::launcher {

namespace {

using std::chrono::steady_clock;

// A node whose old agent has not been found lost yet waits for that, and these seconds more.
constexpr auto kVisitMargin = std::chrono::seconds(5);
constexpr auto kLookAgain = std::chrono::milliseconds(200);
constexpr std::size_t kMostVisits = 256;

Reception::Options at_door(const HeadDoor::Options& options) {
    Reception::Options reception;
    reception.connection = options.connection;
    return reception;
}

}  // namespace

HeadDoor::HeadDoor(asio::io_context& io, std::shared_ptr<ControlSecurity> security, Options options)
    : options_(std::move(options)),
      again_(io),
      reception_(io, std::move(security), at_door(options_),
                 [this](Guest guest, const std::string& address) {
                     on_proven(std::move(guest), address);
                 }),
      listener_(io, options_.ports,
                [this](asio::ip::tcp::socket socket) { reception_.take(std::move(socket)); }) {}

HeadDoor::~HeadDoor() {
    for (Visit& visit : visits_)
        refuse(visit, "the job is over", "");
}

void HeadDoor::set_handlers(Handlers handlers) {
    handlers_ = std::move(handlers);
    serve_all();
}

void HeadDoor::on_proven(Guest guest, const std::string& address) {
    if (visits_.size() >= kMostVisits)
        return;  // which closes it
    const auto until = steady_clock::now() + options_.connection.silence_limit + kVisitMargin;
    const Place place =
        visits_.insert(visits_.end(), {std::move(guest), address, until, {}, false, {}, {}});
    place->guest->set_handlers(
        {.on_ready = {},
         .on_message =
             [this, place](control::Message&& message) { on_message(place, std::move(message)); },
         .on_end = [this, place](const ConnectionEnd&) { visits_.erase(place); }});
    look_again();
}

void HeadDoor::on_message(Place place, control::Message&& message) {
    Visit& visit = *place;
    if (const auto* join = std::get_if<control::Join>(&message); join && !visit.join) {
        on_join(visit, *join);
    } else if (auto* ask = std::get_if<control::Ask>(&message); ask && !visit.join && !visit.ask) {
        visit.ask = std::move(*ask);
    } else if (const auto* table = std::get_if<control::EnvironmentTable>(&message);
               table && visit.awaits_environment) {
        visit.awaits_environment = false;
        EnvironmentComparison comparison(options_.environment);
        comparison.must_ask(visit.join->node_name, visit.join->environment_digest);
        comparison.answer(visit.join->environment_digest, *table);
        for (const std::string& line : comparison.warnings(options_.head.node_name))
            visit.differences += (visit.differences.empty() ? "" : "\n") + line;
    } else {
        refuse(visit, "it says what it should not before it has been let in", "");
        visits_.erase(place);
        return;
    }
    if (serve(visit))
        visits_.erase(place);
}

void HeadDoor::on_join(Visit& visit, const control::Join& join) {
    visit.join = join;
    visit.awaits_environment = join.environment_digest != digest_of(options_.environment);
    if (visit.awaits_environment)
        visit.guest->send(control::AskEnvironment{});
}

// As at the beginning: the roll of two, without a place that it says is its own.
std::string HeadDoor::objection_to(const Visit& visit, std::string& hint) const {
    Expectation expectation;
    expectation.node_count = 2;
    expectation.spec_name = options_.spec_name;
    expectation.head = options_.head;
    RollCall roll(expectation);
    control::Join join = *visit.join;
    join.node_rank.reset();
    roll.enter(1, visit.address, join);
    if (!roll.has_objections())
        return {};
    const Objection objection = roll.objections().front();
    hint = objection.hint;
    return objection.what;
}

bool HeadDoor::serve(Visit& visit) {
    const bool too_late = steady_clock::now() >= visit.until;
    if (visit.ask && handlers_.on_ask) {
        handlers_.on_ask(*visit.ask, visit.guest);
        return true;
    }
    if (visit.join && !visit.awaits_environment && handlers_.on_node) {
        std::string hint, refusal = objection_to(visit, hint);
        const Admission admission = refusal.empty()
                                        ? handlers_.on_node(*visit.join, visit.guest, refusal)
                                        : Admission::refused;
        if (admission == Admission::taken) {
            if (!visit.differences.empty())
                handlers_.on_warning(visit.differences);
            return true;
        }
        if (admission == Admission::refused || too_late) {
            refuse(visit, refusal, hint);
            return true;
        }
    }
    if (too_late)
        refuse(visit, "the job had no time for it", "");
    return too_late;
}

void HeadDoor::refuse(Visit& visit, const std::string& reason, const std::string& hint) {
    visit.guest->set_handlers({});
    if (visit.join)
        visit.guest->send(control::Refused{reason, hint});
    else
        visit.guest->send(
            control::Answer{.exit_code = exit_code::kNoHost, .text = reason, .hint = hint});
    visit.guest->close();
}

void HeadDoor::serve_all() {
    for (Place place = visits_.begin(); place != visits_.end();)
        place = serve(*place) ? visits_.erase(place) : std::next(place);
}

void HeadDoor::look_again() {
    if (visits_.empty() || std::exchange(looks_again_, true))
        return;
    again_.expires_after(kLookAgain);
    again_.async_wait([this](const std::error_code& error) {
        if (error)
            return;
        looks_again_ = false;
        serve_all();
        look_again();
    });
}

}  // namespace autolaunch::launcher
