#include "checkpoint/checkpoint_engine.hpp"

#include "base/hash.hpp"
#include "checkpoint/age/encryption_keys.hpp"
#include "checkpoint/agreement.hpp"
#include "checkpoint/commit/authentication.hpp"
#include "checkpoint/commit/catalog.hpp"
#include "checkpoint/commit/lineage.hpp"
#include "checkpoint/format/json.hpp"
#include "checkpoint/load/part_reader.hpp"
#include "checkpoint/state_rules.hpp"
#include "checkpoint/storage/striping.hpp"
#include "session/environment.hpp"

#include <autolaunch/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <utility>

namespace autolaunch {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;
// Only a storage that hangs needs so long; the communicator's own timeout is of the same size.
constexpr std::chrono::minutes kCopyTimeout(10);

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t hash_of(std::int64_t step, const fsdp::State& state) {
    std::string text = std::to_string(step);
    for (const auto& tensor : state) {
        text += '\n' + tensor.name + '\t' + std::string(name_of(tensor.type)) +
                (tensor.replicated ? " r" : " s") + (tensor.frozen ? " f" : "");
        for (const std::int64_t extent : tensor.shape)
            text += ' ' + std::to_string(extent);
    }
    return hash64(text.data(), text.size());
}

// Empty for the mesh of a model on some of the ranks: it does not say how all of them are arranged.
std::vector<Manifest::MeshDimension> mesh_of(const fsdp::Arrangement& arrangement, int world_size) {
    std::vector<Manifest::MeshDimension> mesh;
    std::int64_t ranks = 1;
    for (const auto& dimension : arrangement.mesh) {
        if (dimension.size < 1 || ranks > world_size)
            return {};
        ranks *= dimension.size;
        mesh.push_back({dimension.name, dimension.size});
    }
    if (ranks != world_size)
        mesh.clear();
    return mesh;
}

}  // namespace

namespace {

// A launcher, or a person, names the key for trainers that know nothing of it.
CheckpointOptions with_environment(CheckpointOptions options) {
    const char* file = std::getenv(env::kSigningKey);
    if (options.encryption.signing_key_file.empty() && file != nullptr)
        options.encryption.signing_key_file = file;
    return options;
}

}  // namespace

CheckpointEngine::CheckpointEngine(std::shared_ptr<Storage> storage, Communicator world,
                                   const CheckpointOptions& options, CheckpointEvents events,
                                   WriterIdentity identity, std::vector<int> leaders)
    : storage_(std::move(storage)),
      world_(std::move(world)),
      options_(with_environment(options)),
      events_(std::move(events)),
      fence_(*storage_, options_.directory, std::move(identity)),
      keys_(options_.encryption),
      place_(make_place(
          {*storage_, world_, options_, keys_, fence_,
           [this](const std::string& text) { note(text); }, events_.pinned, events_.deleted},
          std::move(leaders))),
      recipients_(parse_recipients(options_.encryption)),
      saver_(*storage_, options_, recipients_) {
    if (options_.keep < 1)
        throw Error(ErrorCode::invalid_argument,
                    "keep is " + std::to_string(options_.keep) + "; it must be 1 or more");
    if (options_.keep_every < 0 || options_.keep_best < 0)
        throw Error(ErrorCode::invalid_argument, "keep_every and keep_best must be 0 or more");
    if (options_.directory.empty())
        throw Error(ErrorCode::invalid_argument, "the checkpoint directory is empty");
}

CheckpointEngine::~CheckpointEngine() {
    // Ranks that fail do not come to the writers' collectives any more.
    if (in_flight_ && std::uncaught_exceptions() > 0 && writers_)
        writers_->abort("the trainer failed while saving");
}

CheckpointInfo CheckpointEngine::save(std::int64_t step, const fsdp::State& state,
                                      const SaveOptions& options) {
    const auto start = Clock::now();
    finish();
    Job job = agreed_job(step, state, options);
    job.begin = start;
    job.in_place = true;
    return commit(world_, job, [&](const fs::path& directory) {
        return saver_.save(directory, job.plan, *source_of(job.plan), {});
    });
}

void CheckpointEngine::reserve_staging(const WritePlan& plan) {
    std::uint64_t bytes = chunks_of(plan.files).size() * kChunkBytes;
    if (options_.staging_bytes > 0)
        bytes = std::min(bytes, options_.staging_bytes / kChunkBytes * kChunkBytes);
    bytes = std::max(bytes, kChunkBytes);
    if (staging_.bytes() < bytes)
        staging_ = AlignedMemory(bytes);
}

