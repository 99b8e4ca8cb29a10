#include "checkpoint/s3/credential_source.hpp"

#include "base/refuse.hpp"
#include "checkpoint/s3/s3_settings.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

namespace autolaunch::s3 {
namespace {

using Time = std::chrono::system_clock::time_point;

constexpr std::chrono::minutes kLeft(5);
constexpr std::chrono::seconds kAskAgain(30), kAsk(10), kAskFirst(4);

class FixedCredentials final : public CredentialSource {
public:
    explicit FixedCredentials(Credentials credentials)
        : credentials_(std::make_shared<const Credentials>(std::move(credentials))) {}

    std::shared_ptr<const Credentials> get(const Deadline&) override { return credentials_; }
    bool have_ended(const Credentials&) override { return false; }

private:
    std::shared_ptr<const Credentials> credentials_;
};

class RenewedCredentials final : public CredentialSource {
public:
    RenewedCredentials(AskForCredentials ask, WallClock now)
        : ask_(std::move(ask)), now_(std::move(now)) {}

    std::shared_ptr<const Credentials> get(const Deadline& deadline) override {
        const std::lock_guard lock(mutex_);
        if (held_ && now_() < renew_at_)
            return held_;
        try {
            hold(ask_(deadline.remaining() < kAsk ? deadline : Deadline::after(kAsk)));
        } catch (const Error&) {
            if (!held_ || now_() >= end_)
                throw;
            renew_at_ = now_() + kAskAgain;
        }
        return held_;
    }

    bool have_ended(const Credentials& credentials) override {
        const std::lock_guard lock(mutex_);
        if (held_ && held_->key_id == credentials.key_id)
            held_.reset();
        return true;
    }

private:
    void hold(TemporaryCredentials got) {
        const Time now = now_();
        if (got.end <= now)
            throw Error(ErrorCode::corrupt, "the credentials that were given have ended already",
                        "is this machine's clock right?");
        held_ = std::make_shared<const Credentials>(std::move(got.credentials));
        end_ = got.end;
        renew_at_ = std::max(end_ - kLeft, now + (end_ - now) / 2);
    }

    AskForCredentials ask_;
    WallClock now_;
    std::mutex mutex_;
    std::shared_ptr<const Credentials> held_;
    Time end_, renew_at_;
};

bool says(const Environment& environment, const char* name) {
    return !value_of(environment, name).empty();
}

// Nobody has said that there is one: what it does not give is what is missing.
std::shared_ptr<CredentialSource> of_this_instance(const Environment& environment,
                                                   const std::string& nothing_else) {
    auto source = renewed_credentials(ask_instance(environment));
    try {
        source->get(Deadline::after(kAskFirst));
    } catch (const Error& error) {
        refuse(nothing_else + ", and this machine's metadata have none: " + error.what(),
               "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write the file with mode 600; "
               "AWS_EC2_METADATA_DISABLED=true where there is no metadata service to ask");
    }
    return source;
}

}  // namespace

std::shared_ptr<CredentialSource> fixed_credentials(Credentials credentials) {
    return std::make_shared<FixedCredentials>(std::move(credentials));
}

std::shared_ptr<CredentialSource> renewed_credentials(AskForCredentials ask, WallClock now) {
    return std::make_shared<RenewedCredentials>(std::move(ask), std::move(now));
}

std::shared_ptr<CredentialSource> find_credential_source(const Environment& environment) {
    if (!says(environment, "AWS_ACCESS_KEY_ID")) {
        if (says(environment, "AWS_WEB_IDENTITY_TOKEN_FILE"))
            return renewed_credentials(ask_web_identity(environment));
        const std::string nothing = why_no_profile(environment);
        const bool is_named =
            says(environment, "AWS_PROFILE") || says(environment, "AWS_SHARED_CREDENTIALS_FILE");
        if (!nothing.empty() && !is_named) {
            if (says(environment, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") ||
                says(environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))
                return renewed_credentials(ask_container(environment));
            if (value_of(environment, "AWS_EC2_METADATA_DISABLED") != "true")
                return of_this_instance(environment, nothing);
        }
    }
    return fixed_credentials(find_credentials(environment));
}

}  // namespace autolaunch::s3
