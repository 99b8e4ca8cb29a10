// Every file names what it uses: a source that forgets an include would still compile in a unity
// batch, behind another that has it. Checked on the text, in a second: each name of a table, and
// each type and constant of ours, must be declared by something that the file includes, itself or
// through headers of ours. scripts/self_contained compiles every file by itself, which is the whole
// proof.

#include "base/file_io.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace self_contained_test {

namespace fs = std::filesystem;
using autolaunch::read_file;

namespace {

const fs::path kRoot = AUTOLAUNCH_SOURCE_DIR;

using Names = std::set<std::string, std::less<>>;

/// Names, as the code writes them, and the headers any of which declares them.
struct Provision {
    std::initializer_list<const char*> names;
    std::initializer_list<const char*> headers;
};

const Provision kProvisions[] = {
    {{"std::string", "std::to_string", "std::stoi", "std::stoull", "std::stod"}, {"string"}},
    {{"std::string_view"}, {"string_view", "string"}},
    {{"std::vector"}, {"vector"}},
    {{"std::array", "std::to_array"}, {"array"}},
    {{"std::span", "std::as_bytes", "std::as_writable_bytes"}, {"span"}},
    {{"std::map", "std::multimap"}, {"map"}},
    {{"std::set", "std::multiset"}, {"set"}},
    {{"std::unordered_map"}, {"unordered_map"}},
    {{"std::unordered_set"}, {"unordered_set"}},
    {{"std::deque"}, {"deque"}},
    {{"std::list"}, {"list"}},
    {{"std::queue", "std::priority_queue"}, {"queue"}},
    {{"std::bitset"}, {"bitset"}},
    {{"std::optional", "std::nullopt", "std::make_optional"}, {"optional"}},
    {{"std::variant", "std::visit", "std::holds_alternative", "std::get_if", "std::monostate"},
     {"variant"}},
    {{"std::tuple", "std::tie", "std::make_tuple", "std::apply"}, {"tuple"}},
    {{"std::unique_ptr", "std::shared_ptr", "std::weak_ptr", "std::make_unique", "std::make_shared",
      "std::enable_shared_from_this", "std::static_pointer_cast"},
     {"memory"}},
    {{"std::function", "std::reference_wrapper", "std::ref", "std::cref"}, {"functional"}},
    {{"std::atomic", "std::atomic_ref", "std::memory_order_relaxed", "std::atomic_bool"},
     {"atomic"}},
    {{"std::mutex", "std::lock_guard", "std::unique_lock", "std::scoped_lock", "std::once_flag",
      "std::call_once"},
     {"mutex"}},
    {{"std::shared_mutex"}, {"shared_mutex"}},
    {{"std::condition_variable"}, {"condition_variable"}},
    {{"std::thread", "std::jthread", "std::this_thread"}, {"thread"}},
    {{"std::promise", "std::future", "std::async", "std::future_status"}, {"future"}},
    {{"std::chrono", "std::chrono_literals"}, {"chrono"}},
    {{"std::filesystem"}, {"filesystem"}},
    {{"std::ifstream", "std::ofstream", "std::fstream"}, {"fstream"}},
    {{"std::ostringstream", "std::istringstream", "std::stringstream"}, {"sstream"}},
    {{"std::cout", "std::cerr", "std::cin"}, {"iostream"}},
    {{"std::setw", "std::setprecision", "std::setfill", "std::put_time"}, {"iomanip"}},
    {{"std::regex", "std::smatch", "std::regex_search", "std::regex_match"}, {"regex"}},
    {{"std::sort",          "std::find",          "std::find_if",        "std::any_of",
      "std::all_of",        "std::none_of",       "std::min_element",    "std::max_element",
      "std::count_if",      "std::copy_if",       "std::transform",      "std::stable_sort",
      "std::lower_bound",   "std::upper_bound",   "std::unique",         "std::remove_if",
      "std::replace",       "std::binary_search", "std::clamp",          "std::nth_element",
      "std::adjacent_find", "std::reverse",       "std::partition",      "std::mismatch",
      "std::rotate",        "std::is_sorted",     "std::set_difference", "std::generate"},
     {"algorithm"}},
    {{"std::accumulate", "std::iota", "std::gcd", "std::lcm", "std::reduce", "std::inner_product",
      "std::partial_sum"},
     {"numeric"}},
    {{"std::numeric_limits"}, {"limits"}},
    {{"std::bit_cast", "std::endian", "std::countr_zero", "std::countl_zero", "std::popcount",
      "std::bit_width", "std::bit_ceil", "std::has_single_bit"},
     {"bit"}},
    {{"std::from_chars", "std::to_chars"}, {"charconv"}},
    {{"std::initializer_list"}, {"initializer_list", "string", "vector", "map", "set"}},
    {{"std::exception", "std::exception_ptr", "std::current_exception", "std::rethrow_exception",
      "std::uncaught_exceptions"},
     {"exception", "stdexcept"}},
    {{"std::runtime_error", "std::logic_error", "std::invalid_argument", "std::out_of_range"},
     {"stdexcept"}},
    {{"std::error_code", "std::system_error", "std::generic_category"},
     {"system_error", "filesystem"}},
    {{"std::same_as", "std::integral", "std::floating_point", "std::invocable",
      "std::convertible_to"},
     {"concepts"}},
    {{"std::is_same_v", "std::conditional_t", "std::decay_t", "std::enable_if_t",
      "std::underlying_type_t", "std::is_integral_v", "std::make_unsigned_t",
      "std::invoke_result_t", "std::remove_cvref_t", "std::is_trivially_copyable_v"},
     {"type_traits"}},
    {{"std::mt19937", "std::mt19937_64", "std::random_device", "std::uniform_int_distribution",
      "std::normal_distribution"},
     {"random"}},
    {{"std::uint8_t", "std::uint16_t", "std::uint32_t", "std::uint64_t", "std::int8_t",
      "std::int16_t", "std::int32_t", "std::int64_t", "std::uintptr_t", "std::uintmax_t",
      "SIZE_MAX", "UINT32_MAX", "INT64_MAX", "UINT64_MAX"},
     {"cstdint"}},
    {{"std::byte", "std::to_integer", "std::ptrdiff_t", "std::max_align_t"}, {"cstddef"}},
    {{"std::memcpy", "std::memset", "std::memcmp", "std::strlen", "std::strcmp", "std::strchr",
      "std::strerror", "std::strncmp", "std::memmove", "::explicit_bzero", "::strsignal"},
     {"cstring"}},
    {{"std::getenv", "std::strtol", "std::strtoll", "std::strtoull", "std::strtod", "std::exit",
      "std::abort", "std::malloc", "std::free", "std::_Exit", "::setenv", "::unsetenv"},
     {"cstdlib"}},
    {{"std::printf", "std::fprintf", "std::snprintf", "std::fflush", "std::fputs", "std::fopen",
      "std::fwrite", "std::FILE", "std::perror"},
     {"cstdio"}},
    {{"std::sqrt", "std::isfinite", "std::isnan", "std::pow", "std::exp", "std::log", "std::floor",
      "std::ceil", "std::lround", "std::cos", "std::tanh", "std::fma", "std::round"},
     {"cmath"}},
    {{"std::time_t", "std::tm", "::gmtime_r", "::localtime_r", "::clock_gettime", "std::strftime"},
     {"ctime", "time.h", "chrono"}},
    {{"std::isdigit", "std::isspace", "std::isalpha", "std::isalnum", "std::tolower",
      "std::toupper", "std::isprint"},
     {"cctype"}},
    {{"std::signal", "::sigaction", "::sigemptyset", "::sigprocmask", "::kill", "::killpg"},
     {"csignal", "signal.h"}},
    {{"errno"}, {"cerrno", "errno.h"}},
    {{"::open", "::openat", "::fcntl", "::posix_fadvise", "::fallocate"}, {"fcntl.h"}},
    {{"::close",  "::read",    "::write",       "::pread",     "::pwrite",    "::unlink",
      "::getpid", "::getppid", "::geteuid",     "::getuid",    "::pipe2",     "::fork",
      "::execve", "::_exit",   "::fsync",       "::fdatasync", "::ftruncate", "::access",
      "::dup2",   "::isatty",  "::gethostname", "::sysconf",   "::lseek",     "::chdir",
      "::rmdir",  "environ"},
     {"unistd.h"}},
    {{"::poll"}, {"poll.h", "sys/poll.h"}},
    {{"::socket", "::bind", "::connect", "::listen", "::accept4", "::send", "::recv", "::sendmsg",
      "::recvmsg", "::setsockopt", "::getsockopt", "::socketpair", "::shutdown"},
     {"sys/socket.h"}},
    {{"::stat", "::fstat", "::lstat", "::chmod", "::fchmod", "::mkdir", "::mkfifo", "::umask"},
     {"sys/stat.h"}},
    {{"::mmap", "::munmap", "::madvise", "::memfd_create", "::shm_open", "::msync"},
     {"sys/mman.h"}},
    {{"::waitpid", "::waitid"}, {"sys/wait.h"}},
    {{"::prctl"}, {"sys/prctl.h"}},
    {{"::syscall"}, {"sys/syscall.h", "unistd.h"}},
    {{"::dlopen", "::dlsym", "::dlclose", "::dladdr"}, {"dlfcn.h"}},
    {{"::getaddrinfo", "::getnameinfo", "::freeaddrinfo"}, {"netdb.h"}},
    {{"::sched_getaffinity", "::sched_setaffinity", "CPU_SETSIZE"}, {"sched.h"}},
    {{"::posix_spawn", "::posix_spawnp"}, {"spawn.h"}},
    {{"::getrlimit", "::setrlimit", "::prlimit"}, {"sys/resource.h"}},
    {{"fmt::format"}, {"fmt/format.h"}},
    {{"fmt::join"}, {"fmt/ranges.h", "fmt/format.h"}},
};

bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// A source's text without comments, strings and directives.
std::string code_of(std::string_view text) {
    std::string code;
    bool line_start = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const std::string_view rest = text.substr(i);
        const auto skip_past = [&](std::string_view end, std::size_t from) {
            const auto found = text.find(end, i + from);
            i = found == std::string_view::npos ? text.size() : found + end.size() - 1;
        };
        if (rest.starts_with("//")) {
            skip_past("\n", 2);
            code += '\n';
            line_start = true;
        } else if (rest.starts_with("/*")) {
            skip_past("*/", 2);
        } else if (rest.starts_with("R\"")) {
            const auto open = text.find('(', i);
            skip_past(")" + std::string(text.substr(i + 2, open - i - 2)) + "\"", 2);
            code += "\"\"";
        } else if (rest[0] == '"' || (rest[0] == '\'' && (i == 0 || !is_word(text[i - 1])))) {
            for (++i; i < text.size() && text[i] != rest[0]; ++i)
                i += text[i] == '\\';
            code += "\"\"";
        } else if (rest[0] == '#' && line_start && !rest.starts_with("#define")) {
            skip_past("\n", 0);
            code += '\n';
        } else {
            line_start = rest[0] == '\n' || (line_start && rest[0] == ' ');
            code += rest[0];
        }
    }
    return code;
}

