"""Draws what report pages are made of, from a seed: results in the formats that bench, cells.py and histories have."""

import json
import math
import random

FAMILIES = ("slots", "panel", "rows", "gather", "bitmap", "scatter", "bsr")
TOKENS = (1, 8, 32, 128, 512)


def timing(us):
    return {"median_us": us, "q1_us": 0.99 * us, "q3_us": 1.02 * us, "samples": 15, "copies": 6, "warm": False}


class Results:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def noise(self, size):
        return math.exp(self.random.gauss(0, size))

    def times(self, rows, cols, sparsity, tokens):
        """(ours, cublas, cusparse) in us, roughly as a GPU with 4 TB/s and slow gathers would have them."""
        dense = 2.5 + rows * cols * 2 / 4e6 + rows * cols * tokens / 4e8
        sparse = 2.2 + rows * cols * (1 - sparsity) * (4 / 4e6 + tokens / 2e7)
        return sparse * self.noise(0.1), dense * self.noise(0.05), 2.5 * sparse * self.noise(0.3)

    def trials(self, best_us):
        trials = []
        for _ in range(self.random.randrange(8, 30)):
            us = best_us * (1 + self.random.expovariate(2))
            timed = self.random.random() < 0.85
            trials.append({"config": f"{self.random.choice(FAMILIES)} threads_per_block=128",
                           "predicted_us": us * self.noise(0.2), "median_us": us if timed else 0.0,
                           "outcome": "timed" if timed else "it spills registers to memory"})
        return trials

    def choice(self, rows, cols, nnz, sparsity, tokens):
        ours, cublas, cusparse = self.times(rows, cols, sparsity, tokens)
        generated = ours < cublas
        us = ours if generated else cublas
        choice = {"tokens": tokens, "config": "dense", "evidence": "measured", "timing": timing(us), "dense_us": cublas,
                  "bytes_moved": 4 * nnz + 2 * tokens * (rows + cols), "trials": self.trials(us),
                  "vendors": [{"name": "cublas", "supported": True, "timing": timing(cublas), "weight_bytes": rows * cols * 2},
                              {"name": "cusparse", "supported": True, "timing": timing(cusparse), "weight_bytes": 6 * nnz}]}
        if generated:
            choice.update(config=f"{self.random.choice(FAMILIES)} threads_per_block=256", predicted_us=us * self.noise(0.2))
        return choice

    def bench(self, names):
        """As `bench --json` prints it."""
        weights = []
        for name in names:
            rows, cols = self.random.choice(((4096, 4096), (1024, 4096), (11008, 4096)))
            sparsity = self.random.choice((0.8, 0.9, 0.95, 0.99))
            nnz = round(rows * cols * (1 - sparsity))
            weights.append({"name": name, "M": rows, "K": cols, "nnz": nnz, "sparsity": sparsity,
                            "operator": "spmm_fp16_token_major_none", "dense_bytes": 2 * rows * cols, "gpu_bytes": 4 * nnz,
                            "choices": [self.choice(rows, cols, nnz, sparsity, tokens) for tokens in TOKENS]})
        return {"device": {"name": "drawn GPU", "memory_bandwidth": 4e12}, "weights": weights,
                "counts": {"compile_seconds": 3.5, "verify_seconds": 1.2, "timing_seconds": 9.0, "library_seconds": 2.0},
                "cuts": {"rows: <b>a rule</b>": 17, "panel: another rule": 230}, "rejected": {"wrong result": 1}}

    def cells(self, count):
        """As bench/cells.py writes them: one object a line."""
        for index in range(count):
            rows, cols = self.random.choice(((4096, 4096), (8192, 8192), (11008, 4096)))
            sparsity = self.random.choice((0.8, 0.9, 0.95, 0.98, 0.99, 0.999))
            for tokens in TOKENS:
                ours, cublas, cusparse = self.times(rows, cols, sparsity, tokens)
                generated = ours < cublas
                yield {"source": f"weight {index}", "weight": "w", "rows": rows, "cols": cols,
                       "nnz": round(rows * cols * (1 - sparsity)), "sparsity": sparsity,
                       "operator": "spmm_fp16_token_major_none", "tokens": tokens,
                       "config": f"{self.random.choice(FAMILIES)} x=1" if generated else "dense",
                       "evidence": "measured", "timing": timing(min(ours, cublas)), "device": "drawn GPU",
                       "cublas": timing(cublas), "cusparse": timing(cusparse) if self.random.random() < 0.9 else None}

    def series(self, name, commits):
        """A level with noise that steps up now and then."""
        level, points, changes = self.random.uniform(2, 40), [], []
        for index in range(commits):
            if index and self.random.random() < 0.03:
                step = self.random.choice((0.9, 1.05, 1.1))
                changes.append({"at": index, "before": level, "after": level * step,
                                "accepted": "more exact sums" if self.random.random() < 0.3 else ""})
                level *= step
            median = level * self.noise(0.01)
            points.append({"commit": f"{self.random.randrange(1 << 40):010x}", "median": median, "low": 0.985 * median,
                           "high": 1.015 * median, "segment": "driver 13.0" if index < 0.7 * commits else "driver 13.1"})
        return {"case": name, "unit": "us", "points": points, "changes": changes}

    def history(self, names, commits=120):
        return {"history": [self.series(name, commits) for name in names]}

    def break_even(self, patterns):
        """As `bench --break-even --json` prints it."""
        cases = []
        for pattern in patterns:
            for index, tokens in enumerate((1, 8, 16, 32, 64)):
                dense_at = self.random.uniform(0.35, 0.45) + 0.06 * index
                sparse_at = None if tokens == 64 else dense_at + 0.01
                probes = []
                for sparsity in sorted((0.3, 0.5, 0.625, 0.75, 0.95, dense_at, dense_at + 0.01)):
                    sparse = sparse_at is not None and sparsity > dense_at
                    probes.append({"sparsity": sparsity, "sparse": sparse, "evidence": "measured", "dense_us": 33.0,
                                   "us": 33.0 * (1 - sparsity) / (1 - dense_at) if sparse else 33.0,
                                   "choice": "bitmap tiles=2" if sparse else "cublas"})
                cases.append({"M": 8192, "K": 8192, "operator": "spmm_fp16_token_major_none", "pattern": pattern, "seed": 0,
                              "tokens": tokens, "tolerance": 0.01, "changes_once": True, "dense_at": dense_at,
                              "sparse_at": sparse_at, "probes": probes})
        return {"device": {"name": "drawn GPU", "memory_bandwidth": 4e12}, "measured": True, "break_even": cases}

    def round(self, names, commit):
        """As `bench --json` prints it, with what a performance history asks for. The first name becomes 8 % slower."""
        weights = []
        for index, name in enumerate(names):
            changed = index == 0 and commit >= 12
            samples = [20 * (1 + index) * (1.08 if changed else 1) * self.noise(0.01) for _ in range(15)]
            kernel = {"name": "k", "cubin_hash": f"c{index}{changed}", "registers": 48 if changed else 40,
                      "snippets": {"snippets/prolog/csr_row.cuh": str(changed)}}
            choice = {"tokens": 8, "evidence": "measured", "config": "rows threads=128",
                      "packing": "csr", "packing_hash": "p", "packed_bytes": 1000, "plan_hash": "q", "command": "bench",
                      "timing": {"samples_us": samples}, "binaries": [kernel]}
            if index == 2:  # nobody knows what a library runs
                choice.update(config="dense", packing="dense", binaries=[])
            weights.append({"name": name, "operator": "spmm_fp16", "pattern_hash": "w", "choices": [choice]})
        return {"device": {"name": "drawn GPU", "class": "sm_90"},
                "nvrtc": "13.0", "timing_policy": "cold_weights", "weights": weights}


