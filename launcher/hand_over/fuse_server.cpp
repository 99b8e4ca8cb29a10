#include "hand_over/fuse_server.hpp"

#include <autolaunch/error.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace autolaunch::launcher {

namespace {

// The kernel numbers no file below what it calls the root.
constexpr std::uint64_t kFirstId = FUSE_ROOT_ID + 1;
constexpr std::size_t kRequestBytes = 128 * 1024;  // the kernel asks for more room than it uses
constexpr std::uint32_t kOldestMinor = 23;         // from where on the answers have today's sizes
constexpr std::uint32_t kWriteBytes = 4096;        // nobody writes
constexpr std::uint64_t kForever = 1'000'000'000;
constexpr int kAnswering = 4, kPushers = 2;
constexpr std::size_t kMostReaders = 64, kPushPieces = kChunkBytes / kPieceBytes;
constexpr auto kTick = std::chrono::milliseconds(500);
// A look-up is answered before the kernel knows the file.
constexpr int kPushTries = 100;
constexpr auto kPushAgain = std::chrono::milliseconds(2);

template <class T>
T in(const char* body) {
    T value;
    std::memcpy(&value, body, sizeof value);
    return value;
}

template <class T>
void give(std::string& reply, const T& value) {
    reply.assign(reinterpret_cast<const char*>(&value), sizeof value);
}

fuse_attr attributes_of(const struct stat& facts) {
    fuse_attr attributes{};
    attributes.ino = facts.st_ino;
    attributes.size = static_cast<std::uint64_t>(facts.st_size);
    attributes.blocks = static_cast<std::uint64_t>(facts.st_blocks);
    attributes.atime = static_cast<std::uint64_t>(facts.st_atim.tv_sec);
    attributes.mtime = static_cast<std::uint64_t>(facts.st_mtim.tv_sec);
    attributes.ctime = static_cast<std::uint64_t>(facts.st_ctim.tv_sec);
    attributes.atimensec = static_cast<std::uint32_t>(facts.st_atim.tv_nsec);
    attributes.mtimensec = static_cast<std::uint32_t>(facts.st_mtim.tv_nsec);
    attributes.ctimensec = static_cast<std::uint32_t>(facts.st_ctim.tv_nsec);
    attributes.mode = facts.st_mode;
    attributes.nlink = static_cast<std::uint32_t>(facts.st_nlink);
    attributes.uid = facts.st_uid;
    attributes.gid = facts.st_gid;
    attributes.blksize = static_cast<std::uint32_t>(facts.st_blksize);
    return attributes;
}

fuse_attr root_attributes() {
    fuse_attr attributes{};
    attributes.ino = FUSE_ROOT_ID;
    attributes.mode = S_IFDIR | 0555;
    attributes.nlink = 2;
    attributes.uid = ::geteuid();
    attributes.gid = ::getegid();
    attributes.blksize = 4096;
    return attributes;
}

/// Whether SIGKILL waits for it: then it needs no answer, but is kept from its end by having none.
bool is_killed(std::uint32_t thread) {
    std::ifstream status("/proc/" + std::to_string(thread) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"))
            if ((std::strtoull(line.c_str() + 7, nullptr, 16) & 1ULL << (SIGKILL - 1)) != 0)
                return true;
    return false;
}

}  // namespace

FuseServer::FuseServer(UniqueFd device, const Files& files, std::chrono::milliseconds patience)
    : device_(std::move(device)), wake_(::eventfd(0, EFD_CLOEXEC)), patience_(patience) {
    if (!wake_)
        throw SystemError(errno, "make an eventfd");
    ::fcntl(device_.get(), F_SETFL, O_NONBLOCK);
    for (const auto& [name, file] : files)
        nodes_.push_back({name, file, {}, std::vector<Pushed>(chunks_of(file->file()))});
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < kAnswering; ++i)
        threads_.emplace_back([this] { serve(); });
    for (int i = 0; i < kPushers; ++i)
        helpers_.emplace_back([this] { push(); });
    helpers_.emplace_back([this] { watch(); });
}

FuseServer::~FuseServer() {
    stop(ending_);
    for (std::thread& helper : helpers_)
        helper.join();  // the last who starts readers is among them
    for (std::thread& reader : threads_)
        reader.join();
}

void FuseServer::stop(std::atomic<bool>& because) {
    {
        const std::lock_guard lock(mutex_);  // nobody is between looking at it and waiting
        because = true;
    }
    changed_.notify_all();
    ::eventfd_write(wake_.get(), 1);
}

FuseServer::Node* FuseServer::node_of(std::uint64_t id) {
    return id >= kFirstId && id - kFirstId < nodes_.size() ? &nodes_[id - kFirstId] : nullptr;
}

