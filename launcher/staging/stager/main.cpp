// autolaunch-stager: brings a job's data to this node's own disk. The agent starts it, says on its
// stdin what is wanted, and reads there what has come of it. A process of its own, which may hang
// with a shared file system while the agent does not.
#include "base/deadline.hpp"
#include "base/file_io.hpp"
#include "base/hash.hpp"
#include "exit_codes/exit_error.hpp"
#include "hand_over/node_cache.hpp"
#include "hand_over/shared_file.hpp"
#include "stage_cache/stage_tree.hpp"
#include "staging/check_digests.hpp"
#include "staging/stager_words.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStandstill = std::chrono::seconds(60);  // nothing comes
constexpr auto kProgress = std::chrono::seconds(1);
constexpr std::size_t kMostLine = 256U << 20;

void say(const StagerWord& word) {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    const std::string line = as_line(word) + '\n';
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t sent = ::send(0, line.data() + done, line.size() - done, MSG_NOSIGNAL);
        if (sent <= 0)
            ::_exit(0);  // nobody listens
        done += static_cast<std::size_t>(sent);
    }
}

[[noreturn]] void say_failed(StagingFailure failure) {
    say({.failed = {std::move(failure)}});
    ::_exit(0);
}

/// Lines of the agent's. When it is gone, this process ends.
class Agent {
public:
    Agent() {
        std::thread([this] { listen(); }).detach();
    }