void CheckpointEngine::prepare_async(const fsdp::State& state) {
    finish();
    require_valid(state);
    reserve_staging(plan_shards(state, 0, world_.rank(), world_.size()));
    staging_.populate();
    if (!writers_)
        writers_ = world_.split(0, world_.rank());
}

void CheckpointEngine::save_async(std::int64_t step, const fsdp::State& state,
                                  const SaveOptions& options) {
    const auto start = Clock::now();
    const bool was_busy = in_flight_ && !in_flight_->is_over();
    finish();
    if (was_busy)
        note("step " + std::to_string(step) + " waited " + std::to_string(seconds_since(start)) +
             " s for the save before; save less often, or to a faster disk");
    job_ = agreed_job(step, state, options);
    job_.begin = start;
    reserve_staging(job_.plan);
    if (!writers_)
        writers_ = world_.split(0, world_.rank());
    stall_seconds_ = 0;
    in_flight_ = std::make_unique<AsyncSave>(
        job_.plan, staging_, [this](StateSource& source, const WriteProgress& done) {
            try {
                return commit(*writers_, job_, [&](const fs::path& directory) {
                    return saver_.save(directory, job_.plan, source, with_notes(done));
                });
            } catch (const std::exception& error) {
                note("saving step " + std::to_string(job_.step) + " failed: " + error.what());
                throw;
            }
        });
    stall_seconds_ = stall_seconds_ + seconds_since(start);
}

// A save that takes long says how far it is.
WriteProgress CheckpointEngine::with_notes(WriteProgress inner) const {
    std::uint64_t total = 0;
    for (const PlannedFile& file : job_.plan.files)
        total += file.bytes;
    return [this, inner = std::move(inner), total, begin = Clock::now(),
            next = Clock::now() + events_.progress_every](std::uint64_t bytes) mutable {
        inner(bytes);
        if (Clock::now() < next || bytes >= total)
            return;
        next = Clock::now() + events_.progress_every;
        char text[128];
        std::snprintf(text, sizeof text, "step %lld: rank 0 has written %.1f of %.1f GB, %.2f GB/s",
                      static_cast<long long>(job_.step), static_cast<double>(bytes) / 1e9,
                      static_cast<double>(total) / 1e9,
                      static_cast<double>(bytes) / 1e9 / seconds_since(begin));
        note(text);
    };
}

void CheckpointEngine::wait_copied() {
    if (!in_flight_)
        return;
    const auto start = Clock::now();
    in_flight_->wait_copied(Deadline::after(kCopyTimeout));
    stall_seconds_ = stall_seconds_ + seconds_since(start);
}

std::optional<CheckpointInfo> CheckpointEngine::finish() {
    if (!in_flight_)
        return std::nullopt;
    const auto save = std::move(in_flight_);
    return save->finish();
}

std::optional<SaveProgress> CheckpointEngine::progress() const {
    if (!in_flight_)
        return std::nullopt;
    return SaveProgress{job_.step, in_flight_->bytes_written(), in_flight_->total_bytes(),
                        in_flight_->is_copied(), in_flight_->is_over()};
}

std::optional<CheckpointEngine::Cost> CheckpointEngine::take_cost() {
    if (!has_cost_.exchange(false))
        return std::nullopt;
    return Cost{cost_stall_seconds_, durable_seconds_};
}

// What the trainer's thread does of a save: the ranks agree, and each plans its part.
CheckpointEngine::Job CheckpointEngine::agreed_job(std::int64_t step, const fsdp::State& state,
                                                   const SaveOptions& options) {
    together(world_, [&] {
        if (step < 0)
            throw Error(ErrorCode::invalid_argument,
                        "step " + std::to_string(step) + " is negative");
        require_valid(state);
        if (!nlohmann::json::accept(options.extra))
            throw Error(ErrorCode::invalid_argument, "SaveOptions::extra is not JSON text");
        require_valid(options.opaque);
        if (world_.rank() == 0) {
            keys_.authentication();
            keys_.signer();
        }
    });
    require_equal(world_, hash_of(step, state),
                  "the ranks save different steps, or tensors with other names or shapes");
    Job job;
    job.step = step;
    job.metric = options.metric;
    job.arrangement = options.arrangement;
    job.has_frozen =
        std::any_of(state.begin(), state.end(), [](const auto& tensor) { return tensor.frozen; });
    job.opaque = options.opaque;  // the plan points at it for as long as the save goes on
    together(world_, [&] {
        job.plan = plan_shards(state, step, world_.rank(), world_.size(), job.opaque);
    });
    job.extra = broadcast_text(world_, options.extra, 0);
    return job;
}

