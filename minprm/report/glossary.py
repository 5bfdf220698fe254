"""Every metric that a run logs: what it is, and what it looks like when something is broken. And
every arm, in a sentence.

The lines of metrics.jsonl, the curves and the page of a run have these names, and docs/metrics.md
has them as a table.
"""

from typing import NamedTuple

# The arms of the ladder, and the two that stand beside them.
ABOUT_ARMS = {
    "random": "random legal actions: the floor",
    "base": "the model before any training",
    "action_sft": "fine-tuned on the logs as they are: actions without thoughts",
    "base_thoughts": "one thought of the base model for each step, whatever it is worth; then "
    "fine-tuned on the logs with these thoughts",
    "best_of_base": "the best of a few thoughts of the base model for each step; then fine-tuned. "
    "It selects, and learns nothing about thinking",
    "best_of_base_matched": "best_of_base with as many thoughts drawn as Act-PRM draws in all: "
    "selecting at equal cost",
    "act_prm": "Act-PRM: thoughts are reinforced by their reward, the best are written into the "
    "logs, and a fresh model is fine-tuned on them",
    "best_of_base_resampled": "best_of_base on whole paths of thoughts, resampled after each step",
    "act_prm_resampled": "act_prm on whole paths of thoughts, resampled after each step",
    "expert_thoughts": "fine-tuned on the world's own explanations: what thoughts can be worth",
    "shuffled_thoughts": "act_prm's thoughts, each at a wrong step: the right style alone",
    "copied_actions": "the thought is the action itself: more tokens alone",
    "rl": "reinforcement learning from the base, paid at the end of an episode",
    "rl_dense": "reinforcement learning from the base, paid at every turn",
    "act_prm_rl": "act_prm, and reinforcement learning after it",
    "expert": "the world's expert: the ceiling",
}


class Metric(NamedTuple):
    """What a number says. `broken` is empty where no value of it is a bad sign by itself."""

    meaning: str
    broken: str


