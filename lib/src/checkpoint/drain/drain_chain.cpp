#include "checkpoint/drain/drain_chain.hpp"

#include <cstdio>
#include <utility>

namespace autolaunch {

namespace {

std::string size_text(std::uint64_t done, std::uint64_t total) {
    char text[64];
    std::snprintf(text, sizeof text, " (%.3f of %.3f GB are copied)",
                  static_cast<double>(done) / 1e9, static_cast<double>(total) / 1e9);
    return text;
}

}  // namespace

// From the last one on: each wakes the one after it, which so is there, and stays longer.
DrainChain::DrainChain(std::vector<DrainLink> links) : drains_(links.size()) {
    for (std::size_t i = links.size(); i-- > 0;) {
        DrainLink& link = links[i];
        if (i + 1 < links.size()) {
            link.settings.needed = [this, i] { return copied_by(i + 1); };
            link.events.turn_over = [next = drains_[i + 1].get()] { next->wake(); };
        }
        drains_[i] = std::make_unique<Drain>(std::move(link.near), std::move(link.far),
                                             std::move(link.settings), std::move(link.events));
    }
}

DrainChain::~DrainChain() {
    for (const auto& drain : drains_)
        drain->stop();
    for (auto& drain : drains_)
        drain.reset();
}

void DrainChain::wake(std::optional<std::int64_t> saved) { drains_.front()->wake(saved); }

std::set<std::int64_t> DrainChain::copied_by(std::size_t first) const {
    std::set<std::int64_t> steps;
    for (std::size_t i = first; i < drains_.size(); ++i)
        if (const auto step = drains_[i]->progress().step)
            steps.insert(*step);
    return steps;
}

bool DrainChain::wait_idle(const Deadline& deadline) {
    bool idle = true;
    for (const auto& drain : drains_)
        idle = drain->wait_idle(deadline) && idle;
    return idle;
}

std::vector<DrainChain::LeftBehind> DrainChain::finish(const Deadline& deadline) {
    for (const auto& drain : drains_)
        drain->finish();
    std::vector<LeftBehind> left;
    for (const auto& drain : drains_)
        if (!drain->wait_idle(deadline))
            left.push_back({drain->place(), drain->rest()});
    std::erase_if(left, [](const LeftBehind& one) { return one.rest.is_nothing(); });
    return left;
}

std::string in_words(const DrainChain::LeftBehind& left) {
    const DrainRest& rest = left.rest;
    std::string text = left.place.string() + " lacks";
    const char* comma = " step ";
    for (const std::int64_t step : rest.steps) {
        text += std::exchange(comma, ", ") + std::to_string(step);
        if (rest.under_way.step == step && rest.under_way.bytes_total > 0)
            text += size_text(rest.under_way.bytes_done, rest.under_way.bytes_total);
    }
    if (rest.steps.empty())
        text = left.place.string() + " may lack checkpoints";
    if (!rest.failure.empty())
        text += ": " + rest.failure;
    return text;
}

}  // namespace autolaunch
