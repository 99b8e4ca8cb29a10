#pragma once
#include "spec/value.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autolaunch::launcher {

// The section `sweep`: many jobs of one spec, each with some keys set otherwise. Plain data.

/// What an element sets: a key by its dotted path.
struct SweepSetting {
    std::string key;
    Origin key_at;
    Value value;
};
using SweepElement = std::vector<SweepSetting>;

/// Of `grid`: a key, and all that it is set to.
struct SweepAxis {
    std::string key;
    Origin key_at;
    std::vector<Value> values;
};

/// Of `random.ranges`: a key, and what it is drawn from.
struct SweepRange {
    enum class Kind { uniform, log, integer, choice };
    std::string key;
    Origin key_at;
    Kind kind = Kind::uniform;
    double low = 0, high = 0;  ///< both may be drawn; whole numbers with Kind::integer
    std::vector<Value> choices = {};
};

/// Which number of a rank's step reports counts.
enum class SweepMetric { loss, seconds, tokens_per_second };
struct SweepGoal {
    SweepMetric metric = SweepMetric::loss;
    bool maximise = false;
};

/// When an element that does worse than the others is stopped.
struct EarlyStopSpec {
    enum class Rule { none, median, asha };
    Rule rule = Rule::none;
    SweepGoal goal;                ///< the sweep's
    std::int64_t min_steps = 100;  ///< none is stopped before; the first rung of asha
    std::int64_t every = 100;      ///< median: steps between two looks
    int eta = 3;                   ///< asha: the next rung is so many times as far, and the best
                                   ///< 1/eta of a rung go on
    int min_elements = 3;          ///< median: others that must have come as far
};

struct SweepSpec {
    bool given = false;
    Origin at;
    std::vector<SweepAxis> grid;
    std::vector<SweepElement> list;
    std::int64_t samples = 0;
    std::uint64_t seed = 0;
    std::vector<SweepRange> ranges;
    SweepGoal goal;
    EarlyStopSpec early_stop;
    std::optional<int> element;  ///< the one that a start is of
    // What `autolaunch submit` writes into an element's stored spec:
    std::string of;       ///< the folder that all elements share
    SweepElement values;  ///< which this element has, already
    // Not of the spec:
    std::string array_job = {};  ///< Slurm's number of the array that this start is of; or empty

    /// Else it is one of a sweep's elements itself.
    bool makes_elements() const { return given && of.empty(); }
};

/// "loss"
std::string name_of(SweepMetric metric);

}  // namespace autolaunch::launcher
