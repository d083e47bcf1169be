"""Alignment pages in Chromium: drawn as the numbers say, legible with 100 × 100 tokens, pointer and choice of head work.

usage: page_test.py ATTUNE SOURCE_FOLDER      (exit code 77: Chromium isn't there)
"""
import base64
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time


class Browser:
    """Chromium without a window, driven by the DevTools protocol over a pipe."""

    def __init__(self, program, profile):
        to_browser, self.send_end = os.pipe()
        self.receive_end, from_browser = os.pipe()

        def hand_over():
            # Chromium reads descriptor 3 and writes 4.
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
             "--window-size=2200,1400", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=hand_over, close_fds=False, start_new_session=True, stderr=subprocess.DEVNULL)
        os.close(to_browser), os.close(from_browser)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Network.enable")

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.receive_end, 1 << 16)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.send_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def open(self, file):
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=f"(() => {{ {expression} }})()", returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    def point_at(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, file):
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        os.killpg(self.process.pid, signal.SIGKILL)  # its helpers too
        self.process.wait()


def make_page(attune, folder, file, sources, tokens):
    """Aligns made-up sources; gives the numbers as attune writes them by themselves."""
    request = file.with_suffix(".request")
    request.write_text(json.dumps({"inputs": {"input_ids": sources}, "args": {"max_new_tokens": tokens, "min_new_tokens": tokens}}))
    for out in (file, file.with_suffix(".json")):
        subprocess.run([attune, "generate", folder, "--request", request, "--alignment", out], check=True, stdout=subprocess.DEVNULL)
    return json.loads(file.with_suffix(".json").read_text())


CELL = "document.querySelector('#rows').rows[%d].cells[%d + 1]"


def colour(weight):
    return [round(a + (b - a) * weight) for a, b in ((255, 8), (255, 48), (255, 107))]


def shown_colour(browser, row, column):
    text = browser.evaluate(f"return getComputedStyle({CELL % (row, column)}).backgroundColor")
    return [int(x) for x in text.removeprefix("rgb(").removesuffix(")").split(",")]


def check_numbers(browser, data, head):
    rows, columns = len(data["rows"]), len(data["columns"])
    for row in range(0, rows, max(1, rows // 7)):
        for column in range(0, columns, max(1, columns // 7)):
            expected = colour(data["heads"][head]["weights"][row][column])
            got = shown_colour(browser, row, column)
            assert max(abs(a - b) for a, b in zip(got, expected)) <= 1, (head, row, column, got, expected)


def check_pointer(browser, data, head, row, column):
    browser.evaluate(f"{CELL % (row, column)}.scrollIntoView({{block: 'center', inline: 'center'}}); return 0")
    box = browser.evaluate(f"const b = {CELL % (row, column)}.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]")
    browser.point_at(*box)
    text = browser.evaluate("return document.getElementById('value').textContent")
    expected = f"{data['rows'][row]} → {data['columns'][column]}: {data['heads'][head]['weights'][row][column]:.3f}"
    assert text[:-3] == expected[:-3] and abs(float(text[-5:]) - float(expected[-5:])) < 0.0011, (text, expected)
    marked = browser.evaluate("return [...document.querySelectorAll('th.over')].map(e => e.textContent)")
    assert sorted(marked) == sorted([data["rows"][row], data["columns"][column]]), marked


def check_legible(browser):
    """Labels are of a readable size, whole, upright one beside the other without overlap; cells are squares."""
    labels = browser.evaluate("""
        const box = (e) => { const b = e.getBoundingClientRect(), s = getComputedStyle(e);
          return {x: b.x, y: b.y, right: b.right, bottom: b.bottom, font: parseFloat(s.fontSize), whole: e.scrollWidth <= e.clientWidth + 1 && e.scrollHeight <= e.clientHeight + 1}; };
        return {columns: [...document.querySelectorAll('#columns th')].map(box), rows: [...document.querySelectorAll('#rows th')].map(box),
                cell: box(document.querySelector('#rows td'))};""")
    for kind, axis in (("columns", ("x", "right")), ("rows", ("y", "bottom"))):
        assert all(e["font"] >= 12 and e["whole"] for e in labels[kind]), kind
        for a, b in zip(labels[kind], labels[kind][1:]):
            assert b[axis[0]] >= a[axis[1]] - 1, (kind, a, b)
    cell = labels["cell"]
    assert cell["right"] - cell["x"] >= 14 and cell["bottom"] - cell["y"] >= 14, cell


def check_labels_stay(browser):
    """The labels stay in view when the matrix is scrolled."""
    browser.evaluate("const s = document.getElementById('scroll'); s.scrollTo(s.scrollWidth, s.scrollHeight); return 0")
    boxes = browser.evaluate("""
        const s = document.getElementById('scroll').getBoundingClientRect();
        const top = [...document.querySelectorAll('#columns th')].at(-1).getBoundingClientRect();
        const left = [...document.querySelectorAll('#rows th')].at(-1).getBoundingClientRect();
        return [top.y - s.y, left.x - s.x];""")
    assert all(-1 <= b <= 30 for b in boxes), boxes


def main(attune, source):
    program = shutil.which("chromium")
    if not program:
        print("Chromium isn't there: ./dev browser installs it")
        sys.exit(77)
    models = pathlib.Path(source) / "examples/translate/models"
    # Helpers that are just ending may still write into the profile.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = pathlib.Path(folder)
        large = make_page(attune, models / "gru", folder / "large.html", [[5 + i for i in range(100)]], 100)
        small = make_page(attune, models / "transformer", folder / "small.html", [[7, 30, 41, 2]], 6)
        browser = Browser(program, folder / "profile")
        try:
            start = time.time()
            browser.open(folder / "large.html")
            drawn = time.time() - start
            assert len(large["rows"]) == len(large["columns"]) == 100
            assert browser.requests() == [(folder / "large.html").as_uri()], "the page isn't self-contained"
            check_numbers(browser, large, 0)
            check_legible(browser)
            check_labels_stay(browser)
            for row, column in ((0, 0), (99, 99), (50, 3)):
                check_pointer(browser, large, 0, row, column)
            if "PICTURE" in os.environ:
                browser.picture(pathlib.Path(os.environ["PICTURE"]))
            browser.open(folder / "small.html")
            names = browser.evaluate("return [...document.querySelectorAll('#head option')].map(o => o.textContent)")
            assert names == [h["name"] for h in small["heads"]] and len(names) == 1 + 2 * 4, names
            for head in range(len(names)):
                browser.evaluate(f"const s = document.getElementById('head'); s.value = {head}; s.dispatchEvent(new Event('change')); return 0")
                check_numbers(browser, small, head)
                check_pointer(browser, small, head, 2, 1)
        finally:
            browser.close()
    print(f"100 × 100 drawn in {drawn:.2f} s; {len(names)} heads chosen")


if __name__ == "__main__":
    main(*sys.argv[1:])
