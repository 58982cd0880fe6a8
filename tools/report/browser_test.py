#!/usr/bin/env python3
"""Report pages as a browser shows them: no error on the page, every figure drawn, nothing asked of a network.

usage: browser_test.py FOLDER_OF_PROGRAMS OUTPUT

Draws inputs, makes pages of them, and opens each in headless Chromium, in light, dark and print. Screenshots stay in
OUTPUT. Fails where there is no browser.
"""

import html.parser
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
import drawn_results

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTH = 1366  # of a laptop
HOSTILE = "</script><script>rememberError('x')</script>\"'<b>&amp; \u2028 \u00e9\u6f22\U0001f600"


class PageError(Exception):
    """What is wrong with a page."""


class Dom(html.parser.HTMLParser):
    """What the page says about itself."""

    def __init__(self, text):
        super().__init__()
        self.root, self.figures, self.scripts, self.addresses = {}, [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "html":
            self.root = attributes
        if tag == "figure":
            self.figures.append(attributes)
        if tag == "script":
            self.scripts += 1
        for key in ("src", "href", "xlink:href"):
            if key in attributes and not (attributes[key] or "").startswith("data:"):
                self.addresses.append(attributes[key])


class Browser:
    def __init__(self, program, folder):
        self.command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio",
                        "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
                        f"--user-data-dir={folder}/profile", "--enable-logging=stderr", "--virtual-time-budget=8000"]

    def run(self, page, *options):
        done = subprocess.run([*self.command, *options, page.as_uri()], capture_output=True, text=True, timeout=100,
                              check=True, stdin=subprocess.DEVNULL)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check(condition, page, message):
    if not condition:
        raise PageError(f"{page.name}: {message}")


def check_drawn(browser, page, least_figures):
    """Opens the page; returns what it says of itself."""
    dom_text, console = browser.run(page, f"--window-size={WIDTH},900", "--dump-dom")
    dom = Dom(dom_text)
    check(not console, page, f"the console says {console}")
    check(dom.root.get("data-errors") == "", page, f"errors: {dom.root.get('data-errors')}")
    check(dom.scripts == 5, page, f"{dom.scripts} scripts: a text has become markup")
    check(not dom.addresses, page, f"it names {dom.addresses}")
    check(len(dom.figures) >= least_figures, page, f"{len(dom.figures)} figures, expected {least_figures}")
    for figure in dom.figures:
        marks = int(figure.get("data-marks", 0))
        check(figure.get("data-drawn") == "1" and marks > 0, page, f"not drawn: {figure}")
    check(dom.root.get("data-overflow") == "0", page, "it is wider than a laptop")
    return dom


def check_page(browser, page, least_figures, output):
    dom = check_drawn(browser, page, least_figures)
    height = int(dom.root["data-height"]) + 40
    for name, options in (("light", ["--blink-settings=preferredColorScheme=1"]),
                          ("dark", ["--blink-settings=preferredColorScheme=0"])):
        shot = output / f"{page.stem}-{name}.png"
        browser.run(page, f"--window-size={WIDTH},{height}", f"--screenshot={shot}", *options)
        check(shot.exists() and shot.stat().st_size > 10000, page, f"no screenshot {shot}")
    printed = output / f"{page.stem}.pdf"
    browser.run(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    check(printed.exists() and printed.read_bytes()[:4] == b"%PDF", page, "it cannot be printed")
    marks = sum(int(figure["data-marks"]) for figure in dom.figures)
    print(f"{page.name}: {page.stat().st_size // 1024} KiB, {len(dom.figures)} figures, {marks} marks, {height} px high")


def check_that_faults_are_seen(browser, page, folder):
    """The same page with faults planted in its scripts: each must be refused."""
    text = page.read_text(encoding="utf-8")
    for name, before, after in (("says", "let drawn = 0;", "let drawn = 0; console.error('planted');"),
                                ("throws", "const marks = drawFigure(", "const marks = drawNothing("),
                                ("blank", "element.dataset.marks = marks;", "element.dataset.marks = 0;"),
                                ("asks", "</body>", "<script>fetch('https://example.com/')</script></body>")):
        assert text.count(before) == 1, before
        broken = folder / f"{name}.html"
        broken.write_text(text.replace(before, after), encoding="utf-8")
        try:
            check_drawn(browser, broken, 1)
        except PageError as error:
            print(f"refused, as it should be: {str(error)[:100]}")
        else:
            raise PageError(f"{name}: a planted fault was not seen")


def make_pages(sparsmith, folder):
    """[(page, least number of figures)]"""
    def run(*arguments):
        done = subprocess.run([sparsmith, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"FAILED: {arguments}: {done.stderr}")
        return done.stdout

    model = folder / "model.safetensors"
    run("synth", "-o", model, "--seed", 5, "--weight", "a.weight:96x128:0.9:uniform", "--weight",
        f"{HOSTILE}:64x200:0.8:lognormal:0.5", "--weight", "c.weight:300x256:0.95:power:1")
    analysis = folder / "analysis.html"
    run("analyze", model, "--html", analysis)

    tuning, tuned, bench = folder / "tuning.html", folder / "model.tuned.safetensors", folder / "bench.html"
    common = (model, "--tokens", "1,8", "--device", "emulator", "--cache", folder / "cache.db")
    run("tune", *common, "-o", tuned, "--html", tuning)
    run("bench", *common, "--html", bench)

    report = folder / "report.html"
    analysis_json = folder / "analysis.json"
    analysis_json.write_text(run("analyze", model, "--json"), encoding="utf-8")
    drawn = drawn_results.write_all(folder, HOSTILE)
    run("report", "-o", report, *drawn, analysis_json, tuned, model, "--title", HOSTILE)

    database = ("--db", folder / "perf.db")
    for commit, files in drawn_results.write_rounds(folder, HOSTILE).items():
        run("perf", "record", "--commit", commit, *database, *(word for file in files for word in ("--bench", file)))
    compared, history = folder / "compare.html", folder / "history.html"
    run("perf", "compare", "c0000", "c0019", "--html", compared, *database)
    run("perf", "history", "--html", history, *database)
    return [(analysis, 11), (tuning, 3), (bench, 3), (report, 42), (compared, 2), (history, 4)]


def main():
    programs, output = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is here to look at pages in; install chromium")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        browser = Browser(program, folder)
        pages = make_pages(programs / "sparsmith", pathlib.Path(folder))
        try:
            for page, least_figures in pages:
                shutil.copy(page, output)
                check_page(browser, page, least_figures, output)
            check_that_faults_are_seen(browser, pages[0][0], pathlib.Path(folder))
        except PageError as error:
            sys.exit(f"FAILED: {error}")


if __name__ == "__main__":
    main()
