#pragma once
#include "alerts/incident_book.hpp"
#include "site/site_settings.hpp"
#include "spec/alert_spec.hpp"
#include "spec/spec_error.hpp"

#include <vector>

namespace autolaunch::launcher::alerts {

/// What `alerting` of the administrator's file and of the spec come to: who is told of what. What
/// is unknown, mistyped or cannot be kept secret goes to `errors`, with its line; nothing is read
/// of any secret, and no server is asked. Without alerting.enabled, alerts that are there count.
/// Pure.
AlertSpec alerts_of(const SiteSettings& settings, std::vector<SpecError>& errors);

/// The rules of a spec that alerts_of() has read. Pure.
std::vector<AlertRule> rules_of(const AlertSpec& spec);

}  // namespace autolaunch::launcher::alerts