void CheckpointEngine::commit_as_writer(Communicator& world, Job& job, const WriteFiles& write) {
    prepare_directory(world, job);
    if (job.has_frozen && saver_.needs_parent())
        find_parent(world);
    Manifest manifest = write_and_verify(world, job, write);
    if (job.has_frozen)
        note_remarks(world);
    // The same text on all nodes; and no node publishes its part before all have theirs.
    std::string text;
    together(world, [&] {
        if (world.rank() == 0)
            text = finished_manifest(manifest, job);
    });
    text = place_->to_leaders(world, std::move(text));
    together(world, [&] {
        if (place_->leads())
            stage(job.unfinished, text);
    });
    together(world, [&] {
        if (place_->leads())
            publish(job.unfinished, job.step);
    });
    saver_.published(options_.directory / checkpoint_name(job.step));
}

CheckpointInfo CheckpointEngine::commit(Communicator& world, Job& job, const WriteFiles& write) {
    try {
        commit_as_writer(world, job, write);
    } catch (const Error& error) {
        if (error.code() != ErrorCode::system)
            throw;
        // Who took over clears away what others have begun: then that is the reason, not the file
        // that is missing.
        together(world, [&] {
            if (place_->leads() && fence_.was_taken())
                fence_.require_held();
        });
        throw;
    }
    const fs::path published = options_.directory / checkpoint_name(job.step);
    durable_seconds_ = seconds_since(job.begin);
    if (job.in_place)
        stall_seconds_ = durable_seconds_.load();
    cost_stall_seconds_ = stall_seconds_.load();
    has_cost_ = true;
    if (place_->leads() && events_.published)
        events_.published(job.step, published, stall_seconds_);
    place_->tidy(world, job.step);
    return {job.step, published, job.extra, {}};
}

void CheckpointEngine::prepare_directory(Communicator& world, Job& job) {
    std::string name;
    together(world, [&] {
        if (!place_->leads())
            return;
        storage_->create_directories(options_.directory);
        stripe_once();
        const bool is_taken_over = !fence_.was_taken();
        fence_.take();
        for (const std::string& line :
             remove_leftovers(*storage_, options_.directory, fence_, events_.deleted))
            note(line);
        if (is_taken_over)  // nothing that they fenced is left
            remove_starts_but(*storage_, options_.directory, fence_.identity().run_id);
        name = fence_.unfinished_name(checkpoint_name(job.step));
        storage_->create_directories(options_.directory / name);
    });
    job.unfinished = options_.directory / place_->from_leader(world, name);
}

// What is made in it from now on takes over how it is spread.
void CheckpointEngine::stripe_once() {
    if (!options_.stripe.is_set() || std::exchange(has_striped_, true))
        return;
    const std::string why = stripe_directory(parallel_file_system_of(options_.directory),
                                             options_.stripe, options_.directory);
    if (!why.empty() && world_.rank() == 0 && events_.note)
        events_.note("warning: checkpoint: " + why);
}

// What another process saved, of which files that did not change may be linked. Rank 0 reads it for
// all; without it they are written.
void CheckpointEngine::find_parent(Communicator& world) {
    Manifest parent;
    std::string path;
    if (world.rank() == 0) {
        try {
            const AuthenticationKeys& keys = keys_.authentication();
            const Search search = search_newest(*storage_, options_.directory, {}, keys);
            if (search.found) {
                parent = read_manifest(*storage_, search.found->path, keys);
                path = search.found->path.string();
            }
        } catch (const Error& error) {
            note(std::string("files of frozen tensors are written, not linked: ") + error.what());
        }
    }
    parent.tensors.clear();
    path = broadcast_text(world, path, 0);
    const std::string text = broadcast_text(world, path.empty() ? "" : parent.to_text(), 0);
    std::vector<Manifest::File> files;
    together(world, [&] {
        if (!path.empty())
            files = Manifest::parse(text).files;
    });
    std::erase_if(files, [&](const Manifest::File& file) { return file.rank != world.rank(); });
    saver_.offer_parent(path, std::move(files));
}

void CheckpointEngine::note_remarks(Communicator& world) {
    std::string mine;
    for (const std::string& remark : saver_.take_remarks())
        mine += (mine.empty() ? "" : "; ") + remark;
    const auto remarks = gather_texts(world, mine, 0);  // who alone notes
    for (std::size_t rank = 0; rank < remarks.size(); ++rank)
        if (!remarks[rank].empty())
            note("rank " + std::to_string(rank) + ": " + remarks[rank]);
}

// Of each rank the next one that sees the same directory; of the last one, the first.
std::vector<int> CheckpointEngine::neighbours() const {
    std::vector<int> next(static_cast<std::size_t>(world_.size()));
    std::map<int, int> met;  // by leader: the rank that was met last
    for (int round = 0; round < 2; ++round)
        for (int rank = world_.size() - 1; rank >= 0; --rank) {
            int& after = met.try_emplace(place_->leader_of(rank), rank).first->second;
            next[static_cast<std::size_t>(rank)] = std::exchange(after, rank);
        }
    return next;
}

