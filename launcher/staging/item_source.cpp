#include "staging/item_source.hpp"

#include "remote_data/remote_copy.hpp"
#include "stage_cache/tree_walk.hpp"

#include <utility>

namespace autolaunch::launcher {

ItemSource::ItemSource(StagerItem item, const Environment& environment,
                       std::atomic<std::int64_t>* signs)
    : item_(std::move(item)), signs_(signs) {
    if (is_remote())
        remote_ = open_remote(item_.from, item_.verify, environment, {.signs = signs});
}

std::string ItemSource::words() const {
    return key_words(is_remote() ? source_words(item_.from) : item_.from, item_.verify);
}

SourceTree ItemSource::look() {
    if (!remote_)
        return walk_source(item_.from, signs_);
    SourceTree source;
    source.tree = remote_->look();
    source.shown = shown();
    return source;
}

void ItemSource::prepare(StagingRequest& request) const {
    if (remote_)
        request.fill = [this](StagePart& part, SourceTree& source, const CopyOptions& options,
                              CopyProgress& progress) {
            fetch_tree(*remote_, source.tree, part, options, progress);
        };
}

}  // namespace autolaunch::launcher
