#pragma once
#include "alerts/message.hpp"
#include "base/deadline.hpp"
#include "spec/alert_spec.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>

namespace autolaunch::launcher::alerts {

/// A way to somebody. Whatever is a secret in it is read when it is used.
///
/// Owner: the process of the job's alerts. Threads: its one. Blocks: tell() and keep_alive(), until
/// the deadline.
class MessageChannel {
public:
    virtual ~MessageChannel() = default;
    /// Throws Error, without a word of any secret: nobody was told, as far as is known.
    virtual void tell(const Notice& notice, const AlertedJob& job, const Deadline& deadline) = 0;
    /// For those who take silence for the end: what fires still, said again.
    virtual void keep_alive(std::span<const FiringAlert>, const AlertedJob&, const Deadline&) {}

    const AlertChannelSpec& spec() const { return spec_; }

protected:
    explicit MessageChannel(AlertChannelSpec spec) : spec_(std::move(spec)) {}
    AlertChannelSpec spec_;
};

/// `environment` is asked for variables that hold a webhook's URL, and for HOME.
std::unique_ptr<MessageChannel> make_channel(const AlertChannelSpec& spec,
                                             const std::map<std::string, std::string>& environment);

/// What a person should know of a channel before the job starts: messages in clear. Empty:
/// nothing. Pure.
std::string caution_of(const AlertChannelSpec& spec);

}  // namespace autolaunch::launcher::alerts