    /// Waits without an end: while others work, the agent watches them.
    std::string hear() {
        std::unique_lock lock(mutex_);
        heard_.wait(lock, [this] { return !lines_.empty(); });
        std::string line = std::move(lines_.front());
        lines_.pop_front();
        return line;
    }

private:
    void listen() {
        std::string text;
        char bytes[65536];
        for (;;) {
            const ssize_t got = ::recv(0, bytes, sizeof bytes, 0);
            if (got <= 0 || text.size() > kMostLine)
                ::_exit(0);
            text.append(bytes, static_cast<std::size_t>(got));
            for (std::size_t end; (end = text.find('\n')) != std::string::npos;) {
                const std::lock_guard lock(mutex_);
                lines_.push_back(text.substr(0, end));
                text.erase(0, end + 1);
                heard_.notify_one();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable heard_;
    std::deque<std::string> lines_;
};

/// What the thread that tells of it needs of the work.
class Watch {
public:
    explicit Watch(std::chrono::milliseconds timeout) : timeout_(timeout) {
        std::thread([this] { tell(); }).detach();
    }

    /// Grows while the source answers.
    std::atomic<std::int64_t> signs{0};
    /// Others are watched by who waits for them, and our own disk may take its time.
    std::atomic<bool> is_elsewhere{false};

    void begin(const std::string& name, const CopyProgress* copy, std::int64_t of) {
        const std::lock_guard lock(mutex_);
        name_ = name;
        copy_ = copy;
        of_ = of;
    }
    void finish() {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }

private:
    void tell() {
        const Deadline deadline = Deadline::after(timeout_);
        for (;;) {
            std::this_thread::sleep_for(kProgress);
            StagerWord word;
            {
                const std::lock_guard lock(mutex_);
                if (is_over_)
                    return;
                look(word);
                judge(deadline);
            }
            say(word);
        }
    }

    void look(StagerWord& word) {
        std::int64_t now = signs;
        if (copy_ != nullptr) {
            now += copy_->bytes + copy_->files;
            if (!is_elsewhere)
                word.progress.push_back({name_, copy_->bytes, of_});
        }
        if (now != before_ || is_elsewhere)
            moved_ = Clock::now();
        before_ = now;
    }

    void judge(const Deadline& deadline) const {
        if (deadline.passed())
            say_failed(
                {exit_code::kUnavailable,
                 fmt::format("storage.stage_in: {} was not there after storage.timeout, {} s",
                             name_, timeout_.count() / 1000),
                 "give it more time; what has come is gone on with"});
        if (Clock::now() - moved_ > kStandstill)
            say_failed({exit_code::kUnavailable,
                        "storage.stage_in: nothing came of " + name_ + " for a minute",
                        "the file system that it is on has to answer"});
    }

    const std::chrono::milliseconds timeout_;
    std::mutex mutex_;
    std::string name_ = "what is to be staged";
    const CopyProgress* copy_ = nullptr;
    std::int64_t of_ = 0, before_ = -1;
    Clock::time_point moved_ = Clock::now();
    bool is_over_ = false;
};

class Stager {
public:
    Stager(Agent& agent, StagerOrder order)
        : agent_(agent),
          order_(std::move(order)),
          watch_(order_.timeout),
          cache_(order_.scratch, order_.most_bytes) {
        if (order_.role != StagerRole::alone)
            copies_.emplace(cache_.make_folder_for_copies());
    }

    void run() {
        if (order_.role == StagerRole::head)
            look_for_others();
        if (order_.role == StagerRole::node) {
            watch_.is_elsewhere = true;
            seen_ = parse_agent_word(agent_.hear()).sources;
            watch_.is_elsewhere = false;
        }
        for (std::size_t item = 0; item < order_.items.size(); ++item)
            stage(static_cast<int>(item));
        watch_.finish();
        say({.done = true});
        for (;;)  // until it ends us: what is handed on stays till then
            prepare(parse_agent_word(agent_.hear()));
    }

private:
    const StagerItem& item_of(int item) const {
        return order_.items.at(static_cast<std::size_t>(item));
    }
    std::string words_of(int item) const {
        return key_words(item_of(item).from, item_of(item).verify);
    }
    StageCache::Wish wish_of(int item) const {
        return {.from = item_of(item).from, .keep_s = order_.keep_s};
    }
    std::string place_for(int item) const {
        return (copies_->path() / std::to_string(item)).string();
    }

    /// All sources at once, so that every node can see what it has.
    void look_for_others() {
        std::vector<WantedFiles> offered;
        for (std::size_t i = 0; i < order_.items.size(); ++i) {
            const int item = static_cast<int>(i);
            watch_.begin(item_of(item).name, nullptr, 0);
            sources_[item] = walk_source(item_of(item).from, &watch_.signs);
            const SourceTree& source = sources_[item];
            const std::string listing = listing_text(words_of(item), source.tree);
            const std::string file = place_for(item) + ".listing";
            write_all(open_file(file, O_WRONLY | O_CREAT | O_EXCL, 0600).get(), listing, file);
            SeenSource seen{.item = item,
                            .key = address_of(listing),
                            .listing = file,
                            .folder = source.folder_path,
                            .only = source.only,
                            .bytes = source.tree.bytes()};
            see_own_copy(seen);
            offered.push_back(offer_of(seen, source.tree));
            seen_.push_back(std::move(seen));
        }
        say({.sources = seen_, .offered = std::move(offered)});
    }

    /// What is here already is handed on from here.
    void see_own_copy(SeenSource& seen) {
        std::string note;
        auto held = cache_.find(seen.key, note);
        if (!note.empty())
            say({.notes = {note}});
        if (!held)
            return;
        seen.folder = seen.only.empty() ? held->path : held->path.parent_path();
        if (!seen.only.empty())
            seen.only = held->path.filename();
        cache_.remember(seen.key, *held, wish_of(seen.item));
        held_[seen.item] = std::move(*held);
    }

    WantedFiles offer_of(const SeenSource& seen, const Tree& tree) const {
        WantedFiles offer{
            .item = seen.item,
            .copies = place_for(seen.item),
            .paths = {seen.listing},
            .sizes = {static_cast<std::int64_t>(listing_text(words_of(seen.item), tree).size())}};
        for (const TreeEntry& entry : tree.entries)
            if (entry.kind == TreeEntry::Kind::file && entry.bytes > 0) {
                offer.paths.push_back(path_there(seen, entry));
                offer.sizes.push_back(entry.bytes);
            }
        return offer;
    }

    static std::string path_there(const SeenSource& seen, const TreeEntry& entry) {
        return seen.folder + '/' + (seen.only.empty() ? entry.path : seen.only);
    }

    /// Of what the head has itself no second copy is made: its files are where the mover looks.
    void prepare(const AgentWord& word) {
        for (const int item : word.prepare) {
            if (const auto held = kept_.find(item); held != kept_.end() && held->second.was_here)
                link_for_others(item, held->second.held);
            say({.prepared = {item}});
        }
    }

    void link_for_others(int item, const HeldTree& held) {
        try {
            const NodeCache cache(place_for(item), std::numeric_limits<std::int64_t>::max(), false);
            const SeenSource& seen = seen_.at(static_cast<std::size_t>(item));
            for (const TreeEntry& entry : cache_.tree_of(held).entries) {
                const std::string path = path_there(seen, entry);
                const auto file =
                    entry.kind == TreeEntry::Kind::file ? look_at(path) : std::nullopt;
                if (file && file->bytes > 0)
                    ::link(path.c_str(),
                           cache.path_of(copy_key(*file) + '-' + hex128(entry.digest)).c_str());
            }
        } catch (const Error& error) {
            say({.notes = {std::string("what is handed on is copied once more: ") + error.what()}});
        }
    }

    void stage(int item) {
        const auto began = Clock::now();
        CopyProgress progress;
        watch_.begin(item_of(item).name, &progress, 0);
        StagedTree staged;
        if (const auto held = held_.extract(item)) {
            staged.held = std::move(held.mapped());
            staged.was_here = true;
        } else if (order_.role == StagerRole::alone) {
            SourceTree source = walk_source(item_of(item).from, &watch_.signs);
            staged = copy(item, source, source_key(words_of(item), source.tree), {}, progress);
        } else {
            staged = have_handed(item, progress);
        }
        watch_.begin(item_of(item).name, nullptr, 0);
        say({.staged = {{.name = item_of(item).name,
                         .entry = staged.held.name,
                         .path = staged.held.path,
                         .bytes = staged.held.bytes,
                         .files = staged.held.files,
                         .read_bytes = read_here(progress),
                         .was_here = staged.was_here,
                         .took = elapsed_since(began)}},
             .notes = staged.notes});
        kept_[item] = std::move(staged);
    }

    /// The head's copies came from the source, too.
    std::int64_t read_here(const CopyProgress& progress) const {
        return order_.role == StagerRole::head ? progress.bytes - progress.found_bytes
                                               : progress.read_bytes.load();
    }

    StagedTree have_handed(int item, CopyProgress& progress) {
        const SeenSource& seen = seen_.at(static_cast<std::size_t>(item));
        std::string note;
        if (auto held = cache_.find(seen.key, note)) {
            cache_.remember(seen.key, *held, wish_of(item));
            return {.held = std::move(*held), .was_here = true, .notes = {}};
        }
        cache_.make_room(seen.bytes);
        StagerWord word;
        if (!note.empty())
            word.notes.push_back(std::move(note));
        word.wanted.push_back(
            order_.role == StagerRole::head
                ? offer_of(seen, sources_[item].tree)
                : WantedFiles{.item = item, .copies = place_for(item), .paths = {}, .sizes = {}});
        watch_.is_elsewhere = true;
        say(word);
        const std::map<std::string, std::string> copies = await_handed(item);
        watch_.is_elsewhere = false;
        SourceTree source = source_of(item, seen, copies);
        return copy(item, source, seen.key, copies, progress);
    }

    std::map<std::string, std::string> await_handed(int item) {
        for (;;) {
            const AgentWord word = parse_agent_word(agent_.hear());
            prepare(word);
            for (const HandedFiles& handed : word.handed)
                if (handed.item == item)
                    return {handed.copies.begin(), handed.copies.end()};
        }
    }

    /// On another node than the head its listing says it; where something has not come, the source
    /// is looked at here.
    SourceTree source_of(int item, const SeenSource& seen,
                         const std::map<std::string, std::string>& copies) {
        if (order_.role == StagerRole::head)
            return std::move(sources_[item]);
        SourceTree source;
        source.shown = item_of(item).from;
        bool is_whole = copies.contains(seen.listing);
        if (is_whole) {
            const std::string listing = read_file(copies.at(seen.listing));
            if (address_of(listing) != seen.key)
                throw Error(ErrorCode::corrupt, "the listing of " + source.shown + " is damaged");
            source.tree = parse_listing_text(listing);
            for (const TreeEntry& entry : source.tree.entries)
                is_whole = is_whole && (entry.kind != TreeEntry::Kind::file || entry.bytes == 0 ||
                                        copies.contains(path_there(seen, entry)));
        }
        if (is_whole)
            return source;
        source = walk_source(item_of(item).from, &watch_.signs);
        if (source_key(words_of(item), source.tree) != seen.key)
            throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                            item_of(item).from + " is another one here than on the first node",
                            "all nodes have to see the same, and nobody may write there meanwhile");
        return source;
    }

    StagedTree copy(int item, SourceTree& source, const std::string& key,
                    const std::map<std::string, std::string>& copies, CopyProgress& progress) {
        const StagerItem& asked = item_of(item);
        watch_.begin(asked.name, &progress, source.tree.bytes());
        StagingRequest request;
        request.key = key;
        request.wish = wish_of(item);
        request.copy.bytes_per_second = order_.bytes_per_second;
        request.wait = [this] { ++watch_.signs; };
        request.check_source = [&] {
            const bool was_read = order_.role != StagerRole::node || progress.read_bytes > 0;
            if (was_read &&
                source_key(words_of(item), walk_source(asked.from, &watch_.signs).tree) != key)
                throw ExitError(exit_code::kNoInput, ErrorCode::mismatch,
                                asked.from + " was changed while it was staged",
                                "start the job once nobody writes there any more");
            watch_.is_elsewhere = true;
        };
        if (!asked.verify.empty())
            request.verify = [&asked](int folder, const Tree& tree) {
                check_digests(folder, tree, asked.verify, asked.from);
            };
        if (!copies.empty()) {
            const SeenSource& seen = seen_.at(static_cast<std::size_t>(item));
            for (const TreeEntry& entry : source.tree.entries)
                request.bytes_here += copies.contains(path_there(seen, entry)) ? entry.bytes : 0;
            request.copy.find_here = [&copies, &seen](const TreeEntry& entry) {
                return copy_here(copies, path_there(seen, entry));
            };
        }
        StagedTree staged = stage_tree(cache_, source, request, progress);
        watch_.is_elsewhere = false;
        return staged;
    }

    /// Its name ends with its digest, which was compared.
    static std::optional<FileHere> copy_here(const std::map<std::string, std::string>& copies,
                                             const std::string& path) {
        const auto found = copies.find(path);
        if (found == copies.end())
            return std::nullopt;
        const auto digest =
            parse_hex128(std::string_view(found->second).substr(found->second.rfind('-') + 1));
        return digest ? std::optional(FileHere{found->second, *digest}) : std::nullopt;
    }

    Agent& agent_;
    const StagerOrder order_;
    Watch watch_;
    StageCache cache_;
    std::optional<LockedFolder> copies_;
    std::map<int, SourceTree> sources_;  ///< on the head
    std::vector<SeenSource> seen_;
    std::map<int, HeldTree> held_;
    std::map<int, StagedTree> kept_;  ///< until the agent holds them, too
};

void take_all_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

}  // namespace autolaunch::launcher

int main() {
    using namespace autolaunch;
    try {
        launcher::take_all_descriptors();
        launcher::Agent agent;
        launcher::Stager(agent, launcher::parse_order(agent.hear())).run();
    } catch (const Error& error) {
        launcher::say_failed({launcher::exit_code_of(error),
                              std::string(error.what()).starts_with("storage.")
                                  ? error.what()
                                  : std::string("storage.stage_in: ") + error.what(),
                              error.hint()});
    }
    return 0;
}