/// What a file of ours includes, names and declares.
struct File {
    std::vector<fs::path> ours;  ///< headers of ours
    Names others;                ///< headers that are not
    Names used;                  ///< "std::x", "::x", "fmt::x", and words that stand alone
    Names declared;              ///< types and constants, local ones too
    Names exported;              ///< of these, what a header declares for others
};

std::vector<std::string> includes_of(const std::string& text) {
    std::vector<std::string> includes;
    for (std::size_t at = text.find("#include"); at != std::string::npos;
         at = text.find("#include", at + 1)) {
        const auto begin = text.find_first_of("<\"", at);
        const auto end = text.find_first_of(">\"", begin + 1);
        if (end != std::string::npos && end < text.find('\n', at))
            includes.push_back(text.substr(begin + 1, end - begin - 1));
    }
    return includes;
}

fs::path find_ours(const std::string& include, const fs::path& from) {
    for (fs::path base = from.parent_path(); base != kRoot.parent_path(); base = base.parent_path())
        if (fs::is_regular_file(base / include))
            return fs::weakly_canonical(base / include);
    for (const char* base :
         {"lib/src", "lib/include", "launcher", "examples", "examples/char_model"})
        if (fs::is_regular_file(kRoot / base / include))
            return fs::weakly_canonical(kRoot / base / include);
    return {};
}

