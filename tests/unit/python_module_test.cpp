// How ranks find `import autolaunch`.
#include "python_module/plan_python_module.hpp"

#include <doctest/doctest.h>

namespace python_module_test {

using autolaunch::launcher::python_path;

TEST_CASE("PYTHONPATH has our folder behind the user's, and no entry that nobody wrote") {
    CHECK(python_path("", "/p") == "/p");  // ":/p" would add the working directory
    CHECK(python_path("/a:/b", "/p") == "/a:/b:/p");
    CHECK(python_path("/a::/b:", "/p") == "/a::/b::/p");  // theirs stay
    CHECK(python_path("/p:/a", "/p") == "/p:/a");         // of an outer launch
    CHECK_FALSE(python_path("/a", "/p:q"));
}

}  // namespace python_module_test
