#include "rank_services/connection_vouching.hpp"

#include "store/protocol.hpp"

#include <autolaunch/error.hpp>

#include <asio/steady_timer.hpp>

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace autolaunch::launcher {

namespace vouching {
namespace {

constexpr char kAddresses = 'A', kQuestion = 'Q', kAnswer = 'V';
constexpr std::size_t kAddressBytes = sizeof(Address), kPortBytes = 2, kTicketBytes = 8;
constexpr std::size_t kEndBytes = kAddressBytes + kPortBytes;
constexpr std::size_t kMostAddresses = 1024;  // of one node

void append_address(std::string& out, const Address& address) {
    out.append(reinterpret_cast<const char*>(address.data()), address.size());
}

void append_end(std::string& out, const TcpEnd& end) {
    append_address(out, end.address);
    store::append_u8(out, static_cast<std::uint8_t>(end.port & 0xFF));
    store::append_u8(out, static_cast<std::uint8_t>(end.port >> 8));
}

Address address_at(std::string_view bytes) {
    Address address{};
    std::memcpy(address.data(), bytes.data(), address.size());
    return address;
}

TcpEnd end_at(std::string_view bytes) {
    const auto port = store::load_le(bytes.data() + kAddressBytes, kPortBytes);
    return {address_at(bytes), static_cast<std::uint16_t>(port)};
}

bool begins(std::string_view bytes, char kind, std::size_t rest) {
    return bytes.size() == 1 + rest && bytes.front() == kind;
}

}  // namespace

std::string encode_addresses(const std::vector<Address>& addresses) {
    std::string out(1, kAddresses);
    for (std::size_t i = 0; i < std::min(addresses.size(), kMostAddresses); ++i)
        append_address(out, addresses[i]);
    return out;
}

std::string encode_question(std::uint64_t ticket, const TcpEnds& ends) {
    std::string out(1, kQuestion);
    store::append_u64(out, ticket);
    append_end(out, ends.near);
    append_end(out, ends.far);
    return out;
}

std::string encode_answer(std::uint64_t ticket, bool is_ours) {
    std::string out(1, kAnswer);
    store::append_u64(out, ticket);
    store::append_u8(out, is_ours ? 1 : 0);
    return out;
}

std::optional<std::vector<Address>> parse_addresses(std::string_view bytes) {
    if (bytes.empty() || bytes.front() != kAddresses || (bytes.size() - 1) % kAddressBytes != 0 ||
        (bytes.size() - 1) / kAddressBytes > kMostAddresses)
        return std::nullopt;
    std::vector<Address> addresses;
    for (bytes.remove_prefix(1); !bytes.empty(); bytes.remove_prefix(kAddressBytes))
        addresses.push_back(address_at(bytes));
    return addresses;
}

std::optional<Question> parse_question(std::string_view bytes) {
    if (!begins(bytes, kQuestion, kTicketBytes + 2 * kEndBytes))
        return std::nullopt;
    bytes.remove_prefix(1);
    Question question;
    question.ticket = store::load_le(bytes.data(), kTicketBytes);
    bytes.remove_prefix(kTicketBytes);
    question.ends.near = end_at(bytes);
    question.ends.far = end_at(bytes.substr(kEndBytes));
    return question;
}

std::optional<Answer> parse_answer(std::string_view bytes) {
    if (!begins(bytes, kAnswer, kTicketBytes + 1))
        return std::nullopt;
    return Answer{store::load_le(bytes.data() + 1, kTicketBytes), bytes.back() == 1};
}

}  // namespace vouching

namespace {

constexpr auto kChannel = control::RelayChannel::vouching;
// A node's addresses may still be under way when its first rank is here.
constexpr std::chrono::seconds kPatience{10};

/// All of this machine's that others can reach, each once.
std::vector<vouching::Address> own_addresses() {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0)
        return {};
    std::set<vouching::Address> found;
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
        if (at->ifa_addr == nullptr)
            continue;
        const auto end = tcp_end(*at->ifa_addr);
        if (end && !end->is_loopback())
            found.insert(end->address);
    }
    ::freeifaddrs(list);
    return {found.begin(), found.end()};
}

bool is_of_own_user(const TcpEnds& ends) {
    try {
        return tcp_owner(ends) == ::geteuid();
    } catch (const Error&) {  // the kernel tells nobody: nobody is vouched for
        return false;
    }
}

}  // namespace

/// Who asks and is not answered yet.
class ConnectionVouching::Desk : public std::enable_shared_from_this<Desk> {
public:
    Desk(asio::io_context& io, Member& member, int generation)
        : io_(io), member_(member), generation_(generation) {}

    void ask(const TcpEnds& ends, std::function<void(bool)> verdict);
    void receive(int node, std::string_view bytes);
    void close() { cases_.clear(); }

private:
    struct Case {
        TcpEnds ends;
        std::function<void(bool)> verdict;
        asio::steady_timer deadline;
        std::set<int> asked;
        std::size_t denials = 0;
    };

