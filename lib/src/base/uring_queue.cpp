#include "base/io_queue.hpp"

#include <autolaunch/error.hpp>

#if AUTOLAUNCH_HAVE_URING
#include <liburing.h>

#include <cerrno>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace autolaunch {

#if AUTOLAUNCH_HAVE_URING

namespace {

#if defined(__SANITIZE_THREAD__)
// The kernel may give a ring the addresses of one that another thread closed. The sanitizer does
// not see liburing's calls, and takes the accesses to both for races.
char closed_rings;
void tell_of_open() { __tsan_acquire(&closed_rings); }
void tell_of_close() { __tsan_release(&closed_rings); }
#else
void tell_of_open() {}
void tell_of_close() {}
#endif

class UringQueue final : public IoQueue {
public:
    explicit UringQueue(io_uring ring) : ring_(ring) {}
    UringQueue(const UringQueue&) = delete;
    ~UringQueue() override {
        // Closing a ring does not wait for what is under way, and the caller frees the memory next.
        while (under_way_ > 0) {
            io_uring_cqe* done = nullptr;
            const int error = io_uring_wait_cqe(&ring_, &done);
            if (error == -EINTR)
                continue;
            if (error < 0)
                break;
            io_uring_cqe_seen(&ring_, done);
            --under_way_;
        }
        tell_of_close();
        io_uring_queue_exit(&ring_);
    }

    void start(const IoRequest& request) override {
        io_uring_sqe* entry = io_uring_get_sqe(&ring_);
        if (!entry)
            throw Error(ErrorCode::invalid_argument, "more requests than the queue is deep");
        const auto bytes = static_cast<unsigned>(request.bytes);
        if (request.write)
            io_uring_prep_write(entry, request.fd, request.memory, bytes, request.offset);
        else
            io_uring_prep_read(entry, request.fd, request.memory, bytes, request.offset);
        entry->user_data = request.tag;
        int submitted = 0;
        do
            submitted = io_uring_submit(&ring_);
        while (submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
        if (submitted < 0)
            throw SystemError(-submitted, "submit to io_uring");
        ++under_way_;
    }

    IoResult wait() override {
        io_uring_cqe* done = nullptr;
        int error = 0;
        do
            error = io_uring_wait_cqe(&ring_, &done);
        while (error == -EINTR);
        if (error < 0)
            throw SystemError(-error, "wait for io_uring");
        const IoResult result{static_cast<std::size_t>(done->user_data), done->res};
        io_uring_cqe_seen(&ring_, done);
        --under_way_;
        return result;
    }

    std::string_view kind() const noexcept override { return "io_uring"; }

private:
    io_uring ring_;
    unsigned under_way_ = 0;
};

}  // namespace

std::unique_ptr<IoQueue> make_uring_queue(unsigned depth) {
    io_uring ring = {};
    if (io_uring_queue_init(depth, &ring, 0) < 0)
        return nullptr;  // the ring's descriptor is CLOEXEC by itself
    tell_of_open();
    return std::make_unique<UringQueue>(ring);
}

#else

std::unique_ptr<IoQueue> make_uring_queue(unsigned) { return nullptr; }

#endif

}  // namespace autolaunch
