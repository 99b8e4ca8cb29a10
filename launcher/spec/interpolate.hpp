#pragma once
#include "secrets/secrets.hpp"
#include "spec/value.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace autolaunch::launcher {

/// What ${VAR} stands for, in all of one spec.
struct Variables {
    const std::map<std::string, std::string>& environment;
    Secrets secrets = Secrets::mask;  ///< whether values of secret variables are marked as such
    std::size_t replaced_bytes = 0;   ///< so far: short texts can become long ones
    bool for_later = false;  ///< Slurm's own that are not set count as 1: the job will have them

    /// For a text that somebody reads anew later: of these variables the reference stays, with
    /// what is beside it written so that reading it gives the same. Empty: none stays.
    std::function<bool(const std::string& name, const std::string* value)> keeps = {};
    std::set<std::string> kept = {};  ///< so far
};

/// SLURM_…: what a job finds, and who submits one does not have.
bool is_variable_of_slurm(std::string_view name);

/// Replaces ${VAR} and ${VAR:-default} (used when VAR is unset or empty; it may hold ${…} itself)
/// in every scalar of `value`. $VAR and $$ are left alone, and $${ writes a plain ${, so a shell
/// line keeps its own variables. Keys are not touched. An unquoted scalar that is one ${…} as a
/// whole takes the type of what replaced it.
///
/// With `foreign_allowed`, a ${…} that cannot name a variable, such as ${model.width}, stays as it
/// is: it belongs to the trainer's own configuration language. `key` is the path of `value`, for
/// messages.
void interpolate(Value& value, Variables& variables, bool foreign_allowed, const std::string& key,
                 std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
