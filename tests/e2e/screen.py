#!/usr/bin/env python3
"""Runs a program at a terminal of a size, and reads its screen as a terminal would: what is shown, not what was sent.

    screen.py SCRIPT COMMAND...

SCRIPT has a line for each thing that is done or waited for:

    size ROWS COLUMNS    the terminal's, from now on; the first line
    keys TEXT            TEXT, in which \\e is escape
    see TEXT             waits until TEXT is on the screen
    gone TEXT            waits until it is not
    quiet BYTES SECONDS  in so many seconds no more is sent than so many bytes
    do COMMAND           by a shell
    hang                 the terminal is closed, as when a connection breaks
    end CODE             waits until the program has ended with that code

The screen goes to our stdout at the end. Exits with 1 when something is not seen within 20 s."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

rows, columns = 24, 80
cells = []
at = [0, 0]
sent = 0


def clear():
    global cells
    cells = [[" "] * columns for _ in range(rows)]


def text():
    return "\n".join("".join(row).rstrip() for row in cells)


def put(char):
    if at[1] >= columns:
        at[0], at[1] = min(at[0] + 1, rows - 1), 0
    cells[at[0]][at[1]] = char
    at[1] += 1


def number(words, place, otherwise):
    parts = words.split(";")
    return int(parts[place]) if place < len(parts) and parts[place].isdigit() else otherwise


def obey(words, final):
    """What of ECMA-48 TERM=xterm's description makes ncurses send."""
    global at
    count = number(words, 0, 1)
    row, column = at
    if final == "H":
        at = [min(number(words, 0, 1), rows) - 1, min(number(words, 1, 1), columns) - 1]
    elif final == "d":
        at[0] = min(count, rows) - 1
    elif final == "G":
        at[1] = min(count, columns) - 1
    elif final in "AB":
        at[0] = max(0, min(rows - 1, row + (count if final == "B" else -count)))
    elif final in "CD":
        at[1] = max(0, min(columns - 1, column + (count if final == "C" else -count)))
    elif final == "K":
        first, last = {0: (column, columns), 1: (0, column + 1), 2: (0, columns)}[number(words, 0, 0)]
        cells[row][first:last] = [" "] * (last - first)
    elif final == "J":
        if number(words, 0, 0) == 2:
            clear()
        else:
            cells[row][column:] = [" "] * (columns - column)
            for below in range(row + 1, rows):
                cells[below] = [" "] * columns
    elif final == "X":
        cells[row][column : column + count] = [" "] * min(count, columns - column)
    elif final == "P":
        cells[row] = (cells[row][:column] + cells[row][column + count :] + [" "] * count)[:columns]
    elif final == "@":
        cells[row] = (cells[row][:column] + [" "] * count + cells[row][column:])[:columns]
    elif final == "b":
        for _ in range(count):
            put(cells[row][column - 1])
    elif final not in "mhlrtcn":
        raise SystemExit(f"not understood: ESC [ {words} {final}")


pending = ""


def show(piece):
    global pending, at
    pending += piece
    while pending:
        if pending[0] == "\x1b":
            match = re.match(r"\x1b\[([0-9;?>=!]*)([@-~])|\x1b[()][0AB]|\x1b[=>78M]|\x1b\][^\x07]*\x07", pending)
            if match is None:
                return
            if match.group(2):
                obey(match.group(1), match.group(2))
            pending = pending[match.end() :]
            continue
        char, pending = pending[0], pending[1:]
        if char == "\r":
            at[1] = 0
        elif char == "\n":
            at[0] = min(at[0] + 1, rows - 1)
        elif char == "\b":
            at[1] = max(0, at[1] - 1)
        elif char >= " ":
            put(char)


undecoded = b""


def read_for(terminal, seconds):
    global sent, undecoded
    if not select.select([terminal], [], [], seconds)[0]:
        return
    try:
        piece = os.read(terminal, 65536)
    except OSError:
        time.sleep(0.05)
        return
    sent += len(piece)
    undecoded += piece
    for end in range(len(undecoded), max(len(undecoded) - 4, -1), -1):
        try:
            words = undecoded[:end].decode()
        except UnicodeDecodeError:
            continue
        undecoded = undecoded[end:]
        show(words)
        return


def wait(terminal, condition):
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        read_for(terminal, 0.1)
    return True


def main():
    global rows, columns, at, sent
    terminal = pid = None
    for line in open(sys.argv[1]).read().splitlines():
        word, _, words = line.partition(" ")
        fine = True
        if word == "size":
            rows, columns = map(int, words.split())
            clear()
            at = [0, 0]
            if pid is None:
                pid, terminal = pty.fork()
                if pid == 0:
                    time.sleep(0.2)  # until its terminal has a size
                    os.execvp(sys.argv[2], sys.argv[2:])
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif word == "keys":
            os.write(terminal, words.replace("\\e", "\x1b").encode())
        elif word == "see":
            fine = wait(terminal, lambda: words in text())
        elif word == "gone":
            fine = wait(terminal, lambda: words not in text())
        elif word == "quiet":
            most, seconds = map(float, words.split())
            before, end = sent, time.monotonic() + seconds
            while time.monotonic() < end:
                read_for(terminal, 0.1)
            fine = sent - before <= most
            print(f"{sent - before} bytes in {seconds} s", file=sys.stderr)
        elif word == "do":
            fine = subprocess.call(words, shell=True) == 0
        elif word == "hang":
            os.close(terminal)
            terminal = None
        elif word == "end":
            end, status = time.monotonic() + 20, None
            while status is None and time.monotonic() < end:
                if terminal is not None:
                    read_for(terminal, 0.1)
                done, status_word = os.waitpid(pid, os.WNOHANG)
                status = status_word if done else None
                time.sleep(0.02)
            fine = status is not None and os.waitstatus_to_exitcode(status) == int(words)
            if not fine:
                print("ended with", status, file=sys.stderr)
        if not fine:
            print(text())
            print(f"NOT SO: {line}", file=sys.stderr)
            return 1
    print(text())
    return 0


sys.exit(main())
