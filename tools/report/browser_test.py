#!/usr/bin/env python3
"""Report pages as a browser shows them: no error on the page, every figure drawn, nothing asked of a network.

usage: browser_test.py FOLDER_OF_PROGRAMS OUTPUT [--all]

Draws inputs, makes pages of them, and opens each in headless Chromium: wide in light, narrow in dark, and in print;
with --all, each width in both. Screenshots stay in OUTPUT. Fails where there is no browser.
"""

import html.parser
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/support"))
import drawn_results

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1400, 800)  # of a laptop, and of half of it
SCHEMES = {"light": 1, "dark": 0}
PICTURES = {1400: "light", 800: "dark"}
HOSTILE = "</script><script>rememberError('x')</script>\"'<b>&amp; \u2028 \u00e9\u6f22\U0001f600"


class PageError(Exception):
    """What is wrong with a page."""


class Dom(html.parser.HTMLParser):
    """What the page says about itself."""

    def __init__(self, text):
        super().__init__()
        self.root, self.figures, self.scripts, self.addresses, self.ids = {}, [], 0, [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "html":
            self.root = attributes
        if tag == "figure":
            self.figures.append(attributes)
        if tag == "script":
            self.scripts += 1
        self.ids.add(attributes.get("id"))
        for key in ("src", "href", "xlink:href"):
            if key in attributes and not (attributes[key] or "").startswith("data:"):
                self.addresses.append(attributes[key])


class Browser:
    def __init__(self, program, folder):
        self.command = [
            program,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--mute-audio",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            f"--user-data-dir={folder}/profile",
            "--enable-logging=stderr",
            "--virtual-time-budget=8000",
        ]

    def run(self, page, *options):
        done = subprocess.run(
            [*self.command, *options, page.as_uri()],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def check(condition, page, message):
    if not condition:
        raise PageError(f"{page.name}: {message}")


def check_drawn(browser, page, least_figures, width=WIDTHS[0]):
    """Opens the page; returns what it says of itself."""
    dom_text, console = browser.run(page, f"--window-size={width},900", "--dump-dom")
    dom = Dom(dom_text)
    check(not console, page, f"the console says {console}")
    check(dom.root.get("data-errors") == "", page, f"errors: {dom.root.get('data-errors')}")
    check(dom.scripts == 5, page, f"{dom.scripts} scripts: a text has become markup")
    lost = [address for address in dom.addresses if not address.startswith("#") or address[1:] not in dom.ids]
    check(not lost, page, f"it names {lost}")
    check(len(dom.figures) >= least_figures, page, f"{len(dom.figures)} figures, expected {least_figures}")
    for figure in dom.figures:
        marks = int(figure.get("data-marks", 0))
        check(figure.get("data-drawn") == "1" and marks > 0, page, f"not drawn: {figure}")
    check(dom.root.get("data-overflow") == "0", page, f"it is wider than {width} px")
    return dom


def check_page(browser, page, least_figures, output):
    for width in WIDTHS:
        dom = check_drawn(browser, page, least_figures, width)
        height = int(dom.root["data-height"]) + 40
        for name in SCHEMES if "--all" in sys.argv else (PICTURES[width],):
            shot = output / f"{page.stem}-{width}-{name}.png"
            browser.run(
                page,
                f"--window-size={width},{height}",
                f"--screenshot={shot}",
                f"--blink-settings=preferredColorScheme={SCHEMES[name]}",
            )
            check(shot.exists() and shot.stat().st_size > 10000, page, f"no screenshot {shot}")
    printed = output / f"{page.stem}.pdf"
    browser.run(page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
    check(printed.exists() and printed.read_bytes()[:4] == b"%PDF", page, "it cannot be printed")
    marks = sum(int(figure["data-marks"]) for figure in dom.figures)
    print(
        f"{page.name}: {page.stat().st_size // 1024} KiB, {len(dom.figures)} figures, {marks} marks, {height} px high"
    )


def check_controls(browser, page, folder):
    """Folded rows, values of figures and legends open and close by their buttons."""
    script = """<script>{
      const shown = (element) => element.getClientRects().length > 0;
      const demand = (holds, what) => { if (!holds) console.error(what); };
      const buttons = document.querySelectorAll("button.unfold");
      demand(buttons.length > 0, "nothing is folded");
      for (const button of buttons) {
        const rows = button.closest("tbody").nextElementSibling;
        demand(!shown(rows), "folded rows are shown");
        button.click();
        demand(shown(rows) && button.getAttribute("aria-expanded") === "true", "folded rows do not open");
      }
      const key = document.querySelector(".legend button");
      key.click();
      demand(key.getAttribute("aria-pressed") === "false", "a legend does not switch");
      const values = document.querySelector("figure details");
      values.open = true;
      values.addEventListener("toggle", () => demand(values.querySelectorAll("tbody tr").length > 0, "no values"));
    }</script></body>"""
    used = folder / "used.html"
    used.write_text(page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    dom_text, console = browser.run(used, f"--window-size={WIDTHS[0]},900", "--dump-dom")
    check(not console, used, f"the console says {console}")
    check("<summary>values</summary>" in dom_text, used, "no figure has its values")


def contrast(one, other):
    """By WCAG 2: of two colours "#rrggbb"."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def check_contrast(page):
    """Texts have 4.5:1 and marks 3:1, in both schemes."""
    style = page.read_text(encoding="utf-8")
    schemes = [
        dict(re.findall(r"--([a-z0-9]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root {(.*?)}", style, re.S)
    ]
    assert len(schemes) == len(SCHEMES)
    for colours in schemes:
        for name, least in {
            "ink": 4.5,
            "faint": 4.5,
            "link": 4.5,
            "warning": 4.5,
            **{f"s{i}": 3 for i in range(8)},
        }.items():
            for ground in ("paper", "panel"):
                found = contrast(colours[name], colours[ground])
                check(found >= least, page, f"--{name} has {found:.2f}:1 on --{ground}, less than {least}:1")


def check_that_faults_are_seen(browser, page, folder):
    """The same page with faults planted in its scripts: each must be refused."""
    text = page.read_text(encoding="utf-8")
    for name, before, after in (
        ("says", "let drawn = 0;", "let drawn = 0; console.error('planted');"),
        ("throws", "const marks = drawFigure(", "const marks = drawNothing("),
        ("blank", "holder.dataset.marks = marks;", "holder.dataset.marks = 0;"),
        ("asks", "</body>", "<script>fetch('https://example.com/')</script></body>"),
    ):
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
    weights = [
        f"layers.{layer}.{name}.weight:96x128:{0.7 if (layer, name) == (2, 'k_proj') else 0.9}:uniform"
        for layer in range(5)
        for name in ("q_proj", "k_proj")
    ]
    run(
        "synth",
        "-o",
        model,
        "--seed",
        5,
        *(word for weight in weights for word in ("--weight", weight)),
        "--weight",
        f"{HOSTILE}:64x200:0.8:lognormal:0.5",
        "--weight",
        "c.weight:300x256:0.95:power:1",
    )
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
    cells, break_even = folder / "cells.html", folder / "break_even.html"
    run("report", "-o", cells, drawn[1])
    run("report", "-o", break_even, drawn[3])

    database = ("--db", folder / "perf.db")
    for commit, files in drawn_results.write_rounds(folder, HOSTILE).items():
        run("perf", "record", "--commit", commit, *database, *(word for file in files for word in ("--bench", file)))
    compared, history = folder / "compare.html", folder / "history.html"
    run("perf", "compare", "c0000", "c0019", "--html", compared, *database)
    run("perf", "history", "--html", history, *database)
    return [
        (analysis, 30),
        (tuning, 3),
        (bench, 3),
        (report, 60),
        (cells, 9),
        (break_even, 2),
        (compared, 2),
        (history, 4),
    ]


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
            check_contrast(pages[0][0])
            check_controls(browser, pages[1][0], pathlib.Path(folder))
            check_that_faults_are_seen(browser, pages[0][0], pathlib.Path(folder))
        except PageError as error:
            sys.exit(f"FAILED: {error}")


if __name__ == "__main__":
    main()
