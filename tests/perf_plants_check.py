#!/usr/bin/env python3
"""Whether what perf_plants.sh measured is what was planted. usage: perf_plants_check.py OUTPUT

Prints a line for each check, and exits with 1 where one does not hold.
"""

import json
import pathlib
import sqlite3
import sys

SNIPPET = "snippets/reduction/slot_sums.cuh"


class Results:
    def __init__(self, folder):
        self.folder = folder
        self.failed = False
        database = sqlite3.connect(f"file:{folder / 'perf.db'}?mode=ro", uri=True)
        self.base = dict(
            database.execute(
                "SELECT c.name, i.choice || char(10) || i.kernels FROM run r JOIN measurement m ON m.run_id = r.id "
                "JOIN bench_case c ON c.id = m.case_id JOIN implementation i ON i.id = m.implementation_id "
                "WHERE r.commit_hash = 'plain'"
            ).fetchall()
        )

    def family(self, case):
        return self.base[case].split("\n")[0]

    def users_of(self, snippet):
        return {case for case, text in self.base.items() if f'"{snippet}"' in text}

    def comparison(self, head):
        return json.loads((self.folder / f"{head}.json").read_text())

    def rows(self, head):
        return {row["case"]["name"]: row for row in self.comparison(head)["rows"]}

    def exits(self, head, on):
        return int((self.folder / f"{head}.fail_on_{on}").read_text())

    def expect(self, holds, what, found=""):
        print(f"{'ok    ' if holds else 'FAILED'} {what}{': ' if found else ''}{found}")
        self.failed = self.failed or not holds


def slow(rows):
    return {name for name, row in rows.items() if row["verdict"] == "SLOW"}


def listed(names, rows):
    return ", ".join(f"{name} {100 * rows[name]['first']['change']:+.1f} %" for name in sorted(names)) or "none"


def check_plain(results):
    rows = results.rows("plain_again")
    results.expect(len(rows) == len(results.base), "the same build again: every case is compared", str(len(rows)))
    results.expect(not slow(rows), "the same build again: no SLOW", listed(slow(rows), rows))
    results.expect(results.exits("plain_again", "slow") == 0, "the same build again: --fail-on slow passes")
    # Equal code is the same whatever was measured; by the times of one set of rounds alone, unconfirmed:
    comparison = results.comparison("plain_again")
    print(f"       by times alone, {comparison['unchanged_alarms']} of {comparison['unchanged_measured']} looked changed: "
          + ", ".join(f"{name} {100 * row['first']['change']:+.2f} %" for name, row in sorted(rows.items())))


def check_snippet(results):
    rows = results.rows("slow_snippet")
    users = results.users_of(SNIPPET)
    results.expect(users and users != set(rows), "slow snippet: some cases use it, some do not",
                   f"{len(users)} of {len(rows)}")
    results.expect(slow(rows) == users, "slow snippet: exactly the cases that use it are SLOW", listed(slow(rows), rows))
    causes = {name: (row["cause"], row["snippets"]) for name, row in rows.items() if name in users}
    results.expect(all(cause == ("kernel", [SNIPPET]) for cause in causes.values()),
                   "slow snippet: the cause is the kernel, and the snippet is named")
    results.expect(f"changed: {SNIPPET}" in (results.folder / "slow_snippet.txt").read_text(),
                   "slow snippet: the printed report names it")
    results.expect(results.exits("slow_snippet", "kernel") == 5, "slow snippet: --fail-on kernel exits with 5")


def check_schedule(results):
    rows = results.rows("bank_schedule")
    scheduled = {case for case in rows if results.family(case) == "panel"}
    results.expect(bool(scheduled & slow(rows)), "bank schedule: cases of the panel family are SLOW",
                   listed(slow(rows), rows))
    results.expect(slow(rows) <= scheduled, "bank schedule: and no others")
    differences = {each["what"] for name in slow(rows) for each in rows[name]["differences"]}
    results.expect(all(rows[name]["cause"] == "packing" for name in slow(rows)) and differences == {"packed contents"},
                   "bank schedule: cubin, launch plan and packed bytes are the same, their contents differ",
                   ", ".join(sorted(differences)))
    results.expect(results.exits("bank_schedule", "kernel") == 5, "bank schedule: --fail-on kernel exits with 5")


def check_model(results):
    rows = results.rows("cost_model")
    misjudged = {case for case in rows if results.family(case) == "slots"}
    causes = {name: rows[name]["cause"] for name in misjudged}
    results.expect(bool(misjudged) and set(causes.values()) == {"other choice"},
                   "cost model: what was of the family slots is reported as another choice", listed(misjudged, rows))
    results.expect(all(rows[name]["cause"] == "other choice" for name in slow(rows)),
                   "cost model: nothing else is SLOW", listed(slow(rows), rows))
    results.expect(results.exits("cost_model", "kernel") == 0, "cost model: --fail-on kernel passes")


def main():
    results = Results(pathlib.Path(sys.argv[1]))
    families = {}
    for case in results.base:
        families.setdefault(results.family(case), []).append(case)
    print("choices:", "; ".join(f"{family}: {', '.join(sorted(cases))}" for family, cases in sorted(families.items())))
    for check in (check_plain, check_snippet, check_schedule, check_model):
        check(results)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
