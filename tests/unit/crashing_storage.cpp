#include "crashing_storage.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>

namespace autolaunch::testing {

namespace fs = std::filesystem;

class CrashingFile final : public StorageFile {
public:
    CrashingFile(CrashingStorage& storage, std::shared_ptr<CrashingStorage::Node> node)
        : storage_(storage), node_(std::move(node)) {}

    void write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
        const bool cut = storage_.begin_operation();
        if (cut)
            bytes = bytes.first(bytes.size() / 2);
        auto& content = node_->content;
        content.resize(std::max<std::size_t>(content.size(), offset + bytes.size()));
        std::memcpy(content.data() + offset, bytes.data(), bytes.size());
        if (cut)
            storage_.fail_now("write");
    }
    std::size_t read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
        storage_.fail_now("read");
        if (offset >= node_->content.size())
            return 0;
        const std::size_t count = std::min(bytes.size(), node_->content.size() - offset);
        std::memcpy(bytes.data(), node_->content.data() + offset, count);
        return count;
    }
    std::uint64_t size() override { return node_->content.size(); }
    void sync() override {
        if (storage_.begin_operation())
            storage_.fail_now("sync");
        node_->durable_content = node_->content;
    }
    void reserve(std::uint64_t bytes) override {
        resize(std::max<std::size_t>(node_->content.size(), bytes), "reserve");
    }
    void truncate(std::uint64_t bytes) override { resize(bytes, "truncate"); }

private:
    void resize(std::size_t bytes, const std::string& what) {
        if (storage_.begin_operation())
            storage_.fail_now(what);
        node_->content.resize(bytes);
    }

    CrashingStorage& storage_;
    std::shared_ptr<CrashingStorage::Node> node_;
};

CrashingStorage::CrashingStorage() : root_(std::make_shared<Node>()) { root_->directory = true; }

void CrashingStorage::fail_now(const std::string& what) const {
    if (crash_at_ && operations_ > *crash_at_)
        throw Error(ErrorCode::system, "the machine is down: " + what);
}

bool CrashingStorage::begin_operation() {
    const std::size_t number = operations_++;
    if (fail_at_ && number == *fail_at_)
        throw SystemError(ENOSPC, "do operation " + std::to_string(number));
    if (crash_at_ && number > *crash_at_)
        fail_now("any operation");
    return crash_at_ && number == *crash_at_;
}

std::shared_ptr<CrashingStorage::Node> CrashingStorage::find(const fs::path& path) const {
    auto node = root_;
    for (const auto& part : path.relative_path()) {
        const auto found = node->names.find(part.string());
        if (found == node->names.end())
            return nullptr;
        node = found->second;
    }
    return node;
}

std::shared_ptr<CrashingStorage::Node> CrashingStorage::require(const fs::path& path,
                                                                bool directory) const {
    auto node = find(path);
    if (!node)
        throw SystemError(ENOENT, "open " + path.string());
    if (node->directory != directory)
        throw SystemError(directory ? ENOTDIR : EISDIR, "open " + path.string());
    return node;
}

void CrashingStorage::apply(Names& names, const Change& change) {
    if (!change.removed.empty())
        names.erase(change.removed);
    if (!change.added.empty())
        names[change.added] = change.node;
}

void CrashingStorage::change(Node& directory, const Change& change) {
    apply(directory.names, change);
    directory.unsynced.push_back(change);
}

std::unique_ptr<StorageFile> CrashingStorage::create(const fs::path& path) {
    const auto directory = require(path.parent_path(), true);
    if (begin_operation())
        fail_now("create");
    auto node = find(path);
    if (node)
        node->content.clear();  // under all its names
    else
        change(*directory, {"", path.filename().string(), node = std::make_shared<Node>()});
    return std::make_unique<CrashingFile>(*this, node);
}

std::unique_ptr<StorageFile> CrashingStorage::open(const fs::path& path) {
    fail_now("open");
    return std::make_unique<CrashingFile>(*this, require(path, false));
}

