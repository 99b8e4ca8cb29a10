#include "simulation/schedule.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

namespace simulation {

std::uint64_t mix(std::uint64_t seed, std::uint64_t place) {
    std::uint64_t value = seed + 0x9e3779b97f4a7c15U * (place + 1);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

namespace {

constexpr std::array<const char*, 12> kNames = {
    "kill_agent", "power_off",   "restart", "pause_machine", "pause_agent", "pause_all",
    "cut",        "cut_one_way", "heal",    "fail_rank",     "fail_gpu",    "hang_rank"};

// More of what ends heads than of the rest.
constexpr std::array kBlows = {
    Blow::kill_agent,    Blow::kill_agent,  Blow::power_off, Blow::restart,  Blow::pause_machine,
    Blow::pause_machine, Blow::pause_agent, Blow::pause_all, Blow::cut,      Blow::cut,
    Blow::cut_one_way,   Blow::heal,        Blow::fail_rank, Blow::fail_gpu, Blow::hang_rank};

BlowAt make_blow(Dice& dice, int nodes, int latest) {
    BlowAt blow;
    blow.at = dice.between(100, latest);
    blow.what = kBlows[static_cast<std::size_t>(dice.below(static_cast<int>(kBlows.size())))];
    blow.node = dice.one_in(3) ? -1 : dice.below(nodes);
    blow.lasts = dice.one_in(3) ? dice.between(10, 1500) : dice.between(1500, 9000);
    return blow;
}

}  // namespace

Schedule make_schedule(std::uint64_t seed) {
    Dice dice(mix(seed, 1));
    Schedule made;
    made.seed = seed;
    made.nodes = dice.one_in(4) ? 2 : dice.between(3, 5);
    made.ranks = dice.between(1, 2);
    made.most = std::max(1, made.nodes - (dice.one_in(2) ? 1 : 0));
    made.fewest = dice.between(1, made.most);
    made.has_witness = dice.one_in(2);
    if (!dice.one_in(3)) {
        made.loss_permille = dice.between(0, 150);
        made.doubled_permille = dice.between(0, 100);
        made.slowest = dice.one_in(4) ? dice.between(50, 900) : dice.between(2, 60);
    }
    made.steps = dice.between(8, 40);
    made.max_restarts = dice.between(0, 3);
    const int blows = dice.between(1, 7);
    for (int i = 0; i < blows; ++i) {
        made.blows.push_back(make_blow(dice, made.nodes, 200 * made.steps));
        if (dice.one_in(4)) {  // what comes close after it is what is seldom thought of
            BlowAt next = make_blow(dice, made.nodes, 200 * made.steps);
            next.at = made.blows.back().at + dice.between(0, 3500);
            made.blows.push_back(next);
        }
        const BlowAt& last = made.blows.back();
        if (last.what == Blow::pause_machine && dice.one_in(2))  // just after it comes back
            made.blows.push_back({.at = last.at + last.lasts + dice.between(0, 900),
                                  .what = Blow::fail_rank,
                                  .node = dice.below(made.nodes)});
    }
    std::sort(made.blows.begin(), made.blows.end(),
              [](const BlowAt& a, const BlowAt& b) { return a.at < b.at; });
    return made;
}

Schedule with_blows(const Schedule& schedule, const std::vector<std::size_t>& kept) {
    Schedule less = schedule;
    less.blows.clear();
    for (const std::size_t which : kept)
        less.blows.push_back(schedule.blows.at(which));
    return less;
}

std::string name_of(Blow blow) { return kNames[static_cast<std::size_t>(blow)]; }

std::string to_text(const Schedule& made) {
    std::ostringstream text;
    text << "seed " << made.seed << " nodes " << made.nodes << " ranks " << made.ranks << " fewest "
         << made.fewest << " most " << made.most << " witness " << made.has_witness << " loss "
         << made.loss_permille << " doubled " << made.doubled_permille << " slowest "
         << made.slowest << " steps " << made.steps << " restarts " << made.max_restarts;
    for (const BlowAt& blow : made.blows)
        text << ", " << blow.at << ' ' << name_of(blow.what) << ' ' << blow.node << ' '
             << blow.lasts;
    return text.str();
}

Schedule schedule_from(const std::string& line) {
    Schedule made;
    std::istringstream text(line.substr(0, line.find(',')));
    const auto field = [&text](const char* name, auto& value) {
        std::string word;
        if (!(text >> word >> value) || word != name)
            throw std::invalid_argument(std::string("no \"") + name + "\" where it should be");
    };
    field("seed", made.seed), field("nodes", made.nodes), field("ranks", made.ranks);
    field("fewest", made.fewest), field("most", made.most), field("witness", made.has_witness);
    field("loss", made.loss_permille), field("doubled", made.doubled_permille);
    field("slowest", made.slowest), field("steps", made.steps);
    field("restarts", made.max_restarts);
    for (std::size_t at = line.find(','); at < line.size(); at = line.find(',', at + 1)) {
        std::istringstream one(line.substr(at + 1, line.find(',', at + 1) - at - 1));
        BlowAt blow;
        std::string name;
        if (!(one >> blow.at >> name >> blow.node >> blow.lasts))
            throw std::invalid_argument("no blow in \"" + one.str() + "\"");
        const auto known = std::find(kNames.begin(), kNames.end(), name);
        if (known == kNames.end())
            throw std::invalid_argument("no blow is called " + name);
        blow.what = static_cast<Blow>(known - kNames.begin());
        made.blows.push_back(blow);
    }
    return made;
}

}  // namespace simulation
