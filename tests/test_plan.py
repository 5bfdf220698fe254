"""benchmarks/plan.py: what it says of large models is right by another road."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from benchmarks.plan import CARD, CONTEXT, FLOPS, MODELS, NETWORK, NVLINK, plan
from docs.results import load
from minprm.several.owners import Owners

LAYERS = 64 * (5120 * (2 * 64 + 2 * 8) * 128 + 3 * 5120 * 25_600 + 2 * 5120 + 2 * 128)
REST = 2 * 151_936 * 5120 + 5120  # embedding, output layer and last norm


def planned(name: str, lora: int, processes: int) -> dict[str, float]:
    with torch.device("meta"):
        model = Qwen3ForCausalLM(Qwen3Config(vocab_size=151_936, **MODELS[name]))
    return plan(model, lora, processes)


def test_the_largest_model_has_as_many_weights_as_its_card_says():
    row = planned("32B", 0, 8)
    assert row["total"] == LAYERS + REST and f"{row['total'] / 1e9:.1f}" == "32.8"


@pytest.mark.parametrize(("processes", "link"), [(8, NVLINK), (64, NETWORK)])
def test_layers_are_sent_twice_in_16_bit_and_gradients_once_in_32(processes, link):
    row = planned("32B", 0, processes)
    sent = (processes - 1) / processes * (8 * LAYERS + 12 * REST)
    assert row["sent_gb"] == pytest.approx(sent / 1e9)
    # with so many tokens at once computing takes as long as sending
    computing = 8 * (LAYERS + REST) * row["hidden_tokens"] / FLOPS
    assert computing == pytest.approx(sent / link)


def test_adapters_are_summed_once_and_what_their_base_takes_does_not_fall_with_more_cards():
    few, many = (planned("32B", 32, processes) for processes in (8, 64))
    assert few["learning_gb"] == many["learning_gb"] > (CARD - CONTEXT) / 1e9
    assert not few["fits"] and not many["fits"] and not many["hidden_tokens"]
    assert many["sent_gb"] == pytest.approx(2 * 63 / 64 * 4 * many["trained"] / 1e9)


def test_all_weights_of_32b_need_24_cards_that_read_16384_tokens():
    fits = {n: planned("32B", 0, n)["fits"] for n in (8, 16, 24, 64)}
    assert fits == {8: False, 16: False, 24: True, 64: True}


def test_no_more_processes_write_than_there_are_logs():
    states = [(log, step) for log in (1, 2) for step in range(4)]
    owners = Owners(8)
    assert len({*owners.of([(1,)] * 4 + [(2,)] * 4)}) == 2
    assert len({*owners.of(states)}) == 2, "what goes on is its process's"


def test_the_file_holds_what_is_planned_now():
    rows = load("plan")["rows"]
    assert rows["4B, all, 64"] == pytest.approx(planned("4B", 0, 64))
    assert rows["0.6B, adapters, 8"] == pytest.approx(planned("0.6B", 32, 8))