bool opens_type(std::string_view word) {
    return word == "struct" || word == "class" || word == "enum" || word == "using" ||
           word == "typename" || word == "union" || word == "namespace";
}

/// Between the keyword and the name: class AUTOLAUNCH_API X, enum class X, struct alignas(64) X.
bool is_attribute(std::string_view word) {
    return word == "class" || word == "AUTOLAUNCH_API" || word == "struct" || word == "alignas" ||
           word == "final";
}

/// Whose names may be the same as ours.
bool is_foreign(std::string_view qualifier) {
    return qualifier == "nlohmann" || qualifier == "CLI" || qualifier == "asio" ||
           qualifier == "YAML" || qualifier == "torch" || qualifier == "c10";
}

bool is_capital(char c) { return c >= 'A' && c <= 'Z'; }

void read_words(const std::string& code, File& file) {
    std::string previous;  // the word before, where only blanks or parentheses lie between
    bool opened = false;   // by struct, class, …, whose name is to come
    for (std::size_t i = 0; i < code.size();) {
        if (!is_word(code[i])) {
            if (code[i] == ';' || code[i] == '{' || code[i] == ',')
                opened = false;
            ++i;
            continue;
        }
        std::size_t end = i;
        while (end < code.size() && is_word(code[end]))
            ++end;
        const std::string word = code.substr(i, end - i);
        const std::string_view before(code.data(), i);
        const std::string_view after = std::string_view(code).substr(end);
        const bool member = before.ends_with('.') || before.ends_with("->");
        const bool at_line_start =
            code.rfind('\n', i) != std::string::npos && code[code.rfind('\n', i) + 1] != ' ';
        if (before.ends_with("::")) {
            std::size_t scope = i - 2;
            while (scope > 0 && is_word(code[scope - 1]))
                --scope;
            const std::string qualifier = code.substr(scope, i - 2 - scope);
            if (qualifier == "std" || qualifier == "fmt" ||
                (qualifier.empty() && after.starts_with('(') && code[scope ? scope - 1 : 0] != '>'))
                file.used.insert(qualifier + "::" + word);
            else if (!is_foreign(qualifier))
                file.used.insert(word);
        } else if (!member) {
            file.used.insert(word);
        }
        if (opened && !is_attribute(word) && !(word[0] >= '0' && word[0] <= '9')) {
            file.declared.insert(word);
            const auto next = after.find_first_not_of(' ');
            if (at_line_start && is_capital(word[0]) && next != std::string_view::npos &&
                after[next] != ';' && after[next] != '<')
                file.exported.insert(word);
            opened = false;
        }
        if (opens_type(word))
            opened = true;
        else if (word.size() > 2 && word[0] == 'k' && is_capital(word[1]) &&
                 (before.ends_with(' ') || before.ends_with('\n')) && previous != "return" &&
                 previous != "case" &&
                 after.find_first_of("=[{(;,}") == after.find_first_not_of(' '))
            file.declared.insert(word);
        previous = word;
        i = word == "alignas" ? code.find(')', end) : end;
    }
}

