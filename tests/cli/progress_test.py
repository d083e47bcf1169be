"""What a terminal shows of a long job: how much is done, the rate, the time left; and nothing where there is no terminal.

usage: progress_test.py ATTUNE SOURCE_FOLDER
"""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

attune, root = sys.argv[1:3]
MODEL = f"{root}/examples/translate/models/gru"
LINE = "nous mangeons du pain\n"
SHOWN = re.compile(r"generating: (\d+) lines, ([\d.]+) lines/s(?:, (?:(\d+) min )?(\d+) s left)?")


def start(arguments, **streams):
    """The process, and the terminal that its standard error goes to."""
    terminal, child = pty.openpty()
    process = subprocess.Popen([attune, "generate", MODEL, "--threads", "1", *arguments], stderr=child, **streams)
    os.close(child)
    return process, terminal


def read(terminal):
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # the other end is closed
        return ""


# A file: its size says how much is left.
lines = 200000
with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
    file.write(LINE * lines)
    file.flush()
    process, terminal = start(["--input", file.name], stdout=subprocess.DEVNULL)
    text, shown, started = "", [], time.monotonic()
    while len(shown) < 3 and time.monotonic() - started < 60:
        text += read(terminal)
        shown = SHOWN.findall(text)
    elapsed = time.monotonic() - started
    process.kill()
    process.wait()
    os.close(terminal)
assert len(shown) >= 3, text
done, rate, minutes, seconds = shown[2]
left = 60 * int(minutes or 0) + int(seconds)
assert 0 < int(done) < lines
assert 0 < float(rate) <= 1.05 * int(done), "a second has passed"
wanted = (lines - int(done)) / float(rate)
assert abs(left - wanted) < 1 + 0.05 * wanted, (shown[2], wanted)
assert [int(s[0]) for s in shown] == sorted(int(s[0]) for s in shown)
assert text.count("\n") == 0, "one line, written over"

# A pipe: what is left isn't known. The line is wiped at the end.
process, terminal = start(["--input", "-", "--batch", "4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
fed, text, started = 0, "", time.monotonic()
while not SHOWN.search(text) and time.monotonic() - started < 60:
    process.stdin.write((LINE * 4).encode())
    process.stdin.flush()
    fed += 4
    if select.select([terminal], [], [], 0.1)[0]:
        text += read(terminal)
output = process.communicate()[0]
while piece := read(terminal):
    text += piece
os.close(terminal)
assert process.returncode == 0 and output.count(b"\n") == fed
assert SHOWN.search(text) and "left" not in text, text
assert text.endswith("\r\x1b[K"), text

# No terminal.
run = subprocess.run([attune, "generate", MODEL, "--input", "-"], input=LINE.encode() * 3, capture_output=True, check=True)
assert run.stderr == b"" and run.stdout.count(b"\n") == 3
