#pragma once
#include "site/site_settings.hpp"

#include <optional>
#include <string>

namespace autolaunch::launcher {

/// Where the administrator's file is. No option and no variable changes it: whoever could name
/// another file could name one of his own.
inline constexpr char kSiteFile[] = "/etc/autolaunch/site.yaml";

/// What the administrator's file says; nothing where there is none.
///
/// It counts only where nobody but root can have written it: it, the folder and all folders above
/// it belong to root, are writable by root alone (an ACL that lets others write shows in the
/// group's bits), and none of them is a link. Each is opened by the descriptor of the one above and
/// looked at there, so nothing can be exchanged meanwhile.
///
/// Throws ExitError with kBadSite and the reason where it is there and does not count, cannot be
/// read, or is wrong: what cannot be read is not absent.
std::optional<SiteSettings> read_site_file();

/// The same of a file that its administrator is still writing: anybody's. Throws Error.
SiteSettings read_site_draft(const std::string& path);

/// Why `path` would not count as the administrator's file, in words; empty: it would. Pure but for
/// looking. `path` is absolute and has no "..".
std::string why_not_roots_own(const std::string& path);

}  // namespace autolaunch::launcher
