# Writes OUTPUT, a source that holds the texts of PROGRAM with PART behind it, and of WALK, byte by byte.
foreach(text PROGRAM PART WALK)
  file(READ "${${text}}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," ${text}_bytes "${hex}")
endforeach()
file(WRITE "${OUTPUT}" "// Made by the build from warm_interpreter.py, read_ahead.py and script_walk.py.
#include \"python_start/warm_program.hpp\"

namespace autolaunch::launcher {

const char kWarmProgram[] = {${PROGRAM_bytes}${PART_bytes}0};
const char kWalkProgram[] = {${WALK_bytes}0};

}  // namespace autolaunch::launcher
")
