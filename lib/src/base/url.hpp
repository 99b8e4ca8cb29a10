#pragma once
#include <autolaunch/export.hpp>

#include <string>
#include <string_view>

namespace autolaunch {

/// Has a scheme: "s3://…", "https://…". Pure.
AUTOLAUNCH_API bool is_url(std::string_view text);
/// "https", in lower case; empty where there is none. Pure.
AUTOLAUNCH_API std::string scheme_of(std::string_view text);

/// What may be printed of an address: a user, a query and a fragment prove who one is (signed
/// addresses), so that of https://me:pw@host/a?X-Amz-Signature=… stays https://host/a?…. What is
/// not of http stays as it is, for names of objects may have a question mark. Pure.
AUTOLAUNCH_API std::string shown_url(std::string_view text);

/// The last name of an address's path, decoded; empty where it ends with a slash or has none. Pure.
AUTOLAUNCH_API std::string name_in_url(std::string_view url);

/// The address of a redirect's Location, which may be relative to `url`. Pure.
AUTOLAUNCH_API std::string resolved_url(std::string_view url, std::string_view location);

/// A query without what signs it and says until when (X-Amz-…, Signature, sig, token, Expires, …):
/// what names the thing itself. Pure.
AUTOLAUNCH_API std::string lasting_query(std::string_view url);

}  // namespace autolaunch