// Every rank looks at its neighbour's files through a fresh open, so that what one machine wrote
// has been seen by another: in the directory that both see. Rank 0 alone has all that was written,
// which it returns.
Manifest CheckpointEngine::write_and_verify(Communicator& world, const Job& job,
                                            const WriteFiles& write_fragment) {
    std::string fragment;
    together(world, [&] { fragment = write_fragment(job.unfinished).to_text(); });
    const auto texts = gather_texts(world, fragment, 0);
    const std::string of_neighbour = take_text(world, fragment, neighbours());
    Manifest manifest;
    together(world, [&] {
        if (world.rank() == 0) {
            std::vector<Manifest> fragments;
            for (const std::string& text : texts)
                fragments.push_back(Manifest::parse(text));
            manifest = merge_fragments(std::move(fragments));
            manifest.require_complete();
        }
        for (const Manifest::File& file : Manifest::parse(of_neighbour).files)
            verify_file(*storage_, job.unfinished, file, options_.verify);
    });
    return manifest;
}

void CheckpointEngine::complete(Manifest& manifest, const Job& job) {
    manifest.extra = job.extra;
    manifest.metric = job.metric;
    manifest.strategy = job.arrangement.strategy;
    manifest.mesh = mesh_of(job.arrangement, manifest.world_size);
    manifest.generation = static_cast<std::uint64_t>(fence_.identity().generation);
    manifest.run_id = fence_.identity().run_id;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    manifest.saved_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// Its manifest is read once: of what this process saved itself the digest is known.
std::optional<LineageParent> CheckpointEngine::parent_at(std::int64_t step) {
    if (saved_last_ && saved_last_->step == step)
        return saved_last_;
    LineageParent parent{.step = step, .manifest_sha256 = {}, .path = {}, .lineage = {}};
    try {
        parent.manifest_sha256 = sha256_text(
            read_whole(*storage_, options_.directory / checkpoint_name(step) / kManifestName,
                       kMaxManifestBytes));
    } catch (const Error&) {  // in the second place, or on another node
    }
    return parent;
}

std::string CheckpointEngine::finished_manifest(Manifest& manifest, const Job& job) {
    complete(manifest, job);
    std::uint64_t bytes = 0;
    for (const Manifest::File& file : manifest.files)
        bytes += file.bytes;
    published_bytes_ = static_cast<std::int64_t>(bytes);
    manifest.parent_step = place_->newest_step();
    const crypto::SigningKey& signer = keys_.signer();
    std::optional<LineageParent> parent;
    if (manifest.parent_step)
        parent = parent_at(*manifest.parent_step);
    manifest.lineage =
        lineage_text("save", parent, signer.empty() ? std::string() : signer.public_text());
    std::string text = keys_.authentication().to_text(manifest, signer);
    saved_last_ = LineageParent{
        .step = manifest.step, .manifest_sha256 = sha256_text(text), .path = {}, .lineage = {}};
    return text;
}

// From here on only the names are missing.
void CheckpointEngine::stage(const fs::path& unfinished, const std::string& text) {
    write_whole(*storage_, unfinished / "manifest.tmp", text);
    storage_->rename(unfinished / "manifest.tmp", unfinished / kManifestName);
    storage_->sync_directory(unfinished);
    if (read_whole(*storage_, unfinished / kManifestName, text.size()) != text)
        throw Error(ErrorCode::corrupt,
                    (unfinished / kManifestName).string() + " is not what was written");
    require_files(*storage_, unfinished, Manifest::parse(text),
                  [&](const Manifest::File& file) { return place_->is_with(file.rank); });
}

void CheckpointEngine::publish(const fs::path& unfinished, std::int64_t step) {
    const fs::path& directory = options_.directory;
    fence_.require_held();
    const std::string name = checkpoint_name(step);
    const auto candidates = list_candidates(*storage_, directory);
    for (const Candidate& candidate : candidates) {
        // The same step saved again: the old one stays findable until the new one is durable.
        if (candidate.name != name)
            continue;
        storage_->rename(directory / name, directory / (name + kReplacedSuffix));
        storage_->sync_directory(directory);
    }
    storage_->rename(unfinished, directory / name);
    storage_->sync_directory(directory);
    fence_.note_published(name);
}

void CheckpointEngine::note(const std::string& text) const {
    if (world_.rank() == 0 && events_.note)
        events_.note("checkpoint: " + text);
}

}  // namespace autolaunch
