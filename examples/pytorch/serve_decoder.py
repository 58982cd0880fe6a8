#!/usr/bin/env python3
"""Generates text with a pruned decoder, dense and with sparse layers: tokens per second, bytes, and the agreement.

Without --model, a Llama decoder with random weights is drawn and pruned by magnitude. --model takes a Hugging Face
folder with a model that has been pruned. On a GPU, generation is compiled and runs in CUDA graphs.

    examples/pytorch/serve_decoder.py --size 8b --layers 8 --sparsity 0.8 --batch 1
    examples/pytorch/serve_decoder.py --model pruned-model --output tuned.safetensors
    examples/pytorch/serve_decoder.py --report page.html
"""

import argparse
import copy
import time
from collections.abc import Callable

import torch
import transformers

import sparsmith

SIZES = {
    "tiny": {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
             "vocab_size": 1000},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 8,
           "vocab_size": 128256},
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
           "vocab_size": 128256},
}


def drawn_model(size: str, layers: int, sparsity: float, device: str) -> transformers.PreTrainedModel:
    config = transformers.LlamaConfig(**SIZES[size], num_hidden_layers=layers, dtype=torch.float16)
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float16)
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    sparsmith.prune.magnitude_(model, sparsity)  # all linear layers but lm_head
    return model.eval()


def generation(model: transformers.PreTrainedModel, prompt: torch.Tensor, new_tokens: int) -> Callable[[], int]:
    """A function that generates, and returns the last token."""
    options = {"min_new_tokens": new_tokens, "max_new_tokens": new_tokens, "do_sample": False, "pad_token_id": 0}
    if prompt.is_cuda:
        options["cache_implementation"] = "static"  # transformers then compiles the steps, in CUDA graphs
    mask = torch.ones_like(prompt)
    return lambda: model.generate(prompt, attention_mask=mask, **options)[0, -1].item()


def tokens_per_second(generate: Callable[[], int], tokens: int) -> float:
    """The best of three runs, after one that compiles and captures."""
    seconds = []
    for _ in range(4):
        begin = time.perf_counter()
        generate()
        seconds.append(time.perf_counter() - begin)
    return tokens / min(seconds[1:])


@torch.no_grad()
def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Hugging Face folder of a pruned model")
    parser.add_argument("--size", choices=SIZES, default="8b" if gpu else "tiny", help="of the drawn model")
    parser.add_argument("--layers", type=int, default=8 if gpu else 1, help="decoder layers of the drawn model")
    parser.add_argument("--sparsity", type=float, default=0.8, help="share of zeros of the drawn model")
    parser.add_argument("--batch", type=int, default=1, help="sequences that are decoded together")
    parser.add_argument("--prompt", type=int, default=8, help="tokens of the prompt")
    parser.add_argument("--new-tokens", type=int, default=128 if gpu else 8)
    parser.add_argument("--output", help="keep the tuned file here")
    parser.add_argument("--report", metavar="PAGE.html", help="write a report page; keeps a copy of the dense model")
    arguments = parser.parse_args()

    device = "cuda" if gpu else "cpu"
    if arguments.model:
        model = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype="auto").to(device).eval()
    else:
        model = drawn_model(arguments.size, arguments.layers, arguments.sparsity, device)
    prompt = torch.randint(0, model.config.vocab_size, (arguments.batch, arguments.prompt), device=device)
    expected = model(prompt).logits.float()
    new_tokens = arguments.batch * arguments.new_tokens
    dense_model = copy.deepcopy(model) if arguments.report else None  # before generate() compiles the model's steps
    dense = tokens_per_second(generation(model, prompt, arguments.new_tokens), new_tokens)

    tokens = sorted({arguments.batch, prompt.numel()})  # of a step, and of the prompt
    report = sparsmith.optimize(model, tokens=tokens, output=arguments.output, progress=False)
    print(report)
    torch.compiler.reset()  # what was compiled has the dense layers
    generate = generation(model, prompt, arguments.new_tokens)
    sparse = tokens_per_second(generate, new_tokens)
    error = (model(prompt).logits.float() - expected).norm() / expected.norm()
    print(f"tokens/s: {dense:.1f} dense, {sparse:.1f} sparse"
          + (f" ({sparse / dense:.2f}x)" if gpu else "; on the CPU, which says nothing about a GPU"))
    print(f"logits: relative difference {error:.2g}")
    if arguments.report:  # its step is a generation
        dense_generate = generation(dense_model, prompt, arguments.new_tokens)
        print(sparsmith.report_model(generate, report, dense_step=dense_generate, tokens=new_tokens, rounds=3, steps=1,
                                     output=arguments.report))


if __name__ == "__main__":
    main()