File read(const fs::path& path) {
    const std::string text = read_file(path);
    File file;
    for (const std::string& include : includes_of(text)) {
        const fs::path ours = find_ours(include, path);
        if (ours.empty())
            file.others.insert(include);
        else
            file.ours.push_back(ours);
    }
    read_words(code_of(text), file);
    return file;
}

class Tree {
public:
    const File& at(const fs::path& path) {
        const auto known = files_.find(path);
        return known != files_.end() ? known->second
                                     : files_.emplace(path, read(path)).first->second;
    }
    /// The file and every header of ours that it reaches.
    std::set<fs::path> reach(const fs::path& path) {
        std::set<fs::path> reached;
        std::vector<fs::path> waiting = {path};
        while (!waiting.empty()) {
            const fs::path next = waiting.back();
            waiting.pop_back();
            if (reached.insert(next).second)
                for (const fs::path& header : at(next).ours)
                    waiting.push_back(header);
        }
        return reached;
    }

private:
    std::map<fs::path, File> files_;
};

// Included by sources within a namespace, after what they need: not whole, and not meant to be.
const std::set<std::string> kParts = {"element_steps.hpp", "exact_digits.hpp", "kernel_bodies.hpp",
                                      "kernel_loops.hpp", "reduce_vectors.hpp"};

