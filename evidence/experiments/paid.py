"""python -m evidence.experiments.paid: what should a thought be paid for?

Six ways to turn the rewards of a group into weights, on the ten bases of `scarce`, whose good
thoughts are few. All else is equal: samples, rate, fine-tuning. The sentence "what matters is to
pay for what a thought adds" is false if a way that does not subtract the action's probability
without a thought does as well.
"""

from unittest.mock import patch

from evidence import tables
from evidence.experiments.runs import CENTRED, base, recipe, successes
from evidence.experiments.scarce import SEEDS, of_arms
from evidence.results import save_run, t_interval, take_json_flag
from minprm.stages import act_prm


def log_ratio(r, b):
    """How much likelier the thought makes the action, in nats; 0 where it does not."""
    return (r / b).log().clamp(min=0) if b else r


def measured(name: str, **knobs) -> dict:
    """Success of the recipe with other knobs of --act-prm, a row."""
    flags = f"{base()} {recipe(**knobs)} --arms act_prm"
    return successes(f"paid-{name}", flags, SEEDS)["act_prm"]


def measured_by_log_ratio() -> dict:
    flags = f"{base()} {recipe()} --arms act_prm --jobs 1"  # it has to be this process
    with patch.object(act_prm, "gain", log_ratio):
        return successes("paid-log-ratio", flags, SEEDS)["act_prm"]


def main() -> None:
    path = take_json_flag()
    plain = {"baseline": "none"}
    alone = {"trained_on": "thought"}
    rows = {
        "r, by its share (`posterior`)": measured("posterior", **plain),
        "the same, thoughts alone": measured("posterior-alone", **plain, **alone),
        "r - mean(r), thoughts alone (`mean`)": measured("mean", **CENTRED),
        "log r - log b where above 0": measured_by_log_ratio(),
        "r - b where above 0, thoughts alone": measured("gain-alone", **alone),
        "r - b where above 0 (the recipe)": of_arms()["act_prm"],
    }
    print(tables.successes(rows))
    save_run(path, SEEDS, t_interval(SEEDS), rows)


if __name__ == "__main__":
    main()
