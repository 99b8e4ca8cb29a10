// Which of a Python script's statements may be executed before it, and which command is Python's.

#include "python_start/import_watch.hpp"
#include "python_start/plan_preload.hpp"
#include "python_start/preload_record.hpp"
#include "python_start/python_command.hpp"
#include "python_start/script_imports.hpp"
#include "spec/preload_words.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace python_start_test {

using namespace autolaunch::launcher;

namespace {

std::vector<std::string> imports_of(const std::string& script) {
    std::vector<std::string> statements;
    for (const auto& import :
         leading_imports(script, [](const std::string& name) { return name == "mine"; }))
        statements.push_back(std::to_string(import.line) + ' ' + import.statement);
    return statements;
}

using Statements = std::vector<std::string>;

std::string script_of(const std::vector<std::string>& options) {
    const PythonCommand command = parse_python_options(options);
    return command.why_not.empty() ? command.script : "not: " + command.why_not;
}

}  // namespace

TEST_CASE("a script's first imports are taken, with their lines") {
    CHECK(
        imports_of("#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\"\"\"What it is.\n\nimport "
                   "no\n\"\"\"\nfrom __future__ import annotations\nimport torch\n\nimport os, "
                   "numpy as np  # both\nfrom a.b import (c,\n    d as e,  # two\n)\nfrom x import "
                   "*\n") == Statements{"8 import torch", "10 import os, numpy as np",
                                        "11 from a.b import (c, d as e, )", "14 from x import *"});
    CHECK(imports_of("r'one line'\nimport a\r\nimport b\r\n") ==
          Statements{"2 import a", "3 import b"});
    CHECK(imports_of("\xEF\xBB\xBFimport a\n") == Statements{"1 import a"});
    CHECK(imports_of("").empty());
}

TEST_CASE("nothing is taken from behind the first statement that is anything else") {
    for (const char* other :
         {"x = 1", "import mine", "from mine.part import x", "from . import x", "import a; b()",
          "import b \\", "  import b", "if True:", "try:", "import torch as mine, mine",
          "\"a string\" in f()", "import b, mine", "from b import (c, d.e)", "import b.",
          "from b "
          "import ()",
          "from b import (c", "os.environ['A'] = 'b'", "import \xC3\xA4", "import b if c else d"})
        CHECK_MESSAGE(imports_of(std::string("import a\n") + other + "\nimport c\n") ==
                          Statements{"1 import a"},
                      other);
    CHECK(imports_of("\"a\".join(f())\nimport a\n").empty());
    CHECK(imports_of("'''a''' + f()\nimport a\n").empty());
    CHECK(imports_of("'''never closed\nimport a\n").empty());
}

TEST_CASE("the options of the interpreter lead to its script") {
    CHECK(script_of({"train.py", "-c"}) == "train.py");
    CHECK(script_of({"-u", "-X", "dev", "-Wignore", "-W", "error", "-OOB", "train.py"}) ==
          "train.py");
    CHECK(script_of({"--check-hash-based-pycs", "never", "--", "train.py"}) == "train.py");
    CHECK(script_of({"-Im", "package", "train.py"}) == "-m");
    CHECK(script_of({"-c", "print()"}) == "-c");
    CHECK(parse_python_options({"-Bm", "a.b", "x"}).module == "a.b");
    CHECK(parse_python_options({"-ma.b"}).module == "a.b");
    CHECK(script_of({}) == "not: is read from stdin");
    CHECK(script_of({"-"}) == "not: is read from stdin");
    CHECK(script_of({"-i", "train.py"}) == "not: is started with -i");
    CHECK(script_of({"-x", "train.py"}) == "not: is started with -x, which skips its first line");
    CHECK(script_of({"--version"}) == "not: is none: --version only prints");
}

TEST_CASE("what is no CPython is told apart from it") {
    const std::vector<std::string> environment{"PATH=/usr/bin:/bin"};
    const auto why_not = [&](const std::string& program) {
        return python_command({program, "train.py"}, environment, "/").why_not;
    };
    CHECK(why_not("sleep") == "is no Python program (sleep)");
    CHECK(why_not("pythonless-program") == "was not found");
}

TEST_CASE("--preload has words and lists") {
    CHECK(preload_from("off")->how == PreloadSpec::How::off);
    CHECK(preload_from("auto")->how == PreloadSpec::How::automatic);
    CHECK(preload_from("torch, a.b_c")->modules == std::vector<std::string>{"torch", "a.b_c"});
    for (const char* wrong : {"", "torch,", "a b", "a-b", "1a", "a..b", "import os; x"})
        CHECK_FALSE_MESSAGE(preload_from(wrong), wrong);
}

TEST_CASE("an interpreter that imports is waited for while it gets on") {
    using namespace std::chrono_literals;
    const ImportWatch::Clock::time_point begin{};
    ImportWatch watch({.all = 100s, .idle = 10s}, begin);
    CHECK(watch.why_given_up({'D', 1}, begin + 9s).empty());
    CHECK(watch.why_given_up({'S', 1}, begin + 18s).empty());
    CHECK(watch.why_given_up({'S', 1}, begin + 19s) == "the imports have done nothing for 10 s");
    CHECK(watch.why_given_up({'S', 2}, begin + 20s).empty());
    CHECK(watch.why_given_up({'T', 3}, begin + 21s).empty());  // as Ctrl-Z does to all of a job
    CHECK(watch.why_given_up({'R', 4}, begin + 22s).empty());
    CHECK(watch.why_given_up({'T', 4}, begin + 23s).empty());
    CHECK(watch.why_given_up({'T', 4}, begin + 24s) ==
          "the interpreter that was to import for them is stopped");
    CHECK(watch.why_given_up({'R', 5}, begin + 100s) == "the imports took longer than 100 s");
}

TEST_CASE("what an interpreter says of a program's files") {
    const PreloadWalk walk = parse_walk(
        "end /a b/train.py:4: it is no import\nfile /a b/train.py\nfile /a b/m.py\n"
        "import 2\t/a b/m.py\tfrom numpy import array as a");
    CHECK(walk.end == "/a b/train.py:4: it is no import");
    CHECK(walk.files == Statements{"/a b/train.py", "/a b/m.py"});
    REQUIRE(walk.imports.size() == 1);
    CHECK(walk.imports[0] == PreloadedImport{2, "from numpy import array as a", "/a b/m.py"});
    CHECK(parse_walk("").imports.empty());
}

TEST_CASE("records are the user's own") {
    CHECK(preload_records_folder({{"HOME", "/h"}}) == "/h/.local/state/autolaunch/preload");
    CHECK(preload_records_folder({{"HOME", "/h"}, {"XDG_STATE_HOME", "/s"}}) ==
          "/s/autolaunch/preload");
    CHECK(preload_records_folder({{"HOME", "relative"}}).empty());
}

}  // namespace python_start_test