    void ask_nodes(std::uint64_t ticket, Case& open);
    void settle(std::uint64_t ticket, bool admitted);
    void turn_away_unknown();
    bool nobody_can_have(const vouching::Address& address) const {
        return static_cast<int>(told_.size()) >= member_.node_count() - 1 &&
               !nodes_at_.contains(address);
    }
    void take(int node, const vouching::Answer& answer);

    asio::io_context& io_;
    Member& member_;
    int generation_;
    std::uint64_t next_ticket_ = 1;
    std::map<vouching::Address, std::set<int>> nodes_at_;
    std::set<int> told_;  // nodes: theirs
    std::unordered_map<std::uint64_t, Case> cases_;
};

void ConnectionVouching::Desk::ask(const TcpEnds& ends, std::function<void(bool)> verdict) {
    if (nobody_can_have(ends.far.address))
        return verdict(false);
    const std::uint64_t ticket = next_ticket_++;
    Case& open = cases_
                     .emplace(ticket, Case{.ends = ends,
                                           .verdict = std::move(verdict),
                                           .deadline = asio::steady_timer(io_, kPatience),
                                           .asked = {}})
                     .first->second;
    open.deadline.async_wait([weak = weak_from_this(), ticket](const asio::error_code& canceled) {
        const auto self = weak.lock();
        if (!canceled && self)
            self->settle(ticket, false);
    });
    ask_nodes(ticket, open);
}

/// More than one node may have an address of that number, as container bridges do.
void ConnectionVouching::Desk::ask_nodes(std::uint64_t ticket, Case& open) {
    const auto found = nodes_at_.find(open.ends.far.address);
    if (found == nodes_at_.end())
        return;
    for (const int node : found->second) {
        if (open.asked.insert(node).second)
            member_.relay(kChannel, generation_, node,
                          vouching::encode_question(ticket, open.ends));
    }
}

void ConnectionVouching::Desk::receive(int node, std::string_view bytes) {
    if (const auto answer = vouching::parse_answer(bytes))
        return take(node, *answer);
    const auto addresses = vouching::parse_addresses(bytes);
    if (!addresses)
        return;
    for (const vouching::Address& address : *addresses)
        nodes_at_[address].insert(node);
    told_.insert(node);
    for (auto& [ticket, open] : cases_)
        ask_nodes(ticket, open);
    turn_away_unknown();
}

void ConnectionVouching::Desk::turn_away_unknown() {
    std::vector<std::uint64_t> strangers;
    for (const auto& [ticket, open] : cases_) {
        if (nobody_can_have(open.ends.far.address))
            strangers.push_back(ticket);
    }
    for (const std::uint64_t ticket : strangers)
        settle(ticket, false);
}

void ConnectionVouching::Desk::take(int node, const vouching::Answer& answer) {
    const auto found = cases_.find(answer.ticket);
    if (found == cases_.end() || !found->second.asked.contains(node))
        return;
    if (answer.is_ours || ++found->second.denials >= found->second.asked.size())
        settle(answer.ticket, answer.is_ours);
}

void ConnectionVouching::Desk::settle(std::uint64_t ticket, bool admitted) {
    auto node = cases_.extract(ticket);
    if (!node.empty())
        node.mapped().verdict(admitted);
}

ConnectionVouching::ConnectionVouching(asio::io_context& io, Member& member, int generation)
    : member_(member),
      generation_(generation),
      desk_(std::make_shared<Desk>(io, member, generation)) {
    member_.on_relay(kChannel, generation_, [desk = desk_](int source, std::string_view bytes) {
        desk->receive(source, bytes);
    });
}

ConnectionVouching::~ConnectionVouching() {
    member_.on_relay(kChannel, generation_, nullptr);
    desk_->close();
}

void ConnectionVouching::ask(const TcpEnds& ends, std::function<void(bool)> verdict) {
    desk_->ask(ends, std::move(verdict));
}

ConnectionVoucher::ConnectionVoucher(Member& member, int generation)
    : member_(member), generation_(generation) {
    const int head = member.head_node();
    member_.on_relay(kChannel, generation_,
                     [&member, generation, head](int source, std::string_view bytes) {
                         const auto question = vouching::parse_question(bytes);
                         if (source != head || !question)
                             return;
                         const bool is_ours = is_of_own_user(question->ends.seen_from_far());
                         member.relay(kChannel, generation, head,
                                      vouching::encode_answer(question->ticket, is_ours));
                     });
    member_.relay(kChannel, generation_, head, vouching::encode_addresses(own_addresses()));
}

ConnectionVoucher::~ConnectionVoucher() { member_.on_relay(kChannel, generation_, nullptr); }

}  // namespace autolaunch::launcher