METRICS = {
    # rewards
    "reward/mean": Metric(
        "mean reward r(z) of the thoughts of an update; in rl the share of episodes that were won",
        "Flat: see reward/no_variance. Rising while eval/held_out_reward does not: thoughts that "
        "name the action.",
    ),
    "reward/paid": Metric(
        "what RL maximises: the rewards of an episode, penalties included (rl)",
        "Far below reward/mean: penalties outweigh success.",
    ),
    "reward/best": Metric(
        "mean of each group's best reward (act_prm)",
        "Equal to reward/mean from the start: sampling has no spread. Raise --temperature or the "
        "group.",
    ),
    "reward/std": Metric(
        "mean standard deviation of the rewards in a group, before any advantage divides it away",
        "0: there is nothing to compare.",
    ),
    "reward/no_variance": Metric(
        "share of groups in which all earn the same",
        "1: what compares a group learns nothing, and posterior weights prefer no thought. Act-PRM "
        "warns, and a stage that begins with five such updates ends with the likely cause. Groups "
        "of one, a batch's or a critic's baseline still learn. Near 1 at the end of a run that "
        "succeeded is fine.",
    ),
    "reward/effective_sample_size": Metric(
        "(sum of r)^2 / sum of r^2 in a group, of G at most (act_prm)",
        "1: one thought takes all, the posterior is one-hot. G from the start: the reward does not "
        "tell thoughts apart.",
    ),
    "reward/baseline": Metric(
        "the moving average that `ema` compares the next update with (rl)",
        "Far from reward/paid: the reward moves faster than the average follows.",
    ),
    "reward/kept": Metric(
        "share of groups that are learned from (rl)",
        "Near 0: few tasks are neither too easy nor too hard.",
    ),
    "reward/episodes": Metric(
        "episodes that were played for the update (rl)",
        "With --rl.backfill four times as many as were asked for: most groups have no variance.",
    ),
    # the critic
    "critic/explained_variance": Metric(
        "1 - Var(return - value) / Var(return), by the critic before the update (rl, gae)",
        "0 after many updates: the critic knows nothing, and advantages are returns.",
    ),
    "critic/loss": Metric(
        "the critic's clipped squared error (rl, gae)",
        "Growing: its learning rate, ten times the policy's, is too high.",
    ),
    # looks at held-out tasks
    "eval/held_out_reward": Metric(
        "r(z) of thoughts from the state alone, on demos of tasks that are not learned from "
        "(act_prm); --act-prm.patience reads it",
        "Falling while reward/mean rises: overfitted, or thoughts that copy a hint.",
    ),
    "eval/success": Metric(
        "share of --eval-tasks validation tasks that the policy itself wins, at --eval-temperature;"
        " without a world the share of steps of held-out logs at which it writes the expert's "
        "action",
        "Flat while reward/mean rises: what is rewarded is not what wins. Few tasks: it jumps by "
        "one over their number.",
    ),
    "eval/likelihood": Metric(
        "mean p(expert's action | state, the policy's thought) on held-out logs (without a world);"
        " 0 after a thought that never ended",
        "Falling while eval/success rises: right or wrong, the policy is sure.",
    ),
    "eval/turns": Metric(
        "turns of an episode there",
        "At the world's limit: the policy goes in circles.",
    ),
    "eval/valid": Metric(
        "share of turns there with a legal action",
        "Falling: the format is lost. Compare policy/unclosed.",
    ),
    "eval/effective": Metric(
        "share of turns there that changed something",
        "Far below eval/valid: legal actions that lead nowhere.",
    ),
    "eval/thought_rate": Metric(
        "share of turns there that begin with a thought",
        "Falling to 0: the policy has stopped thinking, which act_prm does not punish.",
    ),
    "eval/thought_length": Metric(
        "tokens of a thought there; 0 for a turn without one",
        "At --thought-tokens: thoughts are cut. Near 0: they are empty.",
    ),
    "eval/copy_rate": Metric(
        "share of turns there with the action in the thought and not in the state",
        "Rising with the reward and without eval/success: thoughts name actions, and explain none.",
    ),
    # what was played for the update
    "play/turns": Metric(
        "turns of an episode of the batch, drawn at --temperature (rl)",
        "At the world's limit: the policy goes in circles.",
    ),
    "play/thought_rate": Metric(
        "share of its turns that begin with a thought (rl)",
        "Falling to 0: acting at once was paid as well. Near 0 from the start: begin with SFT.",
    ),
    "play/valid": Metric(
        "share of its turns with a legal action (rl)",
        "Falling: lr too high, or see policy/unclosed.",
    ),
    "play/effective": Metric(
        "share of its turns that changed something (rl)",
        "Far below play/valid: legal actions that lead nowhere.",
    ),
    "play/outgrown": Metric(
        "share of its episodes that ended because they outgrew --context (rl)",
        "Above 0: raise --context, or hide old turns by --history.last.",
    ),
    # signs of collapse
    "collapse/entropy": Metric(
        "H(Z|X): mean -log p(thought | its state), in nats; a few held-out states (act_prm) or "
        "first turns of the batch (rl)",
        "Near 0: one thought for each state, so a group holds nothing to compare.",
    ),
    "collapse/entropy_per_token": Metric(
        "the same for a token of a thought",
        "Near 0 early: collapsed. It does not grow with the length, as collapse/entropy does.",
    ),
    "collapse/information": Metric(
        "I(X;Z): mean log p(thought | its state) - log of the mean of p(thought | state) over all "
        "N states, in nats; log N at most, which is 2.08 for 8",
        "Near 0 while collapse/entropy is not: a template. Thoughts differ, and tell nothing of "
        "the state.",
    ),
    "collapse/recognised": Metric(
        "share of these thoughts that are likelier after their own state than after any other",
        "1/N: a template. Below 1 where states differ in what matters: thoughts leave that out.",
    ),
    # the policy
    "policy/thought_length": Metric(
        "tokens of a thought; in rl of a turn, 0 where it has no thought",
        "At --thought-tokens: thoughts are cut, and earn 0.",
    ),
    "policy/unclosed": Metric(
        "share of thoughts that are cut before their closing tag; in rl of turns before their end",
        "Above a few per cent: allow longer ones.",
    ),
    "policy/copy_rate": Metric(
        "share with the action in the thought and not in the state",
        "Rising: the reward is copied, and nothing is explained.",
    ),
    "policy/drawn_tokens": Metric(
        "tokens that the sampler drew for the update",
        "",
    ),
    "policy/entropy": Metric(
        "of the policy at the trained tokens, in nats",
        "0 early: collapsed. Rising without end: lr too high.",
    ),
    "policy/kl": Metric(
        "KL to --rl.kl-to at sampled tokens, where --*.kl is above 0",
        "Growing without end.",
    ),
    "policy/kl_weight": Metric(
        "weight of that KL, where --*.kl-target adapts it",
        "Growing without end: the target is out of reach.",
    ),
    "policy/staleness": Metric(
        "updates between the weights that played and those that learn (rl)",
        "Above 0 without --rl.max-async-level.",
    ),
    "policy/dropped": Metric(
        "share of sequences that --*.correction mask drops",
        "Above a few per cent: the sampler writes by weights that are too old.",
    ),
    "policy/mismatch_kl": Metric(
        "KL between what sampled and what trains, on the same tokens",
        "Above 1e-6 in fp32: stale weights, or a temperature in one of the two only.",
    ),
    "policy/gap_mean": Metric(
        "mean |log-prob of the sampler - of the trainer| on sampled tokens, in nats",
        "Above .05 in bf16, 1e-4 in fp32: the causes of policy/mismatch_kl. Above --engine.max-gap "
        "the run stops, unless policy/staleness is above 0.",
    ),
    "policy/gap_max": Metric(
        "the largest of these gaps",
        "Above 1 in fp32: look for a token that one of the two cannot write.",
    ),
    "policy/grad_norm": Metric(
        "norm of the gradient before it is clipped",
        "NaN: see policy/skipped. Always far above --optim.max-grad-norm: lr means nothing.",
    ),
    "policy/lr": Metric("learning rate", ""),
    "policy/skipped": Metric(
        "updates in a row that were skipped, because they were not finite",
        "5 ends the run.",
    ),
    "policy/moved": Metric(
        "relative distance of the weights from the stage's start",
        "0 or 1e-7: nothing is trained, whatever the loss says.",
    ),
    "loss/total": Metric(
        "what is minimised",
        "Lower is not better for a policy gradient. NaN is broken.",
    ),
    # time
    "time/sample": Metric(
        "seconds to make the samples of an update",
        "Ten times time/update, or a tenth of it.",
    ),
    "time/update": Metric(
        "seconds to learn from them, and to hand the new weights to the sampler",
        "Ten times time/sample, or a tenth of it.",
    ),
    "time/look": Metric(
        "seconds of a look at held-out tasks",
        "As long as --eval-every updates: raise it, or lower --eval-tasks.",
    ),
    "speed/tokens_per_second": Metric(
        "tokens that were learned from, prompts included, over time/update; a prefix that several "
        "samples share counts once",
        "Falling from update to update: memory is full, or thoughts grow.",
    ),
    "speed/drawn_per_second": Metric(
        "policy/drawn_tokens over time/sample, which scoring and the world are part of; not with "
        "--rl.max-async-level 1, where both happen at once",
        "A tenth of what the engine does alone: the world, or short batches.",
    ),
    "speed/peak_memory_gb": Metric(
        "most memory that torch held on the card since the line before, in 10^9 bytes, without "
        "that of vLLM (CUDA)",
        "Near the card's size: lower --micro-tokens.",
    ),
}
