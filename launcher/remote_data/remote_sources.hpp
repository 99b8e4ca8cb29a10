#pragma once
#include "remote_data/remote_source.hpp"

#include <memory>
#include <string>

namespace autolaunch::launcher {

// The kinds of them, which open_remote() chooses from.

std::unique_ptr<RemoteSource> make_s3_source(const std::string& from,
                                             const Environment& environment,
                                             const RemoteTerms& terms);
std::unique_ptr<RemoteSource> make_http_source(const std::string& from, const std::string& verify,
                                               const Environment& environment,
                                               const RemoteTerms& terms);

}  // namespace autolaunch::launcher
