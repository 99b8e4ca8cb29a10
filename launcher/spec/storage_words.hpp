#pragma once
#include "spec/storage_spec.hpp"
#include "spec/value.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

/// Letters, digits and _, up to 64: what a variable can end with. Pure.
bool is_data_name(const std::string& name);

/// storage.stage_in: a list of {from, as, verify}. False where it is no list; what is wrong in it
/// goes to `errors`. Pure.
bool read_stage_in(const Value& value, const std::string& path, std::vector<StageInSpec>& items,
                   std::vector<SpecError>& errors);

}  // namespace autolaunch::launcher
