#include "checkpoint/memory/contents.hpp"

#include "base/whole_number.hpp"
#include "checkpoint/format/json.hpp"

#include <autolaunch/checkpoint/safetensors.hpp>
#include <autolaunch/error.hpp>

#include <algorithm>
#include <unordered_map>

namespace autolaunch::memory {

namespace {

using nlohmann::json;

std::uint64_t bytes_of(std::int64_t count, DataType type) {
    return static_cast<std::uint64_t>(count) * size_of(type);
}

/// The reader of CBOR recurses with each level: damaged or foreign memory is refused before that.
class ShallowOnly : public json::json_sax_t {
public:
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(json::number_integer_t) override { return true; }
    bool number_unsigned(json::number_unsigned_t) override { return true; }
    bool number_float(json::number_float_t, const json::string_t&) override { return true; }
    bool string(json::string_t&) override { return true; }
    bool binary(json::binary_t&) override { return true; }
    bool start_object(std::size_t) override { return ++depth_ <= kDeepest; }
    bool key(json::string_t&) override { return true; }
    bool end_object() override { return leave(); }
    bool start_array(std::size_t) override { return ++depth_ <= kDeepest; }
    bool end_array() override { return leave(); }
    bool parse_error(std::size_t, const std::string&, const json::exception&) override {
        return false;
    }

private:
    static constexpr int kDeepest = 8;
    bool leave() {
        --depth_;
        return true;
    }
    int depth_ = 0;
};

json to_json(const std::map<std::string, std::string>& opaque) {
    json object = json::object();
    for (const auto& [name, bytes] : opaque)
        object[name] = json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
    return object;
}

std::map<std::string, std::string> to_opaque(const json& object) {
    std::map<std::string, std::string> opaque;
    for (const auto& [name, value] : object.items()) {
        const auto& bytes = value.get_binary();
        opaque[name] = std::string(bytes.begin(), bytes.end());
    }
    return opaque;
}

}  // namespace

std::string Contents::encode() const {
    json list = json::array();
    for (const SavedRun& run : runs)
        list.push_back({run.name, safetensors::name_of(run.type), run.shape, run.offset, run.count,
                        run.position});
    const json all = {{"runs", list},
                      {"extra", extra},
                      {"shared", to_json(shared_opaque)},
                      {"own", to_json(own_opaque)}};
    std::string text;
    json::to_cbor(all, nlohmann::detail::output_adapter<char>(text));
    return text;
}

Contents Contents::decode(std::string_view text) {
    try {
        ShallowOnly shallow;
        if (!json::sax_parse(text.begin(), text.end(), &shallow, json::input_format_t::cbor))
            throw Error(ErrorCode::corrupt, "the text of a copy in memory: no CBOR, or nested");
        const json all = json::from_cbor(text.begin(), text.end());
        Contents contents;
        for (const json& run : all.at("runs"))
            contents.runs.push_back(
                {run.at(0).get<std::string>(),
                 safetensors::type_named(run.at(1).get<std::string>()),
                 whole_numbers<std::int64_t>(run.at(2)), whole_number<std::int64_t>(run.at(3)),
                 whole_number<std::int64_t>(run.at(4)), whole_number<std::uint64_t>(run.at(5))});
        contents.extra = all.at("extra").get<std::string>();
        contents.shared_opaque = to_opaque(all.at("shared"));
        contents.own_opaque = to_opaque(all.at("own"));
        return contents;
    } catch (const json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    std::string("the text of a copy in memory: ") + error.what());
    }
}

CopyPieces plan_copy(const fsdp::State& state, const SaveOptions& options, int rank,
                     int world_size) {
    CopyPieces plan;
    std::vector<std::uint64_t> owned(static_cast<std::size_t>(world_size));
    for (const auto& tensor : state) {
        if (tensor.replicated) {
            const auto owner = std::min_element(owned.begin(), owned.end());
            *owner += bytes_of(tensor.pieces.front().count, tensor.type);
            if (owner - owned.begin() != rank)
                continue;
        }
        for (const auto& piece : tensor.pieces) {
            plan.memory.push_back(piece.data);
            plan.contents.runs.push_back(
                {tensor.name, tensor.type, tensor.shape, piece.offset, piece.count, plan.bytes});
            plan.bytes += bytes_of(piece.count, tensor.type);
        }
    }
    if (rank == 0)
        plan.contents.extra = options.extra;
    for (const OpaqueState& opaque : options.opaque) {
        if (opaque.per_rank)
            plan.contents.own_opaque[opaque.name] = opaque.bytes;
        if (!opaque.per_rank && rank == 0)
            plan.contents.shared_opaque[opaque.name] = opaque.bytes;
    }
    return plan;
}

FillPlan plan_fill(const Contents& contents, const fsdp::State& state) {
    std::unordered_map<std::string_view, std::vector<const SavedRun*>> saved;
    for (const SavedRun& run : contents.runs)
        saved[run.name].push_back(&run);
    FillPlan plan;
    for (const auto& tensor : state) {
        const auto found = saved.find(tensor.name);
        const bool has_some = found != saved.end();
        plan.owned.push_back(tensor.replicated && has_some);
        plan.missing.push_back(!tensor.replicated && !has_some && !tensor.pieces.empty());
        if (!has_some)
            continue;
        const SavedRun& first = *found->second.front();
        const auto reject = [&](const std::string& difference) {
            throw Error(ErrorCode::mismatch,
                        "tensor " + tensor.name + " has " + difference + " in the copy in memory",
                        "a checkpoint on disk loads in any type and cut");
        };
        if (first.type != tensor.type)
            reject("another type");
        if (first.shape != tensor.shape)
            reject("another shape");
        for (const auto& piece : tensor.pieces) {
            const auto same = [&](const SavedRun* run) {
                return run->offset == piece.offset && run->count == piece.count;
            };
            const auto run = std::find_if(found->second.begin(), found->second.end(), same);
            if (run == found->second.end())
                reject("another cut");
            plan.runs.push_back({(*run)->position, bytes_of(piece.count, tensor.type), piece.data});
        }
    }
    return plan;
}

}  // namespace autolaunch::memory
