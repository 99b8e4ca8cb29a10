#include "spawn/agent_pulse.hpp"

#include <doctest/doctest.h>

#include <chrono>

namespace agent_pulse_test {

using namespace autolaunch::launcher;
using namespace std::chrono_literals;

namespace {

// Looks `times` times, `apart` from each other; whether the last look found it silent.
bool look(PulseWatch& watch, PulseWatch::Clock::time_point& now, int times,
          std::chrono::milliseconds apart) {
    bool silent = false;
    for (int i = 0; i < times; ++i)
        silent = watch.is_silent(now += apart);
    return silent;
}

}  // namespace

TEST_CASE("an agent is silent when it owes a beat for longer than it promised") {
    AgentPulse pulse;
    PulseWatch watch(pulse);
    PulseWatch::Clock::time_point now{1h};
    CHECK_FALSE(look(watch, now, 100, 500ms));  // it has promised nothing yet
    pulse.begin(3s, 68);
    CHECK(pulse.code_when_lost() == 68);
    CHECK_FALSE(look(watch, now, 7, 500ms));
    CHECK(look(watch, now, 1, 500ms));
    pulse.beat();
    CHECK_FALSE(look(watch, now, 7, 500ms));
    pulse.end();
    CHECK_FALSE(look(watch, now, 100, 500ms));
}

TEST_CASE("time in which the keeper itself did not run is no silence") {
    AgentPulse pulse;
    PulseWatch watch(pulse);
    PulseWatch::Clock::time_point now{1h};
    pulse.begin(3s, 68);
    CHECK_FALSE(look(watch, now, 1, 500ms));
    CHECK_FALSE(look(watch, now, 2, 10min));  // both were stopped, or the machine slept
    CHECK_FALSE(look(watch, now, 4, 500ms));
    CHECK(look(watch, now, 1, 500ms));
}

TEST_CASE("an agent that has not heard from its head for a while has that much less time") {
    AgentPulse pulse;
    PulseWatch watch(pulse);
    PulseWatch::Clock::time_point now{1h};
    pulse.beat(1s);
    CHECK_FALSE(look(watch, now, 100, 500ms));  // it has promised nothing yet
    pulse.begin(10s, 68);
    pulse.beat(1s);
    CHECK_FALSE(look(watch, now, 3, 500ms));
    CHECK(look(watch, now, 1, 500ms));  // and not after 10 s
    pulse.beat(0s);                     // its time is over, and it moves: it ends them itself
    CHECK_FALSE(look(watch, now, 1, 250ms));
    CHECK(look(watch, now, 1, 250ms));
    pulse.beat(10s);  // no ranks are left
    CHECK_FALSE(look(watch, now, 20, 500ms));
    pulse.end();
    pulse.beat(1s);
    CHECK_FALSE(look(watch, now, 100, 500ms));
}

}  // namespace agent_pulse_test
