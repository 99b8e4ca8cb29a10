# Writes OUTPUT, a source that holds the text of PROGRAM, byte by byte.
file(READ "${PROGRAM}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE "${OUTPUT}" "// Made by the build from warm_interpreter.py.
#include \"python_start/warm_program.hpp\"

namespace autolaunch::launcher {

const char kWarmProgram[] = {${bytes}0};

}  // namespace autolaunch::launcher
")
