"""Mutation operators: small textual changes of C++ and device code, each a kind of mistake that people make."""

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str  # relative to the root of the tree
    line: int  # from 0
    operator: str
    before: str  # the whole line
    after: str
    occurrence: int  # among the equal lines of the file

    @property
    def id(self) -> str:
        """The same after edits elsewhere in the file."""
        key = "\0".join([self.file, self.before.strip(), self.after.strip(), self.operator, str(self.occurrence)])
        return hashlib.sha256(key.encode()).hexdigest()[:10]

    @property
    def room(self) -> str:
        return self.file.split("/")[0]


# An operator yields the edits of a line, each as (begin, end, text). It sees the line with its comments and the
# contents of its strings blanked, so that what it finds is code.
Edit = tuple[int, int, str]
Operator = Callable[[str], Iterator[Edit]]


def exchange(table: dict[str, str], before: str = "", after: str = "") -> Operator:
    """Replaces a text of the table by its counterpart. `before` and `after`: patterns that stand around the text."""
    texts = "|".join(re.escape(text) for text in sorted(table, key=len, reverse=True))
    pattern = re.compile(f"{before}({texts}){after}")

    def edits(line: str) -> Iterator[Edit]:
        for found in pattern.finditer(line):
            yield found.start(1), found.end(1), table[found.group(1)]

    return edits


def rewrite(pattern: str, text: str) -> Operator:
    compiled = re.compile(pattern)

    def edits(line: str) -> Iterator[Edit]:
        for found in compiled.finditer(line):
            yield found.start(), found.end(), found.expand(text)

    return edits


def closing(line: str, opening: int) -> int:
    """The position of the parenthesis that closes the one at `opening`, or -1."""
    depth = 0
    for position in range(opening, len(line)):
        depth += {"(": 1, ")": -1}.get(line[position], 0)
        if depth == 0:
            return position
    return -1


def off_by_one(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"(?<![\w.'])(0|[1-9]\d*)(?=[uUlL]*(?![\w.']))", line):
        number = int(found.group(1))
        yield found.start(), found.end(), str(number + 1)
        if number > 0:
            yield found.start(), found.end(), str(number - 1)


def negated_condition(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"\bif (?:constexpr )?\(", line):
        begin, end = found.end(), closing(line, found.end() - 1)
        if end < 0 or re.search(r"\b(const|auto)\b|;", line[begin:end]):
            continue
        yield begin, end, f"!({line[begin:end]})"


def dropped_return(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"\bif \(", line):
        end = closing(line, found.end() - 1)
        if end > 0 and re.fullmatch(r" return\b.*;\s*|\s*continue;\s*", line[end + 1 :]):
            yield found.start(), len(line.rstrip()), ";"
    for found in re.finditer(r"SPARSMITH_RETURN_IF_ERROR\(.*\);", line):
        if closing(line, found.start() + len("SPARSMITH_RETURN_IF_ERROR")) == found.end() - 2:
            yield found.start(), found.end(), ";"


def dropped_statement(line: str) -> Iterator[Edit]:
    text = line.strip()
    begin = len(line) - len(line.lstrip())
    if text.count("(") != text.count(")") or text.count("{") != text.count("}"):
        return
    call = re.fullmatch(r"(\(void\))?[a-zA-Z_][\w.:]*(->[\w.]+|\[[^\]]*\])*\(.*\);", text)
    assignment = re.fullmatch(r"\*?[a-z_][\w.]*(->[\w.]+|\[.*?\])*[\w.]* [-+*/|&^]?= .*;", text)
    declaration = re.match(r"return\b|log_|delete\b|using\b|SPARSMITH_|static_assert|assert\(|EXPECT_|ASSERT_", text)
    if (call or assignment) and not declaration:
        yield begin, begin + len(text), ";"


def rounded_down(line: str) -> Iterator[Edit]:
    for found in re.finditer(r"\b(?:\w+::)*ceil_div\(", line):
        end = closing(line, found.end() - 1)
        parts = line[found.end() : end].split(", ")
        if end > 0 and len(parts) == 2:
            yield found.start(), end + 1, f"(({parts[0]}) / ({parts[1]}))"


def swapped_branches(line: str) -> Iterator[Edit]:
    operand = r"([\w.\[\]]+(?:\(\))?)"
    for found in re.finditer(rf"\? {operand} : {operand}(?=[;,)])", line):
        if found.group(1) != found.group(2):
            yield found.start(), found.end(), f"? {found.group(2)} : {found.group(1)}"


