#pragma once
#include "site/site_facts.hpp"
#include "site/site_settings.hpp"
#include "spec/site_record.hpp"

#include <string>
#include <vector>

namespace autolaunch::launcher {

// What SiteKey::state is.
inline constexpr char kHolds[] = "holds";
inline constexpr char kDoesNotHold[] = "does not hold";
inline constexpr char kUnknown[] = "unknown";
inline constexpr char kNotActedOn[] = "not acted on";
// What SiteKey::enforced_by is.
inline constexpr char kBySlurm[] = "Slurm";
inline constexpr char kByKernel[] = "the kernel";
inline constexpr char kByUs[] = "autolaunch";
inline constexpr char kByNobody[] = "nobody";

/// Whether authentication.method means Kerberos: people write it in any case.
bool is_kerberos(const std::string& method);

/// A line for each setting, two where two enforce parts of it: who does, whether it holds, and by
/// what, or what to change. Pure.
std::vector<SiteKey> check_site(const SiteSettings& settings, const SiteFacts& facts);

}  // namespace autolaunch::launcher