std::vector<fs::path> all_files() {
    std::vector<fs::path> found;
    for (const char* folder : {"lib", "launcher", "examples", "bench"})
        for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder))
            if (entry.is_regular_file() &&
                (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") &&
                !kParts.contains(entry.path().filename().string()))
                found.push_back(fs::weakly_canonical(entry.path()));
    std::sort(found.begin(), found.end());
    return found;
}

template <class Range>
bool any_in(const Range& wanted, const Names& names) {
    return std::any_of(wanted.begin(), wanted.end(),
                       [&](const char* one) { return names.contains(std::string_view(one)); });
}

}  // namespace

TEST_CASE("each file includes what declares the names of other libraries that it uses") {
    Tree tree;
    const auto files = all_files();
    REQUIRE(files.size() > 500);
    for (const fs::path& path : files) {
        Names included;
        for (const fs::path& reached : tree.reach(path))
            included.insert(tree.at(reached).others.begin(), tree.at(reached).others.end());
        for (const Provision& provision : kProvisions)
            for (const char* name : provision.names)
                if (tree.at(path).used.contains(std::string_view(name)))
                    CHECK_MESSAGE(any_in(provision.headers, included),
                                  fs::relative(path, kRoot).string(), " uses ", std::string(name),
                                  " and includes no <", std::string(*provision.headers.begin()),
                                  ">");
    }
}

TEST_CASE("each file includes what declares the types of ours that it uses") {
    Tree tree;
    const auto files = all_files();
    std::map<std::string, fs::path, std::less<>> headers;
    for (const fs::path& path : files)
        if (path.extension() == ".hpp")
            for (const std::string& name : tree.at(path).exported)
                headers.emplace(name, path);
    CHECK(headers.size() > 500);
    for (const fs::path& path : files) {
        Names declared;
        for (const fs::path& reached : tree.reach(path))
            declared.insert(tree.at(reached).declared.begin(), tree.at(reached).declared.end());
        for (const std::string& name : tree.at(path).used)
            if (const auto header = headers.find(name);
                header != headers.end() && !declared.contains(name))
                FAIL_CHECK(fs::relative(path, kRoot).string(), " uses ", name, " of ",
                           fs::relative(header->second, kRoot).string(), " and includes it not");
    }
}

TEST_CASE("the check reads code as it is meant") {
    File file;
    read_words(code_of(R"x(
#include <ignored>
// std::comment
/* std::comment */
const char* kText = "std::quoted \" ::quoted()";  struct Own { Other other; };
enum class Kind { a };
std::vector<int> list = ::open(path); thing.member(); n::Far far; 1'000'000; '"';
constexpr int kMost = 3;
)x"),
               file);
    for (const char* name : {"std::vector", "::open", "Other", "Far", "path"})
        CHECK_MESSAGE(file.used.contains(std::string_view(name)), name);
    for (const char* name : {"std::comment", "std::quoted", "::quoted", "member", "ignored"})
        CHECK_MESSAGE(!file.used.contains(std::string_view(name)), name);
    for (const char* name : {"Own", "Kind", "kMost", "kText"})
        CHECK_MESSAGE(file.declared.contains(std::string_view(name)), name);
    CHECK(!file.declared.contains(std::string_view("Other")));
}

}  // namespace self_contained_test