def swapped_arguments(line: str) -> Iterator[Edit]:
    name = r"([a-z_][\w.]*(?:\[\w+\])?)"
    commutative = r"(?<!min\()(?<!max\()(?<!swap\()"
    for found in re.finditer(rf"(?<=[\w>]\(){commutative}{name}, {name}(?=[,)])", line):
        if found.group(1) != found.group(2):
            yield found.start(), found.end(), f"{found.group(2)}, {found.group(1)}"


OPERATORS: dict[str, Operator] = {
    "boundary": exchange({" < ": " <= ", " <= ": " < ", " > ": " >= ", " >= ": " > "}),
    "equality": exchange({" == ": " != ", " != ": " == "}),
    "arithmetic": exchange({" + ": " - ", " - ": " + ", " * ": " / ", " / ": " * ", " % ": " / "}, after=r"(?=[\w(])"),
    "assignment": exchange({" += ": " -= ", " -= ": " += ", " |= ": " &= ", " &= ": " |= "}),
    "bits": exchange({" << ": " >> ", " >> ": " << ", " & ": " | ", " | ": " & "}, before=r"(?<=[\w)\]])"),
    "logical": exchange({" && ": " || ", " || ": " && "}),
    "negation": rewrite(r"(?<![\w!])!(?=[\w(])", ""),
    "boolean": exchange({"true": "false", "false": "true"}, r"\b", r"\b"),
    "off_by_one": off_by_one,
    "negated_condition": negated_condition,
    "dropped_return": dropped_return,
    "dropped_statement": dropped_statement,
    "min_max": exchange({"min": "max", "max": "min"}, r"\bstd::f?", r"(?=[(<])"),
    "rounding": exchange({"std::ceil": "std::floor", "std::floor": "std::ceil"}, r"\b", r"\b"),
    "rounded_down": rounded_down,
    "quantifier": exchange({"any_of": "all_of", "all_of": "any_of", "none_of": "any_of"}, r"\b", r"\b"),
    "end": exchange({"front": "back", "back": "front"}, r"\.", r"\(\)"),
    "bound": exchange({"lower_bound": "upper_bound", "upper_bound": "lower_bound"}, r"\b", r"\b"),
    "loop_exit": exchange({"continue;": "break;"}),
    "swapped_branches": swapped_branches,
    "swapped_arguments": swapped_arguments,
}

# Calls whose arguments are words for people.
MESSAGES = re.compile(
    r"\b(?:log_(?:debug|info|warning|error|line)|invalid_argument|invalid_input|not_found|unsupported|no_device"
    r"|device_error|out_of_memory|io_error|internal_error|static_assert|annotate|is_planted|fail)\("
)
# Lines that hold no behaviour of a product.
SKIPPED = re.compile(
    r"^\s*(#|template\b|using\b|namespace\b|static_assert|SPARSMITH_(ROLE|TUNE))|kPlants|Plant::|operator[<>=!]"
)


def blank(text: str) -> str:
    """The source with comments, contents of strings and arguments of messages blanked; every position is kept."""
    out = list(text)
    pattern = re.compile(
        r"//[^\n]*|/\*.*?\*/|R\"(\w*)\(.*?\)\1\"|\"(?:\\.|[^\"\\\n])*\"|(?<![\w'])'(?:\\.|[^'\\\n])+'", re.DOTALL
    )

    def erase(begin: int, end: int) -> None:
        for position in range(begin, end):
            if out[position] != "\n":
                out[position] = " " if out[position].isspace() else "\x01"

    for found in pattern.finditer(text):
        comment = found.group().startswith("/")
        erase(found.start() + (not comment), found.end() - (not comment))
        if comment:
            out[found.start() : found.end()] = [c if c == "\n" else " " for c in text[found.start() : found.end()]]
    code = "".join(out)
    for found in MESSAGES.finditer(code):
        end = closing(code, found.end() - 1)
        erase(found.end(), max(found.end(), end))
    return "".join(out)


def mutants_of(file: str, text: str) -> list[Mutant]:
    mutants = []
    seen: dict[str, int] = {}
    for number, (line, code) in enumerate(zip(text.split("\n"), blank(text).split("\n"), strict=True)):
        occurrence = seen.get(line.strip(), 0)
        seen[line.strip()] = occurrence + 1
        if SKIPPED.search(code):
            continue
        for name, operator in OPERATORS.items():
            for begin, end, replacement in operator(code):
                # What was blanked is copied from the source where the replacement repeats it.
                if "\x01" in replacement:
                    continue
                after = line[:begin] + replacement + line[end:]
                if after != line:
                    mutants.append(Mutant(file, number, name, line, after, occurrence))
    return mutants
