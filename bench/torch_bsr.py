#!/usr/bin/env python3
"""Times PyTorch's kernel for block-sparse weights (BSR tensors, Triton) beside its dense product, side by side.

The weights are those of a safetensors file. Launches rotate over copies of a weight that together exceed three times
L2, so that each is cold, in a CUDA graph (or without one, where that fails). The kernel's parameters are PyTorch's own
choice, those that its tuner finds, and those of a grid: the fastest with a correct output counts. Needs PyTorch, Triton
and a GPU alone. Prints one JSON object a line, and a table to stderr.

    bench/torch_bsr.py pruned.safetensors --tokens 128 1024 --block 64 --tune torch grid
"""

import argparse
import fnmatch
import itertools
import json
import math
import mmap
import statistics
import sys

import torch
from torch.sparse import _triton_ops, _triton_ops_meta

TYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32}
NAMES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
BLOCKS = (128, 64, 32, 16)
# The error of an output that counts: norm of the difference over the norm, against fp64.
LIMITS = {torch.float16: 2**-9, torch.bfloat16: 2**-6, torch.float32: 1e-5}
LEAST_TOKENS = 16  # of a tile of Triton's product
MOST_COPIES = 1000


def read_weights(path, patterns):
    """{name: tensor [M, K]} of the 2-D floating tensors whose name matches one of `patterns`."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:begin])
        weights = {}
        for name, entry in header.items():
            if entry.get("dtype") not in TYPES or len(entry["shape"]) != 2 or 0 in entry["shape"]:
                continue
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                first, end = entry["data_offsets"]
                bytes_of = torch.frombuffer(data, dtype=torch.uint8, count=end - first, offset=begin + first)
                weights[name] = bytes_of.clone().view(TYPES[entry["dtype"]]).view(entry["shape"])
    except OSError as error:
        sys.exit(f"torch_bsr: {path}: {error.strerror}")
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, RecursionError) as error:
        sys.exit(f"torch_bsr: {path} is no safetensors file: {error}")
    if not weights:
        sys.exit(f"torch_bsr: {path} has no fp16, bf16 or fp32 matrix whose name matches {' '.join(patterns)}")
    return weights


def fill(weight, block):
    """The share of nonzeros in the blocks that hold one; 0 where blocks do not divide the weight."""
    rows, cols = weight.shape
    if rows % block or cols % block:
        return 0.0
    stored = (weight != 0).view(rows // block, block, cols // block, block).any(3).any(1).sum().item()
    return torch.count_nonzero(weight).item() / (stored * block * block) if stored else 0.0


def detect_block(weight):
    """The side of the largest square blocks that are nearly as full as the fullest; 0 where none divide the weight."""
    fills = {block: fill(weight, block) for block in BLOCKS}
    return next((block for block in BLOCKS if fills[block] and fills[block] >= 0.95 * max(fills.values())), 0)


def copies_for(weight_bytes, l2_bytes, free_bytes):
    """How many copies of a weight exceed three times L2, within half of the free memory."""
    wanted = math.ceil((3 * l2_bytes + 1) / weight_bytes)
    return max(1, min(wanted, MOST_COPIES, free_bytes // 2 // weight_bytes))


def grid(rows, cols, block, tokens):
    """Parameters of the kernel."""
    tiles = [tile for tile in (16, 32, 64, 128, 256) if tokens % tile == 0]
    for tile, stages, warps, group in itertools.product(tiles[-4:], (2, 3, 4, 5), (4, 8), (1, 4)):
        if group <= rows // block and stages <= cols // block:
            yield {"SPLIT_N": tokens // tile, "num_stages": stages, "num_warps": warps, "GROUP_SIZE_ROW": group}


class Launches:
    """Launches of call(copy), one for each copy in turn, in a CUDA graph where that works."""

    def __init__(self, call, copies):
        self.order = [index % copies for index in range(copies * math.ceil(20 / copies))]
        self.call = call
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call(0)
        torch.cuda.current_stream().wait_stream(stream)
        try:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.enqueue()
        except RuntimeError as error:
            print(f"torch_bsr: timed without a CUDA graph: {error}", file=sys.stderr)
            self.graph = None
        self.us()

    def enqueue(self):
        for copy in self.order:
            self.call(copy)

    def us(self):
        """Microseconds a launch."""
        run = self.graph.replay if self.graph else self.enqueue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        begin.record()
        run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / len(self.order)


class Case:
    """A weight [M, K] and N tokens: the dense product, and the block-sparse one with given parameters."""

    def __init__(self, weight, tokens, block, layout):
        rows, cols = weight.shape
        free = torch.cuda.mem_get_info()[0]
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.limit = LIMITS[weight.dtype]
        bsr = weight.to_sparse_bsr((block, block))
        bsr_bytes = sum(part.nbytes for part in (bsr.crow_indices(), bsr.col_indices(), bsr.values()))
        self.dense = [weight.clone() for _ in range(copies_for(weight.nbytes, l2, free // 2))]
        self.bsr = [torch.sparse_bsr_tensor(bsr.crow_indices().clone(), bsr.col_indices().clone(), bsr.values().clone(),
                                            bsr.shape) for _ in range(copies_for(bsr_bytes, l2, free // 2))]
        self.cold = len(self.bsr) * bsr_bytes > 3 * l2 and len(self.dense) * weight.nbytes > 3 * l2
        if layout == "token_major":
            self.x, self.y = weight.new_empty(tokens, cols).t(), weight.new_empty(tokens, rows).t()
        else:
            self.x, self.y = weight.new_empty(cols, tokens), weight.new_empty(rows, tokens)
        self.x.normal_()
        self.expected = weight.double() @ self.x.double()

    def dense_product(self, copy):
        torch.mm(self.dense[copy], self.x, out=self.y)

    def bsr_product(self, meta):
        return lambda copy: _triton_ops.bsr_dense_addmm(self.y, self.bsr[copy], self.x, beta=0, out=self.y, meta=meta)

    def error(self, call):
        """The norm error of an output that call(0) computes."""
        self.y.fill_(math.nan)
        call(0)
        return ((self.y.double() - self.expected).norm() / self.expected.norm()).item()

    def tuned(self):
        return _triton_ops_meta.tune_bsr_dense_addmm(self.y, self.bsr[0], self.x, beta=0, out=self.y)

    def candidates(self, ways, block, tokens):
        """(name, parameters); None are PyTorch's own choice."""
        yield "default", None
        if "torch" in ways:
            yield "torch", self.tuned()
        if "grid" in ways:
            yield from (("grid", meta) for meta in grid(*self.dense[0].shape, block, tokens))

    def fastest(self, ways, block, tokens):
        """(launches, config, error) of the fastest parameters; (None, reason, None) where none are right."""
        best, reason = (math.inf, None, "", None), ""
        for name, meta in self.candidates(ways, block, tokens):
            config = " ".join([name, *(f"{key}={value}" for key, value in sorted((meta or {}).items()))])
            call = self.bsr_product(meta)
            try:
                error = self.error(call)
                if not error <= self.limit:  # a NaN is wrong
                    reason = f"{config}: wrong, norm error {error:.2g}"
                    continue
                launches = Launches(call, len(self.bsr))
                us = min(launches.us() for _ in range(3))
            except torch.AcceleratorError:
                raise  # the context is broken
            except Exception as failure:  # noqa: BLE001  Triton has many: no such tile, too much shared memory, ...
                reason = f"{config}: {str(failure).splitlines()[0] if str(failure) else type(failure).__name__}"
                continue
            if us < best[0]:
                best = us, launches, config, error
        return best[1:] if best[1] else (None, reason, None)