void FuseServer::serve() {
    std::string request(kRequestBytes, '\0'), reply;
    while (!ending_ && !over_) {
        pollfd waited[2] = {{device_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
        if (::poll(waited, 2, -1) < 0 && errno != EINTR)
            return;
        const ssize_t count = ::read(device_.get(), request.data(), request.size());
        if (count >= static_cast<ssize_t>(sizeof(fuse_in_header))) {
            // What the kernel sends ends with a zero where it ends with a name.
            request[std::min(static_cast<std::size_t>(count), request.size() - 1)] = '\0';
            handle(request, static_cast<std::size_t>(count), reply);
        } else if (count < 0 && errno == ENODEV) {
            stop(over_);
        }
    }
}

void FuseServer::handle(const std::string& request, std::size_t bytes, std::string& reply) {
    const auto head = in<fuse_in_header>(request.data());
    const char* body = request.data() + sizeof head;
    if (head.len > bytes)
        return;
    if (head.opcode == FUSE_FORGET || head.opcode == FUSE_BATCH_FORGET)
        return;
    if (head.opcode == FUSE_INTERRUPT)
        return interrupt(body);
    {
        const std::lock_guard lock(mutex_);
        busy_[head.unique] = {Clock::now(), head.pid, false};
    }
    reply.clear();
    const int error = answer(head, body, reply);
    if (take_back(head.unique))
        send(head.unique, error, reply);
}

int FuseServer::answer(const fuse_in_header& head, const char* body, std::string& reply) {
    switch (head.opcode) {
        case FUSE_INIT:
            return introduce(body, reply);
        case FUSE_LOOKUP:
            return head.nodeid == FUSE_ROOT_ID ? look_up(body, reply) : ENOTDIR;
        case FUSE_GETATTR:
            return attributes(head.nodeid, reply);
        case FUSE_READ:
            return read(head.nodeid, body, reply);
        case FUSE_STATFS: {
            fuse_statfs_out facts{};
            facts.st.bsize = facts.st.frsize = 4096;
            facts.st.namelen = 255;
            give(reply, facts);
            return 0;
        }
        default:  // the kernel then asks no more: also of OPEN, which keeps its page cache
            return ENOSYS;
    }
}

int FuseServer::introduce(const char* body, std::string& reply) {
    const auto kernel = in<fuse_init_in>(body);
    if (kernel.major != FUSE_KERNEL_VERSION || kernel.minor < kOldestMinor)
        return EPROTO;
    fuse_init_out ours{};
    ours.major = FUSE_KERNEL_VERSION;
    ours.minor = std::min<std::uint32_t>(kernel.minor, FUSE_KERNEL_MINOR_VERSION);
    ours.max_readahead = 0;  // what is not used is not guessed: each miss is read at the original
    ours.flags = kernel.flags & (FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES |
                                 FUSE_NO_OPEN_SUPPORT | FUSE_NO_OPENDIR_SUPPORT);
    ours.max_background = 64;
    ours.congestion_threshold = 48;
    ours.max_write = kWriteBytes;
    ours.time_gran = 1;
    ours.max_pages = 256;
    give(reply, ours);
    return 0;
}

int FuseServer::look_up(const char* name, std::string& reply) {
    const auto found = std::lower_bound(
        nodes_.begin(), nodes_.end(), std::string(name),
        [](const Node& node, const std::string& text) { return node.name < text; });
    if (found == nodes_.end() || found->name != name)
        return ENOENT;
    const SharedFile& file = found->file->file();
    struct stat facts {};
    // Who mounts it compares, too; a file that has changed is not here.
    if (::stat(file.path.c_str(), &facts) != 0 || !is_unchanged(file))
        return ENOENT;
    fuse_entry_out entry{};
    entry.nodeid = kFirstId + static_cast<std::uint64_t>(found - nodes_.begin());
    entry.entry_valid = entry.attr_valid = kForever;
    const std::lock_guard lock(mutex_);
    if (found->attributes.ino == 0) {
        found->attributes = attributes_of(facts);
        queue_pushes(static_cast<std::size_t>(found - nodes_.begin()));
    }
    entry.attr = found->attributes;
    give(reply, entry);
    return 0;
}

/// With the lock: all that is here of it.
void FuseServer::queue_pushes(std::size_t at) {
    Node& node = nodes_[at];
    Push run{at, 0, 0};
    for (std::size_t piece = 0; piece <= node.pushed.size(); ++piece) {
        const bool is_here = piece < node.pushed.size() && node.file->has(piece);
        if (run.count > 0 && (!is_here || run.count == kPushPieces)) {
            pushes_.push_back(run);
            run.count = 0;
        }
        if (!is_here)
            continue;
        node.pushed[piece] = Pushed::waits;
        run.first = run.count == 0 ? piece : run.first;
        ++run.count;
    }
    changed_.notify_all();
}

int FuseServer::attributes(std::uint64_t id, std::string& reply) {
    fuse_attr_out out{};
    out.attr_valid = kForever;
    const Node* node = node_of(id);
    if (node == nullptr && id != FUSE_ROOT_ID)
        return ENOENT;
    const std::lock_guard lock(mutex_);
    out.attr = node == nullptr ? root_attributes() : node->attributes;
    give(reply, out);
    return 0;
}

int FuseServer::read(std::uint64_t id, const char* body, std::string& reply) {
    const auto wanted = in<fuse_read_in>(body);
    Node* const node = node_of(id);
    if (node == nullptr || wanted.size > kChunkBytes * 2)
        return EIO;
    ++reads_;
    const auto size = static_cast<std::uint64_t>(node->file->file().bytes);
    const std::uint64_t end = std::min(wanted.offset + wanted.size, size);
    std::string piece_bytes;
    for (std::uint64_t at = wanted.offset; at < end;) {
        const std::size_t piece = at / kPieceBytes, from = at % kPieceBytes;
        if (const int error = node->file->read(piece, piece_bytes); error != 0)
            return error;
        const std::size_t count = std::min<std::uint64_t>(end - at, piece_bytes.size() - from);
        reply.append(piece_bytes, from, count);
        at += count;
        const std::lock_guard lock(mutex_);
        if (count < piece_bytes.size() && node->pushed[piece] != Pushed::soon) {
            node->pushed[piece] = Pushed::soon;  // its other pages will be asked for as well
            urgent_.push_back({static_cast<std::size_t>(node - nodes_.data()), piece, 1});
            changed_.notify_all();
        }
    }
    return 0;
}

void FuseServer::interrupt(const char* body) {
    const std::lock_guard lock(mutex_);
    const auto found = busy_.find(in<fuse_interrupt_in>(body).unique);
    if (found != busy_.end())
        found->second.interrupted = true;
}

/// False: somebody else has answered it.
bool FuseServer::take_back(std::uint64_t unique) {
    const std::lock_guard lock(mutex_);
    return busy_.erase(unique) > 0;
}

void FuseServer::send(std::uint64_t unique, int error, const std::string& reply) {
    fuse_out_header head{};
    const std::size_t bytes = error == 0 ? reply.size() : 0;
    head.len = static_cast<std::uint32_t>(sizeof head + bytes);
    head.error = -error;
    head.unique = unique;
    const iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(reply.data()), bytes}};
    // It fails where whoever asked is gone.
    [[maybe_unused]] const ssize_t ignored = ::writev(device_.get(), parts, 2);
}