void CrashingStorage::create_directories(const fs::path& path) {
    fail_now("create_directories");
    if (find(path))
        return;
    create_directories(path.parent_path());
    if (begin_operation())
        fail_now("create_directories");
    auto node = std::make_shared<Node>();
    node->directory = true;
    change(*require(path.parent_path(), true), {"", path.filename().string(), node});
    sync_directory(path.parent_path());
}

std::vector<std::string> CrashingStorage::list(const fs::path& path) {
    fail_now("list");
    std::vector<std::string> names;
    if (const auto node = find(path))
        for (const auto& [name, child] : node->names)
            names.push_back(name);
    return names;
}

void CrashingStorage::rename(const fs::path& from, const fs::path& to) {
    if (from.parent_path() != to.parent_path())
        throw Error(ErrorCode::unsupported, "rename between directories");
    if (begin_operation())
        fail_now("rename");
    const auto node = find(from), target = find(to);
    if (!node)
        throw SystemError(ENOENT, "rename " + from.string());
    if (target && target->directory && !target->names.empty())
        throw SystemError(ENOTEMPTY, "rename " + from.string());
    change(*require(from.parent_path(), true),
           {from.filename().string(), to.filename().string(), node});
}

// As rm -r does: one name at a time, so that a crash leaves half a directory.
void CrashingStorage::remove_all(const fs::path& path) {
    fail_now("remove_all");
    const auto node = find(path);
    if (!node)
        return;
    const Names children = node->names;
    for (const auto& [name, child] : children)
        remove_all(path / name);
    if (begin_operation())
        fail_now("remove_all");
    change(*require(path.parent_path(), true), {path.filename().string(), "", nullptr});
}

void CrashingStorage::sync_directory(const fs::path& path) {
    const auto node = require(path, true);
    if (begin_operation())
        fail_now("sync_directory");
    node->durable_names = node->names;
    node->unsynced.clear();
}

void CrashingStorage::link_file(const fs::path& from, const fs::path& to) {
    if (begin_operation())
        fail_now("link_file");
    const auto file = require(from, false);
    if (find(to))
        throw SystemError(EEXIST, "link " + to.string());
    change(*require(to.parent_path(), true), {"", to.filename().string(), file});
    ++links_;
}

void CrashingStorage::replace_link(const fs::path& path, const std::string& target) {
    if (begin_operation())
        fail_now("replace_link");
    auto node = std::make_shared<Node>();
    node->content = node->durable_content = target;
    change(*require(path.parent_path(), true), {"", path.filename().string(), node});
}

std::shared_ptr<CrashingStorage> CrashingStorage::after_crash(Survives survives,
                                                              unsigned seed) const {
    std::mt19937 random(seed);
    std::map<const Node*, std::shared_ptr<Node>> recovered;  // a file with two names stays one file
    const std::function<std::shared_ptr<Node>(const Node&)> recover = [&](const Node& node) {
        if (const auto known = recovered.find(&node); known != recovered.end())
            return known->second;
        const auto copy = recovered[&node] = std::make_shared<Node>();
        copy->directory = node.directory;
        copy->content = node.durable_content;
        if (survives == Survives::some && node.content != node.durable_content) {
            copy->content = node.content.substr(0, random() % (node.content.size() + 1));
            copy->content.resize(
                node.content.size());  // the rest reads as zeros: the size was written first
        }
        Names names = node.durable_names;
        std::size_t kept = survives == Survives::names_only ? node.unsynced.size() : 0;
        if (survives == Survives::some)
            kept = random() % (node.unsynced.size() + 1);
        for (std::size_t i = 0; i < kept; ++i)
            apply(names, node.unsynced[i]);
        for (const auto& [name, child] : names)
            copy->names[name] = recover(*child);
        copy->durable_content = copy->content;
        copy->durable_names = copy->names;
        return copy;
    };
    auto storage = std::make_shared<CrashingStorage>();
    storage->root_ = recover(*root_);
    return storage;
}

}  // namespace autolaunch::testing
