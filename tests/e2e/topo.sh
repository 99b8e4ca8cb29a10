#!/bin/bash
# `autolaunch topo` draws this machine and saved ones, and says what is wrong with a file.
. "$(dirname "$0")/lib.sh"

"$AUTOLAUNCH" topo >out.txt 2>err.log
expect "exit code" 0 "$?"
contains "this machine" out.txt "$(uname -n)   "
contains "its CPUs" out.txt "NUMA node 0"
contains "where it is from" out.txt "(this machine)"

[ -x /usr/bin/python3 ] || skip "no /usr/bin/python3 to read JSON and SVG with"
"$AUTOLAUNCH" topo --json >topo.json 2>err.log
expect "exit code of --json" 0 "$?"
expect "CPUs in JSON" "$(nproc)" "$(/usr/bin/python3 -c 'import json; print(len(json.load(open("topo.json"))["allowed_cpus"]))')"

data=$(cd "$(dirname "$0")/../data/topology" && pwd)
for file in "$data"/*.xml "$data"/smi.txt; do
    "$AUTOLAUNCH" topo "$file" >text.txt 2>err.log
    expect "exit code for $file" 0 "$?"
    contains "where it is from" text.txt "($(basename "$file"))"
    "$AUTOLAUNCH" topo --svg "$file" >picture.svg 2>err.log
    expect "exit code of --svg for $file" 0 "$?"
    /usr/bin/python3 - <<'PYTHON' || fail "the SVG of $file is no XML, or draws nothing"
import xml.etree.ElementTree as tree
root = tree.parse("picture.svg").getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg"
assert any(shape.get("class") in ("core", "gpu") for shape in root.iter("{http://www.w3.org/2000/svg}rect"))
PYTHON
done

echo '<topology' >broken.xml
"$AUTOLAUNCH" topo broken.xml >out.txt 2>err.log && fail "a broken file was drawn"
contains "the file is named" err.log "broken.xml"
"$AUTOLAUNCH" topo a b >out.txt 2>err.log
expect "two files" 64 "$?"
"$AUTOLAUNCH" topo --json --svg >out.txt 2>err.log
expect "two forms" 64 "$?"
