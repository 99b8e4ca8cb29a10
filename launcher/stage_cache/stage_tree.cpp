#include "stage_cache/stage_tree.hpp"

#include "base/room_on_disk.hpp"
#include "exit_codes/exit_error.hpp"
#include "stage_cache/stage_part.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace autolaunch::launcher {

namespace {

constexpr std::int64_t kRoomToBegin = 1 << 16;
constexpr auto kOtherProcess = std::chrono::milliseconds(100);

[[noreturn]] void no_room(const SystemError& error) {
    throw ExitError(exit_code::kCannotCreate, ErrorCode::system,
                    std::string("storage.scratch: ") + error.what(),
                    is_want_of_room(error.error_number())
                        ? "make room there, or name another folder in storage.scratch"
                        : error.hint());
}

/// A server that is away, and credentials that have ended: what has come is as good as before.
bool is_for_now(const ExitError& error) {
    return error.exit_code() == exit_code::kUnavailable ||
           error.exit_code() == exit_code::kNotPermitted;
}

/// Its own bytes, less what is there of them since an attempt that was ended.
std::int64_t bytes_to_come(const StageCache& cache, const SourceTree& source,
                           const StagePart& part) {
    return std::max<std::int64_t>(source.tree.bytes() - cache.bytes_in(part), 0);
}

/// Where the disk has not even room for a folder: what nobody uses goes first.
std::optional<StagePart> begin_part(StageCache& cache, const std::string& key) {
    try {
        return cache.begin(key);
    } catch (const SystemError& error) {
        if (!is_want_of_room(error.error_number()))
            throw;
        cache.make_room(kRoomToBegin);
        return cache.begin(key);
    }
}

HeldTree fill(StageCache& cache, StagePart& part, SourceTree& source, const StagingRequest& request,
              CopyProgress& progress) {
    cache.make_room(
        std::max<std::int64_t>(bytes_to_come(cache, source, part) - request.bytes_here, 0), part);
    if (request.fill)
        request.fill(part, source, request.copy, progress);
    else
        copy_tree(source, part.folder(), (part.path() / kTree).string(), request.copy, progress);
    if (request.check_source)
        request.check_source();
    if (request.verify)
        request.verify(part.folder(), source.tree);
    cache.let_all_read(part, source.tree);
    return cache.publish(part, source.tree);
}

}  // namespace

StagedTree stage_tree(StageCache& cache, SourceTree& source, const StagingRequest& request,
                      CopyProgress& progress) {
    StagedTree staged;
    std::optional<StagePart> part;
    for (;;) {
        std::string note;
        if (auto held = cache.find(request.key, note)) {
            staged.held = std::move(*held);
            staged.was_here = true;
            cache.remember(request.key, staged.held, request.wish);
            return staged;
        }
        if (!note.empty())
            staged.notes.push_back(std::move(note));
        if (part)  // it is ours, and nobody has published it before that
            break;
        part = begin_part(cache, request.key);
        if (part)
            continue;
        if (request.wait)
            request.wait();
        std::this_thread::sleep_for(kOtherProcess);
    }
    try {
        staged.held = fill(cache, *part, source, request, progress);
        cache.remember(request.key, staged.held, request.wish);
    } catch (const ExitError& error) {
        if (!is_for_now(error))
            cache.drop(std::move(*part));
        throw;
    } catch (const SystemError& error) {
        cache.drop(std::move(*part));
        no_room(error);
    }
    return staged;
}

}  // namespace autolaunch::launcher
