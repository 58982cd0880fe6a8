"""Runs each generated kernel of a tuned file and checks its output against fp64.

usage: check_choices.py SPARSMITH TUNED_FILE DEVICE

Exit code 1, with a sentence, when the file holds no generated kernel or one of them is wrong.
"""

import json
import subprocess
import sys


def ask(*command: str) -> dict:
    """What a command says with --json."""
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        sys.exit(f"check_choices: `{' '.join(command)} --json` ends with exit code {done.returncode} and no result")


def main() -> None:
    sparsmith, tuned, device = sys.argv[1:]
    choices = [
        (weight["name"], kind, choice)
        for weight in ask(sparsmith, "show", tuned)["weights"]
        for kind, operator in weight["operators"].items()
        for choice in operator["choices"]
    ]
    generated = [each for each in choices if each[2]["config"].split()[0] != "dense"]
    if not generated:
        sys.exit(
            f"check_choices: {tuned}: all {len(choices)} choices are dense, no generated kernel was chosen. "
            f"`{sparsmith} doctor` says what this machine lacks."
        )
    for name, kind, choice in generated:
        which = ["--tensor", name, "--operator", kind, "--tokens", str(choice["tokens"])]
        result = ask(sparsmith, "run", tuned, *which, "--device", device, "--check")
        if not result["ok"]:
            where = f"{name} at N = {choice['tokens']}, {choice['config']}"
            sys.exit(f"check_choices: {where}: not verified: {result['reason']}")
        print(
            f"{name} N = {choice['tokens']}: correct, largest error {result['max_error_over_bound']:.3f} of its bound"
        )
    print(f"{len(generated)} of {len(choices)} choices are generated kernels; each is correct on {device}")


if __name__ == "__main__":
    main()