def measure(weight, tokens, block, options):
    """What one line says of a weight on the GPU."""
    case = Case(weight, tokens, block, options.layout)
    if not (error := case.error(case.dense_product)) <= case.limit:
        sys.exit(f"torch_bsr: the dense product is wrong: norm error {error:.2g}")
    dense = Launches(case.dense_product, len(case.dense))
    sparse, config, error = case.fastest(options.tune, block, tokens)
    rounds = [(dense.us(), sparse.us() if sparse else math.nan) for _ in range(options.rounds)]
    dense_us, bsr_us = (statistics.median(column) for column in zip(*rounds, strict=True))
    return {"dense_us": round(dense_us, 3), "torch_bsr_us": round(bsr_us, 3) if sparse else None, "config": config,
            "error": error, "cold": case.cold, "graph": bool(dense.graph and (not sparse or sparse.graph))}


def table(lines):
    yield "| weight | N | block | dtype | dense us | BSR us | dense / BSR | config |"
    yield "|---|---:|---:|---|---:|---:|---:|---|"
    for line in lines:
        us = line["torch_bsr_us"]
        speed = (f"{us:.2f}", f"{line['dense_us'] / us:.2f}") if us else ("-", "-")
        yield "| " + " | ".join([line["weight"], str(line["N"]), str(line["block"]), line["dtype"],
                                 f"{line['dense_us']:.2f}", *speed, line["config"]]) + " |"


