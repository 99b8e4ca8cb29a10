#include "retention/verdict.hpp"

#include "report/units.hpp"

namespace autolaunch::launcher {

RetentionVerdict judge_age(const char* what_happened_last, std::chrono::seconds age,
                           std::chrono::seconds keep) {
    if (age.count() < 0)
        return {false,
                std::string("it ") + what_happened_last + " in the future, by this node's clock"};
    return {age > keep, std::string(what_happened_last) + " " + format_duration(age) +
                            " ago, kept for " + format_duration(keep)};
}

}  // namespace autolaunch::launcher
