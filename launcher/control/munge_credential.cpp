#include "control/munge_credential.hpp"

#if AUTOLAUNCH_HAVE_MUNGE
#include "base/ask_in_time.hpp"
#include "base/shared_library.hpp"
#include "base/unique_fd.hpp"

#include <autolaunch/error.hpp>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <fcntl.h>
#include <munge.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>
#include <utility>

namespace autolaunch::launcher {
namespace {

constexpr std::string_view kPayloadMagic = "autolaunch job key 1";
constexpr const char* kStuck = "munged did not answer within 5 s; is it overloaded, or stopped?";

struct MungeLibrary {
    MungeLibrary() {
        const SharedLibrary library("libmunge.so.2");
        library.find(encode, "munge_encode");
        library.find(decode, "munge_decode");
        library.find(error_text, "munge_strerror");
        library.find(make_context, "munge_ctx_create");
        library.find(destroy_context, "munge_ctx_destroy");
        library.find(context_error_text, "munge_ctx_strerror");
        library.find(set, "munge_ctx_set");
    }
    decltype(&::munge_encode) encode;
    decltype(&::munge_decode) decode;
    decltype(&::munge_strerror) error_text;
    decltype(&::munge_ctx_create) make_context;
    decltype(&::munge_ctx_destroy) destroy_context;
    decltype(&::munge_ctx_strerror) context_error_text;
    decltype(&::munge_ctx_set) set;
};

class MungeContext {
public:
    MungeContext(const MungeLibrary& library, const std::string& socket)
        : library_(library), context_(library.make_context(), library.destroy_context) {
        if (!socket.empty())
            library.set(context_.get(), MUNGE_OPT_SOCKET, socket.c_str());
    }
    munge_ctx_t get() const { return context_.get(); }
    /// The context's text names the socket; libmunge has none for every error.
    std::string reason(munge_err_t error) const {
        const char* detail = library_.context_error_text(context_.get());
        return detail != nullptr ? detail : library_.error_text(error);
    }

private:
    const MungeLibrary& library_;
    std::unique_ptr<std::remove_pointer_t<munge_ctx_t>, decltype(&::munge_ctx_destroy)> context_;
};

std::string payload_of(const JobKey& key, const JobIdentity& identity) {
    std::string payload(kPayloadMagic);
    payload.append(reinterpret_cast<const char*>(key.bytes().data()), key.bytes().size());
    return payload + identity.name;
}

MadeCredential encode(const std::string& socket, std::string payload) try {
    const MungeLibrary library;
    const MungeContext context(library, socket);
    // The site's default may be no encryption at all; the payload is a secret.
    library.set(context.get(), MUNGE_OPT_CIPHER_TYPE, MUNGE_CIPHER_AES128);
    library.set(context.get(), MUNGE_OPT_MAC_TYPE, MUNGE_MAC_SHA256);
    library.set(context.get(), MUNGE_OPT_ZIP_TYPE, MUNGE_ZIP_NONE);
    library.set(context.get(), MUNGE_OPT_UID_RESTRICTION, ::geteuid());
    char* made = nullptr;
    const munge_err_t error =
        library.encode(&made, context.get(), payload.data(), static_cast<int>(payload.size()));
    ::explicit_bzero(payload.data(), payload.size());
    const std::unique_ptr<char, decltype(&std::free)> credential(made, &std::free);
    if (error != EMUNGE_SUCCESS)
        return {std::nullopt, context.reason(error)};
    return {std::string(made), {}};
} catch (const Error& error) {
    return {std::nullopt, error.what()};
}

/// A credential that is too old, from the future or was seen before is as good as any: it only
/// carries the key, and who only replays it does not know the key, so that TLS fails. Nodes' clocks
/// may differ.
bool carries_payload(munge_err_t error) {
    return error == EMUNGE_SUCCESS || error == EMUNGE_CRED_EXPIRED ||
           error == EMUNGE_CRED_REWOUND || error == EMUNGE_CRED_REPLAYED;
}

OpenedCredential key_in(std::string_view payload, const JobIdentity& identity) {
    JobKey::Bytes bytes{};
    if (payload.size() < kPayloadMagic.size() + bytes.size() || !payload.starts_with(kPayloadMagic))
        return {std::nullopt, "its MUNGE credential is no job key"};
    if (payload.substr(kPayloadMagic.size() + bytes.size()) != identity.name)
        return {std::nullopt, "its MUNGE credential is of another job"};
    std::copy_n(payload.begin() + kPayloadMagic.size(), bytes.size(), bytes.begin());
    return {JobKey(JobKey::Source::munge, bytes), {}};
}

OpenedCredential decode(const std::string& socket, const std::string& credential,
                        const JobIdentity& identity) try {
    const MungeLibrary library;
    const MungeContext context(library, socket);
    void* data = nullptr;
    int bytes = 0;
    uid_t uid = 0;
    gid_t gid = 0;
    const munge_err_t error =
        library.decode(credential.c_str(), context.get(), &data, &bytes, &uid, &gid);
    const std::unique_ptr<void, decltype(&std::free)> payload(data, &std::free);
    if (error == EMUNGE_CRED_UNAUTHORIZED)
        return {std::nullopt, "its MUNGE credential is of another user: it is another user's job"};
    if (error == EMUNGE_SOCKET)
        return {std::nullopt, "the head's key comes from munge, and munge does not run here: " +
                                  context.reason(error)};
    if (!carries_payload(error) || data == nullptr)
        return {std::nullopt,
                "its MUNGE credential cannot be decoded here: " + context.reason(error) +
                    "; do all nodes have the same munge.key?"};
    if (uid != ::geteuid())
        return {std::nullopt,
                "its MUNGE credential was made by uid " + std::to_string(uid) + ", not by us"};
    const auto opened =
        key_in({static_cast<const char*>(data), static_cast<std::size_t>(bytes)}, identity);
    ::explicit_bzero(data, static_cast<std::size_t>(bytes));
    return opened;
} catch (const Error& error) {
    return {
        std::nullopt,
        std::string("the head's key comes from munge, which cannot be used here: ") + error.what()};
}

/// One call on a thread of its own. Thread and caller share this and nothing else; `done` becomes
/// readable at the end.
template <class Answer>
struct Call {
    std::mutex mutex;
    Answer answer;
    UniqueFd finished;  // the thread's end of the pipe
    UniqueFd done;
};

template <class Answer, class Work>
std::shared_ptr<Call<Answer>> start_call(Work work) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
        throw SystemError(errno, "make a pipe");
    auto call = std::make_shared<Call<Answer>>();
    call->done.reset(ends[0]);
    call->finished.reset(ends[1]);
    start_detached([call, work = std::move(work)] {
        Answer answer = work();
        const std::lock_guard lock(call->mutex);
        call->answer = std::move(answer);
        call->finished.reset();
    });
    return call;
}

template <class Answer>
Answer answer_of(Call<Answer>& call) {
    const std::lock_guard lock(call.mutex);
    return std::move(call.answer);
}

/// Waits for a call in an event loop: whichever of answer and timer comes first counts.
struct Opening {
    explicit Opening(asio::io_context& io, int done) : descriptor(io, done), timer(io) {}
    asio::posix::stream_descriptor descriptor;
    asio::steady_timer timer;
    std::function<void(const OpenedCredential&)> opened;

