#!/usr/bin/env python3
"""Tests of the mutation tool: what operators change, what they leave alone, and that a run goes on where it stopped."""

import dataclasses
import json
import pathlib
import tempfile
import unittest

from mutation.build_graph import Test
from mutation.draw import Equivalents, draw_of
from mutation.operators import OPERATORS, blank, mutants_of
from mutation.results import Results, record_of, report
from mutation.runner import Tree

SNIPPET = """\
// a < b is a comment, true
int f(int count, bool full) {
  log_info("{} < {}", count + 1, full && true);
  if (count < 10 && !full) return count;
  SPARSMITH_RETURN_IF_ERROR(check(count, full));
  for (int i = 0; i < count; ++i) {
    if (i == 3) continue;
    total += std::min(i, count);
    use(i);
  }
  const int blocks = ceil_div(count, kRows);
  std::vector<int> rows;
  auto&& text = "x && y == 1";
  if (bad) return invalid_input(fmt::format("{} rows", rows + 1));
  const auto half = std::any_of(a.begin(), a.end(), [](int x) { return x * 2 > 7; });
  return full ? first : rows.front();
}
"""


class OperatorsTest(unittest.TestCase):
    def setUp(self):
        self.found = {}
        for mutant in mutants_of("room/f.cc", SNIPPET):
            self.found.setdefault((mutant.line + 1, mutant.operator), []).append(mutant.after.strip())

    def test_changes(self):
        expected = {
            (4, "boundary"): ["if (count <= 10 && !full) return count;"],
            (4, "logical"): ["if (count < 10 || !full) return count;"],
            (4, "negation"): ["if (count < 10 && full) return count;"],
            (4, "off_by_one"): ["if (count < 11 && !full) return count;", "if (count < 9 && !full) return count;"],
            (4, "negated_condition"): ["if (!(count < 10 && !full)) return count;"],
            (4, "dropped_return"): [";"],
            (5, "dropped_return"): [";"],
            (5, "swapped_arguments"): ["SPARSMITH_RETURN_IF_ERROR(check(full, count));"],
            (7, "equality"): ["if (i != 3) continue;"],
            (7, "loop_exit"): ["if (i == 3) break;"],
            (8, "assignment"): ["total -= std::min(i, count);"],
            (8, "min_max"): ["total += std::max(i, count);"],
            (8, "dropped_statement"): [";"],
            (9, "dropped_statement"): [";"],
            (11, "rounded_down"): ["const int blocks = ((count) / (kRows));"],
            (15, "quantifier"): ["const auto half = std::all_of(a.begin(), a.end(), [](int x) { return x * 2 > 7; });"],
            (15, "arithmetic"): ["const auto half = std::any_of(a.begin(), a.end(), [](int x) { return x / 2 > 7; });"],
            (16, "swapped_branches"): ["return full ? rows.front() : first;"],
            (16, "end"): ["return full ? first : rows.back();"],
        }
        for place, after in expected.items():
            self.assertEqual(self.found.get(place), after, place)

    def test_leaves_comments_strings_and_messages_alone(self):
        untouched = {1, 3, 12, 13}
        self.assertEqual({line for line, _ in self.found} & untouched, set())
        self.assertEqual(self.found.get((14, "arithmetic")), None)
        self.assertEqual(self.found.get((8, "swapped_arguments")), None)  # the same minimum
        self.assertEqual(*([len(line) for line in text.split("\n")] for text in (blank(SNIPPET), SNIPPET)))

    def test_ids_outlive_edits_elsewhere(self):
        before = {mutant.id for mutant in mutants_of("room/f.cc", SNIPPET)}
        after = {mutant.id for mutant in mutants_of("room/f.cc", "int g();\n" + SNIPPET)}
        self.assertEqual(before, after)
        self.assertEqual(len(before), len(mutants_of("room/f.cc", SNIPPET)))

    def test_draw_is_repeatable_and_spreads_over_operators(self):
        mutants = mutants_of("room/f.cc", SNIPPET)
        drawn = draw_of(mutants, 8, "1:room")
        self.assertEqual(drawn, draw_of(mutants, 8, "1:room"))
        self.assertNotEqual(drawn, draw_of(mutants, 8, "2:room"))
        self.assertEqual(len(drawn), 8)
        self.assertGreaterEqual(len({mutant.operator for mutant in drawn}), 4)
        self.assertEqual(len({mutant.line for mutant in drawn}), 8)
        self.assertLessEqual({mutant.operator for mutant in mutants}, OPERATORS.keys())


