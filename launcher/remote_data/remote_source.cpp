#include "remote_data/remote_source.hpp"

#include "base/hash.hpp"
#include "base/url.hpp"
#include "checkpoint/s3/s3_settings.hpp"
#include "remote_data/remote_sources.hpp"

namespace autolaunch::launcher {

bool is_remote(const std::string& from) { return is_url(from); }

std::string shown_source(const std::string& from) { return shown_url(from); }

std::string source_words(const std::string& from) {
    const std::string query = lasting_query(from);
    return query.empty() ? shown_url(from)
                         : shown_url(from) + hex128(hash128(query.data(), query.size()));
}

std::unique_ptr<RemoteSource> open_remote(const std::string& from, const std::string& verify,
                                          const Environment& environment,
                                          const RemoteTerms& terms) {
    return s3::is_s3_url(from) ? make_s3_source(from, environment, terms)
                               : make_http_source(from, verify, environment, terms);
}

}  // namespace autolaunch::launcher
