// See fake_gpu.hpp: the library's own kernels.
#include "fake_gpu.hpp"
#include "host_kernels.hpp"

#include <map>
#include <string>

namespace {

using namespace autolaunch::fsdp;
using namespace autolaunch::fsdp::host_kernels;

using Make =
    std::function<std::function<void()>(unsigned blocks, unsigned threads, const void* parameter)>;

template <class Arguments, class Run>
Make kernel(Run run) {
    return [run](unsigned blocks, unsigned threads, const void* parameter) {
        const Arguments arguments = *static_cast<const Arguments*>(parameter);
        return [=] { run(blocks, threads, arguments); };
    };
}

template <class Arguments>
Make threads_of(void (*body)(GridPlace, const Arguments&)) {
    return kernel<Arguments>([body](unsigned blocks, unsigned threads, const Arguments& arguments) {
        run_threads(blocks, threads, [&](GridPlace place) { body(place, arguments); });
    });
}

template <class Arguments>
Make once(void (*body)(const Arguments&)) {
    return kernel<Arguments>(
        [body](unsigned, unsigned, const Arguments& arguments) { body(arguments); });
}

std::map<std::string, Make> make_kernels() {
    std::map<std::string, Make> kernels;
#define ADD_UPDATE(algorithm, name, G, g, M, m, P, p) \
    kernels["update_" #name "_" #g "_" #m "_" #p] =   \
        threads_of<UpdateArguments>(update_chunks<algorithm, G, M, P>);
#define ADD_UPDATES(algorithm, name) AUTOLAUNCH_UPDATE_TYPES(ADD_UPDATE, algorithm, name)
    AUTOLAUNCH_ALGORITHMS(ADD_UPDATES)
#define ADD_TYPE(T, t)                                               \
    kernels["squares_" #t] = once<SquaresArguments>(sum_squares<T>); \
    kernels["find_nonfinite_" #t] = threads_of<FindArguments>(find_nonfinite<T>);
    AUTOLAUNCH_TYPES(ADD_TYPE)
#define ADD_CASTS(To, to, From, from)                                                      \
    kernels["cast_" #to "_" #from] = threads_of<CastArguments>(cast_all<To, From, false>); \
    kernels["accumulate_" #to "_" #from] = threads_of<CastArguments>(cast_all<To, From, true>);
    AUTOLAUNCH_TYPE_PAIRS(ADD_CASTS)
    kernels["sum_in_order"] = threads_of<SumArguments>(add_parts);
    kernels["carry_squares"] = once<CarryArguments>(carry_words);
    kernels["step_scale"] = once<ScaleArguments>(set_scale);
    return kernels;
}

}  // namespace

namespace fake_gpu {

std::function<void()> launch_of(const std::string& name, unsigned blocks, unsigned threads,
                                const void* parameter) {
    static const auto* kernels = new std::map<std::string, Make>(make_kernels());
    const auto found = kernels->find(name);
    return found == kernels->end() ? std::function<void()>()
                                   : found->second(blocks, threads, parameter);
}

}  // namespace fake_gpu