def write_rounds(folder, hostile, seed=8):
    """Writes eight rounds of each of 20 commits, the last four with another driver; the files of each commit. The
    first commit is measured with both drivers."""
    results, files = Results(seed), {}
    names = ["up.weight", hostile, "down.weight", "gate.weight"]
    for commit in range(20):
        drivers = (commit, 19) if commit == 0 else (commit,)
        for number in range(8):
            for environment in drivers:
                path = folder / f"round-{commit}-{environment}-{number}.json"
                document = results.round(names, commit)
                document["device"]["driver"] = "580" if environment < 16 else "590"
                path.write_text(json.dumps(document), encoding="utf-8")
                files.setdefault(f"c{commit:04d}", []).append(path)
    return files


def write_all(folder, hostile, seed=7):
    """Writes bench.json, cells.jsonl, history.json and break_even.json into `folder`; `hostile` is a name that is no markup."""
    results = Results(seed)
    (folder / "bench.json").write_text(json.dumps(results.bench(["up.weight", hostile, "down.weight"])), encoding="utf-8")
    lines = "".join(json.dumps(cell) + "\n" for cell in results.cells(24))
    (folder / "cells.jsonl").write_text(lines, encoding="utf-8")
    names = ["spmm 4096 x 4096, N = 1", hostile, "spmm 8192 x 8192, N = 32", "sddmm 1024 x 4096"]
    (folder / "history.json").write_text(json.dumps(results.history(names)), encoding="utf-8")
    (folder / "break_even.json").write_text(json.dumps(results.break_even(["uniform", hostile])), encoding="utf-8")
    return [folder / "bench.json", folder / "cells.jsonl", folder / "history.json", folder / "break_even.json"]