    void finish(const OpenedCredential& result) {
        timer.cancel();
        descriptor.close();
        if (opened)
            std::exchange(opened, nullptr)(result);
    }
};

}  // namespace

MadeCredential make_munge_credential(const JobKey& key, const JobIdentity& identity,
                                     const std::string& socket, const Deadline& deadline) {
    const Deadline until(std::min(deadline.at(), Deadline::after(kMungeTimeout).at()));
    const auto call = start_call<MadeCredential>(
        [socket, payload = payload_of(key, identity)] { return encode(socket, payload); });
    pollfd waiting{call->done.get(), POLLIN, 0};
    int ready = 0;
    do {
        ready = ::poll(&waiting, 1, until.poll_timeout_ms());
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0)
        return {std::nullopt, kStuck};
    return answer_of(*call);
}

void open_munge_credential(asio::io_context& io, const std::string& credential,
                           const JobIdentity& identity, const std::string& socket,
                           std::function<void(const OpenedCredential&)> opened) {
    const auto call = start_call<OpenedCredential>(
        [socket, credential, identity] { return decode(socket, credential, identity); });
    const auto opening = std::make_shared<Opening>(io, call->done.release());
    opening->opened = std::move(opened);
    opening->timer.expires_after(kMungeTimeout);
    opening->timer.async_wait([opening](const asio::error_code& canceled) {
        if (!canceled)
            opening->finish({std::nullopt, kStuck});
    });
    opening->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                   [opening, call](const asio::error_code& error) {
                                       if (!error)
                                           opening->finish(answer_of(*call));
                                   });
}

}  // namespace autolaunch::launcher

#else

#include <asio/post.hpp>

namespace autolaunch::launcher {

MadeCredential make_munge_credential(const JobKey&, const JobIdentity&, const std::string&,
                                     const Deadline&) {
    return {std::nullopt, "this autolaunch was built without it"};
}

void open_munge_credential(asio::io_context& io, const std::string&, const JobIdentity&,
                           const std::string&,
                           std::function<void(const OpenedCredential&)> opened) {
    asio::post(io, [opened = std::move(opened)] {
        opened(
            {std::nullopt,
             "the head's key comes from munge, and this node's autolaunch was built without it"});
    });
}

}  // namespace autolaunch::launcher

#endif