class ResultsTest(unittest.TestCase):
    def test_resumes_after_a_cut_line(self):
        one, two, three = mutants_of("search/f.cc", SNIPPET)[:3]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "results.jsonl"
            results = Results(file)
            results.add(record_of(one) | {"outcome": "killed", "seconds": 1})
            results.add(record_of(two) | {"outcome": "survived", "near": True, "tests": []})
            with file.open("a") as out:
                out.write('{"id": "cut')
            again = Results(file)
            self.assertTrue(again.is_done(one, near=False))
            self.assertTrue(again.is_done(two, near=True))
            self.assertFalse(again.is_done(two, near=False))
            self.assertFalse(again.is_done(three, near=True))
            again.add(record_of(three) | {"outcome": "timeout", "seconds": 2})
            self.assertEqual(Results(file).records.keys(), {one.id, two.id, three.id})

    def test_report_counts_and_leaves_equivalents_out(self):
        one, two, three = mutants_of("search/f.cc", SNIPPET)[:3]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "equivalent.json"
            entry = {"file": three.file, "line": three.before.strip(), "operator": three.operator,
                     "after": three.after.strip(), "reason": "the same"}  # fmt: skip
            file.write_text(json.dumps([entry]))
            equivalents = Equivalents(file)
        records = [record_of(mutant) | {"outcome": outcome, "seconds": 10}
                   for mutant, outcome in ((one, "killed"), (two, "survived"), (three, "survived"))]  # fmt: skip
        text = report(records, equivalents)
        self.assertRegex(text, r"all +1 +0 +1 +50 % +1 +0")
        self.assertIn(two.id, text)
        self.assertNotIn(three.id, text)


class CheckedInListTest(unittest.TestCase):
    def test_every_equivalent_mutant_has_a_reason(self):
        root = pathlib.Path(__file__).resolve().parent.parent
        for entry in json.loads((root / "tests/mutation/equivalent.json").read_text()):
            self.assertTrue(entry["reason"])
            self.assertTrue((root / entry["file"]).exists(), entry["file"])
            self.assertIn(entry["operator"], OPERATORS)
            self.assertEqual(entry["line"], entry["line"].strip())


class OrderTest(unittest.TestCase):
    def test_tests_of_the_family_come_first_and_cost_what_they_run(self):
        tree = Tree.__new__(Tree)
        tree.durations = {"short": 1, "wrong": -1, "middle": 30, "kernels": 900, "kernels bsr": 60, "last": 40}
        tree.focus = lambda test, mutant: "bsr" if test.name == "kernels" else ""
        tests = [Test(name, [], [], "tests") for name in ("short", "wrong", "middle", "kernels", "last")]
        mutant = mutants_of("snippets/kernels/bsr.cuh", SNIPPET)[0]
        for budget, expected in ((0, ["kernels"]), (60, ["kernels", "short"]), (70, ["kernels", "short", "middle"])):
            self.assertEqual([test.name for test in tree.measured(tests, mutant, budget)], expected)

    def test_device_code_of_no_family_meets_all_kernels_and_nothing_else_that_exceeds_the_budget(self):
        tree = Tree.__new__(Tree)
        tree.durations = {"short": 1, "long": 300, "emulated_kernels_test": 400}
        tree.focus = lambda test, mutant: ""
        tests = [Test("short", [], [], "base"), Test("long", [], [], "base"),
                 Test("emulated_kernels_test", [], [], "tests")]  # fmt: skip
        mutant = mutants_of("snippets/prolog/ring.cuh", SNIPPET)[0]
        self.assertEqual([test.name for test in tree.measured(tests, mutant, 60)], ["emulated_kernels_test", "short"])

    def test_of_cases_by_family_only_those_of_the_mutant_run(self):
        listing = 'case $* in *list_tests*) case $1 in *bsr*) echo "Suite."; echo "  Case/bsr";; esac;; *) echo $*;; esac'
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            program.write_text(f"#!/bin/sh\n{listing}\n")
            program.chmod(0o755)
            tree = Tree.__new__(Tree)
            tree.build, tree.families = folder, ["bsr", "rows", "slots"]
            test = Test("kernels", [str(program)], [], "tests", "x_test.cc")
            for file, focus in (("bsr_blocks", "bsr"), ("row_products", ""), ("ring", "")):
                mutant = mutants_of(f"snippets/{file}.cuh", SNIPPET)[0]
                self.assertEqual(tree.focus(test, mutant), focus, file)
            mutant = mutants_of("generator/families/bsr/bsr_family.cc", SNIPPET)[0]
            self.assertEqual(tree.focus(Test("unbuilt", [f"{program}2"], [], "tests", "x_test.cc"), mutant), "")
            self.assertNotIn("/rows", tree.run_test(test, 60)[1])
            self.assertRegex(tree.run_test(dataclasses.replace(test, focus="bsr"), 60)[1], r":\*/rows\*:\*/slots\*$")


if __name__ == "__main__":
    unittest.main()
