#pragma once
#include <array>
#include <cstddef>

namespace autolaunch::launcher {

/// What an event makes of a state machine.
template <class State, class Action>
struct Transition {
    State next;
    Action action;
    bool operator==(const Transition&) const = default;
};

/// A state machine as the list of what changes. A line says: in `state`, `event` asks for `action`
/// and leads to `next`; a pair that has no line stays where it is and does nothing. States and
/// events are enumerations from 0 up; the first action is the one that does nothing.
///
/// The three checks are for static_assert, beside the table.
template <class State, int kStates, class Event, int kEvents, class Action>
class TransitionTable {
public:
    struct Line {
        State state;
        Event event;
        Action action;
        State next;
    };

    template <std::size_t kLines>
    explicit constexpr TransitionTable(const Line (&lines)[kLines]) {
        for (int state = 0; state < kStates; ++state)
            cells_[index(state)].fill({static_cast<State>(state), Action{}});
        std::array<std::array<bool, kEvents>, kStates> listed{};
        for (const Line& line : lines) {
            auto& was_listed = listed[index(line.state)][index(line.event)];
            repeats_a_pair_ = repeats_a_pair_ || was_listed;
            was_listed = true;
            says_nothing_ = says_nothing_ || (line.next == line.state && line.action == Action{});
            cells_[index(line.state)][index(line.event)] = {line.next, line.action};
        }
    }

    constexpr Transition<State, Action> operator()(State state, Event event) const {
        return cells_[index(state)][index(event)];
    }

    constexpr bool lists_each_pair_once() const { return !repeats_a_pair_; }
    /// No line says what its absence would say.
    constexpr bool lists_changes_only() const { return !says_nothing_; }
    constexpr bool reaches_every_state_from(State first) const {
        std::array<bool, kStates> reached{};
        reached[index(first)] = true;
        for (int round = 1; round < kStates; ++round)
            for (std::size_t state = 0; state < kStates; ++state)
                if (reached[state])
                    for (const auto& cell : cells_[state])
                        reached[index(cell.next)] = true;
        for (const bool is_reached : reached)
            if (!is_reached)
                return false;
        return true;
    }

private:
    template <class Enumerator>
    static constexpr std::size_t index(Enumerator value) {
        return static_cast<std::size_t>(value);
    }

    std::array<std::array<Transition<State, Action>, kEvents>, kStates> cells_{};
    bool repeats_a_pair_ = false, says_nothing_ = false;
};

}  // namespace autolaunch::launcher