void FuseServer::watch() {
    std::unique_lock lock(mutex_);
    while (!ending_ && !over_) {
        changed_.wait_for(lock, std::min<std::chrono::milliseconds>(kTick, patience_ / 2),
                          [this] { return ending_ || over_; });
        lock.unlock();
        watch_once();
        lock.lock();
    }
}

void FuseServer::watch_once() {
    std::vector<std::pair<std::uint64_t, Busy>> waiting;
    {
        const std::lock_guard lock(mutex_);
        waiting.assign(busy_.begin(), busy_.end());
    }
    for (const auto& [unique, busy] : waiting) {
        const bool is_late = Clock::now() - busy.since > patience_;
        if (!is_late && !(busy.interrupted && is_killed(busy.thread)))
            continue;
        if (!take_back(unique))
            continue;
        send(unique, is_late ? EIO : EINTR, {});
        // Whoever works at it may never come back.
        const std::lock_guard lock(mutex_);
        if (threads_.size() < kMostReaders)
            threads_.emplace_back([this] { serve(); });
    }
}

std::optional<FuseServer::Push> FuseServer::next_push() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ending_ || over_ || !urgent_.empty() || !pushes_.empty(); });
    if (ending_ || over_)
        return std::nullopt;
    std::deque<Push>& from = urgent_.empty() ? pushes_ : urgent_;
    const Push run = from.front();
    from.pop_front();
    return run;
}

void FuseServer::push() {
    while (const auto run = next_push()) {
        for (int tries = 0; !push_run(*run) && tries < kPushTries && !ending_ && !over_; ++tries)
            std::this_thread::sleep_for(kPushAgain);
        const std::lock_guard lock(mutex_);
        for (std::size_t piece = run->first; piece < run->first + run->count; ++piece)
            nodes_[run->node].pushed[piece] = Pushed::yes;
    }
}

/// False: the kernel does not know the file yet. It waits where a page is being read, so no request
/// may wait for this.
bool FuseServer::push_run(const Push& run) {
    PieceFile& file = *nodes_[run.node].file;
    std::string bytes, piece_bytes;
    for (std::size_t piece = run.first; piece < run.first + run.count; ++piece) {
        if (!file.read_here(piece, piece_bytes))
            break;
        bytes += piece_bytes;
    }
    if (bytes.empty())
        return true;
    fuse_notify_store_out store{};
    store.nodeid = kFirstId + run.node;
    store.offset = run.first * kPieceBytes;
    store.size = static_cast<std::uint32_t>(bytes.size());
    fuse_out_header head{};
    head.len = static_cast<std::uint32_t>(sizeof head + sizeof store + bytes.size());
    head.error = FUSE_NOTIFY_STORE;
    const iovec parts[3] = {
        {&head, sizeof head}, {&store, sizeof store}, {bytes.data(), bytes.size()}};
    return ::writev(device_.get(), parts, 3) >= 0 || errno != ENOENT;
}

}  // namespace autolaunch::launcher
