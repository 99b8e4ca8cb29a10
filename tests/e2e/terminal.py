#!/usr/bin/env python3
"""Types into programs at a real terminal, as a person in a shell with job control would.

    terminal.py SCRIPT

SCRIPT has a line for each thing that is done or waited for:

    type TEXT        TEXT and the return key
    key LETTER       that letter with Ctrl
    keys TEXT        TEXT without the return key
    see TEXT         waits until the screen has shown TEXT, after what was seen before
    run TEXT         starts the shell with the command line TEXT; the first line

The screen goes to our stdout. Exits with 1 when something is not seen within 20 s, or TERMINAL_LIMIT seconds."""
import os
import pty
import select
import sys
import time

screen = b""
seen = 0


def read_for(terminal, seconds):
    global screen
    if not select.select([terminal], [], [], seconds)[0]:
        return True
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        piece = b""
    screen += piece
    return bool(piece)


def see(terminal, text):
    global seen
    end = time.monotonic() + float(os.environ.get("TERMINAL_LIMIT", "20"))
    while True:
        at = screen.find(text.encode(), seen)
        if at >= 0:
            seen = at + len(text.encode())
            return True
        if time.monotonic() > end or not read_for(terminal, 0.1):
            return screen.find(text.encode(), seen) >= 0


def main():
    terminal = pid = None
    for line in open(sys.argv[1]).read().splitlines():
        word, _, text = line.partition(" ")
        if word == "run":
            pid, terminal = pty.fork()
            if pid == 0:
                os.environ["PS1"] = "$ "
                os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
            os.write(terminal, text.encode() + b"\n")
        elif word == "type":
            os.write(terminal, text.encode() + b"\n")
        elif word == "keys":
            os.write(terminal, text.encode())
        elif word == "key":
            os.write(terminal, bytes([ord(text.upper()) - 64]))
        elif not see(terminal, text):
            sys.stdout.write(screen.decode(errors="replace"))
            print(f"\nNOT SEEN: {text}", file=sys.stderr)
            return 1
    os.close(terminal)
    os.waitpid(pid, 0)
    sys.stdout.write(screen.decode(errors="replace"))
    return 0


sys.exit(main())