def tokens_of(text):
    if not text.isdigit() or int(text) % LEAST_TOKENS or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: the kernel takes multiples of {LEAST_TOKENS} tokens")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="safetensors file")
    parser.add_argument("--weights", nargs="+", default=["*"], metavar="PATTERN", help="names; default: all matrices")
    parser.add_argument("--tokens", nargs="+", type=tokens_of, default=[128], metavar="N",
                        help=f"multiples of {LEAST_TOKENS}")
    parser.add_argument("--block", nargs="+", type=int, choices=sorted(BLOCKS), default=[],
                        help="sides of square blocks; default: as the weight was pruned")
    parser.add_argument("--dtype", choices=NAMES, help="default: that of the file")
    parser.add_argument("--layout", choices=["token_major", "feature_major"], default="token_major",
                        help="of X and Y: [N][K] and [N][M], or [K][N] and [M][N]")
    parser.add_argument("--tune", nargs="*", choices=["torch", "grid"], default=["torch"],
                        help="parameters to try beside PyTorch's own choice: many kernels are compiled for each case")
    parser.add_argument("--rounds", type=int, default=15, help="replays of each, in turns; the median counts")
    parser.add_argument("--seed", type=int, default=0, help="of X")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    weights = read_weights(options.file, options.weights)
    if not torch.cuda.is_available():
        sys.exit("torch_bsr: PyTorch finds no CUDA GPU here; the script times kernels, so run it where there is one")
    print(f"torch_bsr: {torch.cuda.get_device_name()}, PyTorch {torch.__version__}", file=sys.stderr)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(options.seed)
    lines = []
    for name, weight in weights.items():
        weight = weight.to("cuda", NAMES[options.dtype] if options.dtype else weight.dtype)
        for block, tokens in itertools.product(options.block or [detect_block(weight)], options.tokens):
            if not block or weight.shape[0] % block or weight.shape[1] % block:
                print(f"torch_bsr: skipped {name}, {weight.shape[0]} x {weight.shape[1]}: no blocks of "
                      f"{block or '16 to 128'}", file=sys.stderr)
                continue
            dtype = next(short for short, each in NAMES.items() if each == weight.dtype)
            lines.append({"weight": name, "N": tokens, "block": block, "dtype": dtype,
                          **measure(weight, tokens, block, options)})
            print(json.dumps(lines[-1]), flush=True)
            torch.cuda.empty_cache()
    print(*table(lines), sep="\n", file=sys.stderr)


if __name__ == "__main__":
    main()
