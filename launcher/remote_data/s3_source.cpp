#include "base/url.hpp"
#include "checkpoint/s3/s3_client.hpp"
#include "remote_data/object_tree.hpp"
#include "remote_data/remote_errors.hpp"
#include "remote_data/remote_sources.hpp"

#include <autolaunch/error.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr auto kLongest = std::chrono::hours(24);  // all of a listing; patience ends it before

struct S3Place {
    s3::Location location;
    s3::Credentials credentials;
    std::string key;  ///< of a single object; empty: all below the location
    std::string shown, who;
    RemoteTerms terms;

    s3::ReadTerms read_terms(const TreeEntry& file) const {
        return {.etag = file.version, .arrived = terms.signs, .patience = terms.patience};
    }
};

class S3Reader final : public RemoteReader {
public:
    explicit S3Reader(const S3Place& place)
        : place_(place), client_(place.location, place.credentials) {}

    void read(const TreeEntry& file, std::int64_t at, std::span<std::byte> into) override {
        s3::ReadTerms terms = place_.read_terms(file);
        const bool is_all = at == 0 && into.size() == static_cast<std::size_t>(file.bytes);
        if (is_all)
            terms.checksum = &told_;
        told_.reset();
        told_of_ = is_all ? file.path : "";
        const std::size_t got = ask(file, [&](const std::string& key) {
            return client_.get(key, static_cast<std::uint64_t>(at), into, Deadline::after(kLongest),
                               terms);
        });
        if (got < into.size())
            remote_changed(shown(file));
    }

    std::optional<KnownChecksum> checksum(const TreeEntry& file) override {
        if (std::exchange(told_of_, "") != file.path)
            told_ = ask(file, [&](const std::string& key) {
                return client_.checksum(key, Deadline::after(kLongest), place_.read_terms(file));
            });
        if (!told_)
            return std::nullopt;
        return KnownChecksum{.checksum = *told_, .shown = shown(file), .signs = place_.terms.signs};
    }

    std::optional<std::int64_t> part_bytes(const TreeEntry& file, std::uint64_t number) override {
        const auto bytes = ask(file, [&](const std::string& key) {
            return client_.part_bytes(key, number, Deadline::after(kLongest),
                                      place_.read_terms(file));
        });
        if (!bytes || *bytes > static_cast<std::uint64_t>(file.bytes))
            return std::nullopt;
        return static_cast<std::int64_t>(*bytes);
    }

    void read_all(const TreeEntry& file, const Take&) override {
        remote_away("cannot read " + shown(file) + ": its server gives no ranges", {});
    }

private:
    template <class Request>
    std::invoke_result_t<Request, const std::string&> ask(const TreeEntry& file,
                                                          const Request& request) {
        try {
            return request(place_.key.empty() ? file.path : place_.key);
        } catch (const Error& error) {
            translate_remote(shown(file), error, place_.who);
        }
    }

    std::string shown(const TreeEntry& file) const {
        return place_.key.empty() ? place_.shown + file.path : place_.shown;
    }

    const S3Place& place_;
    s3::S3Client client_;
    std::string told_of_;  ///< a file that was read all at once
    std::optional<s3::ObjectChecksum> told_;
};

class S3Source final : public RemoteSource {
public:
    explicit S3Source(S3Place place) : place_(std::move(place)) {}

    Tree look() override {
        try {
            s3::S3Client client(place_.location, place_.credentials);
            return place_.key.empty() ? look_below(client) : look_at(client);
        } catch (const Error& error) {
            translate_remote(place_.shown, error, place_.who);
        }
    }

    std::unique_ptr<RemoteReader> connect() const override {
        try {
            return std::make_unique<S3Reader>(place_);
        } catch (const Error& error) {
            translate_remote(place_.shown, error, place_.who);
        }
    }

    bool is_checked() const override { return place_.location.tells_checksums; }

private:
    Tree look_below(s3::S3Client& client) const {
        const s3::Listing listing =
            client.list("", true, Deadline::after(kLongest), place_.read_terms({}));
        Tree tree = tree_of_objects(listing.objects, place_.shown);
        if (tree.file_count() == 0)
            remote_missing("object below " + place_.shown,
                           "storage.stage_in has to name what is there");
        return tree;
    }

    Tree look_at(s3::S3Client& client) const {
        const auto object = client.look(place_.key, Deadline::after(place_.terms.patience));
        if (!object)
            remote_missing(place_.shown, "of a folder of objects, write " + place_.shown + '/');
        const std::vector<s3::Object> one = {{.key = name_in_url(place_.shown),
                                              .bytes = object->bytes,
                                              .etag = object->etag,
                                              .modified = object->modified}};
        Tree tree = tree_of_objects(one, place_.shown.substr(0, place_.shown.rfind('/') + 1));
        tree.is_file = true;
        return tree;
    }

    const S3Place place_;
};

}  // namespace

std::string origin_of_credentials(const Environment& environment) {
    if (!value_of(environment, "AWS_ACCESS_KEY_ID").empty())
        return value_of(environment, "AWS_SESSION_TOKEN").empty()
                   ? "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                   : "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN";
    const std::string file = value_of(environment, "AWS_SHARED_CREDENTIALS_FILE");
    const std::string profile = value_of(environment, "AWS_PROFILE");
    return "profile [" + (profile.empty() ? "default" : profile) + "] of " +
           (file.empty() ? "~/.aws/credentials" : file);
}

std::unique_ptr<RemoteSource> make_s3_source(const std::string& from,
                                             const Environment& environment,
                                             const RemoteTerms& terms) {
    const std::size_t bucket_end = from.find('/', from.find("://") + 3);
    S3Place place{
        .location = {}, .credentials = {}, .key = {}, .shown = from, .who = {}, .terms = terms};
    place.who = origin_of_credentials(environment);
    try {
        if (bucket_end != std::string::npos && !from.ends_with('/')) {
            place.key = from.substr(bucket_end + 1);
            place.location = s3::locate(from.substr(0, bucket_end), environment);
        } else {
            place.location = s3::locate(from, environment);
            if (!from.ends_with('/'))
                place.shown += '/';
        }
    } catch (const Error& error) {
        translate_remote(from, error, place.who);
    }
    try {
        place.credentials = s3::find_credentials(environment);
    } catch (const Error& error) {
        remote_forbids("cannot read " + from + ": " + error.what(), place.who, error.hint());
    }
    return std::make_unique<S3Source>(std::move(place));
}

}  // namespace autolaunch::launcher
