#include "simulation/schedule.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

namespace simulation {

std::uint64_t mix(std::uint64_t seed, std::uint64_t place) {
    std::uint64_t value = seed + 0x9e3779b97f4a7c15U * (place + 1);
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

namespace {

// More of what ends heads than of the rest.
constexpr std::array kBlows = {Blow::kill_agent, Blow::kill_agent,    Blow::power_off,
                               Blow::restart,    Blow::pause_machine, Blow::pause_machine,
                               Blow::pause_agent, Blow::pause_all,    Blow::cut,
                               Blow::cut,        Blow::cut_one_way,   Blow::heal,
                               Blow::fail_rank,  Blow::fail_gpu,      Blow::hang_rank};

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

std::string describe(std::uint64_t seed, const std::vector<std::size_t>* kept) {
    std::string text = "seed " + std::to_string(seed);
    if (kept == nullptr)
        return text;
    text += " blows ";
    for (std::size_t i = 0; i < kept->size(); ++i)
        text += (i > 0 ? "," : "") + std::to_string((*kept)[i]);
    return text;
}

namespace {

std::uint64_t take_number(std::string_view& text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc())
        throw std::invalid_argument("a number is missing at \"" + std::string(text) + "\"");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

}  // namespace

Kept parse_kept(std::string_view line) {
    constexpr std::string_view kSeed = "seed ", kBlowsWord = " blows ";
    if (!line.starts_with(kSeed))
        throw std::invalid_argument("no seed in \"" + std::string(line) + "\"");
    line.remove_prefix(kSeed.size());
    Kept kept;
    kept.seed = take_number(line);
    if (!line.starts_with(kBlowsWord))
        return kept;
    line.remove_prefix(kBlowsWord.size());
    kept.blows.emplace();
    while (!line.empty() && line.front() >= '0' && line.front() <= '9') {
        kept.blows->push_back(take_number(line));
        if (!line.empty() && line.front() == ',')
            line.remove_prefix(1);
    }
    return kept;
}

Schedule with_blows(const Schedule& schedule, const std::vector<std::size_t>& kept) {
    Schedule less = schedule;
    less.blows.clear();
    for (const std::size_t which : kept)
        less.blows.push_back(schedule.blows.at(which));
    return less;
}

std::string name_of(Blow blow) {
    constexpr std::array kNames = {"kill_agent", "power_off",   "restart",   "pause_machine",
                                   "pause_agent", "pause_all",  "cut",       "cut_one_way",
                                   "heal",        "fail_rank",  "fail_gpu",  "hang_rank"};
    return kNames[static_cast<std::size_t>(blow)];
}

}  // namespace simulation
