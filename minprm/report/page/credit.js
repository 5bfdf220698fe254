// What the panels ask of one group: its order, its advantages, and how likely its thoughts were.

// Advantages that can be worked out from the rewards of a group alone (minprm/algorithms.py).
const WHAT_IF = {
  posterior: {
    formula: "A = G r / Σ r",
    of: (r) => r.map((x) => (sum(r) ? (r.length * x) / sum(r) : 0)),
  },
  mean_std: { formula: "A = (r − mean) / std", of: meanStd },
  mean: { formula: "A = r − mean", of: (r) => r.map((x) => x - mean(r)) },
  best: { formula: "A = 1 for the best", of: hardBest },
  none: { formula: "A = r", of: (r) => r },
};
// A longer thought has no probability to speak of.
const LONG_THOUGHT = 60;

function meanStd(r) {
  if (r.length < 2) return r.map(() => 0);
  const squares = r.map((x) => (x - mean(r)) ** 2);
  const std = Math.sqrt(sum(squares) / (r.length - 1));
  return r.map((x) => (x - mean(r)) / (std + 1e-4));
}

function hardBest(r) {
  const best = Math.max(...r);
  return r.map((x, i) => (best > 0 && i === r.indexOf(best) ? 1 : 0));
}

const isRL = () => theLook().method === "rl";
const settings = () => theLook().settings ?? {};
const hasCritic = () => ["gae", "turn_gae"].includes(settings().advantage);
const isDense = () => isRL() && (settings().reward ?? "").startsWith("each turn");
// Advantages that are 0 where all rewards of a group are equal.
const compares = () => ["mean", "mean_std", "rloo"].includes(settings().advantage);
// Which advantage is on view, by name: the run's own, or the one of "what if".
const advantageName = () => VIEW.advantage ?? settings().advantage ?? "its own";

// The advantages of a group: those of the run, or those that another formula makes of its rewards.
function advantages(group) {
  if (VIEW.advantage === null) return group.map((z) => z.advantage ?? null);
  return WHAT_IF[VIEW.advantage].of(group.map((z) => z.reward));
}

// Whether the run compares thoughts by how their paths end, and not by their own reward alone.
const isResampled = () => settings().continues === "resample" && VIEW.advantage === null;

// Whether a thought is paid for what it adds to the reward of its step without a thought.
const hasBaseline = () => settings().baseline === "no_thought" && VIEW.advantage === null;

function formula() {
  const name = advantageName();
  if (isResampled()) return "A = paths at the end";
  if (settings().continues === "own" && VIEW.advantage === null) return "A, of r to the end";
  if (hasBaseline() && name === "posterior") return "A = max(r − b, 0) / mean max(r, b)";
  if (hasBaseline()) return `A, by ${clean(name)} of max(r − b, 0)`;
  return Object.hasOwn(WHAT_IF, name) ? WHAT_IF[name].formula : `A, by ${clean(name)}`;
}

// The places of a group, best reward first; equal texts side by side, the committed one first.
function ranked(group) {
  const first = group.map((z) => group.findIndex((other) => other.thought === z.thought));
  const before = (i, j) =>
    group[j].reward - group[i].reward ||
    first[i] - first[j] ||
    Number(group[j].committed ?? false) - Number(group[i].committed ?? false) ||
    i - j;
  return group.map((_, i) => i).sort(before);
}

// The place of the thought that panels a and b show: the one picked, the committed one, or the best.
function chosen() {
  const group = theFrame().group;
  if (VIEW.thought !== null && group[VIEW.thought]) return VIEW.thought;
  const committed = group.findIndex((z) => z.committed);
  return committed >= 0 ? committed : (ranked(group)[0] ?? null);
}

// Which thoughts are counted as good: episodes that were won, and rewards above one half.
const good = (z) => z.won ?? z.reward > 0.5;
const goodWords = () => (isRL() ? "won" : "earn more than one half");

// The places of the tokens that the model drew: those that have a probability under the sampler.
function drawn(tokens) {
  const places = tokens.text.map((_, i) => i);
  return places.filter((i) => tokens.role[i] === "d" || kept(tokens, "sampler", i) !== null);
}

const kept = (tokens, name, i) => tokens[name]?.[i] ?? null;

// What is known of a thought as a whole: its log-prob before and after the update, and its length.
// report/thin.py adds them up before it rounds.
function written(z) {
  if (z.written) return z.written;
  if (!z.tokens) return { before: null, after: null, tokens: 0 };
  const places = drawn(z.tokens);
  const [before, after] = ["before", "after"].map((when) => {
    const logps = places.map((i) => kept(z.tokens, when, i));
    return !logps.length || logps.includes(null) ? null : sum(logps);
  });
  return { before, after, tokens: places.length };
}

// p(z | s) before and after the update; of long thoughts the geometric mean of their tokens.
function thoughtChances(z) {
  const { before, after, tokens } = written(z);
  return [before, after].map((logp) =>
    chance(logp === null ? null : logp / (isLong() ? tokens : 1)),
  );
}

// Whether a thought of this state is too long for a probability of the whole.
function isLong() {
  const thoughts = theState().frames.flatMap(({ group }) => group);
  return thoughts.some((z) => written(z).tokens > LONG_THOUGHT);
}

// What a state says, with what a frame says otherwise: in RL each batch plays other tasks.
const shown = () => ({ ...theState(), ...theFrame() });

// A thought's kind as its world names it (World.classify).
const kindOf = (z) => (z.kind === "?" ? "no known kind" : clean(z.kind));
